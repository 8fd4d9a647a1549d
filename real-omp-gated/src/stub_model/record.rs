//! The bounded log of what the model was asked.

use std::collections::VecDeque;
use std::fmt;

use super::conversation::{Conversation, Entry};

/// Requests the log keeps; the oldest go first.
pub const REQUESTS_MAX: usize = 1024;
/// Text the log keeps, over all its requests.
pub const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How an answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It was sent to its planned end.
    Answered,
    /// The client closed the connection first, or the stub was stopped.
    ClientGone,
    /// It was an HTTP error.
    Refused {
        /// Its status.
        status: u16,
    },
    /// The connection was reset as planned.
    Reset,
}

/// One request the model was asked.
#[derive(Clone)]
pub struct Record {
    /// Counts from 1 over the life of the stub.
    pub number: u64,
    /// Method and target.
    pub target: String,
    /// The marker as written, without the opening brackets; empty for a request that is no
    /// conversation.
    pub marker: String,
    /// The conversation; empty for a request that is none.
    pub entries: Vec<Entry>,
    /// The names of the tools on offer.
    pub tools: Vec<String>,
    /// How the answer ended; `None` while it is being sent.
    pub outcome: Option<Outcome>,
}

impl fmt::Debug for Record {
    /// Without texts, and without the marker, which is part of a prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut record = f.debug_struct("Record");
        record.field("number", &self.number).field("target", &self.target);
        record.field("entries", &self.entries).field("outcome", &self.outcome).finish()
    }
}

impl Record {
    /// True when any entry contains the word: what the model saw of a conversation.
    #[must_use]
    pub fn saw(&self, word: &str) -> bool {
        self.entries.iter().any(|entry| entry.text.contains(word))
    }

    fn text_bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.text.len()).sum()
    }
}

/// The log. It never holds more than its limits; what it dropped is counted.
#[derive(Debug, Default)]
pub struct Log {
    records: VecDeque<Record>,
    text_bytes: usize,
    last_number: u64,
}

impl Log {
    /// Notes a request; returns its number.
    pub fn open(
        &mut self,
        target: String,
        marker: &str,
        conversation: Option<&Conversation>,
    ) -> u64 {
        self.last_number += 1;
        let entries = conversation.map(|read| read.entries.clone()).unwrap_or_default();
        let tools =
            conversation.map(|read| read.tools.iter().map(|tool| tool.name.clone()).collect());
        let record = Record {
            number: self.last_number,
            target,
            marker: marker.to_owned(),
            entries,
            tools: tools.unwrap_or_default(),
            outcome: None,
        };
        self.text_bytes += record.text_bytes();
        self.records.push_back(record);
        while self.records.len() > REQUESTS_MAX || self.text_bytes > TEXT_BYTES_MAX {
            let Some(oldest) = self.records.pop_front() else { break };
            self.text_bytes -= oldest.text_bytes();
        }
        self.last_number
    }

    /// Notes how an answer ended, if its request is still in the log.
    pub fn close(&mut self, number: u64, outcome: Outcome) {
        let record = self.records.iter_mut().rev().find(|record| record.number == number);
        if let Some(record) = record {
            record.outcome = Some(outcome);
        }
    }

    /// The records kept, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_log_keeps_the_newest_requests() {
        let mut log = Log::default();
        for _ in 0..=REQUESTS_MAX {
            log.open("GET /".to_owned(), "", None);
        }
        let numbers: Vec<u64> = log.records().map(|record| record.number).collect();
        assert_eq!((numbers.len(), numbers[0]), (REQUESTS_MAX, 2));
    }

    #[test]
    fn the_log_keeps_no_more_text_than_its_limit() {
        let text = "x".repeat(TEXT_BYTES_MAX / 2);
        let body = json!({"messages": [{"role": "user", "content": text}]});
        let conversation = Conversation::read("/chat/completions", &body).unwrap();
        let mut log = Log::default();
        for kept in [1, 2, 2] {
            log.open("POST /".to_owned(), "text]]", Some(&conversation));
            assert_eq!(log.records().count(), kept);
        }
    }

    #[test]
    fn debug_prints_no_prompt() {
        let body = json!({"messages": [{"role": "user", "content": "my secret"}]});
        let conversation = Conversation::read("/chat/completions", &body).unwrap();
        let mut log = Log::default();
        log.open("POST /".to_owned(), "text text=secret]]", Some(&conversation));
        assert!(!format!("{log:?}").contains("secret"));
        assert!(log.records().all(|record| record.saw("my secret")));
    }
}
