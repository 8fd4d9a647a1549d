//! Any cut of the same bytes gives the same events and leaves the same decoder.
mod property_support;
mod wire_support;

use moored::wire::{Decoder, Event, Limits};
use property_support::kept;
use proptest::prelude::*;
use wire_support::{read_cut, update};

const KEPT: &str = "tests/proptest-regressions/wire_cuts.txt";

/// Streams of at most 300 bytes that hold every kind of edge a cut can fall on.
fn small_streams() -> Vec<Vec<u8>> {
    let chunk = |text: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
        ))
    };
    vec![
        b"\n\r\n \n".to_vec(),
        format!("{}\n{}\r\n", chunk("h\u{e9}\u{1f600}"), r#"{"id":7,"result":null}"#).into_bytes(),
        format!("\u{feff}{}\nbanner\n", chunk(r"a\ud83d\ude00\ud83d")).into_bytes(),
        br#"{"id":"7","result":{}}{"id":8.0,"error":"e"} x"#.to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"x\":\n{\"id\":1,\"method\":\"m\"}\n\xff\xfe\n{\"jsonrpc\"".to_vec(),
        br#"[{"id":1,"result":1}]"#.to_vec(),
        // Longer than the small line limit below: skipped, and skimmed for its id.
        format!("ok\n{{\"result\":\"{}\",\"id\":\"7\"}}\nok\n", "x".repeat(200)).into_bytes(),
    ]
}

fn limits() -> Limits {
    Limits { line_bytes_max: 180, noise_tail: 24 }
}

fn whole(bytes: &[u8]) -> (Vec<Event<'static>>, Decoder) {
    read_cut(limits(), &[bytes])
}

#[test]
fn every_single_cut_and_every_pair_of_cuts() {
    for bytes in small_streams() {
        assert!(
            bytes.len() <= 300,
            "a stream of {} bytes is too long to cut everywhere",
            bytes.len()
        );
        let expected = whole(&bytes);
        assert!(!expected.0.is_empty());
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(read_cut(limits(), &pieces), expected, "cut at {first} and {second}");
            }
        }
    }
}

#[test]
fn one_byte_at_a_time() {
    for bytes in small_streams() {
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read_cut(limits(), &pieces), whole(&bytes));
    }
}

#[test]
fn a_decoder_cloned_in_the_middle_of_a_line_goes_on_alike() {
    let bytes = &small_streams()[1];
    let mut decoder = Decoder::new(limits());
    decoder.push(&bytes[..40], &mut |_| unreachable!("no line has ended"));
    let mut copy = decoder.clone();
    assert_eq!(copy, decoder);
    let mut events = Vec::new();
    copy.push(&bytes[40..], &mut |event| events.push(event.into_owned()));
    assert_eq!(events, whole(bytes).0);
    assert_ne!(copy, decoder, "the clone moved on alone");
}

#[test]
fn events_carry_the_number_of_their_frame() {
    let mut decoder = Decoder::new(Limits::default());
    let mut numbers = Vec::new();
    let bytes = b"noise\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}\n\n{\"id\":2,\"result\":1}{\"id\":3,\"result\":1}\n";
    decoder.push_numbered(bytes, &mut |number, event| {
        numbers.push((number, matches!(event, Event::Reply { .. })));
    });
    // The second frame gives a defect and its reply; the last line holds two frames.
    let expected = [(1, false), (2, false), (2, true), (3, false), (4, true), (5, true)];
    assert_eq!(numbers, expected);
    assert_eq!(decoder.frames(), 5);
}

/// A piece of a stream: mostly frames, with dirt between and inside them.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[ -~\\u{e0}-\\u{ff}]{0,60}".prop_map(|text| {
            let text = serde_json::Value::from(text);
            update(&format!(
                r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":{text}}}}}"#
            ))
        }),
        (0_u64..9).prop_map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":[1,{{}}]}}}}"#)),
        (0_u64..9).prop_map(|id| format!(r#"{{"id":"{id}","method":"m","params":null}}"#)),
        Just(update(r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"}"#)),
        "[ -~]{0,40}",
    ];
    let dirt = proptest::collection::vec(any::<u8>(), 0..8);
    let line = line.prop_map(|line| format!("{line}\n").into_bytes());
    prop_oneof![8 => line, 1 => dirt, 1 => Just(b"\r".to_vec())]
}

proptest! {
    #![proptest_config(kept(KEPT, 300))]

    #[test]
    fn long_streams_under_seeded_cuts(
        pieces in proptest::collection::vec(piece(), 1..40),
        sizes in proptest::collection::vec(1_usize..120, 1..60),
        line_bytes_max in 20_usize..400,
    ) {
        let bytes = pieces.concat();
        let limits = Limits { line_bytes_max, noise_tail: 64 };
        let mut cut = Vec::new();
        let mut rest = bytes.as_slice();
        for size in sizes.iter().cycle() {
            let (head, tail) = rest.split_at((*size).min(rest.len()));
            cut.push(head);
            rest = tail;
            if rest.is_empty() { break; }
        }
        prop_assert_eq!(read_cut(limits.clone(), &cut), read_cut(limits, &[&bytes]));
    }

    /// The one-pass decode of a text chunk reads the same as the general path, which an unknown
    /// outermost member of the wrong shape for the hot path (a second, equal key) forces.
    #[test]
    fn the_hot_path_reads_what_the_general_path_reads(
        text in any::<String>(),
        message in proptest::option::of("[a-z]{1,8}"),
        kind in 0_usize..3,
    ) {
        let kind = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"][kind];
        let text = serde_json::Value::from(text);
        let message = message.map_or(String::new(), |id| format!(r#""messageId":"{id}","#));
        let hot = update(&format!(
            r#"{{{message}"sessionUpdate":"{kind}","_meta":{{"a":[1,2]}},"content":{{"text":{text},"type":"text"}}}}"#
        ));
        let general = hot.replacen('{', r#"{"method":"twice","#, 1);
        let (hot, clean) = read_cut(Limits::default(), &[hot.as_bytes(), b"\n"]);
        let (general, dirty) = read_cut(Limits::default(), &[general.as_bytes(), b"\n"]);
        prop_assert_eq!(&hot, &general);
        let is_chunk = matches!(&hot[..], [Event::TextChunk { .. }]);
        prop_assert!(is_chunk);
        prop_assert!(clean.quirks().is_empty());
        prop_assert!(!dirty.quirks().is_empty());
    }
}
