//! Every failure that is published, by code: its sentence, what to do, and whether the person may send again.
//!
//! `docs/failures.md` is generated from [`FailureCode::ALL`]; a test fails when the page is stale.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::answer::quoted;

/// What went wrong, with the agent's own words where they are meant for a person (rule 5.6.4).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureFact {
    /// The published code.
    pub code: FailureCode,
    /// Words of the agent, or the last of its stderr; never the host's own error text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl FailureFact {
    /// A fact without words.
    pub fn new(code: FailureCode) -> Self {
        Self { code, detail: None }
    }

    /// A fact with the agent's words, cut to [`QUOTED_CHARS_MAX`](crate::wire::answer::QUOTED_CHARS_MAX) characters.
    pub fn quoting(code: FailureCode, words: Option<&str>) -> Self {
        let detail = words.map(str::trim).filter(|w| !w.is_empty()).map(|w| quoted(w).to_owned());
        Self { code, detail }
    }

    /// The sentence a person reads.
    pub fn sentence(&self) -> String {
        match &self.detail {
            Some(words) => format!("{} The agent said: {words}", self.code.sentence()),
            None => self.code.sentence().to_owned(),
        }
    }
}

impl std::fmt::Debug for FailureFact {
    // An agent's words may quote the prompt.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}(detail: {})", self.code, self.detail.is_some())
    }
}

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident: $sentence:literal, $remedy:literal, $again:literal;)*) => {
        /// The closed set of published failure codes (rule 5.6.3).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub enum FailureCode {
            $($(#[$doc])* $name,)*
        }

        impl FailureCode {
            /// All of them, in the order of the page.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What happened, in one sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }

            /// What the person can do.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)* }
            }

            /// Whether sending the message again (under a new id) is safe: it is proven not to have been delivered.
            pub fn may_send_again(self) -> bool {
                match self { $(Self::$name => $again,)* }
            }
        }
    };
}

failures! {
    /// Rule 9.3.4.
    AnswerUnconfirmed: "The answer was recorded, but the agent could not be told.", "Look at what the agent does next; the question is not asked again.", false;
    /// Rule 3.6.1.
    CancelUnconfirmed: "Cancellation was not confirmed.", "Press Stop again: it retries ending the agent.", false;
    /// Rule 3.8.2.
    Cancelled: "The message was withdrawn before the agent had it.", "Send it again if it is still wanted.", true;
    /// Rule 3.9.2.
    ChatClosed: "The session was closed before the message went out.", "Open the session again and send it.", true;
    /// The text is empty.
    EmptyMessage: "There is nothing in the message.", "Write something and send it.", true;
    /// Rule 5.3.8.
    HostFault: "The host made a mistake of its own.", "Send it again; report the host's log if it comes back.", true;
    /// Rule 5.8.1.
    HostRestarted: "The host was restarted before the message went out.", "Send it again.", true;
    /// Rule 1.4.4.
    HostStopped: "The host stopped the agent before it was ready.", "Send it again.", true;
    /// Rule 1.2.6.
    HostUnsupported: "This release of the agent is not supported.", "Install a supported release, then start a new session.", true;
    /// Decision D2.
    MessageTooLarge: "The message is larger than an agent can be sent.", "Shorten it, or send it in parts.", true;
    /// Rule 7.3.
    NotRestored: "The agent could not reopen its earlier session; the conversation goes on in a new one, and the agent does not remember the earlier messages.", "Repeat what the agent needs to know.", true;
    /// Rule 1.3.3.
    NotSignedIn: "The agent is not signed in.", "Sign in with the agent's own command, then send again.", true;
    /// Rule 1.8.8.
    PreviousExitUnverifiable: "The agent's earlier process could not be proven gone, so no second one was started.", "Press Stop or send again: each retries the proof.", true;
    /// Rule 2.2.3.
    ProviderError: "The agent ended the turn with an error.", "Read the agent's words, then send again.", false;
    /// Rule 5.6.3.
    ProviderExited: "The agent had stopped before the message went out.", "Send it again.", true;
    /// Rule 2.2.4 a.
    ProviderRejected: "The agent refused the message.", "Read the agent's words, then send another.", true;
    /// Rule 1.4.1.
    ProviderStartFailed: "The agent did not start.", "Read the agent's words; check that its command works in a terminal.", true;
    /// A bound on messages that wait.
    QueueFull: "Too many messages are waiting.", "Wait until the agent has taken some.", true;
    /// Rule 5.6.3.
    StartFailed: "The agent could not be started.", "Check the agent's command and the workspace folder.", true;
    /// Rule 3.6.1.
    StopRefused: "The agent had no turn to stop.", "Nothing needs to be done.", false;
    /// Rule 1.3.2.
    VersionMismatch: "The agent speaks another version of the protocol.", "Install a release of the agent that speaks protocol version 1.", true;
    /// Rule 5.6.3.
    WriteFailed: "The message could not be saved.", "Free some space, then send it again.", true;
}

