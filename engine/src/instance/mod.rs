//! DuckDB instances: one per PostgreSQL database and lake.
//!
//! The newest instance of a database stays warm between sessions; an older one (its lake was changed) goes with its
//! last session. The catalog is attached by the first statement that needs it, and again by the next one if that
//! failed, so nothing has to be restarted after an outage.

pub mod attach;
mod inputs;
pub mod settings;
mod stats;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use coldfront_common::frame::{Failure, Lake, TableStats};
use coldfront_common::ident::CATALOG_ALIAS;
use coldfront_common::sqlstate;
use metrics::gauge;

use crate::duckdb::{Connection, Database, Error, Interrupter, Kind, ResultStream};
use crate::failure::{self, Surroundings, failure};
use crate::gateway::{Gateway, RegisterError, Registration};
use crate::metrics as names;
use crate::server::{Request, SessionInputs};
use crate::staging::{Attribution, JournalDir, LOG_STORAGE};
use attach::{Endpoint, PURGE_ALIAS};
use inputs::ConnectionInputs;
use settings::Limits;
use stats::StatsCache;

/// Extensions every instance loads, in an order that satisfies their dependencies.
const EXTENSIONS: &[&str] = &["avro", "httpfs", "icu", "json", "iceberg"];

/// One instance.
pub struct Instance {
    pub number: u64,
    pub lake: Lake,
    database: Arc<Database>,
    inputs: Arc<ConnectionInputs>,
    /// The lake's place in the gateway; an error if no catalog is configured.
    registration: Result<Registration, RegisterError>,
    attached: Mutex<Attached>,
    stats: Arc<StatsCache>,
    pub attribution: Arc<Attribution>,
    pub journals: Arc<JournalDir>,
    limits: Limits,
    /// DuckDB refuses all work after a fatal error; the next session gets another instance.
    broken: AtomicBool,
}

#[derive(Default)]
struct Attached {
    storage: bool,
    catalog: bool,
    ice: bool,
    purge: bool,
}

/// A connection whose statements see the inputs of one session.
pub struct SessionConnection {
    connection: Connection,
    inputs: Arc<ConnectionInputs>,
    pub instance: Arc<Instance>,
}

impl Instance {
    fn open(shared: &Instances, number: u64, lake: Lake) -> Result<Arc<Self>, Error> {
        let database = Database::open(&shared.limits.open_settings(number))?;
        let mut connection = database.connect()?;
        for name in EXTENSIONS.iter().chain(attach::extra_extensions(&lake)) {
            connection.execute(&format!("LOAD {name}"))?;
        }
        connection.execute(&settings::instance_sql())?;
        let attribution = Arc::new(Attribution::default());
        database.register_log(LOG_STORAGE, attribution.clone())?;
        connection.execute(&Attribution::enable_sql())?;
        let inputs = ConnectionInputs::new(&database);
        database.serve_inputs(inputs.clone())?;
        gauge!(names::INSTANCES).increment(1);
        let registration = shared.gateway.register(&lake);
        let stats = Arc::new(StatsCache::default());
        if let Ok(registration) = &registration {
            StatsCache::follow(&stats, registration);
        }
        let attached = Mutex::default();
        let journals = shared.journals.clone();
        Ok(Arc::new(Self {
            number,
            lake,
            database,
            inputs,
            registration,
            attached,
            stats,
            attribution,
            journals,
            limits: shared.limits.clone(),
            broken: AtomicBool::new(false),
        }))
    }

    /// Opens a connection for a session.
    pub fn connect(self: &Arc<Self>, session: &Arc<SessionInputs>) -> Result<SessionConnection, Error> {
        let mut connection = self.database.connect()?;
        connection.execute(&settings::connection_sql())?;
        self.inputs.add(connection.id(), session);
        Ok(SessionConnection { connection, inputs: self.inputs.clone(), instance: self.clone() })
    }

