//! Cancels requests, for as long as it takes.
//!
//! DuckDB forgets an interrupt that arrives while a statement starts, so it is repeated. A statement that does not
//! listen at all (it hangs in a network call) is given up: its client gets the answer, its thread is left to end by
//! itself, and a fresh worker serves the session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::request::Request;
use super::session::Session;
use super::worker;
use crate::failure::failure;
use coldfront_common::sqlstate;

/// How often an interrupt is repeated.
const REPEAT: Duration = Duration::from_millis(20);
/// How long a cancelled request may take before its thread is given up.
const GIVE_UP: Duration = Duration::from_millis(1000);

/// Cancels request `seq`. Nothing happens if it was answered already.
pub fn cancel(session: &Arc<Session>, seq: u32) {
    let Some(request) = session.requests.get(seq) else { return };
    if request.is_protected() || request.is_cancelled() {
        return;
    }
    request.cancel();
    let generation = session.inbox.generation();
    let watched = session.clone();
    let spawned =
        std::thread::Builder::new().name("cancel".into()).spawn(move || watch(&watched, &request, generation));
    if let Err(error) = spawned {
        tracing::warn!(session = session.number, %error, "cannot watch a cancelled request");
    }
}

fn watch(session: &Arc<Session>, request: &Request, generation: u64) {
    let began = Instant::now();
    let mut given_up = false;
    // A thread that was given up is told for as long as it makes calls.
    while !session.is_over() && (!request.is_answered() || (given_up && request.is_running())) {
        std::thread::sleep(REPEAT);
        if !request.interrupt() {
            // It waits for its turn. Reading ahead may be what it waits for, in a stream of the same statement.
            session.requests.while_open(request.seq, || {
                session.background.interrupt();
            });
        }
        if !given_up && began.elapsed() >= GIVE_UP {
            give_up(session, request, generation);
            given_up = true;
        }
    }
}

fn give_up(session: &Arc<Session>, request: &Request, generation: u64) {
    session.fail(request, &failure(sqlstate::QUERY_CANCELED, "the statement was cancelled"));
    if let Some(next) = session.inbox.retire(generation) {
        tracing::warn!(session = session.number, "a cancelled statement does not stop; its thread is left behind");
        worker::spawn(session.clone(), next, true);
    }
}
