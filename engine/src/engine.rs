//! What all sessions of the process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::instance::Instances;
use crate::spill::Spill;

/// The engine.
pub struct Engine {
    pub instances: Instances,
    pub spill: Arc<Spill>,
    stopping: AtomicBool,
}

impl Engine {
    pub fn new(instances: Instances, spill: Arc<Spill>) -> Arc<Self> {
        Arc::new(Self { instances, spill, stopping: AtomicBool::new(false) })
    }

    /// Announces the end of the process.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
