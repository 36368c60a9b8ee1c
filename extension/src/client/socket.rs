//! Interruptible I/O on the engine's Unix socket.
//!
//! Every wait goes through the process latch, so Ctrl-C, statement_timeout and termination are seen at once:
//! the engine is told to cancel, given a moment to answer, and then the interrupt is served.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use coldfront_common::frame::{self, Frame, Kind};

use crate::{
    error::{Error, Result},
    pg::interrupts,
};

/// How long a cancelled request may take to answer before its connection is given up.
const CANCEL_GRACE: Duration = Duration::from_millis(1_500);
/// How often a connect is tried again while the engine starts.
pub const CONNECT_RETRY_MS: i64 = 20;

/// Whether a wait gives way to interrupts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interrupts {
    /// Cancel the request and raise.
    Serve,
    /// Hold them off: the outcome must be learnt (commit).
    Hold,
}

pub struct Socket {
    stream: UnixStream,
    healthy: bool,
}

impl Socket {
    pub fn connect(path: &str, wait_ms: i32) -> Result<Self> {
        let deadline = Instant::now() + Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
        loop {
            let error = match UnixStream::connect(path) {
                Ok(stream) => {
                    stream.set_nonblocking(true).map_err(|e| lost(&e))?;
                    return Ok(Self { stream, healthy: true });
                }
                Err(error) => error,
            };
            let starting = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
            if !starting || Instant::now() >= deadline {
                return Err(Error::EngineUnavailable { socket: path.to_owned(), cause: error.to_string() });
            }
            interrupts::serve();
            interrupts::wait_latch(CONNECT_RETRY_MS);
        }
    }

    /// Sends a whole frame; waits while the engine is busy (back-pressure).
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if interrupts::pending() {
                        // Half a frame is out: the session cannot be continued.
                        self.healthy = false;
                        interrupts::serve();
                    }
                    if interrupts::others_pending() {
                        self.serve_others();
                        continue;
                    }
                    interrupts::wait_socket(self.stream.as_raw_fd(), interrupts::Ready::Write, -1);
                }
                Err(e) => return Err(self.fail(&e)),
            }
        }
        Ok(())
    }

    /// Sends without waiting; tells whether all of it went out.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        if !self.healthy {
            return false;
        }
        self.healthy = matches!(self.stream.write(bytes), Ok(n) if n == bytes.len());
        self.healthy
    }

    /// Receives the next frame. Under [`Interrupts::Serve`], an interrupt cancels request `seq` and is raised.
    pub fn receive(&mut self, mode: Interrupts, seq: u32) -> Result<Frame> {
        let mut head = [0; frame::HEAD_BYTES];
        self.fill(&mut head, mode, seq)?;
        let (kind, answered, length) = frame::decode_head(head).map_err(|e| self.fail(&e))?;
        let mut payload = vec![0; length];
        self.fill(&mut payload, mode, seq)?;
        Ok(Frame { kind, seq: answered, payload })
    }

    fn fill(&mut self, buffer: &mut [u8], mode: Interrupts, seq: u32) -> Result<()> {
        let mut cancelled_at: Option<Instant> = None;
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Err(self.fail(&ErrorKind::UnexpectedEof.into())),
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if mode == Interrupts::Serve && interrupts::others_pending() {
                        self.serve_others();
                    }
                    if mode == Interrupts::Serve && interrupts::pending() && cancelled_at.is_none() {
                        cancelled_at = Some(Instant::now());
                        self.try_send(&frame::encode(Kind::Cancel, seq, &[]));
                    }
                    if cancelled_at.is_some_and(|at| at.elapsed() > CANCEL_GRACE) {
                        self.healthy = false;
                        interrupts::serve();
                        return Err(lost(&io::Error::other("the engine did not stop when it was told to")));
                    }
                    let timeout = if cancelled_at.is_some() { 50 } else { -1 };
                    interrupts::wait_socket(self.stream.as_raw_fd(), interrupts::Ready::Read, timeout);
                }
                Err(e) => return Err(self.fail(&e)),
            }
        }
        Ok(())
    }

    /// Serves an interrupt after which the session goes on. A cancel that arrives meanwhile is raised from here, inside a
    /// frame, and the session cannot be continued.
    fn serve_others(&mut self) {
        let healthy = std::mem::replace(&mut self.healthy, false);
        interrupts::serve();
        self.healthy = healthy;
    }

    /// Whether bytes (or the end) wait to be read.
    pub fn is_readable(&self) -> bool {
        interrupts::poll_readable(self.stream.as_raw_fd())
    }

    pub fn is_healthy(&self) -> bool {
        self.healthy
    }

    fn fail(&mut self, error: &io::Error) -> Error {
        self.healthy = false;
        lost(error)
    }
}

fn lost(error: &io::Error) -> Error {
    let cause = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "The engine closed the connection; it may have crashed or been killed.".to_owned()
        }
        _ => format!("Talking to the engine failed: {error}."),
    };
    Error::EngineLost { cause }
}
