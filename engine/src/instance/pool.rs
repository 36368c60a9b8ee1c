//! The instances of the process: who shares one, which stay warm, and a blank one made in advance.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use coldfront_common::frame::{Failure, Lake};

use super::Instance;
use super::blank::Blank;
use super::settings::Limits;
use crate::duckdb::Error;
use crate::failure::{self, Surroundings};
use crate::gateway::Gateway;
use crate::staging::JournalDir;

/// All instances of the process.
pub struct Instances {
    limits: Limits,
    gateway: Gateway,
    journals: Arc<JournalDir>,
    /// Told when an instance was opened.
    opened: Sender<()>,
    next: AtomicU64,
    /// A blank made in advance. Held while it is made.
    spare: Mutex<Option<Blank>>,
    newest: Mutex<HashMap<String, Arc<Instance>>>,
    /// Why no instance can be opened, if that is so.
    trouble: Mutex<Option<String>>,
}

impl Instances {
    /// `opened` is told whenever an instance was opened.
    pub fn new(limits: Limits, gateway: Gateway, journals: Arc<JournalDir>, opened: Sender<()>) -> Self {
        Self {
            limits,
            gateway,
            journals,
            opened,
            next: AtomicU64::new(1),
            spare: Mutex::default(),
            newest: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// The instance for `database` and `lake`, opened if need be.
    pub fn acquire(&self, database: &str, lake: &Lake) -> Result<Arc<Instance>, Failure> {
        if let Some(instance) = self.newest().get(database)
            && instance.lake == *lake
            && !instance.is_broken()
        {
            return Ok(instance.clone());
        }
        // Opened outside the lock: it takes most of a second. Two sessions may race; the second keeps the first's.
        let instance = self.open(lake).map_err(|error| {
            let at = Surroundings { lake, registration: None, limits: &self.limits, since: Instant::now() };
            failure::from_duckdb(&error, &at)
        })?;
        tracing::info!(instance = instance.number, database, ?lake, "opened a DuckDB instance");
        let mut newest = self.newest();
        if let Some(other) = newest.get(database)
            && other.lake == *lake
            && !other.is_broken()
        {
            return Ok(other.clone());
        }
        let replaced = newest.insert(database.to_owned(), instance.clone());
        drop(newest);
        // Closing may take a while, so not under the lock.
        drop(replaced);
        // Nobody listens while the engine stops.
        let _ = self.opened.send(());
        Ok(instance)
    }

    fn open(&self, lake: &Lake) -> Result<Arc<Instance>, Error> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        let blank = spare.map_or_else(|| self.blank(), Ok)?;
        Instance::new(blank, lake.clone(), &self.gateway, self.journals.clone())
    }

    fn blank(&self) -> Result<Blank, Error> {
        let opened = Blank::open(&self.limits, self.next.fetch_add(1, Ordering::Relaxed));
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = opened.as_ref().err().map(|e| e.message.clone());
        opened
    }

    /// Why no instance can be opened, if that is so.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a blank instance, so that the first session need not wait for it.
    pub fn warm_up(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_none() {
            match self.blank() {
                Ok(blank) => *spare = Some(blank),
                // The session that needs an instance will be told.
                Err(error) => tracing::error!(%error, "cannot open a DuckDB instance"),
            }
        }
    }

    /// The newest instance of each database.
    pub fn all(&self) -> Vec<Arc<Instance>> {
        self.newest().values().cloned().collect()
    }

    fn newest(&self) -> MutexGuard<'_, HashMap<String, Arc<Instance>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
