//! What is wrong with a lake's catalog right now, for error messages. It may not decide anything about a request.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// No connection, no answer in time, or the answer was cut off.
    Unreachable,
    /// The credentials were rejected (401).
    Unauthorized,
    /// The credentials are known but may not do this (403).
    Forbidden,
    /// The catalog does not know the warehouse.
    NoWarehouse,
    /// The catalog answered with this status although the request was sound.
    Failing(u16),
}

/// The latest trouble with a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// Names the catalog and the cause; holds no credential.
    pub message: String,
    pub at: Instant,
}

/// Remembers the latest problem of one registration, and logs when trouble begins and ends.
pub struct Problems {
    address: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    latest: Option<Problem>,
    /// The catalog has not answered since `latest`.
    unreachable: bool,
}

impl Problems {
    pub fn new(address: String) -> Self {
        Self { address, state: Mutex::default() }
    }

    pub fn record(&self, kind: ProblemKind, message: String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.latest.as_ref().is_some_and(|p| p.kind == kind && p.message == message);
        let unreachable = kind == ProblemKind::Unreachable;
        if !known || (unreachable && !state.unreachable) {
            tracing::warn!(%message, "Iceberg catalog problem");
        }
        state.unreachable = unreachable;
        state.latest = Some(Problem { kind, message, at: Instant::now() });
    }

    /// Notes that the catalog answered.
    pub fn answered(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.unreachable) {
            tracing::info!(catalog = %self.address, "Iceberg catalog answers again");
        }
    }

    pub fn since(&self, since: Instant) -> Option<Problem> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.latest.clone().filter(|p| p.at >= since)
    }
}
