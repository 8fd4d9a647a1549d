//! One row as one line.

use moored::failure::FailureFact;
use moored::journal::{
    AbortPersisted, ApprovalBody, ChildRow, DispatchRow, DispatchState, EndedAs, ItemBody, ItemRow,
    Mark, Mutation, Resolution, Role, RootProof, Row, RowKind, SendMode, StopReason, ToolBody,
    ToolStatus, TreeProof, TurnBody, TurnState, UnknownReason,
};
use moored::platform::Exit;
use moored::session::ladder::EndedHow;

use crate::ps::outcome_word;
use crate::words::one_line;

/// Longest quotation in a line; `--raw` has the whole.
const QUOTE_CHARS_MAX: usize = 100;

/// `offset #seq fence what it says`.
pub fn of(row: &Row, first_ms: u64) -> String {
    let (before, ms) = match row.at_ms.checked_sub(first_ms) {
        Some(ms) => ('+', ms),
        // The wall clock was set back in between.
        None => ('-', first_ms - row.at_ms),
    };
    let offset = format!("{before}{}.{:03}", ms / 1_000, ms % 1_000);
    let recovered = if row.recovered { " (recovered)" } else { "" };
    format!("{offset:>10}  #{:<4} f{}  {}{recovered}", row.seq, row.fence, said(&row.kind))
}

fn said(kind: &RowKind) -> String {
    match kind {
        RowKind::Epoch { session, reason } => {
            format!("epoch begins ({}) for {session}", format!("{reason:?}").to_lowercase())
        }
        RowKind::Item(item) => item_said(item),
        RowKind::Text { item, at, text, cut, .. } => {
            let cut = if cut.is_some() { " (cut here)" } else { "" };
            format!("text {item} from byte {at}: {}{cut}", quoted(&text.0))
        }
        RowKind::Tombstone { item, .. } => format!("removed {item}"),
        RowKind::Mark { mark } => mark_said(mark),
        RowKind::Submission { message_id, text, mode, .. } => {
            let steer = if *mode == SendMode::Steer { " (steer)" } else { "" };
            format!("message {message_id} accepted by the host{steer}: {}", quoted(&text.0))
        }
        RowKind::Dispatch(dispatch) => dispatch_said(dispatch),
        RowKind::Batch { mutations, .. } => {
            let each: Vec<String> = mutations.iter().map(mutation_said).collect();
            format!("together: {}", each.join("; "))
        }
        RowKind::Child(child) => child_said(child),
        _ => "a row of a newer version".to_owned(),
    }
}

fn mutation_said(mutation: &Mutation) -> String {
    match mutation {
        Mutation::Item(item) => item_said(item),
        Mutation::Tombstone { item, .. } => format!("removed {item}"),
        Mutation::Dispatch(dispatch) => dispatch_said(dispatch),
        _ => "a change of a newer version".to_owned(),
    }
}

fn item_said(row: &ItemRow) -> String {
    match &row.body {
        ItemBody::Turn(turn) => turn_said(turn),
        ItemBody::User(user) => format!("user says ({}): {}", user.message_id, quoted(&user.text)),
        ItemBody::Message(message) => {
            let who = match message.role {
                Role::Agent => "agent says",
                Role::Thought => "agent thinks",
                Role::User => "agent quotes the user",
                _ => "somebody says",
            };
            let late = if message.late { " late" } else { "" };
            format!("{who}{late} ({}): {}", row.item, quoted(&message.text))
        }
        ItemBody::Tool(tool) => tool_said(tool),
        ItemBody::Plan(plan) => format!("plan: {}", quoted(&plan.payload.head)),
        ItemBody::Approval(approval) => approval_said(approval),
        ItemBody::Status(status) => {
            let tone = format!("{:?}", status.tone).to_lowercase();
            format!("{tone}: {}", quoted(&status.text))
        }
        ItemBody::Raw(raw) => format!("update {}: {}", raw.kind, quoted(&raw.payload.head)),
        _ => "an item of a newer version".to_owned(),
    }
}

fn turn_said(turn: &TurnBody) -> String {
    let mut line = match turn.state {
        TurnState::Running => format!("turn {} begins", turn.turn),
        TurnState::Completed => format!("turn {} completed", turn.turn),
        TurnState::Interrupted => format!("turn {} interrupted", turn.turn),
        TurnState::Unverifiable => format!("turn {} unverifiable", turn.turn),
        _ => format!("turn {}", turn.turn),
    };
    if let Some(outcome) = turn.outcome {
        line.push_str(&format!(", {}", outcome_word(outcome)));
    }
    if let Some(word) = &turn.stop_reason {
        line.push_str(&format!(", the agent's word {}", quoted(word)));
    }
    if turn.under_stop {
        line.push_str(", under a Stop");
    }
    if turn.delivery_unproven {
        line.push_str(", and the agent's session file has not the message");
    }
    if let Some(usage) = turn.usage {
        line.push_str(&format!(", {} tokens", usage.total));
    }
    line
}

fn tool_said(tool: &ToolBody) -> String {
    let late = if tool.late { " late" } else { "" };
    format!("tool {} {}{late}: {}", tool.tool_call_id, tool_word(tool), quoted(&tool.title))
}

