//! The hot shape costs no allocation, from bytes to event.
mod wire_support;

use allocation_counter::measure;
use moored::wire::{Decoder, Event, Limits};
use wire_support::text_chunk_215;

#[test]
fn a_text_chunk_of_215_bytes_is_decoded_without_allocation() {
    let line = text_chunk_215();
    assert_eq!(line.len(), 215);
    let bytes = format!("{line}\n").repeat(100);
    let mut decoder = Decoder::new(Limits::default());
    let mut text_bytes = 0;
    let mut count = |event: Event<'_>| {
        if let Event::TextChunk { text, .. } = event {
            text_bytes += text.len();
        }
    };
    let used = measure(|| decoder.push(bytes.as_bytes(), &mut count));
    assert_eq!(used.count_total, 0, "{used:?}");

    // A chunk cut by the end of a read is buffered; the buffer is used again.
    let (head, tail) = bytes.as_bytes().split_at(100);
    decoder.push(head, &mut count);
    decoder.push(tail, &mut count);
    let used = measure(|| {
        for _ in 0..100 {
            decoder.push(head, &mut count);
            decoder.push(tail, &mut count);
        }
    });
    assert_eq!(used.count_total, 0, "{used:?}");
    assert!(text_bytes > 0, "text came out");

    let control = measure(|| drop(std::hint::black_box(vec![1_u8; 10])));
    assert_eq!(control.count_total, 1, "allocations are counted");
}
