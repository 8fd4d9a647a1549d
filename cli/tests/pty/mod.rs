//! `moored chat` at a terminal, as a person sees it. What is on the screen is told by a terminal emulator that is not
//! ours.

#![expect(clippy::disallowed_methods, reason = "a harness of real processes")]

use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::common::{self, MOORED, Place};

/// How long the machine may stay silent before a test gives up; nothing is asserted about it.
const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: u16 = 40;
const COLUMNS: u16 = 100;
const READ_BYTES_MAX: usize = 4_096;

pub const CTRL_C: &str = "\u{3}";
pub const CTRL_D: &str = "\u{4}";
pub const CTRL_U: &str = "\u{15}";
pub const CTRL_Z: &str = "\u{1a}";
/// The word of every client, as it is shown.
pub const STOPPING: &str = "Stopping\u{2026}";

/// A conversation at a terminal.
pub struct Terminal {
    pub chat: Child,
    /// Taken when the terminal is closed.
    keys: Option<OwnedFd>,
    /// The end that the program has.
    line: OwnedFd,
    before: Termios,
    emulator: vt100::Parser,
    /// All that was ever written to the screen.
    written: String,
    /// Bytes of a character that has not come whole.
    cut: Vec<u8>,
}

impl Terminal {
    /// `moored chat` with these arguments.
    pub fn chat(place: &Place, args: &[&str]) -> Self {
        let mut command = place.moored(&[&["chat"], args].concat());
        command.env("TERM", "xterm-256color");
        Self::open(command)
    }

    /// A conversation with an agent that plays `script`, and keeps its sessions in this place.
    pub fn chat_with(place: &Place, script: serde_json::Value) -> Self {
        let mut script = script;
        script["store"] = serde_json::json!({ "home": place.file_name("agent-home") });
        let file = place.file("agent.json", &script.to_string());
        Self::chat(place, &["--", MOORED, "fake-agent", "--script", &file])
    }

    /// Any command at a terminal of its own.
    pub fn open(mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keys = openpt(flags).expect("a terminal");
        grantpt(&keys).expect("granted");
        unlockpt(&keys).expect("unlocked");
        let line = ioctl_tiocgptpeer(&keys, flags).expect("its other end");
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keys, size).expect("sized");
        let before = tcgetattr(&line).expect("a terminal");
        let end = || Stdio::from(line.try_clone().expect("another"));
        // A group of its own, as a shell makes it: Ctrl-Z stops that.
        command.process_group(0);
        let chat = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it runs");
        let cells = |n| NonZero::new(n).expect("some");
        let emulator = vt100::Parser::new(cells(ROWS), cells(COLUMNS), 0);
        let (written, cut) = (String::new(), Vec::new());
        let terminal = Self { chat, keys: Some(keys), line, before, emulator, written, cut };
        // The command ends with its block of descriptors, so that the terminal has no other holder than the program.
        drop(command);
        terminal
    }

    /// Presses keys.
    #[track_caller]
    pub fn press(&mut self, keys: &str) {
        let mut rest = keys.as_bytes();
        while !rest.is_empty() {
            let end = self.keys.as_ref().expect("open");
            let count = rustix::io::write(end, rest).expect("typed");
            rest = &rest[count..];
        }
    }

    /// The terminal's window is closed.
    pub fn close(&mut self) {
        self.keys = None;
    }

    /// What is on the screen, without the spaces behind its rows.
    pub fn screen(&self) -> String {
        let rows = self.emulator.screen().contents();
        rows.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// All that was ever written to the screen, however short it was there.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The row of the cursor: where a person writes.
    pub fn line(&self) -> String {
        let (row, _) = self.emulator.screen().cursor_position();
        let text = self.emulator.screen().rows(0, COLUMNS).nth(usize::from(row));
        text.unwrap_or_default().trim_end().to_owned()
    }

    /// Waits until this was on the screen, for however short.
    #[track_caller]
    pub fn until_written(&mut self, words: &str) {
        self.until(&format!("{words:?} is written"), |terminal| terminal.written.contains(words));
    }

    /// Waits until this is on the screen.
    #[track_caller]
    pub fn until_shows(&mut self, words: &str) {
        self.until(&format!("{words:?} is shown"), |terminal| terminal.screen().contains(words));
    }

    /// Waits until a person writes on this line.
    #[track_caller]
    pub fn until_line(&mut self, line: &str) {
        self.until(&format!("the line is {line:?}"), |terminal| terminal.line() == line);
    }

    #[track_caller]
    pub fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            assert!(self.read(), "it never happened: {what}\n{}", self.told());
        }
    }

    /// Waits until the program has ended: its status, once the terminal is as it was before.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.chat);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("it is there");
        loop {
            let mut ends = vec![PollFd::new(&process, PollFlags::IN)];
            ends.extend(self.keys.as_ref().map(|keys| PollFd::new(keys, PollFlags::IN)));
            let ready = poll(&mut ends, Some(&patience())).expect("watched");
            assert_ne!(ready, 0, "it never ended\n{}", self.told());
            let (has_ended, says) =
                (!ends[0].revents().is_empty(), ends.get(1).map(PollFd::revents));
            if says.is_some_and(|says| says.contains(PollFlags::IN)) {
                self.read();
            } else if has_ended {
                break;
            }
        }
        let status = self.chat.wait().expect("it ends").code();
        if self.keys.is_some() {
            let after = tcgetattr(&self.line).expect("a terminal");
            let modes = |t: &Termios| (t.local_modes, t.input_modes, t.output_modes);
            assert_eq!(modes(&after), modes(&self.before), "the terminal is as it was");
            assert!(after.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
            assert!(!self.emulator.screen().bracketed_paste(), "{}", self.told());
        }
        status
    }

    /// Whether keys come one by one and unseen.
    pub fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.line).expect("a terminal").local_modes;
        (modes & (LocalModes::ICANON | LocalModes::ECHO)).is_empty()
    }

    /// Whether it was stopped as by a shell's job control.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.chat.id()));
        stat.expect("it is there").contains(") T ")
    }

    /// Reads what there is; nothing within [`PATIENCE`] is no.
    fn read(&mut self) -> bool {
        let Some(keys) = &self.keys else { return false };
        let mut end = [PollFd::new(keys, PollFlags::IN)];
        if poll(&mut end, Some(&patience())).expect("watched") == 0 {
            return false;
        }
        let mut bytes = [0; READ_BYTES_MAX];
        let count = rustix::io::read(keys, &mut bytes).expect("read");
        self.emulator.process(&bytes[..count]);
        self.cut.extend_from_slice(&bytes[..count]);
        let whole = std::str::from_utf8(&self.cut).map_or_else(|e| e.valid_up_to(), str::len);
        let rest = self.cut.split_off(whole);
        let text = std::mem::replace(&mut self.cut, rest);
        self.written.push_str(&String::from_utf8(text).expect("whole characters"));
        true
    }

    fn told(&self) -> String {
        format!("the screen so far:\n{}\n{:?}", self.screen(), self.written)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only of a test that failed; its supervisor then ends the agent.
        if matches!(self.chat.try_wait(), Ok(None)) {
            common::signal(&self.chat, "KILL");
            let _ = self.chat.wait();
        }
    }
}

fn patience() -> Timespec {
    Timespec::try_from(PATIENCE).expect("short")
}
