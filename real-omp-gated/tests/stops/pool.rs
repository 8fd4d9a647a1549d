//! A few stories at a time: agents start slowly, and some Stops only wait.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A story and what it is called.
pub struct Job<'a> {
    pub name: String,
    pub story: Box<dyn FnOnce() + Send + 'a>,
}

/// Tells all stories, so many at a time, in their order; gives the names of those that failed.
pub fn tell(jobs: Vec<Job<'_>>, at_once: usize) -> Vec<String> {
    let (waiting, failed) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                while let Some(Job { name, story }) = next() {
                    // Named, so that a panic says whose it is.
                    let told = thread::Builder::new().name(name.clone());
                    let told = thread::scope(|own| {
                        told.spawn_scoped(own, story).expect("a thread for a story").join()
                    });
                    if told.is_err() {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_is_told_and_the_failed_ones_are_named() {
        let told = Mutex::new(Vec::new());
        let job = |name: &str| {
            let (name, told) = (name.to_owned(), &told);
            let own = name.clone();
            let story = Box::new(move || {
                if own == "b" {
                    // As a panic does, without its words.
                    std::panic::resume_unwind(Box::new("as planned"));
                }
                told.lock().unwrap().push(own);
            });
            Job { name, story }
        };
        assert_eq!(tell(["a", "b", "c"].map(job).into(), 2), ["b"]);
        let mut told = told.into_inner().unwrap();
        told.sort();
        assert_eq!(told, ["a", "c"]);
    }
}
