//! A run as the simulator would tell it: two messages, a Stop that ends the wrong turn, and the end of the child.

use std::borrow::Cow;

use moored::platform::Mono;
use moored_sim::timeline::{Broken, Entry, Lane, Timeline};

/// One event a line; a `-` for no link, and `\n` for the end of a line in a detail.
const ENTRIES: &str = include_str!("sample.tsv");

/// An event with neither detail nor link.
pub fn entry(at: Mono, lane: Lane, kind: &'static str, words: &str) -> Entry {
    Entry {
        at,
        lane,
        kind: Cow::Borrowed(kind),
        words: words.to_owned(),
        detail: String::new(),
        link: None,
    }
}

pub fn sample() -> Timeline {
    let entries: Vec<Entry> = ENTRIES.lines().skip(1).map(told).collect();
    let facts = [
        ("seed", "48211"),
        ("kernel", "tape"),
        ("profile", "posix"),
        ("replay", "moored replay stop-then-send --seed 48211"),
        ("shrink", "moored shrink moored-failures/stop-then-send-48211.json"),
    ];
    let notes = [
        "the user sends m1 when the session is created",
        "the user presses Stop after the 3rd update",
        "the user sends m2 while the Stop is settling",
        "fault: the agent answers the cancelled prompt 4 s late",
        "the host shuts down when the session rests",
    ];
    Timeline {
        title: "stop-then-send".to_owned(),
        facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        notes: notes.map(str::to_owned).to_vec(),
        broken: Some(Broken {
            oracle: "stop_binds_its_turn".to_owned(),
            rule: "3.4.1".to_owned(),
            words: "the Stop of turn:1 ended turn:2, which was dispatched after it settled"
                .to_owned(),
            at: Mono(5_214_904),
            entry: entries
                .iter()
                .position(|entry| entry.words.starts_with("turn:2 ended interrupted")),
        }),
        entries,
    }
}

fn told(line: &'static str) -> Entry {
    let mut cells = line.split('\t');
    let mut cell = || cells.next().unwrap_or_default();
    let at = Mono(cell().parse().expect("a time"));
    let lane = cell();
    let lane = Lane::ALL.into_iter().find(|known| known.word() == lane).expect("a lane");
    let (kind, words, link) = (cell(), cell(), cell());
    Entry {
        link: link.parse().ok(),
        detail: cell().replace("\\n", "\n"),
        ..entry(at, lane, kind, words)
    }
}
