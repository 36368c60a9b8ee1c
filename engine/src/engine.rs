//! What all sessions of the process share, and the thread that tidies up after interrupted transactions.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::instance::Instances;
use crate::spill::Spill;
use crate::staging;

/// How often to look for something to tidy up.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// The engine.
pub struct Engine {
    pub instances: Instances,
    pub spill: Arc<Spill>,
    stopping: AtomicBool,
}

impl Engine {
    /// Starts the engine. `opened` receives a message for every instance that is opened.
    pub fn start(instances: Instances, spill: Arc<Spill>, opened: Receiver<()>) -> io::Result<Arc<Self>> {
        let engine = Arc::new(Self { instances, spill, stopping: AtomicBool::new(false) });
        let weak = Arc::downgrade(&engine);
        std::thread::Builder::new().name("tidy".into()).spawn(move || tidy(&weak, &opened))?;
        Ok(engine)
    }

    /// Announces the end of the process.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Removes what interrupted transactions left, once the credentials for it are known: with a lake's first session.
fn tidy(engine: &Weak<Engine>, opened: &Receiver<()>) {
    while opened.recv_timeout(TIDY_EVERY) != Err(RecvTimeoutError::Disconnected) {
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_stopping()) else { return };
        for instance in engine.instances.all() {
            staging::recover(&instance);
        }
    }
}
