//! The handle an embedder holds.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::feed::feed;
use super::host_task::Call;
use super::{CALLS_KEPT_FOR_STOPS, HostLimits, StatusStream, Watch, hex_id};
use crate::failure::{RefusalCode, RefusedOperation};
use crate::host::{CallContext, Command, NewSession, PermissionAnswer, Send, Stop};
use crate::ids::{CallerId, EpochId, OperationId, SessionId};
use crate::journal::{EndedAnswer, ItemKeyAnswer, Snapshot};
use crate::platform::{SharedPlatform, Watched};
use crate::session::{Accepted, Answer, StopAnswer};
use crate::status::Summary;

/// A host of agent sessions.
///
/// Cheap to clone and usable from any thread. A call is posted when its method is called, not when its future is first
/// polled; calls of one handle reach a session in the order in which they were made. Dropping a future gives up the
/// answer and nothing else: what was posted is neither undone nor done twice, and the same operation id asked again
/// gets the answer. The futures need no runtime of the caller's.
///
/// [`Host::shutdown`] ends every child and waits. Dropping the last handle begins the same and waits for nothing: on a
/// thread of the host's own it finishes by itself; a process that exits meanwhile leaves the children's ends to their
/// supervisors.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    calls: mpsc::Sender<Call>,
    platform: SharedPlatform,
    limits: HostLimits,
    ended: Watched<Option<Vec<SessionId>>>,
    #[cfg(feature = "native")]
    thread: super::thread::HostThread,
}

/// Sessions whose agents could not be proven ended when the host shut down (rule 1.8.5). Their supervisors go on by
/// themselves, and the next host takes the proof up again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agents of {} sessions could not be proven ended", sessions.len())]
pub struct Unproven {
    /// Which.
    pub sessions: Vec<SessionId>,
}

impl Host {
    pub(super) fn new(
        calls: mpsc::Sender<Call>,
        platform: SharedPlatform,
        limits: HostLimits,
        ended: Watched<Option<Vec<SessionId>>>,
        #[cfg(feature = "native")] thread: super::thread::HostThread,
    ) -> Self {
        let inner = Inner {
            calls,
            platform,
            limits,
            ended,
            #[cfg(feature = "native")]
            thread,
        };
        Self { inner: Arc::new(inner) }
    }

    /// What a mutating call carries: a fresh operation id of this moment, and the fence that is current.
    pub fn call_context(&self, caller: CallerId) -> CallContext {
        let platform = self.inner.platform.as_ref();
        // Thirteen digits last until the year 2286 (rule 5.10.1).
        let op = OperationId(format!("{:013}-{}", platform.wall_ms(), hex_id(platform)));
        CallContext { op, caller, expected_fence: None, fingerprint: None }
    }

    /// A fresh id, `<prefix>-<32 hex>`: for sessions, messages and callers.
    pub fn mint_id(&self, prefix: &str) -> String {
        format!("{prefix}-{}", hex_id(self.inner.platform.as_ref()))
    }

    /// Makes a session; answered once it is durable. No agent is started before the first send.
    pub fn create(
        &self,
        new: NewSession,
        context: CallContext,
    ) -> impl Future<Output = Result<(), RefusedOperation>> + std::marker::Send + use<> {
        let session = new.id.clone();
        let epoch = EpochId(hex_id(self.inner.platform.as_ref()));
        let command = Command::Create { new: Box::new(new), epoch };
        let answer = self.command(&session, command, context);
        async move {
            match answer.await? {
                Answer::Created(result) => result,
                _ => Err(mismatched()),
            }
        }
    }

    /// Sends a message; answered once it is on the host's disk.
    pub fn send(
        &self,
        session: &SessionId,
        send: Send,
        context: CallContext,
    ) -> impl Future<Output = Result<Accepted, RefusedOperation>> + std::marker::Send + use<> {
        let answer = self.command(session, Command::Send(send), context);
        async move {
            match answer.await? {
                Answer::Sent(result) => result,
                _ => Err(mismatched()),
            }
        }
    }

    /// Presses Stop. Legal in every state; the same operation asked again stops nothing (rule 3.1.3).
    pub fn stop(
        &self,
        session: &SessionId,
        stop: Stop,
        context: CallContext,
    ) -> impl Future<Output = Result<StopAnswer, RefusedOperation>> + std::marker::Send + use<>
    {
        let answer = self.command(session, Command::Stop(stop), context);
        async move {
            match answer.await? {
                Answer::Stopped(result) => result,
                _ => Err(mismatched()),
            }
        }
    }

    /// Answers a permission request.
    pub fn answer(
        &self,
        session: &SessionId,
        answer: PermissionAnswer,
        context: CallContext,
    ) -> impl Future<Output = Result<ItemKeyAnswer, RefusedOperation>> + std::marker::Send + use<>
    {
        let answer = self.command(session, Command::Answer(answer), context);
        async move {
            match answer.await? {
                Answer::Answered(result) => result,
                _ => Err(mismatched()),
            }
        }
    }