/// Why a call was refused, for the caller of an API and for the program behind it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, JsonSchema)]
#[error("{sentence}")]
pub struct RefusedOperation {
    /// The published name.
    pub code: RefusalCode,
    /// What happened and what to do.
    pub sentence: String,
    /// The fence that is current, where the caller's was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_fence: Option<crate::ids::Fence>,
}

impl RefusedOperation {
    /// A refusal in the code's own words.
    pub fn new(code: RefusalCode) -> Self {
        Self { code, sentence: code.sentence().to_owned(), current_fence: None }
    }

    /// A refusal with a sharper sentence.
    pub fn with_sentence(code: RefusalCode, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), current_fence: None }
    }
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $wire:literal: $sentence:literal;)*) => {
        /// The closed set of published refusals.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[non_exhaustive]
        pub enum RefusalCode {
            $($(#[$doc])* #[serde(rename = $wire)] $name,)*
        }

        impl RefusalCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $wire,)* }
            }

            /// What happened and what to do.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

refusals! {
    /// Rule 9.3.2.
    AlreadyResolved = "already_resolved": "the question has already been answered; look at the answer that won";
    /// Rule 5.10.2.
    CheckpointStale = "checkpoint_stale": "the session has moved on; read it again and retry";
    /// Rule 9.3.2.
    InvalidOption = "invalid_option": "that is not one of the options the agent offered; choose one of them";
    /// Rule 5.10.3.
    LedgerFull = "operation_capacity": "too many operations are remembered; retry later";
    /// Decision D2.
    MessageTooLarge = "message_too_large": "the message is larger than an agent can be sent; shorten it";
    /// Rule 5.2.4.
    MessageIdReused = "message_id_reused": "this message id was used for another message; send it under a new id";
    /// A message id that is empty or too long: lists are bounded by it.
    MessageIdInvalid = "message_id_invalid": "a message id has from 1 to 256 bytes; send it under another id";
    /// Decision D8.
    NotSaved = "not_saved": "the store refuses to save; free some space and retry";
    /// An operation id that is not one.
    OperationIdInvalid = "operation_invalid": "the operation id is not of the form <13-digit ms>-<32 hex>; use a fresh one";
    /// Rule 5.10.2.
    OperationConflict = "operation_conflict": "this operation id was used for something else; use a new one";
    /// Rule 5.10.3.
    OperationExpired = "operation_expired": "this operation id is too old or too far in the future; use a new one";
    /// Rule 1.8.8.
    OwnershipUnknown = "agent_session_ownership_unknown": "the agent's earlier process could not be proven gone; press Stop to retry the proof";
    /// Rule 9.3.2.
    PromptUnavailable = "prompt_unavailable": "the question is gone; nothing needs to be done";
    /// A bound on messages that wait.
    QueueFull = "queue_full": "too many messages are waiting; retry when the agent has taken some";
    /// Rule 5.3.7.
    Quitting = "quitting": "the host is shutting down; open it again and retry";
    /// Rule 6.10.1.
    ReadOnly = "read_only": "the session was written by a newer version and can only be read; update this program";
    /// Rule 9.3.2.
    RevisionStale = "revision_stale": "the question has changed; look at it again";
    /// The session was closed and takes nothing more.
    SessionClosed = "session_closed": "the session is closed; make a new one";
    /// No such session.
    SessionUnknown = "session_unknown": "there is no such session here; list the sessions, or make a new one";
    /// The id of a new session is taken.
    SessionExists = "session_exists": "there is already a session of this id; choose another id";
    /// The definition or the workspace of a new session cannot be used.
    SessionInvalid = "session_invalid": "the session cannot be made as asked; look at its agent and its workspace";
    /// The store is gone for good.
    StoreClosed = "store_closed": "the store can no longer be written; close the host and open it again";
    /// Rule 1.2.6.
    Unsupported = "structured_agent_session_unsupported": "this release of the agent is not supported; install a supported one";
    /// The message is empty.
    EmptyMessage = "empty_message": "there is nothing in the message; write something";
}
