//! Reads a session's frames: cancels at once, fills inputs, and queues everything else for the worker.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::sync::Arc;

use coldfront_common::frame::{self, Exec, Frame, Kind};

use super::inbox::Job;
use super::input::{Input, InputError};
use super::request::Request;
use super::session::Session;
use super::{cancel, peer};
use crate::failure;

/// Bytes of an input frame's number.
const INPUT_NUMBER_BYTES: usize = 8;

/// Reads until the client goes away. Errors are violations of the protocol or of the socket.
pub fn run(session: &Arc<Session>) -> io::Result<()> {
    let mut source = BufReader::with_capacity(64 * 1024, session.socket());
    // Inputs whose InputEnd has not come; their frames are discarded once nobody wants them.
    let mut arriving = HashMap::new();
    while let Some(frame) = frame::read(&mut source)? {
        match frame.kind {
            Kind::Cancel => cancel::cancel(session, frame.seq),
            Kind::InputOpen | Kind::InputData | Kind::InputEnd => take_input(session, &mut arriving, frame)?,
            Kind::CloseStream => session.inbox.push(Job { request: None, frame }),
            _ => queue(session, frame),
        }
    }
    Ok(())
}

fn queue(session: &Arc<Session>, frame: Frame) {
    let request = session.requests.add(match frame.kind {
        // Half a commit helps nobody, and what it became must be found out.
        Kind::Commit | Kind::Rollback => Request::protected(frame.seq),
        _ => Request::new(frame.seq),
    });
    if frame.kind == Kind::Exec
        && let Ok(Exec { input: Some(number), .. }) = frame.json()
    {
        let spill = session.engine.spill.clone();
        let input = session.inputs.get_or_add(number, || Input::passed_on(number, spill, request.clone()));
        input.attach(request.clone());
    }
    session.inbox.push(Job { request: Some(request), frame });
}

fn take_input(session: &Arc<Session>, arriving: &mut HashMap<u64, Arc<Input>>, frame: Frame) -> io::Result<()> {
    let (number, _) = frame.input()?;
    if frame.kind == Kind::InputOpen {
        let spill = session.engine.spill.clone();
        arriving.insert(number, session.inputs.get_or_add(number, || Input::kept(number, spill)));
    }
    let Some(input) = arriving.get(&number) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("input {number} is not open")));
    };
    let outcome = match frame.kind {
        Kind::InputOpen => input.open(&frame.payload[INPUT_NUMBER_BYTES..]),
        Kind::InputData => input.push(frame.payload, INPUT_NUMBER_BYTES, &|| peer::is_gone(session.socket())),
        _ => input.complete(),
    };
    if frame.kind == Kind::InputEnd {
        arriving.remove(&number);
        session.inputs.forget_discarded(number);
    }
    // A failed input is told by the statement that reads it, and its remaining frames are discarded.
    if let Err(InputError(text)) = outcome {
        tracing::debug!(session = session.number, input = number, text, "an input failed");
    }
    Ok(())
}

/// Answers what a client sent when its frames cannot be understood any more.
pub fn refuse(session: &Session, error: &io::Error) {
    let request = session.requests.add(Request::new(0));
    session.fail(&request, &failure::protocol(format!("protocol violation: {error}")));
}
