//! Persons: they press, send and answer through the person's own client, and see each call answered.

use std::sync::{Arc, Mutex, PoisonError};

use moored::failure::RefusedOperation;
use moored::host::{CallContext, PermissionAnswer, Send, Stop};
use moored::ids::{CallerId, Fence, ItemKey, MessageId, OperationId, SessionId, TurnKey};
use moored::journal::{ItemBody, Resolution, TurnState};
use moored::platform::Watched;

use super::Stage;
use super::clients::Clients;
use super::hosts::{Current, Hosts};
use crate::kernel::SharedKernel;
use crate::scenario::{Act, Changed, NamedTurn};
use crate::witness::{Seen, SharedWitness};

/// A fence that no session of a run gets to.
const NO_FENCE: Fence = Fence(1_000_000);

/// What was asked, so that it can be asked again.
#[derive(Clone)]
enum Asked {
    Answer(PermissionAnswer),
    Close,
    Evict,
    Send(Send),
    Stop(Stop),
}

#[derive(Clone)]
struct Made {
    act: Act,
    session: SessionId,
    context: CallContext,
    asked: Asked,
}

/// Everybody who calls.
pub(super) struct People {
    kernel: SharedKernel,
    witness: SharedWitness,
    hosts: Arc<Hosts>,
    clients: Arc<Clients>,
    sessions: Vec<SessionId>,
    made: Mutex<Vec<Made>>,
    calls: Mutex<usize>,
    /// Calls that are not answered yet.
    waiting: Watched<usize>,
}

impl People {
    pub(super) fn new(stage: &Stage) -> Self {
        Self {
            kernel: Arc::clone(&stage.kernel),
            witness: Arc::clone(&stage.witness),
            hosts: Arc::clone(&stage.hosts),
            clients: Arc::clone(&stage.clients),
            sessions: stage.sessions.clone(),
            made: Mutex::default(),
            calls: Mutex::default(),
            waiting: Watched::new(0),
        }
    }

    /// Does it now. A call is posted before this returns, and answered whenever it is.
    pub(super) async fn act(self: &Arc<Self>, act: &Act) {
        if let Act::Client { client, act } = act {
            return self.clients.act(*client, *act).await;
        }
        // Between two hosts there is nobody to call.
        let Some(current) = self.hosts.current() else { return };
        if let Act::Again { call, changed } = act {
            let made = self.lock().get(*call).cloned();
            if let Some(made) = made {
                let again = matches!(changed, Changed::Nothing | Changed::Call);
                self.post(&current, alter(made, *changed, &current), again);
            }
            return;
        }
        let Some(session) = act.session().and_then(|n| self.sessions.get(n)).cloned() else {
            return;
        };
        let Some(asked) = self.asked(act, &session) else { return };
        let context = current.host.call_context(CallerId::from("person"));
        let made = Made { act: act.clone(), session, context, asked };
        self.lock().push(made.clone());
        self.post(&current, made, false);
    }

    /// Resolves once every call that was made is answered.
    pub(super) async fn all_answered(&self) {
        self.waiting.wait_for(|waiting| *waiting == 0).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self, act: &Act, session: &SessionId) -> Option<Asked> {
        Some(match act {
            Act::Send { message, text, mode, .. } => Asked::Send(Send {
                message_id: MessageId(format!("m{message}")),
                text: format!("m{message}: {text}"),
                mode: *mode,
            }),
            Act::Stop { turn, .. } => Asked::Stop(Stop { turn: self.named(*turn, session) }),
            Act::Answer { option, .. } => Asked::Answer(self.answer(session, *option)?),
            Act::Close { .. } => Asked::Close,
            Act::Evict { .. } => Asked::Evict,
            Act::Again { .. } | Act::Client { .. } => return None,
        })
    }

