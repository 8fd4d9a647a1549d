//! What is on its way to the two outputs. An agent writes one thing at a time: nothing more is produced before it is
//! written, so the queue never holds more than one step's output.

use std::collections::VecDeque;

use crate::body::Out;

/// Bytes that are written together.
pub(super) struct Piece {
    pub(super) out: Out,
    /// Set when the piece before it is written.
    pub(super) not_before_ms: u64,
    bytes: Vec<u8>,
    written: usize,
    gap_ms: u64,
}

impl Piece {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.written..]
    }
}

/// Where the next frame is cut.
pub(super) struct Cut {
    pub(super) at: Vec<usize>,
    pub(super) gap_ms: u64,
}

#[derive(Default)]
pub(super) struct Outputs {
    pieces: VecDeque<Piece>,
    cut: Option<Cut>,
    /// Closed by the script, or broken: what is written there is gone.
    stdout_gone: bool,
    stderr_gone: bool,
}

impl Outputs {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    pub(super) fn cut_next(&mut self, cut: Cut) {
        self.cut = Some(cut);
    }

    /// Writes to standard output, in pieces if a cut was asked for.
    pub(super) fn stdout(&mut self, mut bytes: Vec<u8>) {
        let Some(Cut { mut at, gap_ms }) = self.cut.take() else {
            self.push(Out::Stdout, bytes, 0);
            return;
        };
        at.sort_unstable();
        let mut offset = 0;
        let mut gap_before_ms = 0;
        for cut in at {
            if cut <= offset || cut - offset >= bytes.len() {
                continue;
            }
            let rest = bytes.split_off(cut - offset);
            offset = cut;
            self.push(Out::Stdout, std::mem::replace(&mut bytes, rest), gap_before_ms);
            gap_before_ms = gap_ms;
        }
        self.push(Out::Stdout, bytes, gap_before_ms);
    }

    pub(super) fn stderr(&mut self, bytes: Vec<u8>) {
        self.push(Out::Stderr, bytes, 0);
    }

    fn push(&mut self, out: Out, bytes: Vec<u8>, gap_ms: u64) {
        let gone = match out {
            Out::Stderr => self.stderr_gone,
            Out::Stdout => self.stdout_gone,
        };
        if !gone && !bytes.is_empty() {
            self.pieces.push_back(Piece { out, not_before_ms: 0, bytes, written: 0, gap_ms });
        }
    }

    pub(super) fn advance(&mut self, count: usize, now_ms: u64) {
        let Some(piece) = self.pieces.front_mut() else { return };
        piece.written += count;
        if piece.written < piece.bytes.len() {
            return;
        }
        self.pieces.pop_front();
        if let Some(next) = self.pieces.front_mut() {
            next.not_before_ms = now_ms + next.gap_ms;
        }
    }

    /// Drops what is on its way to `out`, and all that follows.
    pub(super) fn give_up(&mut self, out: Out) {
        match out {
            Out::Stderr => self.stderr_gone = true,
            Out::Stdout => self.stdout_gone = true,
        }
        self.pieces.retain(|piece| piece.out != out);
    }
}
