//! Stand-in.
use crate::scenario::Scenario;
/// Stand-in.
#[derive(Clone, Debug, Default)]
pub struct Shape {}
/// Stand-in.
pub fn generate(seed: u64) -> Scenario {
    Scenario::quiet("generated", seed)
}
/// Stand-in.
pub fn generate_with(seed: u64, _shape: &Shape) -> Scenario {
    generate(seed)
}
