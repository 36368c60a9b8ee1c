//! DuckDB instances: one per PostgreSQL database and lake.
//!
//! The newest instance of a database stays warm between sessions; an older one (its lake was changed) goes with its
//! last session. The catalog is attached by the first statement that needs it, and again by the next one if that
//! failed, so nothing has to be restarted after an outage.

pub mod attach;
mod blank;
mod inputs;
mod pool;
pub mod settings;
mod stats;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use coldfront_common::frame::{Failure, Lake, Stats, TableStats};
use coldfront_common::ident::CATALOG_ALIAS;
use coldfront_common::sqlstate;
use metrics::gauge;

use crate::duckdb::{Connection, Database, Error, Interrupter, Kind, ResultStream};
use crate::failure::{self, Surroundings, failure};
use crate::gateway::{Gateway, RegisterError, Registration};
use crate::metrics as names;
use crate::server::{Request, SessionInputs};
use crate::staging::{Attribution, JournalDir};
pub use pool::Instances;

use attach::{Endpoint, PURGE_ALIAS};
use blank::Blank;
use inputs::ConnectionInputs;
use settings::Limits;
use stats::StatsCache;

/// One instance.
pub struct Instance {
    pub number: u64,
    pub lake: Lake,
    database: Arc<Database>,
    inputs: Arc<ConnectionInputs>,
    /// The lake's place in the gateway; an error if no catalog is configured.
    registration: Result<Registration, RegisterError>,
    /// Held while something is attached.
    attaching: Mutex<Secrets>,
    /// The catalog is attached as `ice`.
    ice: AtomicBool,
    /// The catalog is attached as `ice_drop_purge`.
    purge: AtomicBool,
    stats: Arc<StatsCache>,
    pub attribution: Arc<Attribution>,
    pub journals: Arc<JournalDir>,
    limits: Limits,
    /// DuckDB refuses all work after a fatal error; the next session gets another instance.
    broken: AtomicBool,
}

/// Which secrets the instance has.
#[derive(Default)]
struct Secrets {
    storage: bool,
    catalog: bool,
}

/// A connection whose statements see the inputs of one session.
pub struct SessionConnection {
    connection: Connection,
    inputs: Arc<ConnectionInputs>,
    pub instance: Arc<Instance>,
}

impl Instance {
    /// Gives a blank its lake. Contacts nothing.
    fn new(blank: Blank, lake: Lake, gateway: &Gateway, journals: Arc<JournalDir>) -> Result<Arc<Self>, Error> {
        let Blank { number, database, inputs, attribution, limits } = blank;
        let mut connection = database.connect()?;
        for name in attach::extra_extensions(&lake) {
            connection.execute(&format!("LOAD {name}"))?;
        }
        let registration = gateway.register(&lake);
        let stats = Arc::new(StatsCache::default());
        if let Ok(registration) = &registration {
            StatsCache::follow(&stats, registration);
            let attribution = attribution.clone();
            registration.on_commit(move |event| attribution.committed(event));
        }
        gauge!(names::INSTANCES).increment(1);
        Ok(Arc::new(Self {
            number,
            lake,
            database,
            inputs,
            registration,
            attaching: Mutex::default(),
            ice: AtomicBool::default(),
            purge: AtomicBool::default(),
            stats,
            attribution,
            journals,
            limits,
            broken: AtomicBool::default(),
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

    /// True if `sql` needs an attachment that is not there yet. Never waits.
    pub fn lacks_attachment(&self, sql: &str) -> bool {
        let lacks = |alias, attached: &AtomicBool| !attached.load(Ordering::Acquire) && attach::mentions(sql, alias);
        lacks(CATALOG_ALIAS, &self.ice) || lacks(PURGE_ALIAS, &self.purge)
    }

    /// Attaches what `sql` mentions, on behalf of `request`. What fails is tried again by the next statement.
    pub fn attach_for(&self, sql: &str, request: &Request) -> Result<(), Failure> {
        let explain = |error: Error| self.explain(&error, request.began);
        let registration = self.registration.as_ref().map_err(no_catalog)?;
        let endpoint = Endpoint { uri: &registration.endpoint, token: &registration.token };
        let mut secrets = self.attaching.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = self.database.connect().map_err(explain)?;
        let mut run = |sql: &str| request.call(connection.interrupter(), || connection.execute(sql)).map_err(explain);
        if !secrets.storage {
            if let Some(secret) = attach::storage_secret(&self.lake) {
                run(&secret)?;
            }
            secrets.storage = true;
        }
        if !secrets.catalog {
            run(&attach::catalog_secret(&endpoint))?;
            secrets.catalog = true;
        }
        for (alias, attached) in [(CATALOG_ALIAS, &self.ice), (PURGE_ALIAS, &self.purge)] {
            if attach::mentions(sql, alias) && !attached.load(Ordering::Acquire) {
                run(&attach::attach(&self.lake, &endpoint, alias))?;
                attached.store(true, Ordering::Release);
            }
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
    pub fn table_stats(&self, asked: &Stats) -> Result<TableStats, Failure> {
        let registration = self.registration.as_ref().map_err(no_catalog)?;
        self.stats.get(registration, asked).map_err(|e| failure::from_catalog(&e))
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
