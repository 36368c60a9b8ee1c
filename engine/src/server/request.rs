//! The requests of a session that are not answered yet, and how they are cancelled.
//!
//! A request is answered exactly once, by whoever claims it first. An interrupt reaches DuckDB only between the
//! start and the end of a call made for that very request, so it can never hit the next one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::duckdb::{Error, Interrupter, Kind};

/// One request.
pub struct Request {
    pub seq: u32,
    pub began: Instant,
    /// Must run to its end: nobody may cancel it.
    protected: bool,
    cancelled: AtomicBool,
    answered: AtomicBool,
    target: Mutex<Option<Interrupter>>,
}

impl Request {
    pub fn new(seq: u32) -> Arc<Self> {
        Self::make(seq, false)
    }

    /// A request that cannot be cancelled.
    pub fn protected(seq: u32) -> Arc<Self> {
        Self::make(seq, true)
    }

    fn make(seq: u32, protected: bool) -> Arc<Self> {
        let (cancelled, answered, target) = (AtomicBool::default(), AtomicBool::default(), Mutex::default());
        Arc::new(Self { seq, began: Instant::now(), protected, cancelled, answered, target })
    }

    /// Makes one DuckDB call that [`Request::cancel`] may interrupt.
    pub fn call<T, E: From<Error>>(&self, target: Interrupter, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        {
            let mut slot = self.target();
            if self.is_cancelled() {
                return Err(Error::new(Kind::Interrupt, "cancelled before it began").into());
            }
            *slot = Some(target);
        }
        let outcome = call();
        *self.target() = None;
        outcome
    }

    /// Asks the request to stop. DuckDB forgets an interrupt that arrives while a statement starts, so this is
    /// repeated for as long as the request runs.
    pub fn cancel(&self) {
        if self.protected {
            return;
        }
        // Before the interrupt: a call that begins in between sees the flag.
        self.cancelled.store(true, Ordering::Release);
        self.interrupt();
    }

    /// True while a DuckDB call is being made for this request.
    pub fn is_running(&self) -> bool {
        self.target().is_some()
    }

    /// Interrupts the DuckDB call that is being made for this request, if there is one; true if so.
    pub fn interrupt(&self) -> bool {
        let target = self.target();
        if let Some(target) = target.as_ref() {
            target.interrupt();
        }
        target.is_some()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub fn is_protected(&self) -> bool {
        self.protected
    }

    pub fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// True for the one caller that may answer.
    pub fn claim_answer(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }

    fn target(&self) -> std::sync::MutexGuard<'_, Option<Interrupter>> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open requests of one session by number.
#[derive(Default)]
pub struct Requests(Mutex<HashMap<u32, Arc<Request>>>);

impl Requests {
    pub fn add(&self, request: Arc<Request>) -> Arc<Request> {
        self.map().insert(request.seq, request.clone());
        request
    }

    pub fn close(&self, seq: u32) {
        self.map().remove(&seq);
    }

    pub fn get(&self, seq: u32) -> Option<Arc<Request>> {
        self.map().get(&seq).cloned()
    }

    /// Runs `action` if request `seq` is not answered; it cannot be answered meanwhile.
    pub fn while_open(&self, seq: u32, action: impl FnOnce()) {
        let map = self.map();
        if map.contains_key(&seq) {
            action();
        }
    }

    pub fn all(&self) -> Vec<Arc<Request>> {
        self.map().values().cloned().collect()
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Arc<Request>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duckdb::Database;

    #[test]
    fn a_request_cancelled_early_never_starts_and_the_next_is_untouched() {
        let database = Database::open(&[]).unwrap();
        let mut connection = database.connect().unwrap();
        let first = Request::new(1);
        first.cancel();
        let error = first.call(connection.interrupter(), || connection.execute("SELECT 1")).unwrap_err();
        assert!(error.is_interrupt());
        let second = Request::new(2);
        second.call(connection.interrupter(), || connection.execute("SELECT 1")).unwrap();
        first.cancel();
        second.call(connection.interrupter(), || connection.execute("SELECT 1")).unwrap();
    }

    #[test]
    fn only_one_may_answer() {
        let request = Request::new(1);
        assert!(request.claim_answer());
        assert!(!request.claim_answer());
    }
}
