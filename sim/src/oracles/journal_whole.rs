//! The journal reads whole, and is all there is: its fold is what its host says.

use std::collections::BTreeMap;

use moored::ids::SessionId;
use moored::journal::{Fold, RowKind, Touched};
use moored::platform::Mono;

use super::rows;
use super::{Oracle, Rest, Verdict};
use crate::witness::{Facts, Seen};

/// Rows come one after the other, and folded afresh give the host's own snapshot.
#[derive(Default)]
pub(super) struct JournalReadsWhole {
    last: BTreeMap<SessionId, u64>,
}

impl Oracle for JournalReadsWhole {
    fn name(&self) -> &'static str {
        "journal-reads-whole"
    }

    fn rule(&self) -> &'static str {
        "6.4, 6.7.1, 6.10"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        let Seen::Stored { unit, .. } = seen else { return Ok(()) };
        let session = &unit.session;
        let last = rows::of(&mut self.last, session);
        for row in &unit.rows {
            if row.seq != *last + 1 && !matches!(row.kind, RowKind::Epoch { .. }) {
                let (seq, last) = (row.seq, *last);
                return Err(format!("row {seq} of {session} is stored after row {last}"));
            }
            *last = row.seq;
        }
        Ok(())
    }

    fn at_rest(&mut self, rest: &Rest<'_>) -> Verdict {
        for session in rest.sessions {
            let id = &session.id;
            if let Some(fault) = &session.fault {
                return Err(format!("the journal of {id} does not read whole: {fault}"));
            }
            let gap = session.rows.iter().zip(1..).find(|(row, seq)| row.seq != *seq);
            if let Some((row, seq)) = gap {
                return Err(format!("the journal of {id} has row {} in place of {seq}", row.seq));
            }
            let Some(whole) = &session.snapshot else { continue };
            let mut fold = Fold::new();
            let mut touched = Touched::unheard();
            // What the end of the host writes comes after its words.
            for row in session.rows.iter().take_while(|row| row.seq <= whole.cursor.seq) {
                fold.apply(row, &mut touched);
            }
            let folded = fold.snapshot();
            if folded.cursor != whole.cursor {
                let (has, says) = (folded.cursor.seq, whole.cursor.seq);
                return Err(format!("the host says row {says} of {id}, and {has} rows are stored"));
            }
            if folded.items != whole.items || folded.submissions != whole.submissions {
                return Err(format!("the stored rows of {id} do not fold to what its host says"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use moored::journal::{RowFault, Snapshot};

    use super::super::RestingSession;
    use super::super::kit::{Story, session, submission};
    use super::*;

    fn story() -> Story {
        Story::of(JournalReadsWhole::default()).stored(1, [submission(1), submission(2)])
    }

    fn rests(change: impl FnOnce(&mut RestingSession)) -> Story {
        let story = story();
        let mut fold = Fold::new();
        story.rows().iter().for_each(|row| fold.apply(row, &mut Touched::unheard()));
        let mut resting = RestingSession {
            id: session(),
            rows: story.rows().to_vec(),
            fault: None,
            snapshot: Some(fold.snapshot()),
            clients: Vec::new(),
            summary: None,
        };
        change(&mut resting);
        story.rests_as(resting, &[])
    }

    fn says(resting: &mut RestingSession) -> &mut Snapshot {
        resting.snapshot.as_mut().expect("it has one")
    }

    #[test]
    fn rows_that_fold_to_what_the_host_says_hold() {
        rests(|_| ()).holds();
    }

    #[test]
    fn damage_a_gap_and_other_words_are_found() {
        let damaged = RowFault::Damaged { what: "row 2".to_owned() };
        rests(|r| r.fault = Some(damaged)).breaks("does not read whole");
        rests(|r| drop(r.rows.remove(0))).breaks("has row 2 in place of 1");
        rests(|r| drop(says(r).items.pop())).breaks("do not fold to what its host says");
        rests(|r| says(r).cursor.seq = 9).breaks("the host says row 9 of s1, and 2 rows");
    }

    #[test]
    fn a_row_that_is_left_out_is_found_at_once() {
        let mut row = story().rows()[0].clone();
        row.seq = 4;
        let unit = moored::store::Unit {
            session: session(),
            fence: row.fence,
            rows: vec![row],
            ledger: None,
            record: None,
            resumes: false,
        };
        story()
            .see(&Seen::Stored { host: 0, unit: &unit })
            .breaks("row 4 of s1 is stored after row 2");
    }
}
