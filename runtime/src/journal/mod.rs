//! The journal: rows, the fold over them, and what clients read of it. Pure.

mod item;
mod row;
mod view;

pub use item::*;
pub use row::*;
pub use view::*;
