//! The body of the fuzz target, also run by a test over its corpus.
use super::answer::{Initialize, PromptAnswer, SessionOpened, words};
use super::{Decoder, Event, Findings, Limits, ReplyOutcome};

/// Reads the same bytes whole and cut, and holds both to the decoder's contract.
///
/// The first byte chooses the cuts, so that the fuzzer can move them; the second the longest line.
///
/// # Panics
///
/// When the contract is broken.
pub fn chunked(input: &[u8]) {
    let [step, line_bytes_max, bytes @ ..] = input else { return };
    let limits = Limits { line_bytes_max: 16 + usize::from(*line_bytes_max) * 4, noise_tail: 64 };
    let (whole, at_once) = read(&limits, [bytes].into_iter());
    let (cut, in_pieces) = read(&limits, bytes.chunks(usize::from(*step % 16) + 1));
    assert_eq!(whole, cut, "a cut changed the events");
    assert_eq!(at_once, in_pieces, "a cut changed the decoder");
    assert_eq!(at_once.buffered(), 0, "the end of the stream left bytes behind");
    let kept: usize = at_once.noise_tail().map(<[u8]>::len).sum();
    assert!(kept <= limits.noise_tail, "the noise tail is over its limit");

    let mut last = 0;
    for (number, event) in &whole {
        assert!(*number == last || *number == last + 1, "a frame gave no event");
        last = *number;
        decode_on_demand(event);
    }
    assert_eq!(last, at_once.frames(), "the last frame gave no event");
}

fn read<'a>(
    limits: &Limits,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> (Vec<(u64, Event<'static>)>, Decoder) {
    let mut decoder = Decoder::new(limits.clone());
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push_numbered(chunk, &mut |number, event| {
            events.push((number, event.into_owned()));
        });
    }
    decoder.finish_numbered(&mut |number, event| events.push((number, event.into_owned())));
    (events, decoder)
}

/// Everything that is decoded later must take whatever the decoder let through.
fn decode_on_demand(event: &Event<'_>) {
    let mut findings = Findings::default();
    match event {
        Event::Reply { outcome: ReplyOutcome::Result(result), .. } => {
            let _initialize = Initialize::decode(result.as_str(), &mut findings);
            let _opened = SessionOpened::decode(result.as_str(), "session/new", &mut findings);
            let _answer = PromptAnswer::decode(result.as_str(), &mut findings);
            if let Err(error) = serde_json::from_str::<serde_json::Value>(result.as_str()) {
                // Legal JSON that the other parser has no number for.
                assert!(
                    error.to_string().starts_with("number out of range"),
                    "a raw result is no JSON to another parser: {error}"
                );
            }
        }
        Event::Reply { outcome: ReplyOutcome::Error { message, data, .. }, .. } => {
            let said = words(message, data.as_ref().map(super::Json::as_str));
            assert!(
                said.chars().count() <= super::answer::QUOTED_CHARS_MAX,
                "the words are too long"
            );
        }
        Event::Request { id, .. } | Event::InvalidRequest { id, .. } => {
            let echoed = super::RequestId::parse(&id.to_string());
            assert_eq!(echoed.as_ref(), Ok(id), "an id does not survive its echo");
        }
        _ => {}
    }
}
