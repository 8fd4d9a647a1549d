//! Starting a child: reserve, spawn, record, handshake, ready (rules 1.2, 1.3, 1.4).

use super::Effect;
use super::append::{Draft, Gate};
use super::child::{Asked, Cause, Child, Opening, Phase};
use super::machine::Session;
use super::record::{Claim, HandleLink, HandleOrigin};
use crate::agent::Reopen;
use crate::coverage::CoverageMark;
use crate::failure::{FailureCode, FailureFact};
use crate::ids::{AgentSessionId, Generation, ItemKey, SpawnToken, key};
use crate::journal::{ChildRow, ItemBody, ItemRow, RowKind, StatusBody, Tone};
use crate::planted::PlantedBug;
use crate::platform::{ChildIdentity, ChildSpec, Moment, SpawnError};
use crate::wire::answer::{Initialize, SessionOpened, VersionAnswer, words};
use crate::wire::write_queue::FrameKind;
use crate::wire::{self, Findings, ReplyOutcome};

/// JSON-RPC code of an agent that wants a sign-in (rule 1.3.3).
const AUTH_REQUIRED: i64 = -32_000;

impl Session {
    /// A fresh generation and token: the lease is reserved under the next fence, before the spawn (rule 6.13.5).
    pub fn handle_minted(&mut self, now: Moment, generation: Generation, token: SpawnToken) {
        if !std::mem::take(&mut self.minting) {
            return;
        }
        debug_assert!(self.child.is_none(), "one child at a time (invariant 1)");
        let start_for = self.next_message();
        if start_for.is_none() || self.refuses_commands().is_some() {
            return;
        }
        let reuses = self.plants(PlantedBug::ReuseTheFence) && self.record.head().is_some();
        let lease = &mut self.record.lease;
        if !reuses {
            lease.fence = lease.fence.next();
        }
        lease.claim = Claim::Reserved;
        lease.token = Some(token.clone());
        lease.owner = None;
        lease.processless = false;
        let fence = lease.fence;
        let spec = self.child_spec(token.clone());
        self.child = Some(Child::reserved(generation.clone(), fence, token, start_for));
        let mut reservation = Draft::default().with_record();
        if self.plants(PlantedBug::SpawnBeforeReservation) {
            self.spawn_reserved(now, generation, spec);
        } else {
            reservation = reservation.gate(Gate::Spawn(generation, Box::new(spec)));
        }
        self.plan(now, reservation);
        self.advance(now);
    }

    /// Launch inputs are always read back from the durable record (rule 1.2.5).
    fn child_spec(&self, token: SpawnToken) -> ChildSpec {
        let agent = &self.record.agent;
        ChildSpec {
            argv: agent.command.clone(),
            cwd: self.record.workspace.clone(),
            set_env: agent.pinned().into_iter().collect(),
            drop_env: agent.drop_env.clone(),
            token,
            ladder: self.policy.ladder.clone().with_eof_grace_ms(agent.eof_grace_ms),
        }
    }

    /// The reservation is durable.
    pub(super) fn spawn_reserved(&mut self, now: Moment, generation: Generation, spec: ChildSpec) {
        let Some(child) = self.child_of(&generation) else {
            return;
        };
        if child.ending.is_some() {
            // Ended before the spawn: nothing ever ran (rule 1.2.3).
            self.sometimes(CoverageMark::SpawnOvertaken);
            self.end_processless(now);
            return;
        }
        child.phase = Phase::Spawning;
        self.effects.push_back(Effect::Spawn { generation, spec });
    }

    /// A reservation that will never be stored has no process and needs no proof.
    pub(super) fn drop_reserved_child(&mut self) {
        if self.phase_is(&Phase::Reserving) {
            self.child = None;
        }
    }

