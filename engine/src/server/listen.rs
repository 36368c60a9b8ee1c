//! The Unix socket: who may connect, and the threads of each session.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use metrics::gauge;

use super::session::Session;
use super::{peer, reader, worker};
use crate::engine::Engine;
use crate::http::Health;
use crate::metrics as names;

/// How long sessions may take to clean up when the engine stops.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// Why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {path}")]
    Bind { path: PathBuf, source: io::Error },
    #[error("another engine answers on {path}")]
    InUse { path: PathBuf },
}

/// The listening socket and the sessions that came through it.
pub struct Server {
    engine: Arc<Engine>,
    listener: UnixListener,
    path: PathBuf,
    sessions: Sessions,
    next: AtomicU64,
}

#[derive(Default)]
struct Sessions {
    open: Mutex<Vec<(Arc<Session>, std::thread::JoinHandle<()>)>>,
}

impl Server {
    /// Opens the socket for the owner only. A socket file that nobody answers on is replaced.
    pub fn bind(engine: Arc<Engine>, path: &Path) -> Result<Arc<Self>, ListenError> {
        if UnixStream::connect(path).is_ok() {
            return Err(ListenError::InUse { path: path.to_owned() });
        }
        let bind = || -> io::Result<UnixListener> {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // The mode must be right from the first moment: between bind and chmod anybody could connect.
            let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
            let listener = UnixListener::bind(path);
            rustix::process::umask(before);
            let listener = listener?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        let listener = bind().map_err(|source| ListenError::Bind { path: path.to_owned(), source })?;
        let (path, sessions, next) = (path.to_owned(), Sessions::default(), AtomicU64::new(1));
        Ok(Arc::new(Self { engine, listener, path, sessions, next }))
    }

    /// Accepts clients until [`Server::stop`].
    pub fn run(&self) {
        for stream in self.listener.incoming() {
            if self.engine.is_stopping() {
                return;
            }
            match stream {
                Ok(stream) => self.admit(stream),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Out of file descriptors, most likely; trying again at once would only burn a core.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn admit(&self, stream: UnixStream) {
        let own = rustix::process::geteuid().as_raw();
        match peer::uid(&stream) {
            Ok(uid) if uid == own => {}
            Ok(uid) => return tracing::warn!(uid, "refused a connection of another user"),
            Err(error) => return tracing::warn!(%error, "cannot tell who connects"),
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let session = Session::new(number, self.engine.clone(), stream);
        let owned = session.clone();
        let thread = std::thread::Builder::new().name(format!("reader-{number}")).spawn(move || serve(&owned));
        match thread {
            Ok(thread) => self.sessions.add(session, thread),
            Err(error) => tracing::error!(%error, "cannot start a thread for a session"),
        }
    }

    /// Stops accepting, ends all sessions, and waits until they have cleaned up.
    pub fn stop(&self) {
        self.engine.stop();
        let _ = std::fs::remove_file(&self.path);
        // Wakes the accept call.
        let _ = self.listener.set_nonblocking(true);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.sessions.stop();
        self.engine.join();
    }

    /// How the engine is.
    pub fn health(&self) -> Health {
        Health { sessions: self.sessions.count(), trouble: self.engine.instances.trouble() }
    }
}

impl Sessions {
    fn add(&self, session: Arc<Session>, thread: std::thread::JoinHandle<()>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, thread)| !thread.is_finished());
        open.push((session, thread));
    }

    fn count(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|(_, thread)| !thread.is_finished()).count()
    }

    fn stop(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for (session, _) in &open {
            session.disconnect();
            session.stop();
        }
        let began = Instant::now();
        while open.iter().any(|(_, thread)| !thread.is_finished()) {
            if began.elapsed() > STOP_PATIENCE {
                tracing::warn!("some sessions did not clean up in time; the next start will");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The life of one session; ends when its worker has cleaned up.
fn serve(session: &Arc<Session>) {
    gauge!(names::SESSIONS).increment(1);
    worker::spawn(session.clone(), 0, false);
    match reader::run(session) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            tracing::warn!(session = session.number, %error, "a session broke the protocol");
            reader::refuse(session, &error);
            session.hang_up();
        }
        // A client that goes away with answers unread, or in the middle of a frame, is nothing unusual.
        Err(error) => tracing::debug!(session = session.number, %error, "a client went away"),
        Ok(()) => {}
    }
    session.stop();
    session.wait_for_workers();
    // The socket may live on in the list of sessions.
    session.disconnect();
    gauge!(names::SESSIONS).decrement(1);
}
