//! A run as the simulator would tell it: two messages, a Stop that binds the wrong turn, and the end of the child.

use std::borrow::Cow;

use moored::platform::Mono;
use moored_sim::timeline::{Broken, Entry, Lane, Timeline};

type Told = (u64, Lane, &'static str, &'static str, &'static str, u32);

/// The links of the sample: its child, its two messages, its Stop.
const CHILD: u32 = 1;
const M1: u32 = 2;
const M2: u32 = 3;
const STOP: u32 = 4;
/// No link.
const NONE: u32 = 0;

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
    let entries: Vec<Entry> =
        [START, FIRST_TURN, STOPPED, END].concat().into_iter().map(told).collect();
    let at = entries.iter().position(|entry| entry.words.starts_with("turn:2 ended interrupted"));
    Timeline {
        title: "stop-then-send".to_owned(),
        facts: [
            ("seed", "48211"),
            ("kernel", "tape"),
            ("profile", "posix"),
            ("replay", "moored replay stop-then-send --seed 48211"),
            ("shrink", "moored shrink moored-failures/stop-then-send-48211.json"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        broken: Some(Broken {
            oracle: "stop_binds_its_turn".to_owned(),
            rule: "3.4.1".to_owned(),
            words: "the Stop of turn:1 ended turn:2, which was dispatched after it settled"
                .to_owned(),
            at: Mono(5_214_904),
            entry: at,
        }),
        notes: [
            "the user sends m1 when the session is created",
            "the user presses Stop after the 3rd update",
            "the user sends m2 while the Stop is settling",
            "fault: the agent answers the cancelled prompt 4 s late",
            "the host shuts down when the session rests",
        ]
        .map(str::to_owned)
        .to_vec(),
        entries,
    }
}

fn told((us, lane, kind, words, detail, link): Told) -> Entry {
    Entry {
        detail: detail.to_owned(),
        link: (link != NONE).then_some(link),
        ..entry(Mono(us), lane, kind, words)
    }
}

const START: &[Told] = &[
    (0, Lane::User, "user.create", "new session of omp in /ws", "", NONE),
    (0, Lane::Host, "host.created", "session s1", "", NONE),
    (
        12,
        Lane::Store,
        "store.submit",
        "unit 1: epoch",
        r#"{"v":1,"epoch":"0f8c","seq":1,"fence":0,"at_ms":1767225600001,"kind":"epoch","session":"s1","reason":"created"}"#,
        NONE,
    ),
    (412, Lane::Store, "store.durable", "unit 1, seq 1", "", NONE),
    (
        412,
        Lane::Feed,
        "feed.summary",
        "s1 idle",
        r#"{"session":"s1","state":"idle","cursor":{"epoch":"0f8c","seq":1}}"#,
        NONE,
    ),
    (530, Lane::Client, "client.folded", "client a at seq 1", "", NONE),
    (
        1_204,
        Lane::User,
        "user.send",
        "m1 \"Read the file.\"",
        r#"{"op":"1767225600002-1","message_id":"m1","mode":"after_turn","body":[{"type":"text","text":"Read the file."}]}"#,
        M1,
    ),
    (
        1_204,
        Lane::Store,
        "store.submit",
        "unit 2: submission m1",
        r#"{"v":1,"epoch":"0f8c","seq":2,"fence":1,"at_ms":1767225600002,"kind":"submission","message_id":"m1","fingerprint":"9b74","text":"Read the file.","mode":"after_turn","requested_ms":1767225600002}"#,
        M1,
    ),
    (1_619, Lane::Store, "store.durable", "unit 2, seq 2", "", M1),
    (1_619, Lane::Host, "host.accepted", "m1 after its rows were durable", "", M1),
    (
        1_619,
        Lane::Process,
        "process.spawn",
        "pid 101, group 101, generation g1",
        r#"{"argv":["omp","acp"],"cwd":"/ws","token":"t-1"}"#,
        CHILD,
    ),
    (
        2_930,
        Lane::Store,
        "store.durable",
        "unit 3: child started, seq 3",
        r#"{"v":1,"epoch":"0f8c","seq":3,"fence":1,"at_ms":1767225600003,"kind":"child","child":"started","generation":"g1","identity":{"root":{"pid":101,"start":90210},"supervisor":{"pid":100,"start":90209},"boot":"b007","proof":"subreaper"}}"#,
        CHILD,
    ),
    (
        2_931,
        Lane::Wire,
        "wire.initialize",
        "to the agent, id 1",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false}}}}"#,
        CHILD,
    ),
    (3_302, Lane::Agent, "agent.step", "answers initialize", "", CHILD),
    (
        3_518,
        Lane::Wire,
        "wire.answer",
        "from the agent, id 1: protocol 1",
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#,
        CHILD,
    ),
    (
        3_519,
        Lane::Wire,
        "wire.new_session",
        "to the agent, id 2",
        r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/ws","mcpServers":[]}}"#,
        CHILD,
    ),
    (
        4_007,
        Lane::Wire,
        "wire.answer",
        "from the agent, id 2: handle h-77",
        r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"h-77"}}"#,
        CHILD,
    ),
    (
        4_410,
        Lane::Store,
        "store.durable",
        "unit 4: handle linked, seq 4",
        r#"{"v":1,"epoch":"0f8c","seq":4,"fence":1,"at_ms":1767225600004,"kind":"mark","mark":{"mark":"handle","generation":"g1","handle":"h-77"}}"#,
        CHILD,
    ),
];