    /// The process exists. Its identity is on disk before the handshake, so that a crash in between leaves an owner that
    /// recovery can end (rule 1.2.1 h).
    pub fn handle_spawned(
        &mut self,
        now: Moment,
        generation: &Generation,
        identity: ChildIdentity,
    ) {
        let closed = self.appends.is_closed();
        let Some(child) = self.child_of(generation) else {
            return;
        };
        debug_assert!(child.phase == Phase::Spawning, "a spawn is answered once");
        child.phase = Phase::Recording;
        child.identity = Some(identity.clone());
        let ending = child.ending.is_some();
        self.record.lease.owner = Some(identity.clone());
        let row = RowKind::Child(ChildRow::Started { generation: generation.clone(), identity });
        let draft = Draft::rows(vec![row]).with_record().gate(Gate::Initialize(generation.clone()));
        self.plan(now, draft);
        if ending || closed {
            self.sometimes(CoverageMark::SpawnedWhileEnding);
            self.end_child_as(now, Cause::Broken);
            self.begin_ladder(now);
        }
        self.advance(now);
    }

    /// There is no process (rule 1.1.5): the reservation is proven unused and can be taken again.
    pub fn handle_spawn_failed(&mut self, now: Moment, generation: &Generation, error: SpawnError) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        if child.failure.is_none() {
            // The refusal's words name a program or a folder, never the host's own state.
            child.failure = Some(FailureFact {
                code: FailureCode::StartFailed,
                detail: Some(error.to_string()),
            });
        }
        self.sometimes(CoverageMark::NeverStarted);
        self.end_processless(now);
        self.advance(now);
    }

    /// The identity is durable: the handshake begins, and the child is published as starting.
    pub(super) fn initialize(&mut self, _now: Moment, generation: &Generation) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        if child.phase != Phase::Recording || child.ending.is_some() {
            return;
        }
        child.phase = Phase::Initializing;
        let id = child.next_request(Asked::Initialize);
        if let Ok(frame) = wire::encode::initialize(id) {
            self.write(frame, FrameKind::Request);
        }
    }

    pub(super) fn handle_initialize_answer(&mut self, now: Moment, outcome: &ReplyOutcome<'_>) {
        if !self.phase_is(&Phase::Initializing) {
            return;
        }
        if let Some(child) = self.child.as_mut() {
            child.answered = true;
        }
        let result = match outcome {
            ReplyOutcome::Result(result) => result,
            ReplyOutcome::Error { message, data, .. } => {
                self.sometimes(CoverageMark::HandshakeRefused);
                let said = words(message, data.as_ref().map(wire::Json::as_str));
                let fact = FailureFact::quoting(FailureCode::ProviderStartFailed, Some(&said));
                return self.fail_start(now, fact);
            }
            ReplyOutcome::Undecodable => {
                return self.fail_start(now, FailureFact::new(FailureCode::ProviderStartFailed));
            }
        };
        let mut findings = Findings::default();
        let answer = Initialize::decode(result.as_str(), &mut findings);
        self.absorb(&findings);
        // The version first: before any session call (rule 1.3.2).
        if answer.protocol_version != VersionAnswer::Accepted {
            self.sometimes(CoverageMark::VersionMismatched);
            let fact =
                FailureFact::quoting(FailureCode::VersionMismatch, Some(&version_words(&answer)));
            return self.fail_start(now, fact);
        }
        if let Some(versions) = &self.record.agent.versions {
            let found = answer.agent_version.as_deref().unwrap_or("no version");
            if !versions.supports(found) {
                let refusal = crate::agent::UnsupportedRelease {
                    name: self.record.agent.name.clone(),
                    from: versions.from.clone(),
                    found: found.chars().take(64).collect(),
                };
                let fact = FailureFact {
                    code: FailureCode::HostUnsupported,
                    detail: Some(refusal.to_string()),
                };
                self.sometimes(CoverageMark::ReleaseUnsupported);
                return self.fail_start(now, fact);
            }
        }
        let opening = self.opening(&answer.capabilities);
        if let Some(child) = self.child.as_mut() {
            child.capabilities = answer.capabilities;
            // The first method that needs no terminal (rule 1.3.3).
            child.auth_method = answer.auth_methods.into_iter().find(|m| !m.terminal).map(|m| m.id);
        }
        self.open_session(opening);
    }

    /// The decision table of rule 7.2.2.
    fn opening(&self, offered: &wire::answer::Capabilities) -> Opening {
        let Some(head) = self.record.head() else {
            return Opening::New { lost: None };
        };
        let session = head.agent_session.clone();
        match (offered.load_session, offered.resume, self.record.agent.reopen) {
            (_, true, Reopen::Resume) | (false, true, Reopen::Load) => Opening::Resume(session),
            (true, _, _) => Opening::Load(session),
            (false, false, _) => Opening::New { lost: self.lost(session) },
        }
    }

    /// What is lost with an agent session that cannot be reopened: nothing, if no turn was ever exchanged (rule 7.3.1).
    fn lost(&self, session: AgentSessionId) -> Option<AgentSessionId> {
        self.plan.latest_turn().is_some().then_some(session)
    }

    fn open_session(&mut self, opening: Opening) {
        let cwd = self.record.workspace.clone();
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let id = child.next_request(Asked::Open);
        let frame = match &opening {
            Opening::New { .. } => wire::encode::session_new(id, &cwd),
            Opening::Resume(session) => wire::encode::session_resume(id, session.as_str(), &cwd),
            Opening::Load(session) => wire::encode::session_load(id, session.as_str(), &cwd),
        };
        child.replaying =
            matches!(opening, Opening::Load(_)) && !self.policy.plants(PlantedBug::RowsFromReplay);
        child.phase = Phase::Opening(opening);
        child.early.clear();
        if let Ok(frame) = frame {
            self.write(frame, FrameKind::Request);
        }
    }

    pub(super) fn handle_open_answer(&mut self, now: Moment, outcome: &ReplyOutcome<'_>) {
        let Some(Phase::Opening(opening)) = self.child.as_ref().map(|c| c.phase.clone()) else {
            return;
        };
        match outcome {
            ReplyOutcome::Result(result) => {
                let mut findings = Findings::default();
                let method = match opening {
                    Opening::New { .. } => "session/new",
                    Opening::Resume(_) => "session/resume",
                    Opening::Load(_) => "session/load",
                };
                let opened = SessionOpened::decode(result.as_str(), method, &mut findings);
                self.absorb(&findings);
                self.link(now, opening, opened.session_id.map(AgentSessionId));
            }
            ReplyOutcome::Error { code: AUTH_REQUIRED, message, data } => {
                let said = words(message, data.as_ref().map(wire::Json::as_str));
                self.sign_in(now, &said);
            }
            ReplyOutcome::Error { message, data, .. } => match opening {
                Opening::Resume(session) | Opening::Load(session) => {
                    // Anything else: a new session, and what is lost is told (rule 7.3.1).
                    self.sometimes(CoverageMark::ReopenLost);
                    let lost = self.lost(session);
                    self.open_session(Opening::New { lost });
                }
                Opening::New { .. } => {
                    self.sometimes(CoverageMark::HandshakeRefused);
                    let said = words(message, data.as_ref().map(wire::Json::as_str));
                    let fact = FailureFact::quoting(FailureCode::ProviderStartFailed, Some(&said));
                    self.fail_start(now, fact);
                }
            },
            ReplyOutcome::Undecodable => {
                self.fail_start(now, FailureFact::new(FailureCode::ProviderStartFailed));
            }
        }
    }

    /// One `authenticate`, one repeat of the session request (rule 1.3.3).
    fn sign_in(&mut self, now: Moment, said: &str) {
        let fact = FailureFact::quoting(FailureCode::NotSignedIn, Some(said));
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let Some(method) = child.auth_method.clone().filter(|_| !child.authenticated) else {
            self.sometimes(CoverageMark::SignInMissing);
            return self.fail_start(now, fact);
        };
        child.authenticated = true;
        child.phase = Phase::Authenticating;
        let id = child.next_request(Asked::Authenticate);
        match wire::encode::authenticate(id, &method) {
            Ok(frame) => self.write(frame, FrameKind::Request),
            Err(_) => self.fail_start(now, fact),
        }
    }

    pub(super) fn handle_authenticate_answer(&mut self, now: Moment, outcome: &ReplyOutcome<'_>) {
        if !self.phase_is(&Phase::Authenticating) {
            return;
        }
        if let ReplyOutcome::Error { message, data, .. } = outcome {
            let said = words(message, data.as_ref().map(wire::Json::as_str));
            let fact = FailureFact::quoting(FailureCode::NotSignedIn, Some(&said));
            self.sometimes(CoverageMark::SignInMissing);
            return self.fail_start(now, fact);
        }
        self.sometimes(CoverageMark::SignedIn);
        let Some(child) = self.child.as_ref() else {
            return;
        };
        let opening = self.opening(&child.capabilities);
        self.open_session(opening);
    }

    /// The agent's session is open: the link is on disk before the child is ready (rule 7.1.5).
    fn link(&mut self, now: Moment, opening: Opening, answered: Option<AgentSessionId>) {
        let (session, origin, lost) = match opening {
            Opening::New { lost } => match answered {
                Some(session) => (session, HandleOrigin::Created, lost),
                // Without an id there is nothing to prompt or to reopen.
                None => {
                    return self
                        .fail_start(now, FailureFact::new(FailureCode::ProviderStartFailed));
                }
            },
            // A result without an id is success (R15); one that names another session is a fork (rule 7.1.3).
            Opening::Resume(ref session) | Opening::Load(ref session) => {
                if answered.is_some_and(|a| a != *session) {
                    self.sometimes(CoverageMark::ForkRefused);
                    return self
                        .fail_start(now, FailureFact::new(FailureCode::ProviderStartFailed));
                }
                self.sometimes(match opening {
                    Opening::Load(_) => CoverageMark::Loaded,
                    _ => CoverageMark::Resumed,
                });
                (session.clone(), HandleOrigin::Resumed, None)
            }
        };
        let link = HandleLink {
            agent_session: session.clone(),
            origin,
            fence: self.record.lease.fence,
            observed_ms: now.wall_ms,
            replaces: lost.clone(),
        };
        let forgets = link.replaces.is_some() && self.plants(PlantedBug::ForgetTheNewHandle);
        if !forgets && !self.record.link(link) {
            return self.fail_start(now, FailureFact::new(FailureCode::HostFault));
        }
        self.record.lease.claim = Claim::Live;
        let Some(child) = self.child.as_mut() else {
            return;
        };
        child.phase = Phase::Linking;
        child.agent_session = Some(session);
        let generation = child.generation.clone();
        let rows = lost.map(|lost| not_restored(&lost)).into_iter().collect();
        self.plan(now, Draft::rows(rows).with_record().gate(Gate::Ready(generation)));
    }

    /// The link is durable. A late answer after a close never makes a child ready (rule 1.3.7).
    pub(super) fn become_ready(&mut self, now: Moment, generation: &Generation) {
        let Some(child) = self.child_of(generation) else {
            return;
        };
        if child.phase != Phase::Linking || child.ending.is_some() {
            self.sometimes(CoverageMark::ReadyOvertaken);
            return;
        }
        child.phase = Phase::Ready;
        let early = std::mem::take(&mut child.early);
        if !early.is_empty() {
            self.sometimes(CoverageMark::EarlyFramesKept);
        }
        for event in early {
            self.handle_event(now, event);
        }
    }

    /// The handshake failed: the process is ended as not requested, and told at its proven end (rule 1.4.1).
    pub(super) fn fail_start(&mut self, now: Moment, fact: FailureFact) {
        if let Some(child) = self.child.as_mut() {
            child.failure.get_or_insert(fact);
        }
        self.end_child_as(now, Cause::AttachFailed);
        self.begin_ladder(now);
    }

    pub(super) fn absorb(&mut self, findings: &Findings) {
        if let Some(child) = self.child.as_mut() {
            child.decoder.absorb(&findings.quirks);
            for _ in &findings.defects {
                child.defects.count(super::defects::Fault::Wire);
            }
        }
    }
}

/// The one row that tells what the agent no longer remembers (rule 7.3.1e).
fn not_restored(lost: &AgentSessionId) -> RowKind {
    let fact = FailureFact::new(FailureCode::NotRestored);
    RowKind::Item(ItemRow {
        item: ItemKey(key(&["lost", lost.as_str()])),
        revision: 1,
        scope: None,
        body: ItemBody::Status(StatusBody {
            tone: Tone::Warning,
            text: fact.sentence(),
            fact: Some(fact),
        }),
    })
}

fn version_words(answer: &Initialize) -> String {
    match &answer.protocol_version {
        VersionAnswer::Other(version) => format!("protocol version {version}"),
        _ => "no protocol version".to_owned(),
    }
}
