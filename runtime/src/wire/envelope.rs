//! The JSON-RPC envelope: which kind of frame an object is, with every tolerance of the wire
//! counted.
use std::borrow::Cow;

use super::event::{Event, Json, ReplyOutcome};
use super::findings::{Defect, Findings, Quirk};
use super::ids::{IdError, RequestId, own_id};
use super::json::{Cursor, Fault, NESTING_MAX, View, take_last};
use super::skim::Outline;
use super::update::Body;
use super::{permission, update};

/// JSON-RPC: the request is none.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC: what an error without a code reads as.
pub(super) const INTERNAL_ERROR: i64 = -32603;

/// The outermost members of a frame.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    jsonrpc: Option<View<'a>>,
    id: Option<View<'a>>,
    method: Option<View<'a>>,
    params: Option<View<'a>>,
    result: Option<View<'a>>,
    error: Option<View<'a>>,
}

/// Reads the object under the cursor and steps over it.
pub(super) fn read<'a>(
    cursor: &mut Cursor<'a>,
    findings: &mut Findings,
) -> Result<Envelope<'a>, Fault> {
    let mut envelope = Envelope::default();
    let mut open = cursor.eat(b'{');
    debug_assert!(open, "the caller saw the opening brace");
    cursor.space();
    if cursor.eat(b'}') {
        return Ok(envelope);
    }
    while open {
        cursor.space();
        let name = cursor.member_name()?.text();
        let value = cursor.value(1)?;
        let slot = match name.as_ref() {
            "jsonrpc" => Some(&mut envelope.jsonrpc),
            "id" => Some(&mut envelope.id),
            "method" => Some(&mut envelope.method),
            "params" => Some(&mut envelope.params),
            "result" => Some(&mut envelope.result),
            "error" => Some(&mut envelope.error),
            _ => None,
        };
        if let Some(slot) = slot {
            take_last(slot, value, findings);
        }
        cursor.space();
        open = cursor.eat(b',');
    }
    if cursor.eat(b'}') { Ok(envelope) } else { Err(Fault::Malformed) }
}

impl<'a> Envelope<'a> {
    /// The one event of this frame; `None` if it has no JSON-RPC shape or nothing but findings came
    /// of it.
    pub(super) fn event(self, findings: &mut Findings) -> Option<Event<'a>> {
        self.version(findings);
        let id = self.id.filter(|id| !id.is_null());
        let error = self.error.filter(|error| !error.is_null());
        if self.is_reply() {
            return match id {
                Some(id) => self.reply(id, findings),
                None => {
                    let code = error.and_then(|error| error_code(error, findings));
                    findings.defect(Defect::ReplyWithoutId { code });
                    None
                }
            };
        }
        let method = self.method.and_then(View::text);
        match (method, self.id) {
            (Some(method), None) => self.notification(method, findings),
            (Some(method), Some(id)) => self.request(id, method, findings),
            (None, _) => {
                // The agent waits for an answer to something that is no request: it gets one.
                let id = request_id(self.id?, findings)?;
                Some(Event::InvalidRequest { id, code: INVALID_REQUEST })
            }
        }
    }

    /// True for an object that means something on this wire.
    pub(super) fn has_shape(&self) -> bool {
        let named = self.method.is_some_and(|method| method.quoted().is_some());
        named || self.is_reply() || (self.method.is_some() && self.id.is_some())
    }

    /// An answer, a bare error, or an id that claims to be JSON-RPC: agents drop a result that is
    /// undefined.
    fn is_reply(&self) -> bool {
        let answered = self.result.is_some() || self.error.is_some();
        if self.id.is_some() {
            answered || (self.method.is_none() && self.jsonrpc.is_some())
        } else {
            answered && self.method.is_none()
        }
    }

    fn version(&self, findings: &mut Findings) {
        match self.jsonrpc {
            None => findings.quirk(Quirk::MissingJsonrpc),
            Some(version) if version.token() != "\"2.0\"" => findings.quirk(Quirk::OddJsonrpc),
            Some(_) => {}
        }
    }

    fn reply(self, id: View<'a>, findings: &mut Findings) -> Option<Event<'a>> {
        let Some((id, quirk)) = own_id(id) else {
            findings.defect(Defect::ForeignReply);
            return None;
        };
        if let Some(quirk) = quirk {
            findings.quirk(quirk);
        }
        if self.method.is_some() {
            findings.quirk(Quirk::MethodInReply);
        }
        Some(Event::Reply { id, outcome: self.outcome(findings) })
    }

    fn outcome(self, findings: &mut Findings) -> ReplyOutcome<'a> {
        let null_error = self.error.is_some_and(View::is_null);
        if null_error {
            findings.quirk(Quirk::NullErrorBesideResult);
        }
        match (self.error.filter(|_| !null_error), self.result) {
            (Some(error), result) => {
                match result {
                    Some(result) if result.is_null() => {
                        findings.quirk(Quirk::NullResultBesideError);
                    }
                    // A failure must never read as success, so the error counts.
                    Some(_) => findings.defect(Defect::ResultBesideError),
                    None => {}
                }
                error_outcome(error, findings)
            }
            (None, Some(result)) => ReplyOutcome::Result(Json::borrowed(result.token())),
            (None, None) => {
                findings.quirk(Quirk::MissingResult);
                ReplyOutcome::Result(Json::borrowed("null"))
            }
        }
    }

    fn params(&self, findings: &mut Findings) -> Option<View<'a>> {
        if self.params.is_some_and(View::is_null) {
            findings.quirk(Quirk::NullParams);
        }
        self.params.filter(|params| !params.is_null())
    }

    fn request(
        self,
        id: View<'a>,
        method: Cow<'a, str>,
        findings: &mut Findings,
    ) -> Option<Event<'a>> {
        let id = request_id(id, findings)?;
        let params = self.params(findings);
        let typed = params
            .filter(|params| params.is_object() && method == "session/request_permission")
            .map(|params| Box::new(permission::read(params, findings)));
        let params = params.map(|params| Json::borrowed(params.token()));
        Some(Event::Request { id, method, params, typed })
    }

    fn notification(self, method: Cow<'a, str>, findings: &mut Findings) -> Option<Event<'a>> {
        let params = self.params(findings);
        if method != "session/update" {
            let params = params.map(|params| Json::borrowed(params.token()));
            return Some(Event::Notification { method, params });
        }
        let update::SessionUpdate { session, body } = update::read(params, findings);
        match (body, session) {
            (Body::Absent, _) => None,
            (Body::Text { role, text, message_id }, Some(session)) => {
                Some(Event::TextChunk { session, role, text, message_id })
            }
            (Body::Text { .. }, None) => {
                unreachable!("update::read types a text only when it names its session")
            }
            (Body::Typed(update), session) => Some(Event::Update { session, update }),
        }
    }
}