const FIRST_TURN: &[Told] = &[
    (4_410, Lane::Host, "host.dispatch", "m1 as turn:1", "", M1),
    (
        4_822,
        Lane::Store,
        "store.durable",
        "unit 5: dispatch m1, seq 5",
        r#"{"v":1,"epoch":"0f8c","seq":5,"fence":1,"at_ms":1767225600004,"kind":"dispatch","message_id":"m1","state":"handed_over","scope":"turn:1"}"#,
        M1,
    ),
    (
        4_822,
        Lane::Wire,
        "wire.prompt",
        "to the agent, id 3: m1",
        r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"h-77","prompt":[{"type":"text","text":"Read the file."}]}}"#,
        M1,
    ),
    (
        4_822,
        Lane::Feed,
        "feed.summary",
        "s1 working, turn:1",
        r#"{"session":"s1","state":"working","turn":"turn:1"}"#,
        M1,
    ),
    (4_967, Lane::Client, "client.folded", "client a at seq 5", "", NONE),
    (105_310, Lane::Agent, "agent.step", "says \"I will \"", "", M1),
    (
        105_522,
        Lane::Wire,
        "wire.update",
        "agent_message_chunk, 7 bytes",
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"h-77","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I will "}}}}"#,
        M1,
    ),
    (
        121_522,
        Lane::Store,
        "store.submit",
        "unit 6: message:1",
        r#"{"v":1,"epoch":"0f8c","seq":6,"fence":1,"at_ms":1767225600008,"kind":"item","item":"message:1","revision":1,"scope":"turn:1","body":{"type":"message","role":"agent","text":"I will "}}"#,
        M1,
    ),
    (121_960, Lane::Store, "store.durable", "unit 6, seq 6", "", M1),
    (121_960, Lane::Feed, "feed.batch", "seq 6, 1 row", "", M1),
    (
        205_811,
        Lane::Wire,
        "wire.update",
        "tool_call call-1 \"Read a file\", pending",
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"h-77","update":{"sessionUpdate":"tool_call","toolCallId":"call-1","title":"Read a file","kind":"read","status":"pending","rawInput":{"path":"/ws/a.txt","limit":200}}}}"#,
        M1,
    ),
    (206_230, Lane::Store, "store.durable", "unit 7: tool:1, seq 7", "", M1),
    (206_230, Lane::Feed, "feed.batch", "seq 7, 1 row", "", M1),
    (
        206_411,
        Lane::Client,
        "client.lagged",
        "client b lost its place and comes back from seq 2",
        "",
        NONE,
    ),
    (
        310_002,
        Lane::Wire,
        "wire.update",
        "tool_call_update call-1, in_progress",
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"h-77","update":{"sessionUpdate":"tool_call_update","toolCallId":"call-1","status":"in_progress"}}}"#,
        M1,
    ),
    (310_420, Lane::Store, "store.durable", "unit 8: tool:1, seq 8", "", M1),
];

