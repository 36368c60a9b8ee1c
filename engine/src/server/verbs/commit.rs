//! `Commit`: publishes the write transaction and ends every read snapshot.

use std::sync::Arc;

use coldfront_common::frame::Failure;

use super::done;
use crate::failure;
use crate::server::request::Request;
use crate::server::scopes::{Write, aborted};
use crate::server::worker::{Answer, Worker};

pub fn commit(worker: &mut Worker, request: &Arc<Request>) -> Result<Answer, Failure> {
    worker.scopes.join_answered();
    if matches!(worker.scopes.write, Write::Busy { .. }) {
        return Err(failure::protocol("commit while a statement still reads its rows"));
    }
    worker.streams.clear();
    worker.scopes.release_all();
    let outcome = match std::mem::take(&mut worker.scopes.write) {
        Write::Idle => Ok(()),
        Write::Open(mut transaction) if !transaction.failed => {
            transaction.live = None;
            let committed = transaction.call(request, |c| c.execute("COMMIT"));
            match committed {
                Ok(_) => {
                    worker.scopes.keep(transaction.connection);
                    Ok(())
                }
                Err(error) => Err(failure::from_duckdb(&error)),
            }
        }
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
