//! What a seed of the generator makes.

pub use moored_sim::generate::generate;
