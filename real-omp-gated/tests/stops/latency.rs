//! What a Stop's time is made of: the host's share beside the agent's.

use std::collections::BTreeMap;
use std::fmt::Write;

use moored::platform::Mono;

use crate::hosted::edge::{Crossed, Edge};

/// The stages of one Stop, in microseconds; what did not happen is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    /// The host's: from the press until `session/cancel` is written.
    press_to_cancel: Option<u64>,
    /// The agent's.
    cancel_to_answer: Option<u64>,
    /// From the answer until the end of input, the barrier included.
    answer_to_eof: Option<u64>,
    /// Of that the agent's: from `session/close` until its answer.
    barrier: Option<u64>,
    /// The agent's.
    eof_to_exit: Option<u64>,
    /// The host's and its supervisor's.
    exit_to_proof: Option<u64>,
    /// From the press to the proof.
    whole: u64,
}

impl Stages {
    /// Of the Stop that ended this child.
    ///
    /// # Panics
    /// The child's end was not proven.
    pub fn of(edge: &Edge, child: usize, pressed: Mono) -> Self {
        let wrote = |method: &str| edge.last(child, &Crossed::Wrote(method.to_owned()));
        let answered = |method: &str| edge.last(child, &Crossed::Answered(method.to_owned()));
        let cancel = wrote("session/cancel");
        // Answers to earlier prompts of the child do not count.
        let answer = answered("session/prompt").filter(|at| *at >= pressed);
        let (eof, exited) = (edge.when(child, &Crossed::Eof), edge.when(child, &Crossed::Exited));
        let proof = edge.when(child, &Crossed::Swept);
        let proven = proof.expect("a tree that is proven gone was reported so");
        Self {
            press_to_cancel: between(Some(pressed), cancel),
            cancel_to_answer: between(cancel, answer),
            answer_to_eof: between(answer, eof),
            barrier: between(wrote("session/close"), answered("session/close")),
            eof_to_exit: between(eof, exited),
            exit_to_proof: between(exited, proof),
            whole: proven.0.saturating_sub(pressed.0),
        }
    }

    /// What only the host decides: all but the agent's answers, its leaving, and the windows the host grants it for both.
    fn hosts(&self) -> u64 {
        let held = self.answer_to_eof.map(|us| us.saturating_sub(self.barrier.unwrap_or(0)));
        [self.press_to_cancel, held, self.exit_to_proof].into_iter().flatten().sum()
    }

    fn columns(&self) -> [Option<u64>; 8] {
        [
            self.press_to_cancel,
            self.cancel_to_answer,
            self.answer_to_eof,
            self.barrier,
            self.eof_to_exit,
            self.exit_to_proof,
            Some(self.hosts()),
            Some(self.whole.saturating_sub(self.hosts())),
        ]
    }
}

const HEADS: [&str; 8] = [
    "press>cancel",
    "cancel>answer",
    "answer>EOF",
    "(barrier)",
    "EOF>exit",
    "exit>proof",
    "host's share",
    "agent's share",
];

/// The table of many Stops: each cell the median and the most, in milliseconds.
pub fn table(measured: &BTreeMap<String, Vec<Stages>>) -> String {
    let mut table = format!("{:<43} {:>2}", "ms: median / max", "n");
    for head in HEADS {
        write!(table, " {head:>14}").expect("memory does not fail");
    }
    for (name, stops) in measured {
        write!(table, "\n{name:<43} {:>2}", stops.len()).expect("memory does not fail");
        for column in 0..HEADS.len() {
            let cell = cell(stops.iter().filter_map(|stages| stages.columns()[column]).collect());
            write!(table, " {cell:>14}").expect("memory does not fail");
        }
    }
    table
}

fn cell(mut values: Vec<u64>) -> String {
    values.sort_unstable();
    let Some(most) = values.last() else { return "-".to_owned() };
    let ms = |us: u64| {
        let (whole, tenths) = (us / 1_000, us % 1_000 / 100);
        if whole < 10 { format!("{whole}.{tenths}") } else { whole.to_string() }
    };
    format!("{} / {}", ms(values[values.len() / 2]), ms(*most))
}

fn between(from: Option<Mono>, to: Option<Mono>) -> Option<u64> {
    Some(to?.0.saturating_sub(from?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up_to_the_whole() {
        let stages = Stages {
            press_to_cancel: Some(2_000),
            cancel_to_answer: Some(10_000),
            answer_to_eof: Some(31_000),
            barrier: Some(30_000),
            eof_to_exit: Some(40_000),
            exit_to_proof: Some(3_000),
            whole: 86_000,
        };
        assert_eq!(stages.hosts(), 2_000 + 1_000 + 3_000);
        assert_eq!(stages.columns()[7], Some(80_000));
        let table = table(&BTreeMap::from([("a".to_owned(), vec![stages; 3])]));
        let cells: Vec<_> = table.lines().last().unwrap().split_whitespace().collect();
        let shares = ["6.0", "/", "6.0", "80", "/", "80"];
        assert_eq!((&cells[..2], &cells[20..]), (&["a", "3"][..], &shares[..]), "{table}");
    }
}