/// What must still be said about a frame that cannot be decoded: a reply settles, a whole request
/// is answered.
pub(super) fn salvage(outline: &Outline, code: i64) -> Option<Event<'static>> {
    let id = View::parse(outline.id.as_deref()?).ok()?;
    if outline.has_answer {
        let (id, _) = own_id(id)?;
        return Some(Event::Reply { id, outcome: ReplyOutcome::Undecodable });
    }
    if !(outline.has_method && outline.closed) {
        return None;
    }
    Some(Event::InvalidRequest { id: RequestId::read(id).ok()?, code })
}

/// The defect of a frame that could not be read, if it was meant as one.
pub(super) fn defect_of(fault: Fault, outline: &Outline, bytes: usize) -> Option<Defect> {
    match fault {
        Fault::TooDeep => Some(Defect::NestingTooDeep { limit: NESTING_MAX }),
        Fault::Malformed if outline.has_jsonrpc => Some(Defect::BrokenFrame { bytes }),
        Fault::Malformed => None,
    }
}

fn request_id(id: View<'_>, findings: &mut Findings) -> Option<RequestId> {
    let fault = match RequestId::read(id) {
        Ok(id) => return Some(id),
        Err(IdError::Null) => Defect::NullRequestId,
        Err(IdError::TooLong | IdError::WrongType) => Defect::UnusableRequestId,
    };
    findings.defect(fault);
    None
}

fn error_outcome<'a>(error: View<'a>, findings: &mut Findings) -> ReplyOutcome<'a> {
    if let Some(message) = error.text() {
        findings.quirk(Quirk::ErrorAsText);
        return ReplyOutcome::Error { code: INTERNAL_ERROR, message, data: None };
    }
    if !error.is_object() {
        return ReplyOutcome::Undecodable;
    }
    let code = error_code(error, findings).unwrap_or_else(|| {
        findings.quirk(Quirk::ErrorWithoutCode);
        INTERNAL_ERROR
    });
    let message = update::member(error, "message", findings).and_then(View::text);
    let message = message.unwrap_or_else(|| {
        findings.quirk(Quirk::ErrorWithoutMessage);
        Cow::Borrowed("")
    });
    let data = update::member(error, "data", findings).filter(|data| !data.is_null());
    ReplyOutcome::Error { code, message, data: data.map(|data| Json::borrowed(data.token())) }
}

fn error_code(error: View<'_>, findings: &mut Findings) -> Option<i64> {
    let code = update::member(error, "code", findings)?;
    let whole = code.token().parse::<i64>().ok();
    if whole.is_none_or(|code| i32::try_from(code).is_err()) && code.is_number() {
        findings.quirk(Quirk::CodeOutOfRange);
    }
    // The cast saturates: a code beyond 64 bits keeps its sign and stays no known code.
    whole.or_else(|| code.number().map(|code| code as i64))
}
