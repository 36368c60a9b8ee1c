//! What all sessions of the process share, and the thread that works in the background.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::instance::Instances;
use crate::spill::Spill;
use crate::staging;

/// How often to look for something to tidy up.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// How long a removal in hand may hold the end of the process up.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The engine.
pub struct Engine {
    pub instances: Instances,
    pub spill: Arc<Spill>,
    stopping: AtomicBool,
    background: Mutex<Option<JoinHandle<()>>>,
    /// Wakes the thread in the background.
    wake: Sender<()>,
}

impl Engine {
    /// Starts the engine. `wake` gets the thread in the background to work.
    pub fn start(
        instances: Instances,
        spill: Arc<Spill>,
        (wake, woken): (Sender<()>, Receiver<()>),
    ) -> io::Result<Arc<Self>> {
        let (stopping, background) = (AtomicBool::default(), Mutex::default());
        let engine = Arc::new(Self { instances, spill, stopping, background, wake });
        let weak = Arc::downgrade(&engine);
        let thread = std::thread::Builder::new().name("tidy".into()).spawn(move || tidy(&weak, &woken))?;
        *engine.background.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(engine)
    }

    /// Announces the end of the process.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _ = self.wake.send(());
    }

    /// Waits until the thread in the background has ended, but not for ever: what it leaves undone, the next start does.
    pub fn join(&self) {
        let thread = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        let began = Instant::now();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) && began.elapsed() < STOP_PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Makes an instance in advance; then removes what interrupted transactions left, once the credentials for it are known: with a lake's first session.
fn tidy(engine: &Weak<Engine>, woken: &Receiver<()>) {
    if let Some(engine) = engine.upgrade() {
        engine.instances.warm_up();
    }
    while woken.recv_timeout(TIDY_EVERY) != Err(RecvTimeoutError::Disconnected) {
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_stopping()) else { return };
        for instance in engine.instances.all() {
            staging::recover(&instance);
        }
    }
}
