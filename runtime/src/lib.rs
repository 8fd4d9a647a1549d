//! Under construction.
pub mod wire;
