//! Executes a session's requests one after the other.
//!
//! Between requests it reads ahead in the stream that was fetched last. Only an `Exec` that is fed while it runs gets
//! a thread of its own, so that reads can go on beside it.

use std::sync::Arc;
use std::time::Instant;

use coldfront_common::frame::{Failure, Frame, Kind};
use metrics::{counter, histogram};

use super::inbox::{Job, Next};
use super::request::Request;
use super::scopes::{Scopes, Write};
use super::session::Session;
use super::streams::Streams;
use super::verbs;
use crate::failure;
use crate::instance::Instance;
use crate::metrics as names;

/// What one worker owns.
pub struct Worker {
    pub session: Arc<Session>,
    pub scopes: Scopes,
    pub streams: Streams,
    pub instance: Option<Arc<Instance>>,
    generation: u64,
}

/// What a verb leaves to say.
pub enum Answer {
    Frame(Kind, Vec<u8>),
    /// A thread answers later.
    Later,
}

/// Starts the worker of `generation`. `lost` tells that a write transaction was left behind with the previous one.
pub fn spawn(session: Arc<Session>, generation: u64, lost: bool) {
    let mut scopes = Scopes::default();
    if lost {
        scopes.write = Write::Lost;
    }
    let worker = Worker { session: session.clone(), scopes, streams: Streams::default(), instance: None, generation };
    let count = session.count_worker();
    let name = format!("session-{}", session.number);
    let spawned = std::thread::Builder::new().name(name).spawn(move || {
        worker.run();
        drop(count);
    });
    if let Err(error) = spawned {
        tracing::error!(session = session.number, %error, "cannot start a session's worker");
        session.disconnect();
    }
}

impl Worker {
    fn run(mut self) {
        while let Some(job) = self.next() {
            self.serve(job);
        }
        self.finish();
    }

    /// The next job; reads ahead while there is none.
    fn next(&mut self) -> Option<Job> {
        loop {
            match self.session.inbox.poll(self.generation) {
                Next::Job(job) => return Some(job),
                Next::Stop => return None,
                Next::Empty => {}
            }
            if !self.streams.read_ahead(&mut self.scopes, &self.session.background) {
                return self.session.inbox.wait(self.generation);
            }
        }
    }

    fn serve(&mut self, job: Job) {
        let Some(request) = job.request else {
            verbs::close_stream(self, &job.frame);
            return;
        };
        let began = Instant::now();
        let outcome = self.dispatch(&request, &job.frame);
        let kind = kind_label(job.frame.kind);
        match outcome {
            Ok(Answer::Frame(answer, payload)) => {
                record(kind, "ok", began);
                self.session.answer(&request, answer, &payload);
            }
            Ok(Answer::Later) => {}
            Err(failure) => {
                record(kind, &failure.sqlstate, began);
                self.session.fail(&request, &failure);
            }
        }
    }

    fn dispatch(&mut self, request: &Arc<Request>, frame: &Frame) -> Result<Answer, Failure> {
        if frame.kind == Kind::Hello {
            return verbs::hello(self, frame);
        }
        if self.session.hello().is_none() {
            return Err(failure::protocol("the first request of a session must be a hello"));
        }
        match frame.kind {
            Kind::Query => verbs::query(self, request, frame),
            Kind::Fetch => verbs::fetch(self, request, frame),
            Kind::Exec => verbs::exec(self, request, frame),
            Kind::Commit => verbs::commit(self, request),
            Kind::Rollback => verbs::rollback(self),
            Kind::Stats => verbs::stats(self, frame),
            other => Err(failure::protocol(format!("{other:?} is not a request"))),
        }
    }

    /// Undoes what is left when the session or this worker ends.
    fn finish(mut self) {
        self.streams.clear();
        self.scopes.abandon_busy();
        self.scopes.release_all();
        if let Some(transaction) = self.scopes.take_write() {
            self.scopes.retire(transaction);
        }
    }
}

/// Counts an ended statement.
pub fn record(kind: &'static str, outcome: &str, began: Instant) {
    counter!(names::STATEMENTS_TOTAL, "kind" => kind, "outcome" => outcome.to_owned()).increment(1);
    histogram!(names::STATEMENT_SECONDS, "kind" => kind).record(began.elapsed().as_secs_f64());
}

fn kind_label(kind: Kind) -> &'static str {
    match kind {
        Kind::Hello => "hello",
        Kind::Query => "query",
        Kind::Fetch => "fetch",
        Kind::Exec => "exec",
        Kind::Commit => "commit",
        Kind::Rollback => "rollback",
        Kind::Stats => "stats",
        _ => "other",
    }
}
