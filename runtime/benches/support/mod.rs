//! A session whose agent works, played by hand.
#![allow(dead_code, reason = "each bench uses its own part of it")]
use std::hint::black_box;

use moored::agent::AgentDefinition;
use moored::host::Send;
use moored::ids::{CallerId, EpochId, Generation, MessageId, OperationId, SessionId, SpawnToken};
use moored::journal::SendMode;
use moored::platform::{ChildIdentity, Moment, Mono, ProcessIdentity, ProofKind};
use moored::session::record::{Lease, SessionRecord};
use moored::session::{CallId, Effect, Operation, Policy, Session};
use moored::store::Unit;

pub fn record() -> SessionRecord {
    SessionRecord {
        session: SessionId::from("s1"),
        revision: 0,
        epoch: EpochId::from("e1"),
        created_ms: 1_000,
        agent: AgentDefinition::generic(vec!["agent".to_owned()]),
        workspace: "/work".to_owned(),
        lease: Lease::default(),
        handles: Vec::new(),
        closed: false,
        name: None,
    }
}

pub fn operation(n: u64) -> Operation {
    Operation {
        call: CallId(n),
        op: OperationId(format!("{n:013}-{n:032x}")),
        caller: CallerId::from("bench"),
        fingerprint: String::new(),
    }
}

/// A session whose agent works, with a store that commits at once.
pub struct Working {
    pub session: Session,
    pub now: Moment,
    pub generation: Generation,
    pub commits: u64,
}

impl Working {
    /// Each unit of the start goes through `store`.
    pub fn new(mut store: impl FnMut(Unit)) -> Self {
        let now = Moment { mono: Mono::from_ms(1_000), wall_ms: 1_000 };
        let session = Session::create(Policy::default(), record(), operation(0), now);
        let generation = Generation::from("g1");
        let mut working = Self { session, now, generation, commits: 0 };
        working.settle_with(&mut store);
        let text = "hello".to_owned();
        let send = Send { message_id: MessageId::from("m1"), text, mode: SendMode::AfterTurn };
        working.session.send(now, operation(1), send);
        working.settle_with(&mut store);
        working.says(&mut store, br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
        working.says(&mut store, br#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
        working
    }

    fn says(&mut self, store: &mut impl FnMut(Unit), line: &[u8]) {
        self.session.handle_stdout(self.now, &self.generation, line);
        self.session.handle_stdout(self.now, &self.generation, b"\n");
        self.settle_with(store);
    }

    pub fn settle(&mut self) {
        self.settle_with(&mut |unit| drop(black_box(unit)));
    }

    fn settle_with(&mut self, store: &mut impl FnMut(Unit)) {
        while let Some(effect) = self.session.poll_effect() {
            match effect {
                Effect::Append { ticket, unit } => {
                    self.commits += 1;
                    store(*unit);
                    self.session.handle_durable(self.now, ticket);
                }
                Effect::Mint => {
                    let (generation, token) = (self.generation.clone(), SpawnToken::from("t1"));
                    self.session.handle_minted(self.now, generation, token);
                }
                Effect::Spawn { generation, .. } => {
                    let identity = ChildIdentity {
                        root: ProcessIdentity { pid: 7, start: 7 },
                        supervisor: None,
                        boot: "boot".to_owned(),
                        proof: ProofKind::Subreaper,
                    };
                    self.session.handle_spawned(self.now, &generation, identity);
                }
                Effect::Write { generation, frame } => {
                    self.session.handle_written(self.now, &generation, frame.0.len());
                }
                Effect::Commit(batch) => drop(black_box(batch)),
                other => drop(black_box(other)),
            }
        }
    }
}

pub fn chunk_line(update: &str) -> Vec<u8> {
    let line = |text: &str| {
        format!(
            concat!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","#,
                r#""update":{{"sessionUpdate":"{}","content":{{"type":"text","text":"{}"}}}}}}}}"#
            ),
            update, text
        )
    };
    let text = "a".repeat(215 - line("").len());
    format!("{}\n", line(&text)).into_bytes()
}
