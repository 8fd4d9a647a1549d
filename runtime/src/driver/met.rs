//! What of the marks that a machine has met was told.

use crate::coverage::CoverageMarks;
use crate::platform::Platform;

/// The marks that the platform has heard of.
#[derive(Default)]
pub(super) struct Told(CoverageMarks);

impl Told {
    /// Tells the platform of what is new among `met`; one comparison when nothing is.
    pub(super) fn tell(&mut self, platform: &dyn Platform, met: CoverageMarks) {
        if met == self.0 {
            return;
        }
        met.without(self.0).iter().for_each(|mark| platform.met(mark));
        self.0 = met;
    }
}
