//! Every bound of the wire, reached.
mod wire_support;

use moored::wire::write_queue::{
    Admission, FrameKind, RESERVED_BYTES, WRITE_QUEUE_BYTES_MAX, WriteQueue,
};
use moored::wire::{
    Decoder, LINE_BYTES_MAX, Limits, MAX_OUTBOUND_FRAME, NOISE_LINE_BYTES_MAX, PromptBlock,
    REQUEST_ID_BYTES_MAX, encode,
};
use wire_support::{read, read_cut, say};

fn small() -> Limits {
    Limits { line_bytes_max: 64, ..Limits::default() }
}

fn said(limits: Limits, bytes: &[u8]) -> Vec<String> {
    read_cut(limits, &[bytes]).0.iter().map(say).collect()
}

#[test]
fn a_line_at_the_limit_is_read_and_one_over_it_is_skipped_and_reported_once() {
    let line = |length: usize| "x".repeat(length);
    let bytes = format!("{}\n{}\n{}\nafter\n", line(64), line(65), line(300));
    assert_eq!(
        said(small(), bytes.as_bytes()),
        [
            format!("noise NotJson: {}", line(64)),
            "defect: the agent sent a line of 65 bytes, over the limit of 64".to_owned(),
            "defect: the agent sent a line of 300 bytes, over the limit of 64".to_owned(),
            "noise NotJson: after".to_owned(),
        ]
    );
}

#[test]
fn earlier_lines_of_the_same_bytes_come_before_the_report_of_a_long_one() {
    let bytes = format!("{}\n{}\n", r#"{"id":1,"result":1}"#, "y".repeat(100));
    let said = said(small(), bytes.as_bytes());
    assert_eq!(said[0], "reply 1 result 1");
    assert!(said[1].starts_with("defect: the agent sent a line of 100 bytes"));
}

#[test]
fn an_answer_over_the_limit_still_settles_its_request_wherever_its_id_stands() {
    let long = "z".repeat(100);
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"text":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","result":{{"id":9,"text":"{long}\"}}"}},"id":"7"}}"#),
        // Broken, but its id was seen.
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"message\":\"{long}\n"),
    ] {
        let said = said(small(), line.as_bytes());
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said[1], "reply 7 undecodable");
    }
    let request = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"m","params":["{long}"]}}"#);
    assert_eq!(said(small(), request.as_bytes())[1], "invalid request 3: -32600");

    // The stream ended in the middle of it: half an answer is no answer.
    let half = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"text":"{long}"#);
    assert_eq!(said(small(), half.as_bytes()).len(), 1);
}

#[test]
fn the_default_line_limit_holds_at_its_real_size() {
    let mut decoder = Decoder::new(Limits::default());
    let mut events = Vec::new();
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..LINE_BYTES_MAX / piece.len() {
        decoder.push(&piece, &mut |event| events.push(say(&event)));
    }
    assert_eq!(decoder.buffered(), LINE_BYTES_MAX);
    decoder.push(b"x", &mut |event| events.push(say(&event)));
    assert_eq!(decoder.buffered(), 0, "what is skipped is not held");
    decoder.push(b"\n{\"id\":1,\"result\":1}\n", &mut |event| events.push(say(&event)));
    assert!(events[0].starts_with("defect: the agent sent a line of 67108865 bytes"));
    assert_eq!(events[1], "reply 1 result 1");
}

#[test]
fn deep_nesting_cannot_overflow_the_stack_on_any_path() {
    let deep = "[".repeat(1_000_000);
    for line in [
        deep.clone(),
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{deep}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{{"x":{deep}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"session/request_permission","params":{deep}"#
        ),
        r#"{"a":"#.repeat(500_000),
    ] {
        let (events, _) = read(format!("{line}\n").as_bytes());
        assert_eq!(say(&events[0]), "defect: the agent sent a frame nested deeper than 128 levels");
    }
}

#[test]
fn the_noise_tail_keeps_the_latest_and_its_lines_are_cut() {
    let limits = Limits { noise_tail: 20, ..Limits::default() };
    let (_, decoder) = read_cut(limits, &[b"first\nsecond\nthird\nfourth\n"]);
    let kept: Vec<&[u8]> = decoder.noise_tail().collect();
    assert_eq!(kept, [b"second".as_slice(), b"third", b"fourth"]);

    let (_, decoder) = read(&vec![b'n'; NOISE_LINE_BYTES_MAX * 3]);
    assert_eq!(decoder.noise_tail().map(<[u8]>::len).collect::<Vec<_>>(), [NOISE_LINE_BYTES_MAX]);
}

#[test]
fn an_id_too_long_to_keep_is_refused() {
    let line = |length: usize| {
        let id = "i".repeat(length - 2);
        read(format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"m"}}"#).as_bytes()).0
    };
    assert!(say(&line(REQUEST_ID_BYTES_MAX)[0]).starts_with("request "));
    assert_eq!(
        say(&line(REQUEST_ID_BYTES_MAX + 1)[0]),
        "defect: the agent sent a request id that cannot be answered"
    );
}

#[test]
fn a_frame_over_the_outbound_limit_is_refused_with_its_size() {
    let empty = encode::session_prompt(1, "s", &[PromptBlock::text("")]).unwrap().len();
    let fits = "x".repeat(MAX_OUTBOUND_FRAME - empty);
    let frame = encode::session_prompt(1, "s", &[PromptBlock::text(&*fits)]).unwrap();
    assert_eq!(frame.len(), MAX_OUTBOUND_FRAME);

    let refused = encode::session_prompt(1, "s", &[PromptBlock::text(fits + "x")]).unwrap_err();
    assert_eq!((refused.bytes, refused.limit), (MAX_OUTBOUND_FRAME + 1, MAX_OUTBOUND_FRAME));
    assert_eq!(refused.to_string(), "the frame has 16777217 bytes, over the limit of 16777216");
}

#[test]
fn a_full_write_queue_makes_requests_wait_and_still_takes_a_cancel() {
    let mut queue = WriteQueue::default();
    assert_eq!(queue.admit(FrameKind::Request, MAX_OUTBOUND_FRAME), Admission::Admitted);
    let rest = WRITE_QUEUE_BYTES_MAX - RESERVED_BYTES - MAX_OUTBOUND_FRAME;
    assert_eq!(queue.admit(FrameKind::Request, rest + 1), Admission::WaitForRoom);
    assert_eq!(queue.admit(FrameKind::Request, rest), Admission::Admitted);
    assert_eq!(queue.admit(FrameKind::Request, 1), Admission::WaitForRoom);

    assert_eq!(queue.admit(FrameKind::Cancel, 100), Admission::Admitted);
    assert_eq!(queue.admit(FrameKind::Reply, RESERVED_BYTES - 100), Admission::Admitted);
    assert_eq!(queue.queued(), WRITE_QUEUE_BYTES_MAX);
    assert_eq!(queue.admit(FrameKind::Cancel, 1), Admission::ReserveFull);
    assert_eq!(queue.admit(FrameKind::Reply, 1), Admission::ReserveFull);

    queue.written(RESERVED_BYTES + 1);
    assert_eq!(queue.admit(FrameKind::Request, 2), Admission::WaitForRoom);
    assert_eq!(queue.admit(FrameKind::Request, 1), Admission::Admitted);
    queue.written(queue.queued());
    assert_eq!(queue, WriteQueue::default(), "an emptied queue owes nothing");
}
