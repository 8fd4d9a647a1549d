//! Stories of one session's machine, with a store that commits at once unless told otherwise and an agent played by hand.

mod barrier;
mod digest;
mod evict;
mod held;
mod life;
mod marks;
mod odometer;
mod persist;
mod persisted;
#[cfg(feature = "planted-bugs")]
mod planted;
#[cfg(feature = "planted-bugs")]
mod planted_stop;
mod review;
mod rig;
mod settle;
mod stop;
mod stop_event;
mod stop_matrix;
mod stop_note;
mod unconfirmed;
mod unsaved;
