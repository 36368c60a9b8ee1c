//! The backend's end of the protocol with the engine.
//!
//! Blocking from the caller's view, interruptible underneath; starts no thread.

mod socket;

use std::time::{Duration, Instant};

use coldfront_common::frame::{self, Frame, Kind};

use crate::{
    error::{Error, Result},
    pg::interrupts,
};
pub use socket::Interrupts;
use socket::{CONNECT_RETRY_MS, Socket};

/// A session with the engine.
pub struct Connection {
    socket: Socket,
    next_seq: u32,
    /// The request that has not been answered yet.
    in_flight: Option<u32>,
    /// A posted request that will be answered. Nothing is sent before its answer has come: the engine reads inputs ahead
    /// of the requests it works on, and the end of one transaction must not meet the inputs of the next.
    unsettled: Option<u32>,
}

impl Connection {
    /// Connects and says hello. Waits up to `wait_ms` for an engine that is starting.
    pub fn open(path: &str, hello: &frame::Hello, wait_ms: i32) -> Result<Self> {
        let deadline = Instant::now() + Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
        loop {
            let left = i32::try_from(deadline.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(wait_ms);
            let mut connection =
                Self { socket: Socket::connect(path, left)?, next_seq: 1, in_flight: None, unsettled: None };
            match connection.call(Kind::Hello, Kind::Ready, hello, Interrupts::Serve) {
                Ok(_) => return Ok(connection),
                // An engine that is dying still takes connections for a moment.
                Err(Error::EngineLost { .. }) if Instant::now() < deadline => interrupts::wait_latch(CONNECT_RETRY_MS),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request with a JSON payload and waits for the answer of the expected kind.
    pub fn call<T: serde::Serialize>(
        &mut self,
        kind: Kind,
        answer: Kind,
        payload: &T,
        interrupts: Interrupts,
    ) -> Result<Frame> {
        let seq = self.send(kind, payload)?;
        self.wait(seq, answer, interrupts)
    }

    /// Sends a request with a JSON payload; the answer is fetched by [`Connection::wait`].
    pub fn send<T: serde::Serialize>(&mut self, kind: Kind, payload: &T) -> Result<u32> {
        self.settle()?;
        let seq = self.take_seq();
        self.socket.send(&frame::encode_json(kind, seq, payload))?;
        self.in_flight = Some(seq);
        Ok(seq)
    }

    /// Waits for the answer to what was posted.
    fn settle(&mut self) -> Result<()> {
        if let Some(posted) = self.unsettled.take() {
            while self.socket.receive(Interrupts::Serve, posted)?.seq != posted {}
        }
        Ok(())
    }

    /// Whether the engine is still there, asked before a transaction depends on it: the sockets of a process that was
    /// killed stay open for a moment after it.
    pub fn is_alive(&mut self) -> bool {
        self.is_healthy() && self.settle().is_ok() && self.post(Kind::Rollback, &[]) && self.settle().is_ok()
    }

    /// Sends part of an input, which is never answered.
    pub fn send_input(&mut self, kind: Kind, input: u64, payload: &[&[u8]]) -> Result<()> {
        let seq = self.take_seq();
        let id = input.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![&id];
        parts.extend_from_slice(payload);
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > frame::FRAME_MAX_BYTES - frame::HEAD_BYTES {
            return Err(Error::refused(
                "54000",
                format!("coldfront: a row is larger than {} MiB", frame::FRAME_MAX_BYTES >> 20),
                "Store large objects outside the table and keep their names in it.",
            ));
        }
        self.socket.send(&frame::encode(kind, seq, &parts))
    }

    /// Waits for the answer to request `seq`.
    pub fn wait(&mut self, seq: u32, answer: Kind, interrupts: Interrupts) -> Result<Frame> {
        self.wait_either(seq, answer, answer, interrupts)
    }

    /// Waits for the answer to request `seq` where two kinds are due.
    pub fn wait_either(&mut self, seq: u32, answer: Kind, other: Kind, interrupts: Interrupts) -> Result<Frame> {
        loop {
            let frame = match self.socket.receive(interrupts, seq) {
                Ok(frame) => frame,
                Err(error) => {
                    self.in_flight = None;
                    return Err(error);
                }
            };
            // An older number is the late answer to a request that was abandoned.
            if frame.seq != seq {
                continue;
            }
            self.in_flight = None;
            return sort(frame, answer, other);
        }
    }

    /// The answer to request `seq` if it has begun to arrive; late answers to abandoned requests are passed over.
    pub fn poll(&mut self, seq: u32, answer: Kind) -> Result<Option<Frame>> {
        while self.socket.is_readable() {
            let frame = self.socket.receive(Interrupts::Serve, seq)?;
            if frame.seq == seq {
                self.in_flight = None;
                return sort(frame, answer, answer).map(Some);
            }
        }
        Ok(None)
    }

    /// Sends something that needs no answer, as far as that is possible without waiting or failing;
    /// the return value tells whether the engine will see it.
    pub fn post(&mut self, kind: Kind, payload: &[u8]) -> bool {
        if let Some(seq) = self.in_flight.take()
            && !self.socket.try_send(&frame::encode(Kind::Cancel, seq, &[]))
        {
            return false;
        }
        let seq = self.take_seq();
        let sent = self.socket.try_send(&frame::encode(kind, seq, &[payload]));
        if sent && kind == Kind::Rollback {
            self.unsettled = Some(seq);
        }
        sent
    }

    /// [`Connection::post`] with a JSON payload.
    pub fn post_json<T: serde::Serialize>(&mut self, kind: Kind, payload: &T) -> bool {
        let json = serde_json::to_vec(payload).unwrap_or_default();
        self.post(kind, &json)
    }

    /// Whether the socket is still in step with the engine.
    pub fn is_healthy(&self) -> bool {
        self.socket.is_healthy()
    }

    fn take_seq(&mut self) -> u32 {
        let seq = self.next_seq;
        self.next_seq = self.next_seq.wrapping_add(1);
        seq
    }
}

/// Tells an expected answer from a failure.
fn sort(frame: Frame, answer: Kind, other: Kind) -> Result<Frame> {
    match frame.kind {
        kind if kind == answer || kind == other => Ok(frame),
        Kind::Error => Err(Error::Engine(decode(&frame)?)),
        kind => Err(lost(format!("The engine answered {kind:?} where {answer:?} was due."))),
    }
}

/// Decodes the JSON payload of an answer.
pub fn decode<T: serde::de::DeserializeOwned>(frame: &Frame) -> Result<T> {
    frame.json().map_err(|e| lost(format!("the engine's answer could not be read: {e}")))
}

fn lost(cause: String) -> Error {
    Error::EngineLost { cause }
}
