//! What the wire's tests share: reading bytes to the end, and saying an event in one line of text.
#![allow(dead_code, reason = "each test file uses a part")]
use moored::wire::{Decoder, Event, Limits, ReplyOutcome, Update};

/// Everything one stream of bytes gives, and the decoder afterwards.
pub fn read(bytes: &[u8]) -> (Vec<Event<'static>>, Decoder) {
    read_cut(Limits::default(), &[bytes])
}

/// The same for bytes that come in pieces.
pub fn read_cut(limits: Limits, pieces: &[&[u8]]) -> (Vec<Event<'static>>, Decoder) {
    let mut decoder = Decoder::new(limits);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut |event| events.push(event.into_owned()));
    }
    decoder.finish(&mut |event| events.push(event.into_owned()));
    (events, decoder)
}

/// A session update around an update object.
pub fn update(update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
    )
}

/// A text chunk of 215 bytes without its newline: the hot shape as a real agent writes it.
pub fn text_chunk_215() -> String {
    let chunk = |text: &str| {
        format!(
            concat!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"#,
                r#""0198f3a2-7c1e-7d4b-9a55-3f2e1d0c9b8a","update":{{"sessionUpdate":"#,
                r#""agent_message_chunk","content":{{"type":"text","text":"{}"}}}}}}}}"#
            ),
            text
        )
    };
    let text = "a".repeat(215 - chunk("").len());
    chunk(&text)
}

/// An event in one line, texts included.
pub fn say(event: &Event<'_>) -> String {
    match event {
        Event::Defect(defect) => format!("defect: {defect}"),
        Event::InvalidRequest { id, code } => format!("invalid request {id}: {code}"),
        Event::Noise { kind, bytes } => {
            format!("noise {kind:?}: {}", String::from_utf8_lossy(bytes))
        }
        Event::Notification { method, params } => {
            format!("notification {method}: {}", params.as_ref().map_or("-", |raw| raw.as_str()))
        }
        Event::Reply { id, outcome } => match outcome {
            ReplyOutcome::Error { code, message, data } => {
                let data = data.as_ref().map_or("-", |raw| raw.as_str());
                format!("reply {id} error {code} {message:?} {data}")
            }
            ReplyOutcome::Result(result) => format!("reply {id} result {}", result.as_str()),
            ReplyOutcome::Undecodable => format!("reply {id} undecodable"),
        },
        Event::Request { id, method, typed, .. } => match typed {
            Some(asked) => {
                let options: Vec<String> = asked
                    .options
                    .iter()
                    .map(|option| format!("{}={:?}", option.id, option.kind))
                    .collect();
                format!("permission {id} for {:?}: {}", asked.tool.id, options.join(" "))
            }
            None => format!("request {id} {method}"),
        },
        Event::TextChunk { session, role, text, message_id } => {
            format!("{role:?} in {session} of {}: {text}", message_id.as_deref().unwrap_or("-"))
        }
        Event::Update { session, update } => {
            format!("update in {}: {}", session.as_deref().unwrap_or("-"), say_update(update))
        }
    }
}

fn say_update(update: &Update) -> String {
    match update {
        Update::Content { role, raw, .. } => format!("{role:?} content {}", raw.as_str()),
        Update::Unknown { kind, raw } => format!("unknown {kind:?} {}", raw.as_str()),
        Update::ToolCall(tool) => {
            format!("tool {:?} {:?} {:?} {:?}", tool.id, tool.title, tool.kind, tool.status)
        }
        Update::ToolCallUpdate(tool) => {
            format!("tool change {:?} {:?} {:?}", tool.id, tool.kind, tool.status)
        }
        Update::SessionInfo { title, updated_at } => format!("info {title:?} {updated_at:?}"),
        Update::Plan(entries) => {
            let entries: Vec<&str> = entries.iter().map(|entry| entry.content.as_str()).collect();
            format!("plan {}", entries.join(", "))
        }
        Update::AvailableCommands(commands) => {
            let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
            format!("commands {}", names.join(", "))
        }
        other => format!("{other:?}"),
    }
}
