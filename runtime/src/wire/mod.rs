//! The wire: newline-delimited JSON-RPC 2.0 between a host and one agent, as bytes in and events
//! out.
//!
//! [`Decoder`] reads a child's stdout: any cut of the same bytes gives the same [`Event`]s, in one
//! ordered stream with a sequence number each, so that "after the response" is decidable. Nothing a
//! peer writes makes it fail: what can be understood is delivered and counted as a [`Quirk`], what
//! cannot is a [`Defect`] or [`Event::Noise`], and a reply to one of our ids settles its request
//! whatever its payload looks like. [`encode`] writes our frames, [`answer`] decodes results on
//! demand, and [`write_queue`] accounts for what waits to be written.
//!
//! There is no clock, no I/O and no task here, and `Debug` of nothing here prints what a person or
//! an agent wrote.
//!
//! ```
//! use moored::wire::{Decoder, Event, Limits};
//!
//! let mut decoder = Decoder::new(Limits::default());
//! let mut text = String::new();
//! let line = concat!(
//!     r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":"#,
//!     r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}"#,
//!     "\n"
//! );
//! for byte in line.as_bytes() {
//!     decoder.push(&[*byte], &mut |event| {
//!         if let Event::TextChunk { text: piece, .. } = event {
//!             text.push_str(&piece);
//!         }
//!     });
//! }
//! assert_eq!(text, "hello");
//! ```
pub mod answer;
mod decoder;
pub mod encode;
mod envelope;
mod event;
mod findings;
#[doc(hidden)]
pub mod fuzz;
mod hot;
mod ids;
mod json;
mod lines;
mod permission;
mod skim;
mod tool;
mod update;
pub mod write_queue;

pub use decoder::{Decoder, LINE_BYTES_MAX, Limits, NOISE_LINE_BYTES_MAX, NOISE_TAIL_BYTES_MAX};
pub use encode::{FrameTooLarge, MAX_OUTBOUND_FRAME, PermissionOutcome, PromptBlock};
pub use event::{ChunkRole, Event, Json, NoiseKind, ReplyOutcome};
pub use findings::{Defect, Findings, Quirk, Quirks};
pub use ids::{IdError, REQUEST_ID_BYTES_MAX, RawId, RequestId};
pub use json::NESTING_MAX;
pub use permission::{PermissionKind, PermissionOption, PermissionRequest};
pub use tool::{ToolCall, ToolKind, ToolStatus};
pub use update::{Command, PlanEntry, Update};
