//! Never more than one cancel for a turn (decision D14).

use std::collections::BTreeMap;

use moored::platform::Mono;

use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Seen};

/// At most one `session/cancel` is written between two prompts: a second cancels the next turn of several agents.
#[derive(Default)]
pub(super) struct CancelAtMostOnce {
    cancels: BTreeMap<ChildNo, usize>,
}

impl Oracle for CancelAtMostOnce {
    fn name(&self) -> &'static str {
        "cancel-at-most-once"
    }

    fn rule(&self) -> &'static str {
        "D14, 1.8.2, 2.5.2"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::HostWrote { child, line } = seen else { return Ok(()) };
        match line.method() {
            Some("session/prompt") => {
                self.cancels.remove(child);
            }
            Some("session/cancel") => {
                let cancels = self.cancels.entry(*child).or_default();
                *cancels += 1;
                if *cancels > 1 {
                    return Err(format!(
                        "one prompt of child {child} is cancelled {cancels} times"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::Story;
    use super::*;

    #[test]
    fn each_prompt_may_be_cancelled_once() {
        let story = || Story::of(CancelAtMostOnce::default()).spawned(0).prompts(0, 1).cancels(0);
        story().prompts(0, 2).cancels(0).holds();
        story().cancels(0).breaks("one prompt of child 0 is cancelled 2 times");
    }
}
