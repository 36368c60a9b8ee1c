//! `CloseStream`: the client has seen enough. Never answered.

use coldfront_common::frame::{Frame, StreamId};

use crate::server::worker::Worker;

pub fn close_stream(worker: &mut Worker, frame: &Frame) {
    match frame.json::<StreamId>() {
        Ok(StreamId { stream }) => worker.streams.close(stream, &mut worker.scopes),
        Err(error) => {
            tracing::warn!(session = worker.session.number, %error, "an unreadable request to close a stream")
        }
    }
}
