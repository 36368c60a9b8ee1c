//! Hands requests from a session's reader to its worker.
//!
//! A worker that hangs in a call nobody can interrupt is retired: it gets nothing more, and a fresh one with the next
//! generation number takes over.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use coldfront_common::frame::Frame;

use super::request::Request;

/// A request and what it asks.
pub struct Job {
    /// None for frames that are not answered.
    pub request: Option<Arc<Request>>,
    pub frame: Frame,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    generation: u64,
    closed: bool,
}

/// A queue with one reader at a time.
#[derive(Default)]
pub struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

/// What a worker finds.
pub enum Next {
    Job(Job),
    /// Nothing to do yet.
    Empty,
    /// The worker was retired or the session ended.
    Stop,
}

impl Inbox {
    pub fn push(&self, job: Job) {
        self.lock().jobs.push_back(job);
        self.changed.notify_all();
    }

    /// No more jobs will come; those that wait are dropped.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.jobs.clear();
        self.changed.notify_all();
    }

    /// Retires the worker of `generation`; returns the next one's number, or `None` if somebody else did it before.
    pub fn retire(&self, generation: u64) -> Option<u64> {
        let mut state = self.lock();
        if state.closed || state.generation != generation {
            return None;
        }
        state.generation += 1;
        self.changed.notify_all();
        Some(state.generation)
    }

    pub fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// What is there now.
    pub fn poll(&self, generation: u64) -> Next {
        take(&mut self.lock(), generation)
    }

    /// Waits for the next job; `None` to stop.
    pub fn wait(&self, generation: u64) -> Option<Job> {
        let mut state = self.lock();
        loop {
            match take(&mut state, generation) {
                Next::Job(job) => return Some(job),
                Next::Stop => return None,
                Next::Empty => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(state: &mut State, generation: u64) -> Next {
    if state.closed || state.generation != generation {
        return Next::Stop;
    }
    state.jobs.pop_front().map_or(Next::Empty, Next::Job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldfront_common::frame::Kind;

    fn job() -> Job {
        Job { request: None, frame: Frame { kind: Kind::Commit, seq: 1, payload: vec![] } }
    }

    #[test]
    fn a_retired_worker_gets_nothing_and_the_next_gets_all() {
        let inbox = Inbox::default();
        inbox.push(job());
        assert_eq!(inbox.retire(0), Some(1));
        assert_eq!(inbox.retire(0), None);
        assert!(matches!(inbox.poll(0), Next::Stop));
        assert!(matches!(inbox.poll(1), Next::Job(_)));
        assert!(matches!(inbox.poll(1), Next::Empty));
        inbox.close();
        assert!(inbox.wait(1).is_none());
    }
}
