//! The supervisor's end of the control socket: never blocks, never raises SIGPIPE, never grows without bound.
//!
//! Whatever fails here means one thing, that the host is gone (rule 1.7.6): a dead host's socket must not end the
//! supervisor before the group has ended.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};

use super::wire::{
    AGENT_PIPES, Answer, CONTROL_BACKLOG_BYTES_MAX, CONTROL_LINE_BYTES_MAX, Request, line,
    take_line,
};

const READ_BYTES: usize = 16 * 1024;

/// The socket, what was read of it and what is still to be written.
pub struct Control {
    socket: OwnedFd,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    pipes: Vec<OwnedFd>,
    gone: bool,
}

impl Control {
    /// The control socket of this process.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, inbox: Vec::new(), outbox: Vec::new(), pipes: Vec::new(), gone: false }
    }

    /// The host's first message; `None` if it went away instead.
    pub fn first(&mut self) -> Result<Option<Request>, Errno> {
        loop {
            if let Some(line) = take_line(&mut self.inbox) {
                return Ok(serde_json::from_slice(&line).ok());
            }
            if self.gone {
                return Ok(None);
            }
            self.wait()?;
            // Not to its end: one who greets may have closed its side behind the greeting, and still gets its answer.
            match self.read_once() {
                Ok(0) => self.gone = true,
                Ok(_) => self.gone = self.is_flooded(),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file descriptors that came with the messages so far.
    pub fn take_pipes(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.pipes)
    }

    /// The next message that was read; one that is no message ends the conversation.
    pub fn next(&mut self) -> Option<Request> {
        let line = take_line(&mut self.inbox)?;
        let request = serde_json::from_slice(&line).ok();
        self.gone |= request.is_none();
        request
    }

    /// Queues a message and writes what the socket takes now.
    pub fn tell(&mut self, answer: &Answer) {
        self.outbox.extend(line(answer));
        self.gone |= self.outbox.len() > CONTROL_BACKLOG_BYTES_MAX;
        self.flush();
    }

    /// Writes what the socket takes now.
    pub fn flush(&mut self) {
        while !self.outbox.is_empty() && !self.gone {
            // NOSIGNAL: a host that is gone is an error here, never a SIGPIPE.
            match send(&self.socket, &self.outbox, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.outbox.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.gone = true,
            }
        }
    }

    /// Reads what is there, without waiting.
    pub fn read(&mut self) -> Result<(), Errno> {
        while !self.gone {
            match self.read_once() {
                Ok(0) => self.gone = true,
                Ok(_) => {}
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    self.gone = true;
                    return Err(error);
                }
            }
            self.gone |= self.is_flooded();
        }
        Ok(())
    }

    fn is_flooded(&self) -> bool {
        self.inbox.len() > CONTROL_LINE_BYTES_MAX && memchr::memchr(b'\n', &self.inbox).is_none()
    }

    /// The host is gone, or may as well be.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// It was found out otherwise that the host is gone.
    pub fn set_gone(&mut self) {
        self.gone = true;
    }

    /// What to wait for; nothing once the host is gone, or an ended socket would never let us sleep.
    pub fn interest(&self) -> PollFlags {
        match (self.gone, self.outbox.is_empty()) {
            (true, _) => PollFlags::empty(),
            (false, true) => PollFlags::IN,
            (false, false) => PollFlags::IN | PollFlags::OUT,
        }
    }

    fn wait(&self) -> Result<(), Errno> {
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn read_once(&mut self) -> Result<usize, Errno> {
        let mut bytes = [0; READ_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AGENT_PIPES))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let read =
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags)?.bytes;
        self.inbox.extend_from_slice(&bytes[..read]);
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(pipes) = message {
                self.pipes.extend(pipes);
            }
        }
        Ok(read)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::platform::Order;

    fn pair() -> (UnixStream, Control) {
        let (host, ours) = UnixStream::pair().expect("a socket pair");
        (host, Control::new(ours.into()))
    }

    #[test]
    fn orders_that_came_before_the_end_are_still_read() {
        let (mut host, mut control) = pair();
        host.write_all(&line(&Request::Order(Order::Release))).expect("written");
        drop(host);
        control.read().expect("read");
        assert!(control.is_gone());
        assert!(matches!(control.next(), Some(Request::Order(Order::Release))));
    }

    #[test]
    fn what_is_no_message_ends_the_conversation() {
        let (mut host, mut control) = pair();
        host.write_all(b"not ours\n").expect("written");
        control.read().expect("read");
        assert!(control.next().is_none());
        assert!(control.is_gone());
    }

    #[test]
    fn a_line_past_the_limit_ends_the_conversation() {
        let (host, mut control) = pair();
        let writer = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let mut host = host;
                host.write_all(&vec![b'x'; CONTROL_LINE_BYTES_MAX + 1])
            });
            while !control.is_gone() {
                control.wait().expect("polled");
                control.read().expect("read");
            }
            assert!(control.inbox.len() > CONTROL_LINE_BYTES_MAX);
            drop(control);
            writer.join()
        });
        // The last bytes may have met a closed socket; that is the writer's affair.
        let _ = writer.expect("the writer does not panic");
    }

    #[test]
    fn a_host_that_never_reads_is_taken_for_gone_at_the_backlog_limit_and_never_blocks_us() {
        let (_host, mut control) = pair();
        for _ in 0..CONTROL_BACKLOG_BYTES_MAX {
            if control.is_gone() {
                break;
            }
            control.tell(&Answer::Taken);
        }
        assert!(control.is_gone());
    }

    #[test]
    fn a_dead_host_is_an_answer_and_no_signal() {
        let (host, mut control) = pair();
        drop(host);
        control.tell(&Answer::Taken);
        assert!(control.is_gone());
    }
}
