//! The note of a Stop: where it stands, and how it is read once it was not confirmed (rule 3.6).

use super::rig::Rig;
use crate::journal::{ItemBody, ItemView, STOP_NOTE, stop_note_item};

#[test]
pub(super) fn the_note_is_keyed_and_scoped_by_the_turn_that_was_stopped() {
    let mut rig = Rig::working("hello");
    rig.stop(None);
    let is_line =
        |item: &ItemView| matches!(&item.body, ItemBody::Status(s) if s.text == STOP_NOTE);
    let notes: Vec<_> = rig.items().into_iter().filter(is_line).collect();
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert_eq!(note.item, stop_note_item("prompt:m1"), "rule 3.6.2");
    assert_eq!(note.scope, Some("prompt:m1".into()), "rule 3.6.3");
}