    /// The lake's place in the gateway, if a catalog is configured.
    pub fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref().ok()
    }

    /// True if `sql` needs an attachment that is not there yet.
    pub fn lacks_attachment(&self, sql: &str) -> bool {
        let attached = self.attached();
        (attach::mentions(sql, CATALOG_ALIAS) && !attached.ice)
            || (attach::mentions(sql, PURGE_ALIAS) && !attached.purge)
    }

    /// Attaches what `sql` mentions, on behalf of `request`.
    pub fn attach_for(&self, sql: &str, request: &Request) -> Result<(), Failure> {
        let explain = |error: Error| self.explain(&error, request.began);
        let registration = match &self.registration {
            Ok(registration) => registration,
            Err(error) => return Err(no_catalog(error)),
        };
        let mut attached = self.attached();
        let mut connection = self.database.connect().map_err(explain)?;
        let mut run = |sql: &str| request.call(connection.interrupter(), || connection.execute(sql)).map_err(explain);
        let endpoint = Endpoint { uri: &registration.endpoint, token: &registration.token };
        if !attached.storage {
            if let Some(secret) = attach::storage_secret(&self.lake) {
                run(&secret)?;
            }
            attached.storage = true;
        }
        if !attached.catalog {
            run(&attach::catalog_secret(&endpoint))?;
            attached.catalog = true;
        }
        if attach::mentions(sql, CATALOG_ALIAS) && !attached.ice {
            run(&attach::attach(&self.lake, &endpoint, CATALOG_ALIAS))?;
            attached.ice = true;
        }
        if attach::mentions(sql, PURGE_ALIAS) && !attached.purge {
            run(&attach::attach(&self.lake, &endpoint, PURGE_ALIAS))?;
            attached.purge = true;
        }
        Ok(())
    }

    /// Says in PostgreSQL's terms what went wrong with a request that began at `since`.
    pub fn explain(&self, error: &Error, since: Instant) -> Failure {
        if error.kind == Kind::Fatal || error.message.contains("database has been invalidated") {
            self.broken.store(true, Ordering::Release);
            tracing::error!(instance = self.number, %error, "a DuckDB instance is broken");
        }
        failure::from_duckdb(error, &self.surroundings(since))
    }

    /// For mapping errors of a request that began at `since`.
    pub fn surroundings(&self, since: Instant) -> Surroundings<'_> {
        Surroundings { lake: &self.lake, registration: self.registration(), limits: &self.limits, since }
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// The size of a table's current snapshot.
    pub fn table_stats(&self, namespace: &str, table: &str, fresh: bool) -> Result<TableStats, Failure> {
        let registration = self.registration.as_ref().map_err(no_catalog)?;
        self.stats.get(registration, namespace, table, fresh).map_err(|e| failure::from_catalog(&e))
    }

    fn attached(&self) -> MutexGuard<'_, Attached> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_catalog(error: &RegisterError) -> Failure {
    let hint = "Set coldfront.warehouse and coldfront.lakekeeper_endpoint.";
    Failure { hint: Some(hint.into()), ..failure(sqlstate::UNDEFINED_OBJECT, error.to_string()) }
}

impl Drop for Instance {
    fn drop(&mut self) {
        gauge!(names::INSTANCES).decrement(1);
        // DuckDB leaves the directory behind, empty.
        let _ = std::fs::remove_dir_all(self.limits.instance_spill_dir(self.number));
        tracing::info!(instance = self.number, "closed a DuckDB instance");
    }
}

impl SessionConnection {
    pub fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        self.connection.execute(sql)
    }

    pub fn stream(&mut self, sql: &str) -> Result<ResultStream, Error> {
        self.connection.stream(sql)
    }

    pub fn interrupter(&self) -> Interrupter {
        self.connection.interrupter()
    }

    /// The inputs that statements on this connection opened since the last call.
    pub fn take_used_inputs(&self) -> Vec<u64> {
        self.inputs.take_used(self.connection.id())
    }
}

impl Drop for SessionConnection {
    fn drop(&mut self) {
        self.inputs.remove(self.connection.id());
    }
}

/// All instances of the process.
pub struct Instances {
    limits: Limits,
    gateway: Gateway,
    journals: Arc<JournalDir>,
    /// Told when an instance was opened.
    opened: Sender<()>,
    next: AtomicU64,
    newest: Mutex<HashMap<String, Arc<Instance>>>,
}

impl Instances {
    /// `opened` is told whenever an instance was opened.
    pub fn new(limits: Limits, gateway: Gateway, journals: Arc<JournalDir>, opened: Sender<()>) -> Self {
        Self { limits, gateway, journals, opened, next: AtomicU64::new(1), newest: Mutex::default() }
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
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let instance = Instance::open(self, number, lake.clone()).map_err(|error| {
            let at = Surroundings { lake, registration: None, limits: &self.limits, since: Instant::now() };
            failure::from_duckdb(&error, &at)
        })?;
        tracing::info!(instance = number, database, ?lake, "opened a DuckDB instance");
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

    /// The newest instance of each database.
    pub fn all(&self) -> Vec<Arc<Instance>> {
        self.newest().values().cloned().collect()
    }

    fn newest(&self) -> MutexGuard<'_, HashMap<String, Arc<Instance>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
