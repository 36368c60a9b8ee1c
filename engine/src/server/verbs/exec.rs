//! `Exec` runs a statement to its end, possibly fed by an input that arrives meanwhile.

use std::sync::Arc;
use std::time::Instant;

use coldfront_common::frame::{Done, Exec, Failure, Frame, Kind, Scope};

use super::{done, make_ready, parse};
use crate::failure;
use crate::server::request::Request;
use crate::server::scopes::{Transaction, Write};
use crate::server::session::Session;
use crate::server::worker::{self, Answer, Worker};

pub fn exec(worker: &mut Worker, request: &Arc<Request>, frame: &Frame) -> Result<Answer, Failure> {
    let exec: Exec = parse(frame)?;
    let input = exec.input;
    let outcome = start(worker, request, exec);
    if let (Some(number), Err(_)) = (input, &outcome) {
        worker.session.inputs.remove(number);
    }
    outcome
}

fn start(worker: &mut Worker, request: &Arc<Request>, exec: Exec) -> Result<Answer, Failure> {
    let instance = make_ready(worker, request, exec.scope, &exec.sql)?;
    let inputs = worker.session.inputs.clone();
    let transaction = worker.scopes.get(exec.scope, &instance, &inputs)?;
    if let (Some(number), Scope::Write) = (exec.input, exec.scope) {
        return beside(worker, request, exec.sql, number);
    }
    let outcome = run(&worker.session, transaction, request, &exec.sql);
    worker.scopes.undo_failed_write();
    done(outcome?)
}

/// Runs the statement on `transaction` and drops the inputs that it read.
fn run(session: &Session, transaction: &mut Transaction, request: &Request, sql: &str) -> Result<u64, Failure> {
    transaction.prepare(sql);
    let outcome = transaction.call(request, |c| c.execute(sql));
    for number in transaction.connection.take_used_inputs() {
        session.inputs.remove(number);
    }
    outcome
}

/// Runs the statement in a thread of its own, which answers and then waits to be joined.
fn beside(worker: &mut Worker, request: &Arc<Request>, sql: String, number: u64) -> Result<Answer, Failure> {
    let Some(mut transaction) = worker.scopes.take_write() else {
        return Err(failure::protocol("the write transaction is in use"));
    };
    let (session, owned) = (worker.session.clone(), request.clone());
    let name = format!("exec-{}", session.number);
    let count = session.count_worker();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _count = count;
        let began = Instant::now();
        let outcome = run(&session, &mut transaction, &owned, &sql);
        session.inputs.remove(number);
        match outcome {
            Ok(rows) => {
                worker::record("exec", "ok", began);
                let payload = serde_json::to_vec(&Done { rows }).unwrap_or_default();
                session.answer(&owned, Kind::Done, &payload);
            }
            Err(failure) => {
                worker::record("exec", &failure.sqlstate, began);
                session.fail(&owned, &failure);
            }
        }
        if transaction.failed {
            transaction.undo();
        }
        transaction
    });
    let thread =
        thread.map_err(|e| failure::failure("53000", format!("cannot start a thread for a statement: {e}")))?;
    worker.scopes.write = Write::Busy { request: request.clone(), thread };
    Ok(Answer::Later)
}
