//! A deterministic model server on loopback for real agents.
//!
//! It speaks OpenAI chat completions, OpenAI responses and Gemini, streamed or whole. There is no
//! randomness and no clock in an answer: the prompt names its scenario in a marker (`scenario`), so
//! the same conversation always gets the same answer, and a test says in one line what its model
//! will do. What the model was asked is kept in a bounded log.
//!
//! Dropping the [`StubModel`] ends every connection, joins every thread and frees the port.

#![expect(
    clippy::disallowed_methods,
    reason = "a real server for real processes: it has threads of its own"
)]

mod connection;
mod conversation;
mod dialect;
mod http;
mod plan;
mod record;
mod scenario;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use self::conversation::{Entry, Role};
pub use self::record::{Outcome, REQUESTS_MAX, Record};

use self::record::Log;
use self::scenario::Marker;

/// Connections open at once; a further one is closed unanswered.
pub const CONNECTIONS_MAX: usize = 128;
/// Markers whose uses are counted (`times=`); a further one counts as never used.
pub const COUNTED_MARKERS_MAX: usize = 1024;

/// How long the listener rests when the system has no descriptor left for a new connection.
const ACCEPT_REST: Duration = Duration::from_millis(10);

/// A running stub model server.
#[derive(Debug)]
pub struct StubModel {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<Vec<Client>>>,
}

/// What the listener and the connections share.
#[derive(Debug, Default)]
struct Shared {
    stopping: AtomicBool,
    log: Mutex<Log>,
    uses: Mutex<BTreeMap<String, u64>>,
}

/// A connection the listener accepted. The stream belongs to its thread: it must close when the
/// thread ends, so that a planned reset is a reset.
#[derive(Debug)]
struct Client {
    stream: Weak<TcpStream>,
    thread: JoinHandle<()>,
}

impl StubModel {
    /// Starts the server on a free port.
    ///
    /// # Errors
    /// The system gives no port or no thread.
    pub fn start() -> io::Result<Self> {
        Self::start_on(0)
    }

    /// Starts the server on this port.
    ///
    /// # Errors
    /// The port is taken, or the system gives no thread.
    pub fn start_on(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let name = thread_name(port);
        let accepting = Arc::clone(&shared);
        let listener =
            thread::Builder::new().name(name).spawn(move || accepting.accept(&listener))?;
        Ok(Self { port, shared, listener: Some(listener) })
    }

    /// The base URL of the OpenAI APIs.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// What the model was asked so far, oldest first; the newest [`REQUESTS_MAX`] at most.
    #[must_use]
    pub fn requests(&self) -> Vec<Record> {
        locked(&self.shared.log).records().cloned().collect()
    }

    /// True when the model was asked something like this; copies nothing.
    #[must_use]
    pub fn was_asked(&self, like: impl FnMut(&Record) -> bool) -> bool {
        locked(&self.shared.log).records().any(like)
    }
}

impl Drop for StubModel {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener out of its accept. A failure means it is awake: its queue is full.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        let clients = self.listener.take().and_then(|listener| listener.join().ok());
        for client in clients.unwrap_or_default() {
            if let Some(stream) = client.stream.upgrade() {
                // Fails only when the client has gone already.
                stream.shutdown(Shutdown::Both).ok();
            }
            // A connection thread that panicked has said so on stderr.
            client.thread.join().ok();
        }
    }
}

impl Shared {
    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Accepts until stopped; returns the clients still connected.
    fn accept(self: &Arc<Self>, listener: &TcpListener) -> Vec<Client> {
        let mut clients: Vec<Client> = Vec::new();
        let port = listener.local_addr().map_or(0, |address| address.port());
        loop {
            let accepted = listener.accept();
            if self.stopping() {
                return clients;
            }
            clients.retain(|client| !client.thread.is_finished());
            let Ok((stream, _)) = accepted else {
                thread::sleep(ACCEPT_REST);
                continue;
            };
            if clients.len() >= CONNECTIONS_MAX {
                continue;
            }
            let stream = Arc::new(stream);
            let (shared, weak) = (Arc::clone(self), Arc::downgrade(&stream));
            let serve = move || connection::serve(&stream, &shared);
            // No thread: the stream is dropped with its closure, and the client sees a closed
            // connection.
            if let Ok(thread) = thread::Builder::new().name(thread_name(port)).spawn(serve) {
                clients.push(Client { stream: weak, thread });
            }
        }
    }

    /// Counts a use of a marker with `times`; true when its uses are spent.
    fn spends(&self, marker: &Marker) -> bool {
        let Some(times) = marker.times else { return false };
        let mut uses = locked(&self.uses);
        if uses.len() >= COUNTED_MARKERS_MAX && !uses.contains_key(&marker.written) {
            return false;
        }
        let used = uses.entry(marker.written.clone()).or_default();
        *used += 1;
        *used > times
    }
}

/// At most 15 bytes, the longest name Linux shows.
fn thread_name(port: u16) -> String {
    format!("stub-{port}")
}

/// A panic in one connection must not hide the log from the test that wants to explain it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_with_times_is_spent_after_so_many_uses() {
        let shared = Shared::default();
        let marker = Marker::in_message("[[stub:http times=2]]").unwrap();
        assert_eq!([(); 3].map(|()| shared.spends(&marker)), [false, false, true]);
        let unlimited = Marker::in_message("[[stub:http]]").unwrap();
        assert!(!shared.spends(&unlimited));
    }

    #[test]
    fn counted_markers_have_a_limit() {
        let shared = Shared::default();
        let marker =
            |n: usize| Marker::in_message(&format!("[[stub:text text={n} times=0]]")).unwrap();
        for n in 0..COUNTED_MARKERS_MAX {
            assert!(shared.spends(&marker(n)));
        }
        assert!(!shared.spends(&marker(COUNTED_MARKERS_MAX)));
        assert_eq!(locked(&shared.uses).len(), COUNTED_MARKERS_MAX);
    }
}
