//! Invariant 8: the child is always offered EOF and time before force.

use std::collections::{BTreeMap, BTreeSet};

use moored::ids::SessionId;
use moored::platform::Mono;
use moored::session::ladder::{LadderPolicy, POSIX_TERM_GRACE_MS, Profile};

use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, HostNo, Seen};
use crate::world::Sig;

/// No root is signalled by the library before its stdin is closed and its windows have passed. What outlives a root may
/// be, and so may what a win32 host's own end takes with it.
#[derive(Default)]
pub(super) struct EofBeforeForce {
    /// When each child's stdin was closed, or its host was gone; and whether it was that.
    offered: BTreeMap<ChildNo, (Mono, bool)>,
    /// EOF windows that agent definitions lengthen (decision D13).
    windows: BTreeMap<SessionId, u64>,
    /// Children whose supervisor does not answer.
    unanswering: BTreeSet<ChildNo>,
}

impl EofBeforeForce {
    fn offer(&mut self, child: ChildNo, now: Mono, host_gone: bool) {
        self.offered.entry(child).or_insert((now, host_gone));
    }

    fn host_gone(&mut self, host: HostNo, now: Mono, facts: &Facts) {
        for (no, _) in facts.children.iter().enumerate().filter(|(_, c)| c.host == host) {
            self.offer(no, now, true);
            if let Some((_, host_gone)) = self.offered.get_mut(&no) {
                *host_gone = true;
            }
        }
    }

    fn signalled(&self, no: ChildNo, sig: Sig, now: Mono, facts: &Facts) -> Verdict {
        let child = &facts.children[no];
        let Some(&(offered, host_gone)) = self.offered.get(&no) else {
            return Err(format!("child {no} is sent {sig:?} before its stdin was closed"));
        };
        // Only a job has no supervisor; the last handle to it is the host's.
        let profile = if child.supervisor.is_some() { Profile::Posix } else { Profile::Win32 };
        if profile == Profile::Win32 && host_gone {
            return Ok(());
        }
        let window = LadderPolicy::stock(profile)
            .with_eof_grace_ms(self.windows.get(&child.session).copied())
            .eof_grace_ms;
        let least = match (sig, profile) {
            (Sig::Kill, Profile::Posix) => window + POSIX_TERM_GRACE_MS,
            _ => window,
        };
        let had_us = now.0.saturating_sub(offered.0);
        if had_us >= least * 1_000 {
            return Ok(());
        }
        let had = had_us / 1_000;
        Err(format!(
            "child {no} is sent {sig:?} {had} ms after its stdin was closed; it has {least} ms"
        ))
    }
}

impl Oracle for EofBeforeForce {
    fn name(&self) -> &'static str {
        "eof-before-force"
    }

    fn rule(&self) -> &'static str {
        "invariant 8, 1.6.1"
    }

    fn see(&mut self, now: Mono, seen: &Seen<'_>, facts: &Facts) -> Verdict {
        match seen {
            Seen::StdinClosed { child, by_crash, .. } => self.offer(*child, now, *by_crash),
            Seen::HostCrashed { host } | Seen::HostEnded { host, .. } => {
                self.host_gone(*host, now, facts);
            }
            Seen::Stored { unit, .. } => {
                let record = unit.record.as_ref().map(|change| &change.record);
                if let Some(ms) = record.and_then(|r| r.agent.eof_grace_ms) {
                    self.windows.insert(unit.session.clone(), ms);
                }
            }
            // A supervisor that does not answer is frozen, and its one group killed in its place (rule 1.6.6).
            Seen::SignalSent { target, sig: Sig::Stop, fault: false } => {
                self.unanswering.extend(facts.child_of(target));
            }
            Seen::SignalSent { target, sig: sig @ (Sig::Term | Sig::Kill), fault: false } => {
                let Some(no) = facts.child_of(target) else { return Ok(()) };
                let child = &facts.children[no];
                if self.unanswering.contains(&no) {
                    return Ok(());
                }
                if child.root.as_ref() == Some(*target) && child.exit.is_none() {
                    return self.signalled(no, *sig, now, facts);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::{Story, process, record, root};
    use super::*;

    /// A child with a supervisor.
    fn story() -> Story {
        let story = Story::of(EofBeforeForce::default()).spawned(0);
        let (identity, name) = (process(3), crate::world::SUPERVISOR);
        let seen =
            Seen::ProcessStarted { identity: &identity, name, token: Some("token0"), root: false };
        story.see(&seen)
    }

    #[test]
    fn force_after_its_windows_holds() {
        let eof = || story().at_ms(10).stdin_closed(0);
        eof().at_ms(1_010).signal(0, Sig::Term).at_ms(4_010).signal(0, Sig::Kill).holds();
        eof().dies(&root(0)).at_ms(20).signal(0, Sig::Kill).holds();
        let crashed = story().at_ms(10).see(&Seen::HostCrashed { host: 0 });
        crashed.at_ms(1_010).signal(0, Sig::Term).holds();
    }

    #[test]
    fn force_before_them_is_found() {
        story().signal(0, Sig::Term).breaks("before its stdin was closed");
        let eof = || story().at_ms(10).stdin_closed(0);
        eof().at_ms(1_009).signal(0, Sig::Term).breaks("sent Term 999 ms after");
        eof().at_ms(1_010).signal(0, Sig::Kill).breaks("it has 4000 ms");
        let mut longer = record(None, false);
        longer.agent.eof_grace_ms = Some(9_000);
        let patient = eof().recorded(longer).at_ms(1_010).signal(0, Sig::Term);
        patient.breaks("it has 9000 ms");
    }

    #[test]
    fn a_job_has_no_term_window_and_goes_with_its_host() {
        let job = || Story::of(EofBeforeForce::default()).spawned(0).at_ms(10);
        job().stdin_closed(0).at_ms(1_510).signal(0, Sig::Kill).holds();
        job().stdin_closed(0).at_ms(1_500).signal(0, Sig::Kill).breaks("it has 1500 ms");
        job().see(&Seen::HostCrashed { host: 0 }).signal(0, Sig::Kill).holds();
    }
}
