//! Our frames: requests, notifications and replies, each one line ending in its only newline.
//!
//! The order of members is the order written here, so equal calls give equal bytes. Ids are the
//! caller's counter.
use std::io;

use serde::Serialize;

use super::ids::RequestId;

/// The longest frame that is written, its newline included (decision D2).
pub const MAX_OUTBOUND_FRAME: usize = 16 * 1024 * 1024;

/// A frame was refused before a byte of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame has {bytes} bytes, over the limit of {limit}")]
pub struct FrameTooLarge {
    /// What it would have had.
    pub bytes: usize,
    /// The limit.
    pub limit: usize,
}

/// One block of a prompt.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
}

/// The answer to a permission request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PermissionOutcome {
    /// Withdrawn: by a Stop, a close, or a person's dismissal.
    Cancelled,
    /// One of the options the agent offered.
    Selected(String),
}

/// `initialize`: version 1, no file system, no terminal (rule 1.2.9).
pub fn initialize(id: u64) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: u64,
        client_capabilities: ClientCapabilities,
        client_info: ClientInfo,
    }
    #[derive(Serialize)]
    struct ClientCapabilities {
        fs: FileSystem,
        terminal: bool,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct FileSystem {
        read_text_file: bool,
        write_text_file: bool,
    }
    #[derive(Serialize)]
    struct ClientInfo {
        name: &'static str,
        version: &'static str,
    }
    let fs = FileSystem { read_text_file: false, write_text_file: false };
    let params = Params {
        protocol_version: super::answer::PROTOCOL_VERSION,
        client_capabilities: ClientCapabilities { fs, terminal: false },
        client_info: ClientInfo { name: "moored", version: env!("CARGO_PKG_VERSION") },
    };
    request(id, "initialize", params)
}

/// `authenticate` with one of the advertised methods.
pub fn authenticate(id: u64, method_id: &str) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        method_id: &'a str,
    }
    request(id, "authenticate", Params { method_id })
}

/// `session/new` in a working directory, without MCP servers (rule 1.2.9).
pub fn session_new(id: u64, cwd: &str) -> Result<Vec<u8>, FrameTooLarge> {
    request(id, "session/new", Opening { session_id: None, cwd, mcp_servers: [] })
}

/// `session/load`.
pub fn session_load(id: u64, session: &str, cwd: &str) -> Result<Vec<u8>, FrameTooLarge> {
    request(id, "session/load", Opening { session_id: Some(session), cwd, mcp_servers: [] })
}

/// `session/resume`.
pub fn session_resume(id: u64, session: &str, cwd: &str) -> Result<Vec<u8>, FrameTooLarge> {
    request(id, "session/resume", Opening { session_id: Some(session), cwd, mcp_servers: [] })
}

/// `session/prompt`.
pub fn session_prompt(
    id: u64,
    session: &str,
    prompt: &[PromptBlock],
) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        prompt: &'a [PromptBlock],
    }
    request(id, "session/prompt", Params { session_id: session, prompt })
}

/// `session/cancel`: a notification; it names no turn (decision D14).
pub fn session_cancel(session: &str) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    struct Notification<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: Session<'a>,
    }
    let params = Session { session_id: session };
    frame(&Notification { jsonrpc: "2.0", method: "session/cancel", params })
}

/// `session/close`.
pub fn session_close(id: u64, session: &str) -> Result<Vec<u8>, FrameTooLarge> {
    request(id, "session/close", Session { session_id: session })
}

/// `session/set_mode`.
pub fn set_mode(id: u64, session: &str, mode_id: &str) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        mode_id: &'a str,
    }
    request(id, "session/set_mode", Params { session_id: session, mode_id })
}

/// `session/set_config_option`.
pub fn set_config_option(
    id: u64,
    session: &str,
    config_id: &str,
    value: &str,
) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        config_id: &'a str,
        value: &'a str,
    }
    request(id, "session/set_config_option", Params { session_id: session, config_id, value })
}

/// A result for a request of the agent's.
pub fn reply_result(id: &RequestId, result: &impl Serialize) -> Result<Vec<u8>, FrameTooLarge> {
    let mut line = BoundedLine::default();
    line.put(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":").as_bytes());
    line.put_json(result);
    line.put(b"}");
    line.end()
}

/// An error for a request of the agent's.
pub fn reply_error(id: &RequestId, code: i64, message: &str) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    struct ErrorBody<'a> {
        code: i64,
        message: &'a str,
    }
    let mut line = BoundedLine::default();
    line.put(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":").as_bytes());
    line.put_json(&ErrorBody { code, message });
    line.put(b"}");
    line.end()
}

/// The answer to a permission request.
pub fn permission_outcome(
    id: &RequestId,
    outcome: &PermissionOutcome,
) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    struct Answer<'a> {
        outcome: Outcome<'a>,
    }
    #[derive(Serialize)]
    #[serde(tag = "outcome", rename_all = "lowercase")]
    enum Outcome<'a> {
        Cancelled,
        #[serde(rename_all = "camelCase")]
        Selected {
            option_id: &'a str,
        },
    }
    let outcome = match outcome {
        PermissionOutcome::Cancelled => Outcome::Cancelled,
        PermissionOutcome::Selected(option_id) => Outcome::Selected { option_id },
    };
    reply_result(id, &Answer { outcome })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Opening<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    cwd: &'a str,
    // Never left out: agents fail without it.
    mcp_servers: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Session<'a> {
    session_id: &'a str,
}

fn request(
    id: u64,
    method: &'static str,
    params: impl Serialize,
) -> Result<Vec<u8>, FrameTooLarge> {
    #[derive(Serialize)]
    struct Request<P> {
        jsonrpc: &'static str,
        id: u64,
        method: &'static str,
        params: P,
    }
    frame(&Request { jsonrpc: "2.0", id, method, params })
}

fn frame(frame: &impl Serialize) -> Result<Vec<u8>, FrameTooLarge> {
    let mut line = BoundedLine::default();
    line.put_json(frame);
    line.end()
}

/// A line being written. Past the limit it only counts, so a refused frame costs no more memory
/// than a legal one.
#[derive(Default)]
struct BoundedLine {
    bytes: Vec<u8>,
    wanted: usize,
}

impl BoundedLine {
    fn put(&mut self, bytes: &[u8]) {
        self.wanted = self.wanted.saturating_add(bytes.len());
        if self.wanted <= MAX_OUTBOUND_FRAME {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn put_json(&mut self, value: &impl Serialize) {
        // Writing here never fails, and neither do the closed types of this module: no map with odd
        // keys, no number that JSON lacks. A reply of the embedder's own that cannot be serialized
        // is written as null.
        let start = (self.bytes.len(), self.wanted);
        if serde_json::to_writer(&mut *self, value).is_err() {
            self.bytes.truncate(start.0);
            self.wanted = start.1;
            self.put(b"null");
        }
    }

    fn end(mut self) -> Result<Vec<u8>, FrameTooLarge> {
        self.put(b"\n");
        if self.wanted > MAX_OUTBOUND_FRAME {
            return Err(FrameTooLarge { bytes: self.wanted, limit: MAX_OUTBOUND_FRAME });
        }
        // Inside JSON a line break can only be white space between tokens (of a raw value passed
        // through).
        let last = self.bytes.len() - 1;
        for byte in &mut self.bytes[..last] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        Ok(self.bytes)
    }
}

impl io::Write for BoundedLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PromptBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl std::fmt::Debug for PromptBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text { text } => {
                f.debug_tuple("Text").field(&super::event::Hidden(text.len())).finish()
            }
        }
    }
}
