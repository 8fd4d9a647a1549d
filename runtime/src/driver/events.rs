//! What wakes a session's task, in the order in which it is heard: commands in the order they were posted, then the
//! ends of children, then the store, then time, then data.
//!
//! A Stop is no special case among the commands: one that overtook the send before it would stop nothing and leave that
//! send to run afterwards.

use std::task::{Context, Poll};

use super::child::{Child, Chunk, Wrote};
use super::session_task::{Inbox, SessionTask};
use crate::host::Command;
use crate::ids::{Generation, SpawnToken};
use crate::platform::{FileTail, Mono, Report, SpawnError, SpawnedChild};
use crate::session::Ticket;
use crate::store::Refusal;

/// What a session's task wakes for.
pub(super) enum Event {
    /// Something was asked; `None` when the host is gone.
    Inbox(Option<Inbox>),
    /// Ids were minted.
    Minted(Generation, SpawnToken),
    /// A spawn ended.
    Spawned(Generation, Result<SpawnedChild, SpawnError>),
    /// The end of an agent's session file was read.
    FileTail(Generation, FileTail),
    /// A supervisor spoke.
    Report(Generation, Report),
    /// A unit is durable or refused.
    Stored(Ticket, Result<(), Refusal>),
    /// The machine's deadline came.
    Deadline(Mono),
    /// The host cannot wait any longer for this session's end.
    QuitDeadline,
    /// A frame left for a pipe, or did not.
    Wrote(Generation, Wrote),
    /// The agent spoke.
    Stdout(Generation, Chunk),
    /// Its stdout ended.
    StdoutEnd(Generation),
    /// It complained.
    Stderr(Generation, Vec<u8>),
    /// Its stderr ended.
    StderrEnd(Generation),
    /// A watcher that lagged asks for the whole.
    Watcher(usize),
}

impl Event {
    /// What the machine is told by it, in a word; none for what tells it nothing.
    pub(super) fn fact(&self) -> Option<&'static str> {
        Some(match self {
            Self::Inbox(Some(Inbox::Command { command: Command::Send(_), .. })) => "send",
            Self::Inbox(Some(Inbox::Command { command: Command::Stop(_), .. })) => "stop",
            Self::Minted(..) => "minted",
            Self::Spawned(_, Ok(_)) => "spawned",
            Self::FileTail(..) => "file-tail",
            Self::Report(_, Report::Exited { .. }) => "exited",
            Self::Report(_, Report::Swept { .. }) => "swept",
            Self::Stored(_, Ok(())) => "durable",
            Self::Stored(_, Err(_)) => "refused",
            Self::Deadline(_) => "deadline",
            Self::Wrote(_, Ok(_)) => "written",
            Self::Stdout(..) => "stdout",
            Self::StdoutEnd(_) => "stdout-end",
            Self::StderrEnd(_) => "stderr-end",
            _ => return None,
        })
    }
}

impl SessionTask {
    /// The next event.
    pub(super) async fn next(&mut self) -> Event {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.soon.pop_front() {
            return Poll::Ready(event);
        }
        if self.inbox_open
            && let Poll::Ready(asked) = self.inbox.poll_recv(cx)
        {
            return Poll::Ready(Event::Inbox(asked));
        }
        for poll in [poll_control, poll_stored, poll_time, poll_data, poll_watchers] {
            if let Poll::Ready(event) = poll(self, cx) {
                return Poll::Ready(event);
            }
        }
        Poll::Pending
    }
}

fn poll_control(task: &mut SessionTask, cx: &mut Context<'_>) -> Poll<Event> {
    if let Some((_, reading)) = &mut task.reading_tail
        && let Poll::Ready(tail) = reading.as_mut().poll(cx)
        && let Some((generation, _)) = task.reading_tail.take()
    {
        return Poll::Ready(Event::FileTail(generation, tail));
    }
    for (generation, child) in &mut task.children {
        if let Some(starting) = &mut child.starting
            && let Poll::Ready(spawned) = starting.as_mut().poll(cx)
        {
            child.starting = None;
            return Poll::Ready(Event::Spawned(generation.clone(), spawned));
        }
        if let Poll::Ready(report) = poll_reports(child, cx) {
            return Poll::Ready(Event::Report(generation.clone(), report));
        }
    }
    Poll::Pending
}

fn poll_reports(child: &mut Child, cx: &mut Context<'_>) -> Poll<Report> {
    let Some(reports) = &mut child.reports else { return Poll::Pending };
    match reports.poll_recv(cx) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Some(report)) => {
            // It is the last word of a supervisor: what follows is only the end of the channel.
            if report == Report::SupervisorLost {
                child.reports = None;
            }
            Poll::Ready(report)
        }
        Poll::Ready(None) => {
            child.reports = None;
            match child.released {
                true => Poll::Pending,
                // Silence is a loss too: nothing else would ever end the wait.
                false => Poll::Ready(Report::SupervisorLost),
            }
        }
    }
}

fn poll_stored(task: &mut SessionTask, cx: &mut Context<'_>) -> Poll<Event> {
    // Only the oldest is asked: answers are handed to the machine in the order of its units.
    let Some((ticket, submitted)) = task.appends.front_mut() else { return Poll::Pending };
    let Poll::Ready(stored) = submitted.as_mut().poll(cx) else { return Poll::Pending };
    let ticket = *ticket;
    task.appends.pop_front();
    Poll::Ready(Event::Stored(ticket, stored))
}

fn poll_time(task: &mut SessionTask, cx: &mut Context<'_>) -> Poll<Event> {
    if let Some((at, sleep)) = &mut task.timer
        && sleep.as_mut().poll(cx).is_ready()
    {
        let at = *at;
        task.timer = None;
        return Poll::Ready(Event::Deadline(at));
    }
    if let Some(sleep) = &mut task.quit_deadline
        && sleep.as_mut().poll(cx).is_ready()
    {
        task.quit_deadline = None;
        return Poll::Ready(Event::QuitDeadline);
    }
    Poll::Pending
}

fn poll_data(task: &mut SessionTask, cx: &mut Context<'_>) -> Poll<Event> {
    for (generation, child) in &mut task.children {
        if let Some(wrote) = &mut child.wrote
            && let Poll::Ready(wrote) = wrote.poll_recv(cx)
        {
            match wrote {
                Some(wrote) => return Poll::Ready(Event::Wrote(generation.clone(), wrote)),
                None => child.wrote = None,
            }
        }
        // What was read before a pause waits with the rest (rule 1.5.8).
        if child.reading
            && let Some(stdout) = &mut child.stdout
            && let Poll::Ready(chunk) = stdout.poll_recv(cx)
        {
            let generation = generation.clone();
            return Poll::Ready(match chunk {
                Some(chunk) => Event::Stdout(generation, chunk),
                None => {
                    child.stdout = None;
                    Event::StdoutEnd(generation)
                }
            });
        }
        if let Poll::Ready(bytes) = child.poll_stderr(cx) {
            let generation = generation.clone();
            return Poll::Ready(match bytes {
                Some(bytes) => Event::Stderr(generation, bytes),
                None => Event::StderrEnd(generation),
            });
        }
    }
    Poll::Pending
}

fn poll_watchers(task: &mut SessionTask, cx: &mut Context<'_>) -> Poll<Event> {
    let wanted = task.watchers.iter().position(|watcher| watcher.poll_wanted(cx).is_ready());
    wanted.map_or(Poll::Pending, |index| Poll::Ready(Event::Watcher(index)))
}