    /// Closes a session for good; answered with how its child ended. An end that is not proven leaves the session
    /// listed, and the next close takes the proof up again (rule 7.9.1).
    pub fn close(
        &self,
        session: &SessionId,
        context: CallContext,
    ) -> impl Future<Output = Result<EndedAnswer, RefusedOperation>> + std::marker::Send + use<>
    {
        let answer = self.command(session, Command::Close, context);
        async move {
            match answer.await? {
                Answer::Closed(result) => result,
                _ => Err(mismatched()),
            }
        }
    }

    /// Lets a session's child go and keeps the session. Answered at once, with whether it ended work; the summary says when
    /// the child is gone. A turn that runs is cut: it is the host that ends it, so it reads interrupted, not stopped by a
    /// person, and never "Stopping..." (rules 3.4.9, 3.10). What waits, and the next message, start another child.
    pub fn evict(
        &self,
        session: &SessionId,
        context: CallContext,
    ) -> impl Future<Output = Result<StopAnswer, RefusedOperation>> + std::marker::Send + use<>
    {
        let answer = self.command(session, Command::Evict, context);
        async move {
            match answer.await? {
                Answer::Stopped(result) => result,
                _ => Err(mismatched()),
            }
        }
    }

    /// A session's whole timeline, as far as it is durable.
    pub fn snapshot(
        &self,
        session: &SessionId,
    ) -> impl Future<Output = Result<Snapshot, RefusedOperation>> + std::marker::Send + use<> {
        let (reply, answer) = oneshot::channel();
        let posted = self.post(Call::Snapshot { session: session.clone(), reply });
        async move {
            posted?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
    }

    /// A session's timeline from now on: the whole of it, then what each commit changes. Of a session that is not
    /// there, an `End`.
    pub fn watch(&self, session: &SessionId) -> Watch {
        let (feed, tap) = feed(self.inner.limits.watch_frames_max);
        // Refused, the feed is dropped, and the watch reads its end.
        let _ = self.post(Call::Watch { session: session.clone(), feed });
        Watch::new(tap)
    }

    /// The summaries of all sessions from now on (rule 4.4.4).
    pub fn subscribe(&self) -> StatusStream {
        let (feed, tap) = feed(self.inner.limits.status_frames_max);
        let _ = self.post(Call::Subscribe(feed));
        StatusStream::new(tap)
    }

    /// The summaries of all sessions, by id.
    pub fn statuses(
        &self,
    ) -> impl Future<Output = Result<Vec<Summary>, RefusedOperation>> + std::marker::Send + use<>
    {
        let (reply, answer) = oneshot::channel();
        let posted = self.post(Call::Statuses(reply));
        async move {
            posted?;
            answer.await.map_err(|_| gone())
        }
    }

    /// Ends every child at the same time, waits until each session is at rest, and ends the host. May be called again,
    /// and from several handles: all of them get the same answer. Calls made from here on are refused.
    pub async fn shutdown(&self) -> Result<(), Unproven> {
        // A host that is gone already has left its answer.
        let _ = self.inner.calls.send(Call::Shutdown).await;
        let sessions = self.inner.ended.wait_for(Option::is_some).await.unwrap_or_default();
        #[cfg(feature = "native")]
        self.inner.thread.join().await;
        match sessions.is_empty() {
            true => Ok(()),
            false => Err(Unproven { sessions }),
        }
    }

    #[cfg(feature = "native")]
    pub(super) fn ended(&self) -> Watched<Option<Vec<SessionId>>> {
        self.inner.ended.clone()
    }

    fn command(
        &self,
        session: &SessionId,
        command: Command,
        context: CallContext,
    ) -> impl Future<Output = Result<Answer, RefusedOperation>> + std::marker::Send + use<> {
        let (reply, answer) = oneshot::channel();
        let full = !command.ends_something() && self.inner.calls.capacity() <= CALLS_KEPT_FOR_STOPS;
        let call = Call::Command { session: session.clone(), context, command, reply };
        let posted = match full {
            true => Err(RefusedOperation::new(RefusalCode::QueueFull)),
            false => self.post(call),
        };
        async move {
            posted?;
            answer.await.map_err(|_| gone())
        }
    }

    fn post(&self, call: Call) -> Result<(), RefusedOperation> {
        self.inner.calls.try_send(call).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => RefusedOperation::new(RefusalCode::QueueFull),
            mpsc::error::TrySendError::Closed(_) => gone(),
        })
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

fn gone() -> RefusedOperation {
    RefusedOperation::new(RefusalCode::Quitting)
}

/// A session that answers a call with another call's answer would be a fault of ours; the caller still gets an answer.
fn mismatched() -> RefusedOperation {
    debug_assert!(false, "every call is answered in its own kind");
    RefusedOperation::new(RefusalCode::SessionClosed)
}