const STOPPED: &[Told] = &[
    (311_000, Lane::User, "user.stop", "unnamed, op 16-1", r#"{"op":"1767225600016-1"}"#, STOP),
    (311_000, Lane::Host, "host.settle_opened", "turn:1 live when pressed", "", STOP),
    (
        311_000,
        Lane::Wire,
        "wire.cancel",
        "to the agent",
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"h-77"}}"#,
        STOP,
    ),
    (
        311_000,
        Lane::Store,
        "store.submit",
        "unit 9: stop",
        r#"{"v":1,"epoch":"0f8c","seq":9,"fence":1,"at_ms":1767225600016,"kind":"mark","mark":{"mark":"stop","op":"1767225600016-1","reason":"user-stop","turn":"turn:1","named":false,"at_ms":1767225600016}}"#,
        STOP,
    ),
    (
        311_000,
        Lane::Feed,
        "feed.summary",
        "s1 stopping",
        r#"{"session":"s1","state":"working","stopping":true,"turn":"turn:1"}"#,
        STOP,
    ),
    (311_160, Lane::Client, "client.folded", "client a sees Stopping", "", NONE),
    (311_409, Lane::Store, "store.durable", "unit 9, seq 9", "", STOP),
    (
        900_120,
        Lane::User,
        "user.send",
        "m2 \"And now the other one.\"",
        r#"{"op":"1767225600020-1","message_id":"m2","mode":"after_turn","body":[{"type":"text","text":"And now the other one."}]}"#,
        M2,
    ),
    (900_533, Lane::Store, "store.durable", "unit 10: submission m2, seq 10", "", M2),
    (900_533, Lane::Host, "host.accepted", "m2, held until turn:1 ends", "", M2),
    (4_901_077, Lane::Agent, "agent.step", "answers the cancelled prompt", "", M1),
    (
        4_901_300,
        Lane::Wire,
        "wire.answer",
        "from the agent, id 3: cancelled",
        r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}"#,
        M1,
    ),
    (4_901_300, Lane::Host, "host.settled", "the Stop took turn:1", "", STOP),
    (
        4_901_744,
        Lane::Store,
        "store.durable",
        "unit 11: turn:1 interrupted, by the user, seq 11",
        r#"{"v":1,"epoch":"0f8c","seq":11,"fence":1,"at_ms":1767225604901,"kind":"item","item":"turn:1","revision":2,"scope":"turn:1","body":{"type":"turn","turn":"turn:1","state":"interrupted","outcome":"cancelled","by":"user","user_item":"user:m1","started_ms":1767225600006,"ended_ms":1767225604901}}"#,
        STOP,
    ),
    (4_901_744, Lane::Feed, "feed.notice", "turn:1 was stopped", "", STOP),
    (4_902_150, Lane::Store, "store.durable", "unit 12: dispatch m2, seq 12", "", M2),
    (
        4_902_150,
        Lane::Wire,
        "wire.prompt",
        "to the agent, id 4: m2",
        r#"{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"h-77","prompt":[{"type":"text","text":"And now the other one."}]}}"#,
        M2,
    ),
    (
        5_214_100,
        Lane::Wire,
        "wire.answer",
        "from the agent, id 4: cancelled",
        r#"{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}"#,
        M2,
    ),
    (5_214_500, Lane::Store, "store.submit", "unit 13: turn:2", "", M2),
    (
        5_214_904,
        Lane::Store,
        "store.durable",
        "turn:2 ended interrupted, by the user, seq 13",
        r#"{"v":1,"epoch":"0f8c","seq":13,"fence":1,"at_ms":1767225605214,"kind":"item","item":"turn:2","revision":2,"scope":"turn:2","body":{"type":"turn","turn":"turn:2","state":"interrupted","outcome":"cancelled","by":"user","user_item":"user:m2"}}"#,
        M2,
    ),
];

const END: &[Told] = &[
    (5_214_904, Lane::Feed, "feed.notice", "turn:2 was stopped", "", M2),
    (5_215_060, Lane::Client, "client.folded", "client b at seq 13", "", NONE),
    (65_300_000, Lane::Host, "host.shutdown", "the session rests", "", CHILD),
    (65_300_000, Lane::Wire, "wire.eof", "stdin of pid 101 closed", "", CHILD),
    (65_300_210, Lane::Agent, "agent.step", "ignores the end of its input", "", CHILD),
    (
        70_300_000,
        Lane::Process,
        "process.signal",
        "TERM to group 101",
        r#"{"signal":"TERM","group":101}"#,
        CHILD,
    ),
    (
        70_302_118,
        Lane::Process,
        "process.exit",
        "pid 101: status 143",
        r#"{"pid":101,"signal":"TERM","core":false}"#,
        CHILD,
    ),
    (
        70_302_118,
        Lane::Process,
        "process.tree_empty",
        "group 101, proven by the subreaper",
        "",
        CHILD,
    ),
    (
        70_302_540,
        Lane::Store,
        "store.durable",
        "unit 14: child exited and settled, seq 14",
        "{\"v\":1,\"seq\":14,\"kind\":\"child\",\"child\":\"exited\",\"how\":\"killedAfterTerm\"}\n{\"v\":1,\"seq\":15,\"kind\":\"child\",\"child\":\"settled\",\"tree\":\"empty\"}",
        CHILD,
    ),
    (70_302_540, Lane::Feed, "feed.summary", "s1 idle, no child", "", CHILD),
    (70_302_700, Lane::Client, "client.folded", "client a at seq 15", "", NONE),
];
