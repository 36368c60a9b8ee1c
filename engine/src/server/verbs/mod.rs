//! What each request does, one file per verb.

mod close;
mod commit;
mod exec;
mod hello;
mod query;
mod rollback;
mod stats;

pub use close::close_stream;
pub use commit::commit;
pub use exec::exec;
pub use hello::hello;
pub use query::{fetch, query};
pub use rollback::rollback;
pub use stats::stats;

use std::sync::Arc;

use coldfront_common::frame::{Done, Failure, Frame, Kind, Scope};
use serde::{Serialize, de::DeserializeOwned};

use super::request::Request;
use super::worker::{Answer, Worker};
use crate::failure;
use crate::instance::Instance;

fn parse<T: DeserializeOwned>(frame: &Frame) -> Result<T, Failure> {
    frame.json().map_err(|error| failure::protocol(format!("{:?}: {error}", frame.kind)))
}

fn json<T: Serialize>(kind: Kind, value: &T) -> Result<Answer, Failure> {
    let payload = serde_json::to_vec(value).map_err(|error| failure::protocol(error.to_string()))?;
    Ok(Answer::Frame(kind, payload))
}

fn done(rows: u64) -> Result<Answer, Failure> {
    json(Kind::Done, &Done { rows })
}

/// The session's instance, opened if need be.
fn instance(worker: &mut Worker) -> Result<Arc<Instance>, Failure> {
    if let Some(instance) = worker.instance.as_ref().filter(|instance| !instance.is_broken()) {
        return Ok(instance.clone());
    }
    let Some(hello) = worker.session.hello() else { return Err(failure::protocol("no hello yet")) };
    let instance = worker.session.engine.instances.acquire(&hello.database, &hello.lake)?;
    worker.session.add_secrets(instance.registration().map(|registration| registration.token.clone()));
    // A spare connection belongs to the instance before.
    worker.scopes.drop_spare();
    worker.instance = Some(instance.clone());
    Ok(instance)
}

/// Gets ready for a statement on `scope`: attaches what it needs and frees the connection of a stream.
fn make_ready(worker: &mut Worker, request: &Request, scope: Scope, sql: &str) -> Result<Arc<Instance>, Failure> {
    let instance = instance(worker)?;
    if instance.lacks_attachment(sql) {
        instance.attach_for(sql, request)?;
    }
    worker.streams.park(scope, &mut worker.scopes, request, &worker.session.engine.spill);
    Ok(instance)
}
