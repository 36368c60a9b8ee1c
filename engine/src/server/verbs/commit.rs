//! `Commit`: publishes the write transaction and ends every read snapshot.

use coldfront_common::frame::Failure;

use super::done;
use crate::failure;
use crate::server::request::Request;
use crate::server::scopes::{Transaction, Write, aborted};
use crate::server::worker::{Answer, Worker};

pub fn commit(worker: &mut Worker, request: &Request) -> Result<Answer, Failure> {
    worker.scopes.join_answered();
    if matches!(worker.scopes.write, Write::Busy { .. }) {
        return Err(failure::protocol("commit while a statement still reads its rows"));
    }
    worker.streams.clear();
    worker.scopes.release_all();
    let outcome = match std::mem::take(&mut worker.scopes.write) {
        Write::Idle => Ok(()),
        Write::Open(transaction) if !transaction.failed => publish(worker, request, transaction),
        // DuckDB would answer COMMIT with success here and publish nothing.
        Write::Open(transaction) => {
            worker.scopes.retire(transaction);
            Err(aborted())
        }
        Write::Lost | Write::Busy { .. } => Err(aborted()),
    };
    worker.session.inputs.clear();
    outcome?;
    done(0)
}

fn publish(worker: &mut Worker, request: &Request, mut transaction: Transaction) -> Result<(), Failure> {
    let staging = transaction.staging.take();
    let instance = transaction.connection.instance.clone();
    let mut commit = || transaction.connection.execute("COMMIT");
    let outcome = match staging {
        Some(staging) => {
            staging.commit(commit).map_err(|e| failure::from_commit(&e, &instance.surroundings(request.began)))
        }
        None => commit().map(drop).map_err(|e| instance.explain(&e, request.began)),
    };
    worker.scopes.keep(transaction.connection);
    outcome
}
