//! `Rollback`: ends everything that is open and undoes the write transaction.

use coldfront_common::frame::Failure;

use super::done;
use crate::server::scopes::Write;
use crate::server::worker::{Answer, Worker};

pub fn rollback(worker: &mut Worker) -> Result<Answer, Failure> {
    worker.streams.clear();
    worker.scopes.release_all();
    worker.scopes.stop_busy();
    if let Some(transaction) = worker.scopes.take_write() {
        worker.scopes.retire(transaction);
    }
    worker.scopes.write = Write::Idle;
    worker.session.inputs.clear();
    done(0)
}
