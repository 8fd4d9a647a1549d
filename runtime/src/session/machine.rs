//! Skeleton.
#![allow(unused_variables, missing_docs)]

use super::record::SessionRecord;
use super::settings::Policy;
use super::{Effect, Operation, Ticket};
use crate::host::{PermissionAnswer, Send, Stop};
use crate::ids::{Fence, Generation, SpawnToken};
use crate::journal::{Snapshot, StopReason};
use crate::platform::{ChildIdentity, Moment, Mono, Report, SpawnError};
use crate::status::Summary;
use crate::store::{Refusal, StoredRows};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {}

impl Session {
    /// A new session; its creation is answered once it is durable.
    pub fn create(
        policy: Policy,
        record: SessionRecord,
        operation: Operation,
        now: Moment,
    ) -> Self {
        unimplemented!()
    }
    /// A session of an earlier host, from what is stored. Settles what that host left (rule 6.11); starts no child.
    pub fn restore(policy: Policy, record: SessionRecord, stored: StoredRows, now: Moment) -> Self {
        unimplemented!()
    }

    pub fn record(&self) -> &SessionRecord {
        unimplemented!()
    }
    pub fn fence(&self) -> Fence {
        unimplemented!()
    }
    /// The durable timeline.
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
    pub fn summary(&self, now: Moment) -> Summary {
        unimplemented!()
    }
    /// A child exists, or its end is not proven.
    pub fn has_child(&self) -> bool {
        unimplemented!()
    }
    /// No child, nothing waiting to become durable.
    pub fn is_at_rest(&self) -> bool {
        unimplemented!()
    }
    pub fn poll_deadline(&self) -> Option<Mono> {
        unimplemented!()
    }
    pub fn poll_effect(&mut self) -> Option<Effect> {
        unimplemented!()
    }
    pub fn invariants(&self) {
        unimplemented!()
    }

    pub fn handle_deadline(&mut self, now: Moment) {
        unimplemented!()
    }
    pub fn handle_minted(&mut self, now: Moment, generation: Generation, token: SpawnToken) {
        unimplemented!()
    }
    pub fn handle_spawned(
        &mut self,
        now: Moment,
        generation: &Generation,
        identity: ChildIdentity,
    ) {
        unimplemented!()
    }
    pub fn handle_spawn_failed(&mut self, now: Moment, generation: &Generation, error: SpawnError) {
        unimplemented!()
    }
    pub fn handle_stdout(&mut self, now: Moment, generation: &Generation, bytes: &[u8]) {
        unimplemented!()
    }
    pub fn handle_stdout_end(&mut self, now: Moment, generation: &Generation) {
        unimplemented!()
    }
    pub fn handle_stderr(&mut self, now: Moment, generation: &Generation, bytes: &[u8]) {
        unimplemented!()
    }
    /// Bytes of frames that left for the pipe.
    pub fn handle_written(&mut self, now: Moment, generation: &Generation, bytes: usize) {
        unimplemented!()
    }
    pub fn handle_write_failed(&mut self, now: Moment, generation: &Generation) {
        unimplemented!()
    }
    pub fn handle_report(&mut self, now: Moment, generation: &Generation, report: Report) {
        unimplemented!()
    }
    pub fn handle_durable(&mut self, now: Moment, ticket: Ticket) {
        unimplemented!()
    }
    pub fn handle_refused(&mut self, now: Moment, ticket: Ticket, refusal: Refusal) {
        unimplemented!()
    }

    pub fn send(&mut self, now: Moment, operation: Operation, send: Send) {
        unimplemented!()
    }
    pub fn stop(&mut self, now: Moment, operation: Operation, stop: Stop) {
        unimplemented!()
    }
    pub fn answer(&mut self, now: Moment, operation: Operation, answer: PermissionAnswer) {
        unimplemented!()
    }
    pub fn close(&mut self, now: Moment, operation: Operation) {
        unimplemented!()
    }
    /// The host ends the child (quit: `HostStop`); no answer, watch `has_child`.
    pub fn end_child(&mut self, now: Moment, reason: StopReason) {
        unimplemented!()
    }
}
