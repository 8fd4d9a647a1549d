//! One connection: requests in, planned answers out.

use std::io::{self, BufReader};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::conversation::{Api, Conversation};
use super::http::{self, Request, RequestError};
use super::plan::{Ending, Plan, Speech, Step, error_body};
use super::record::Outcome;
use super::scenario::Marker;
use super::{Shared, dialect, locked};

/// How often a pause looks again when the client has sent bytes ahead: they hide a hang-up from
/// `peek`.
const PIPELINED_REST: Duration = Duration::from_millis(10);

/// Serves a connection until either side ends it.
pub fn serve(stream: &TcpStream, shared: &Shared) {
    // Small chunks must leave at once: their timing is what is tested.
    stream.set_nodelay(true).ok();
    let mut reader = BufReader::new(stream);
    loop {
        let answered = match Request::read(&mut reader) {
            Ok(Some(request)) => Answer { stream, shared }.request(&request),
            Ok(None) | Err(RequestError::Connection(_)) => return,
            Err(RequestError::Refused(status)) => {
                let body = error_body(Api::Chat, status, "the request cannot be read").to_string();
                // The last word on this connection; whether it arrives is the client's affair.
                http::write_whole(&mut &*stream, status, &[json_type()], &body).ok();
                return;
            }
        };
        if !matches!(answered, Ok(Connection::Reusable)) || shared.stopping() {
            return;
        }
    }
}

/// What is left of a connection after an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Connection {
    Over,
    Reusable,
}

struct Answer<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
}

impl Answer<'_> {
    fn request(&self, request: &Request) -> io::Result<Connection> {
        let target = format!("{} {}", request.method, request.target);
        let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let conversation =
            Conversation::read(&request.target, &body).filter(|_| request.method == "POST");
        let Some(conversation) = conversation else { return self.other(target, request) };
        let read = Marker::in_message(conversation.last_user_text());
        let marker = read.as_ref().map_or("", |marker| &marker.written);
        let number = locked(&self.shared.log).open(target, marker, Some(&conversation));
        let plan = match read {
            Ok(marker) if self.shared.spends(&marker) => Plan::new(marker.spent(), &conversation),
            Ok(marker) => Plan::new(marker, &conversation),
            Err(error) => Plan::unreadable(error.to_string()),
        };
        let answered = self.plan(&plan, &conversation);
        let outcome = match (&plan, &answered) {
            (_, Err(_)) => Outcome::ClientGone,
            (Plan::Http { status, .. }, _) => Outcome::Refused { status: *status },
            (Plan::Speech(Speech { ending: Ending::Reset, .. }), _) => Outcome::Reset,
            _ => Outcome::Answered,
        };
        locked(&self.shared.log).close(number, outcome);
        answered
    }

    /// What is asked beside conversations.
    fn other(&self, target: String, request: &Request) -> io::Result<Connection> {
        let number = locked(&self.shared.log).open(target, "", None);
        let path = request.target.split('?').next().unwrap_or_default();
        let (status, body) = match request.method.as_str() {
            "GET" if path.ends_with("/models") => (200, model_list()),
            "POST" if path.ends_with(":countTokens") => (200, json!({"totalTokens": 10})),
            // Also what a sandboxed agent meets that asks for the outer world: the stub is its
            // proxy.
            _ => (403, error_body(Api::Chat, 403, "the stub model serves only a model")),
        };
        let answered = self.whole(status, &[], &body);
        let outcome = if status == 200 { Outcome::Answered } else { Outcome::Refused { status } };
        locked(&self.shared.log).close(number, outcome);
        answered
    }

    fn plan(&self, plan: &Plan, conversation: &Conversation) -> io::Result<Connection> {
        match plan {
            Plan::Garbage => {
                let html = [("content-type", "text/html".to_owned())];
                http::write_whole(
                    &mut &*self.stream,
                    200,
                    &html,
                    "<html>not an event stream</html>",
                )?;
                Ok(Connection::Reusable)
            }
            Plan::Http { message, retry_after_s, status } => {
                let retry = retry_after_s.map(|seconds| ("retry-after", seconds.to_string()));
                let body = error_body(conversation.api, *status, message);
                self.whole(*status, retry.as_slice(), &body)
            }
            Plan::Silence { ms } => self.rest(*ms).map(|()| Connection::Over),
            Plan::Speech(speech) if conversation.wants_stream => {
                self.stream(speech, conversation.api)
            }
            Plan::Speech(speech) => {
                for step in &speech.steps {
                    self.pause(step)?;
                }
                let body = dialect::of(conversation.api, speech.turn).whole(speech);
                self.whole(200, &[], &body)
            }
        }
    }

    fn stream(&self, speech: &Speech, api: Api) -> io::Result<Connection> {
        let mut dialect = dialect::of(api, speech.turn);
        let out = &mut &*self.stream;
        http::write_stream_head(out)?;
        let send = |events: Vec<dialect::Event>| {
            events.iter().try_for_each(|event| http::write_chunk(&mut &*self.stream, &event.wire()))
        };
        send(dialect.open())?;
        for step in &speech.steps {
            send(dialect.step(step))?;
            self.pause(step)?;
        }
        match &speech.ending {
            Ending::BrokenEvent => send(vec![dialect::broken_event()])?,
            Ending::Eof => {}
            Ending::Finish(finish) => send(dialect.finish(finish, speech.usage))?,
            Ending::Reset => return self.reset(),
            Ending::Silence { ms } => return self.rest(*ms).map(|()| Connection::Over),
        }
        http::write_chunk(out, "")?;
        Ok(Connection::Reusable)
    }

    fn whole(
        &self,
        status: u16,
        headers: &[(&str, String)],
        body: &Value,
    ) -> io::Result<Connection> {
        let mut all = vec![json_type()];
        all.extend_from_slice(headers);
        http::write_whole(&mut &*self.stream, status, &all, &body.to_string())?;
        Ok(Connection::Reusable)
    }

    fn pause(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::Pause { ms } => self.rest(*ms),
            Step::Text(_) | Step::Thought(_) | Step::Tool { .. } => Ok(()),
        }
    }

    /// Waits, but not longer than the client stays: waiting for a byte that never comes is a wait
    /// that a hang-up ends at once, and so does the shutdown of a stub that is dropped.
    fn rest(&self, ms: u64) -> io::Result<()> {
        let mut left = Duration::from_millis(ms);
        while !left.is_zero() {
            self.stream.set_read_timeout(Some(left))?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_read_timeout(None)?;
            match peeked {
                Err(error) if is_timeout(&error) => return Ok(()),
                Err(error) => return Err(error),
                Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(_) => {}
            }
            if self.shared.stopping() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            thread::sleep(PIPELINED_REST.min(left));
            left = left.saturating_sub(PIPELINED_REST);
        }
        Ok(())
    }

    /// Makes the close that follows a reset, as when a server dies.
    fn reset(&self) -> io::Result<Connection> {
        // A reset discards what the client has not read yet; the words before it are part of the
        // scenario.
        self.rest(RESET_AFTER_MS)?;
        rustix::net::sockopt::set_socket_linger(self.stream, Some(Duration::ZERO))?;
        Ok(Connection::Over)
    }
}

/// Long enough for a busy client to read what was sent.
const RESET_AFTER_MS: u64 = 100;

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn json_type() -> (&'static str, String) {
    ("content-type", "application/json".to_owned())
}

fn model_list() -> Value {
    let model = json!({"id": "stub", "object": "model", "created": 1, "owned_by": "stub"});
    json!({"object": "list", "data": [model], "models": []})
}