    /// The turn as far as the person's own client knows.
    fn named(&self, turn: NamedTurn, session: &SessionId) -> Option<TurnKey> {
        let timeline = self.clients.timeline(0, session);
        let mut turns = timeline.items().into_iter().rev().filter_map(|item| match &item.body {
            ItemBody::Turn(turn) => Some((turn.turn.clone(), turn.state == TurnState::Running)),
            _ => None,
        });
        match turn {
            NamedTurn::None => None,
            NamedTurn::Running => turns.find(|(_, runs)| *runs).map(|(turn, _)| turn),
            NamedTurn::Ended => turns.find(|(_, runs)| !*runs).map(|(turn, _)| turn),
            NamedTurn::Unknown => Some(TurnKey::from("a-turn-that-never-was")),
        }
    }

    fn answer(&self, session: &SessionId, option: Option<usize>) -> Option<PermissionAnswer> {
        let timeline = self.clients.timeline(0, session);
        let pending = |item: ItemKey, revision, options: &[moored::journal::ApprovalOption]| {
            let chosen = option.and_then(|n| options.get(n % options.len().max(1)));
            let option = chosen.map(|option| option.id.clone());
            PermissionAnswer { item, expected_revision: revision, option }
        };
        timeline.items().into_iter().find_map(|item| match &item.body {
            ItemBody::Approval(a) if a.resolution == Resolution::Pending => {
                Some(pending(item.item.clone(), item.revision, &a.options))
            }
            _ => None,
        })
    }

    fn post(self: &Arc<Self>, current: &Current, made: Made, again: bool) {
        let call = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            *calls += 1;
            *calls - 1
        };
        let Made { act, session, context, asked } = made;
        let (host, no) = (&current.host, current.no);
        let expects = context.expected_fence;
        let called = Seen::Called { call, host: no, act: &act, session: &session, again, expects };
        self.witness.see(&called);
        self.waiting.update(|waiting| *waiting += 1);
        let message = match &asked {
            Asked::Send(send) => Some(send.message_id.clone()),
            _ => None,
        };
        // Posted here; only the answer is waited for in a task.
        let answer: moored::platform::BoxFuture<Result<(), RefusedOperation>> = match asked {
            Asked::Send(send) => {
                let answer = host.send(&session, send, context);
                Box::pin(async move { answer.await.map(|_| ()) })
            }
            Asked::Stop(stop) => {
                let answer = host.stop(&session, stop, context);
                Box::pin(async move { answer.await.map(|_| ()) })
            }
            Asked::Answer(answered) => {
                let answer = host.answer(&session, answered, context);
                Box::pin(async move { answer.await.map(|_| ()) })
            }
            Asked::Close => {
                let answer = host.close(&session, context);
                Box::pin(async move { answer.await.map(|_| ()) })
            }
            Asked::Evict => {
                let answer = host.evict(&session, context);
                Box::pin(async move { answer.await.map(|_| ()) })
            }
        };
        let people = Arc::clone(self);
        self.kernel.spawn(
            "call",
            Box::pin(async move {
                let answered = answer.await;
                let refused = answered.err().map(|refused| refused.code.name());
                let message = message.as_ref();
                people.witness.see(&Seen::Answered { call, refused, message, session: &session });
                people.waiting.update(|waiting| *waiting -= 1);
            }),
        );
    }
}

/// An earlier call, made again in another way.
fn alter(mut made: Made, changed: Changed, current: &Current) -> Made {
    let fresh = current.host.call_context(CallerId::from("person"));
    match changed {
        Changed::Nothing => {}
        Changed::Call => {
            let session = made.act.session().unwrap_or_default();
            (made.asked, made.act) = match made.asked {
                Asked::Stop(_) => (Asked::Close, Act::Close { session }),
                _ => {
                    let act = Act::Stop { session, turn: NamedTurn::None };
                    (Asked::Stop(Stop { turn: None }), act)
                }
            };
        }
        Changed::Digest => {
            made.context = CallContext { fingerprint: Some("another call".to_owned()), ..fresh };
        }
        Changed::Fence => {
            made.context = CallContext { expected_fence: Some(NO_FENCE), ..fresh };
        }
        Changed::Time => {
            let random = fresh.op.as_str().split_once('-').map_or("", |(_, random)| random);
            let op = OperationId(format!("{:013}-{random}", 1));
            made.context = CallContext { op, ..fresh };
        }
    }
    made
}
