//! The journal: rows, the fold over them, and what clients read of it. Pure.

mod fold;
mod item;
mod read;
mod row;
pub(crate) mod stop_note;
mod timeline;
mod view;

pub use fold::*;
pub use item::*;
pub use row::*;
pub use stop_note::{STOP_NOTE, stop_note_item};
pub use timeline::Timeline;
pub use view::*;
