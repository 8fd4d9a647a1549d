//! The terminal itself: raw mode, which ends with its guard whatever happens, and the size.

use std::io::Write;
use std::os::fd::AsFd;

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize,
    tcsetattr,
};

/// Asks the terminal to tell pasted text from typed text.
const ON: &[u8] = b"\x1b[?2004h";
const OFF: &[u8] = b"\x1b[?2004l";
/// What is assumed of a terminal that does not say.
const SIZE_UNKNOWN: Size = Size { columns: 80, rows: 24 };
/// Less than this is taken for this.
const SIZE_MIN: Size = Size { columns: 10, rows: 4 };

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// Keys come one by one and unseen while this lives. Dropped, in a panic too, it gives the terminal back as it was.
pub struct RawMode<F: AsFd, W: Write> {
    terminal: F,
    screen: W,
    before: Termios,
}

impl<F: AsFd, W: Write> RawMode<F, W> {
    /// Keys are read from `terminal`; `screen` is where it shows.
    pub fn enter(terminal: F, screen: W) -> std::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut raw = Self { terminal, screen, before };
        raw.resume()?;
        Ok(raw)
    }

    /// Raw again, after a stay in the background, where a shell may have changed it.
    pub fn resume(&mut self) -> std::io::Result<()> {
        let mut modes = self.before.clone();
        // Ctrl-C, Ctrl-Z and Ctrl-\ are keys, in order with the others: a signal would discard what was typed before.
        modes.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::IXON;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.terminal, OptionalActions::Now, &modes)?;
        self.screen.write_all(ON)?;
        self.screen.flush()
    }

    /// As it was before, for the shell.
    pub fn pause(&mut self) {
        // The terminal may be gone; then there is nothing to give back.
        let _ = self.screen.write_all(OFF).and_then(|()| self.screen.flush());
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

impl<F: AsFd, W: Write> Drop for RawMode<F, W> {
    fn drop(&mut self) {
        self.pause();
    }
}

/// The size of the screen.
pub fn size(screen: impl AsFd) -> Size {
    let Ok(told) = tcgetwinsize(screen) else { return SIZE_UNKNOWN };
    if told.ws_col == 0 || told.ws_row == 0 {
        return SIZE_UNKNOWN;
    }
    Size {
        columns: usize::from(told.ws_col).max(SIZE_MIN.columns),
        rows: usize::from(told.ws_row).max(SIZE_MIN.rows),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::*;

    fn is_raw(terminal: impl AsFd) -> bool {
        let modes = tcgetattr(terminal).expect("a terminal").local_modes;
        let raw = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(modes & raw == raw || (modes & raw).is_empty(), "half raw: {modes:?}");
        (modes & raw).is_empty()
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let terminal = ioctl_tiocgptpeer(&master, flags).expect("its other end");
        let mut shown = Vec::new();
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _raw = RawMode::enter(&terminal, &mut shown).expect("raw");
            assert!(is_raw(&terminal));
            panic!("on purpose");
        }));
        assert!(died.is_err());
        assert!(!is_raw(&terminal));
        assert_eq!(shown, [ON, OFF].concat());
    }

    #[test]
    fn what_is_no_terminal_has_a_size_nevertheless() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(size(&file), SIZE_UNKNOWN);
        assert!(RawMode::enter(&file, Vec::new()).is_err());
    }
}
