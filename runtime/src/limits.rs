//! Named limits of the core that no other module owns. Each has a test that reaches it.

/// Streamed text is committed at the latest this long after its first byte (`docs/journal.md`, "Streamed text").
pub const TEXT_COALESCE_MS: u64 = 16;
/// Streamed text is committed at once when this much is waiting; also the longest text of one row (decision D31).
pub const TEXT_ROW_BYTES_MAX: usize = 16 * 1024;
/// A message or thought is kept whole up to this, then cut with length, digest and mark (decision D31).
pub const TEXT_ITEM_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Head of a tool input, a tool output or a raw frame kept in a row (rule 6.5.5).
pub const PAYLOAD_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Frames kept before the agent's session is known (rule 1.2.8).
pub const EARLY_FRAMES_MAX: usize = 2_048;
/// Open requests of one agent (rule 9.1.4).
pub const AGENT_REQUESTS_MAX: usize = 128;
/// Messages of one session that may wait for their handover.
pub const QUEUED_SENDS_MAX: usize = 128;
/// Longest id that a client may give a message.
pub const MESSAGE_ID_BYTES_MAX: usize = 256;
/// Messages that a summary lists as held by a Stop: the whole queue, and the one whose frame the Stop held back
/// (decisions D24, D27). So what is not listed is not held, and no client has to guess behind the end of a list.
pub const HELD_LISTED_MAX: usize = QUEUED_SENDS_MAX + 1;
/// How long a Stop waits for the turn to end, counted from the cancel (rule 3.5.2).
pub const STOP_GRACE_MS: u64 = 4_000;
/// The longest wait for an agent that is asked to put its session on disk (decision D13).
pub const CLOSE_BARRIER_MS: u64 = 8_000;
/// A refused append is submitted again after this (decision D8).
pub const STORE_RETRY_MS: u64 = 250;
/// Text of a turn that ended this recently still belongs to it (decision D3).
pub const LATE_UPDATE_WINDOW_MS: u64 = 250;
/// An agent-initiated turn ends after this much quiet (decision D4).
pub const AGENT_TURN_QUIET_MS: u64 = 3_000;
/// stdout ended while the root lives: after this it is a transport break (decision D34).
pub const STDOUT_EOF_GRACE_MS: u64 = 4_000;
/// stderr kept for a person (rule 1.5.9), in characters.
pub const STDERR_TAIL_CHARS_MAX: usize = 8_192;
/// Mutations of one lifecycle batch (rule 6.5.4).
pub const BATCH_MUTATIONS_MAX: usize = 200;
/// Bytes of one lifecycle batch (rule 6.5.4).
pub const BATCH_BYTES_MAX: usize = 1_500_000;
/// Settlement ids remembered per session (rule 6.5.4).
pub const SETTLEMENTS_REMEMBERED_MAX: usize = 4_096;
/// Turns remembered per child so that a late frame does not reopen one (rule 2.1.8).
pub const TURNS_REMEMBERED_MAX: usize = 128;
/// Links of a handle chain (rule 7.1.2).
pub const HANDLE_LINKS_MAX: usize = 256;
/// Bounded previews in a summary, in characters (rule 4.3.2).
pub const PREVIEW_CHARS_MAX: usize = 512;
/// Rows that are written to a store but not yet answered, per session: past it reading pauses (decision D8).
pub const APPENDS_IN_FLIGHT_MAX: usize = 64;

/// During the ladder with the store refusing, reading goes on until this much waits to be stored; past it text and tool
/// updates are discarded, counted and disclosed (decision D8).
pub const LADDER_BUFFER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How long frames may take to leave before stdin EOF: past it they are dropped, for EOF comes before force (invariant 8).
pub const STDIN_DRAIN_MS: u64 = 200;
/// After the tree was swept, how long the agent's stdout may still be open before the child counts as gone.
pub const STDOUT_DRAIN_MS: u64 = 1_000;
/// How long the agent's session file may take to be read; then what is in it is unknown (decision D28).
pub const SESSION_FILE_READ_MS: u64 = 1_000;
/// How much of the end of that file is read.
pub const SESSION_FILE_TAIL_MAX: u64 = 8 * 1_024 * 1_024;
/// Longest pattern of a session file's path.
pub const SESSION_FILE_GLOB_BYTES_MAX: usize = 4_096;
/// Looks into files that may be under way on one machine; with more, some file system hangs.
pub const FILE_LOOKS_MAX: usize = 8;
/// Entries of folders that one look goes through.
pub const FILE_LOOK_ENTRIES_MAX: usize = 65_536;
