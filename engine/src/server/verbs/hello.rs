//! `Hello`: who the client is and which lake it works on. Contacts nothing.

use coldfront_common::frame::{Failure, Frame, Hello, Kind, PROTOCOL_VERSION, Ready};

use super::{json, parse};
use crate::failure;
use crate::server::worker::{Answer, Worker};

pub fn hello(worker: &mut Worker, frame: &Frame) -> Result<Answer, Failure> {
    let hello: Hello = parse(frame)?;
    if hello.version != PROTOCOL_VERSION {
        let text = format!(
            "the extension speaks protocol {}, this engine speaks {PROTOCOL_VERSION}: install matching versions",
            hello.version
        );
        return Err(failure::protocol(text));
    }
    tracing::debug!(session = worker.session.number, database = hello.database, pid = hello.pid, lake = ?hello.lake, "hello");
    if !worker.session.set_hello(hello) {
        return Err(failure::protocol("a second hello in one session"));
    }
    json(Kind::Ready, &Ready { version: PROTOCOL_VERSION, engine: env!("CARGO_PKG_VERSION").into() })
}