/// Where a tool call stands, as a person reads it.
pub fn tool_word(tool: &ToolBody) -> &'static str {
    match (tool.status, tool.ended_as) {
        (ToolStatus::Running, _) => "running",
        (ToolStatus::Completed, _) => "done",
        (ToolStatus::Failed, None) => "failed",
        (ToolStatus::Failed, Some(EndedAs::Interrupted)) => "cut off with its turn",
        (ToolStatus::Failed, Some(_)) => "unconfirmed",
        _ => "?",
    }
}

fn approval_said(approval: &ApprovalBody) -> String {
    let title = quoted(&approval.title);
    match approval.resolution {
        Resolution::Pending => {
            let labels: Vec<String> = approval.options.iter().map(|o| quoted(&o.label)).collect();
            format!("agent asks {title}: {}", labels.join(" or "))
        }
        Resolution::Resolved => format!("answered {title}: {}", chosen(approval)),
        _ => format!("question withdrawn {title}"),
    }
}

/// The label of the chosen option, quoted.
pub fn chosen(approval: &ApprovalBody) -> String {
    let selected = approval.selected.as_deref();
    let option = approval.options.iter().find(|option| Some(option.id.as_str()) == selected);
    option.map_or_else(|| "nothing".to_owned(), |option| quoted(&option.label))
}

fn dispatch_said(dispatch: &DispatchRow) -> String {
    let DispatchRow { message_id, state, fact, reason, .. } = dispatch;
    match state {
        DispatchState::HandedOver => format!("message {message_id} handed over"),
        DispatchState::Accepted => format!("message {message_id} accepted by the agent"),
        DispatchState::Rejected => format!("message {message_id} not delivered{}", why(fact)),
        DispatchState::Unknown => {
            let reason = match reason {
                Some(UnknownReason::HostRestarted) => " (the host restarted)",
                Some(UnknownReason::ProviderExited) => " (the agent exited)",
                Some(UnknownReason::ProviderClosed) => " (the agent was closed)",
                Some(UnknownReason::WriteUnconfirmed) => " (the write failed)",
                _ => "",
            };
            format!("message {message_id} delivery unknown{reason}{}", why(fact))
        }
        _ => format!("message {message_id} moved"),
    }
}

fn why(fact: &Option<FailureFact>) -> String {
    fact.as_ref().map_or_else(String::new, |fact| format!(": {}", quoted(&fact.sentence())))
}

fn mark_said(mark: &Mark) -> String {
    match mark {
        Mark::Stop(stop) => {
            let whose = match stop.reason {
                StopReason::UserStop => "a person's Stop",
                StopReason::UserClose => "a person's close",
                StopReason::HostStop => "the host's end",
                StopReason::Evict => "the idle sweep",
                _ => "a Stop",
            };
            match &stop.turn {
                Some(turn) => format!("{whose} reaches turn {turn}"),
                None => format!("{whose} reaches no turn"),
            }
        }
        Mark::Context { used, size } => format!("context {used} of {size} tokens"),
        _ => "a mark of a newer version".to_owned(),
    }
}

fn child_said(child: &ChildRow) -> String {
    match child {
        ChildRow::Started { identity, .. } => {
            format!("agent started as process {}", identity.root.pid)
        }
        ChildRow::Exited { how, exit, .. } => format!("agent {}", exit_said(*how, *exit)),
        ChildRow::Settled { root, tree, survivors, abort_persisted, .. } => {
            let survivors: Vec<String> =
                survivors.iter().map(|s| format!("{} {}", s.pid, quoted(&s.name))).collect();
            let ended = match survivors.is_empty() {
                true => String::new(),
                false => format!("; outlived by {}", survivors.join(", ")),
            };
            let kept = abort_persisted.map_or("", kept_said);
            format!("agent settled: {}{ended}{kept}", proof_said(*root, *tree))
        }
        _ => "a fact about the agent of a newer version".to_owned(),
    }
}

/// Whether the stopped turn is in the agent's own session file.
fn kept_said(persisted: AbortPersisted) -> &'static str {
    match persisted {
        AbortPersisted::Yes => "; its session file has the stopped turn",
        AbortPersisted::No => "; its session file has NOT the stopped turn",
        _ => "; whether its session file has the stopped turn could not be told",
    }
}

/// How an agent ended: `left when its input was closed, with code 0`.
pub fn exit_said(how: EndedHow, exit: Option<Exit>) -> String {
    let how = match how {
        EndedHow::OnEof => "left when its input was closed",
        EndedHow::AfterTerm => "was ended by SIGTERM after its input was closed",
        EndedHow::AfterKill => "was killed, since it heeded neither EOF nor SIGTERM",
        EndedHow::ByItself => "ended by itself",
        EndedHow::NeverStarted => "was never started",
        _ => "ended",
    };
    match exit {
        Some(Exit::Code(code)) => format!("{how}, with code {code}"),
        Some(Exit::Signal(signal)) => format!("{how}, by signal {signal}"),
        None => how.to_owned(),
    }
}

/// What is proven of an agent's end.
pub fn proof_said(root: RootProof, tree: TreeProof) -> &'static str {
    match (root, tree) {
        (RootProof::Exited, TreeProof::Gone) => "nothing of it is left",
        (RootProof::Exited, TreeProof::Left) => "what it had started was left running",
        (RootProof::Exited, _) => "what it had started is not proven gone",
        _ => "its end is not proven",
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text, QUOTE_CHARS_MAX))
}
