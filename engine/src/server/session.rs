//! One client: its socket, its requests, its inputs, and the threads that serve it.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use coldfront_common::frame::{self, Failure, Hello, Kind};
use coldfront_common::redact;

use super::inbox::Inbox;
use super::input::Input;
use super::request::{Request, Requests};
use crate::engine::Engine;

/// How long a client that broke the protocol may take to read its last answer.
const HANG_UP_PATIENCE: Duration = Duration::from_millis(200);
/// How much of what it still sends is read, in bytes.
const HANG_UP_BYTES: u64 = 16 * 1024 * 1024;

/// What the threads of one session share.
pub struct Session {
    pub number: u64,
    pub engine: Arc<Engine>,
    pub requests: Requests,
    pub inbox: Inbox,
    pub inputs: Arc<SessionInputs>,
    /// Stands for work that no request waits for, so that the end of the session can stop it.
    pub background: Arc<Request>,
    hello: OnceLock<Hello>,
    /// What may appear in no answer.
    secrets: Mutex<Vec<String>>,
    socket: UnixStream,
    writing: Mutex<()>,
    over: AtomicBool,
    workers: Mutex<usize>,
    worker_ended: Condvar,
}

impl Session {
    pub fn new(number: u64, engine: Arc<Engine>, socket: UnixStream) -> Arc<Self> {
        Arc::new(Self {
            number,
            engine,
            requests: Requests::default(),
            inbox: Inbox::default(),
            inputs: Arc::default(),
            background: Request::new(0),
            hello: OnceLock::new(),
            secrets: Mutex::default(),
            socket,
            writing: Mutex::default(),
            over: AtomicBool::new(false),
            workers: Mutex::default(),
            worker_ended: Condvar::new(),
        })
    }

    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Remembers who the client is. False if it said so before.
    pub fn set_hello(&self, hello: Hello) -> bool {
        self.add_secrets(hello.lake.secrets());
        self.hello.set(hello).is_ok()
    }

    /// Hides these values in every answer from now on.
    pub fn add_secrets(&self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }

    pub fn hello(&self) -> Option<&Hello> {
        self.hello.get()
    }

    /// Answers a request, unless it was answered before. A client that does not take the answer is disconnected.
    pub fn answer(&self, request: &Request, kind: Kind, payload: &[u8]) {
        if !request.claim_answer() {
            return;
        }
        self.requests.close(request.seq);
        if let Err(error) = self.write(&frame::encode(kind, request.seq, &[payload])) {
            tracing::debug!(session = self.number, %error, "cannot answer");
            self.disconnect();
        }
    }

    /// Answers with an error; credentials are masked here, so no failure can carry one out.
    pub fn fail(&self, request: &Request, failure: &Failure) {
        let masked = self.mask(failure);
        let payload = serde_json::to_vec(&masked).unwrap_or_default();
        self.answer(request, Kind::Error, &payload);
    }

    /// Hides credentials in a failure.
    fn mask(&self, failure: &Failure) -> Failure {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mask = |text: &String| redact::mask(text, &secrets);
        Failure {
            sqlstate: failure.sqlstate.clone(),
            message: mask(&failure.message),
            detail: failure.detail.as_ref().map(mask),
            hint: failure.hint.as_ref().map(mask),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut (&self.socket), bytes)
    }

    /// Closes the socket in both directions; the reader then ends the session.
    pub fn disconnect(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Closes the socket so that the client can still read the last answer: one that is closed with frames unread would
    /// take the answer with it.
    pub fn hang_up(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        let _ = self.socket.set_read_timeout(Some(HANG_UP_PATIENCE));
        let mut rest = (&self.socket).take(HANG_UP_BYTES);
        let _ = io::copy(&mut rest, &mut io::sink());
        self.disconnect();
    }

    /// Stops everything that runs for this session.
    pub fn stop(&self) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        self.inputs.abort_all("the connection ended before the input did");
        self.inbox.close();
        self.background.cancel();
        for request in self.requests.all() {
            request.cancel();
        }
    }

    /// Counts a thread that works for this session until the returned guard is dropped.
    pub fn count_worker(self: &Arc<Self>) -> WorkerCount {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        WorkerCount(self.clone())
    }

    /// Waits until every thread that works for this session has ended.
    pub fn wait_for_workers(&self) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        while *workers > 0 {
            workers = self.worker_ended.wait(workers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// See [`Session::count_worker`].
pub struct WorkerCount(Arc<Session>);

impl Drop for WorkerCount {
    fn drop(&mut self) {
        *self.0.workers.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.worker_ended.notify_all();
    }
}

/// The inputs of one session by number.
#[derive(Default)]
pub struct SessionInputs(Mutex<HashMap<u64, Arc<Input>>>);

impl SessionInputs {
    pub fn get(&self, number: u64) -> Option<Arc<Input>> {
        self.map().get(&number).cloned()
    }

    /// Adds an input, or returns the one that has the number already.
    pub fn get_or_add(&self, number: u64, make: impl FnOnce() -> Arc<Input>) -> Arc<Input> {
        self.map().entry(number).or_insert_with(make).clone()
    }

    /// Drops an input. One that still arrives stays, failed, so that its remaining frames are recognised and discarded.
    pub fn remove(&self, number: u64) {
        let mut map = self.map();
        if map.get(&number).is_some_and(|input| input.discard()) {
            map.remove(&number);
        }
    }

    /// Drops all inputs, likewise.
    pub fn clear(&self) {
        self.map().retain(|_, input| !input.discard());
    }

    /// Drops an input whose last frame came, if nobody will read it. One that failed stays: the statement that names it
    /// tells why.
    pub fn forget_discarded(&self, number: u64) {
        let mut map = self.map();
        if map.get(&number).is_some_and(|input| input.is_discarded()) {
            map.remove(&number);
        }
    }

    /// Fails every input that is not complete.
    pub fn abort_all(&self, text: &str) {
        for input in self.map().values() {
            input.abort(text);
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<u64, Arc<Input>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
