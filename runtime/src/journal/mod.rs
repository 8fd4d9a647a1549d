//! The journal: rows, the fold over them, and what clients read of it. Pure.

mod fold;
mod item;
mod read;
mod row;
mod timeline;
mod view;

pub use fold::*;
pub use item::*;
pub use row::*;
pub use timeline::Timeline;
pub use view::*;
