//! The Iceberg REST gateway: one loopback address through which every Iceberg client of this node reaches the catalog.
//!
//! Each DuckDB instance registers its lake and gets a URL prefix and a bearer token of its own; what arrives there is
//! forwarded to the lake's catalog with the lake's credentials. The gateway runs in its own threads; everything public
//! here is for plain blocking threads and may not be called from inside an async runtime.
//!
//! Layers: `api` knows HTTP and routes, `verbs` what a request means, `store` how the catalog is reached.
//! None of them knows DuckDB or PostgreSQL, and none writes a credential anywhere but into a request upstream.

mod api;
pub mod client;
pub mod observe;
mod percent;
pub mod problem;
mod registry;
mod store;
mod table;
mod verbs;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use coldfront_common::frame::Lake;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use observe::{CommitEvent, CommitWatch};
use problem::Problem;
use registry::{Entry, Registry};
use store::transport::Transport;
use store::upstream::{BadCatalogUri, Upstream};

/// Threads that move bytes; there is hardly any computing in here.
const WORKER_THREADS: usize = 2;

/// Why the gateway could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start the threads of the Iceberg gateway")]
    Runtime(#[source] std::io::Error),
    #[error("cannot listen on a loopback port for the Iceberg gateway")]
    Listen(#[source] std::io::Error),
}

/// Why a lake could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("no Iceberg catalog is configured: set coldfront.lakekeeper_endpoint")]
    NoCatalog,
    #[error(transparent)]
    CatalogUri(#[from] BadCatalogUri),
    #[error("the system gives no random bytes for a gateway token")]
    Random,
}

/// A running gateway; clones are the same one. It stops when the last clone and the last [`Registration`] are gone.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    /// Present until dropped.
    runtime: Option<Runtime>,
    registry: Arc<Registry>,
    transport: Transport,
    address: SocketAddr,
}

impl Gateway {
    /// Listens on a loopback port of the system's choice.
    pub fn start() -> Result<Self, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("gateway")
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(StartError::Listen)?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let registry = Arc::new(Registry::default());
        // The connection pool starts its timers in the runtime it is made in.
        let transport = {
            let _entered = runtime.enter();
            Transport::new()
        };
        runtime.spawn(api::serve::serve(listener, registry.clone()));
        tracing::info!(%address, "Iceberg gateway is listening");
        Ok(Self { shared: Arc::new(Shared { runtime: Some(runtime), registry, transport, address }) })
    }

    /// Opens a way to `lake`'s catalog, for DuckDB: tables are shown with a history that makes it find their head, so no
    /// other client may be sent here. Contacts nobody: a wrong address or credential shows at the first request.
    pub fn register(&self, lake: &Lake) -> Result<Registration, RegisterError> {
        if lake.catalog_uri.trim().is_empty() {
            return Err(RegisterError::NoCatalog);
        }
        let upstream = Upstream::new(lake, self.shared.transport.clone())?;
        let entry = self.shared.registry.add(upstream).map_err(|_| RegisterError::Random)?;
        Ok(Registration {
            id: entry.id.clone(),
            endpoint: format!("http://{}/{}", self.shared.address, entry.id),
            token: entry.token.clone(),
            entry,
            shared: self.shared.clone(),
        })
    }
}

/// A lake's place in the gateway. Dropping it closes the place: the URL and the token are worthless from then on.
pub struct Registration {
    pub id: String,
    /// Base URL for Iceberg REST clients, without `/v1`.
    pub endpoint: String,
    /// Bearer token that [`Self::endpoint`] asks for.
    pub token: String,
    entry: Arc<Entry>,
    shared: Arc<Shared>,
}

impl Registration {
    /// Records the commits of this registration from now until the watch is dropped.
    ///
    /// DuckDB deletes the files of every commit that failed for it, also of one that the catalog applied. So while a
    /// watch lives, a commit that adds data and whose outcome stays unknown is told to DuckDB as done; only the watch
    /// knows better. Whoever runs a COMMIT holds a watch and consults it afterwards, whatever DuckDB says.
    pub fn watch_commits(&self) -> CommitWatch {
        self.entry.commits.watch()
    }

    /// Calls `observer` for every commit that passes, before its client gets the answer. It runs on a gateway thread
    /// and must neither block nor panic.
    pub fn on_commit(&self, observer: impl Fn(&CommitEvent) + Send + Sync + 'static) {
        self.entry.commits.on_commit(Box::new(observer));
    }

    /// What is wrong with the catalog, if the latest trouble came at or after `since`. DuckDB drops the body of many
    /// failed answers, so an error that names the cause is built from this.
    pub fn problem_since(&self, since: Instant) -> Option<Problem> {
        self.entry.problems.since(since)
    }

    /// Runs `future` on the gateway's runtime and waits for it.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.shared.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("the runtime lives as long as any registration"),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.registry.remove(&self.id);
    }
}

impl fmt::Debug for Registration {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Not the runtime's own drop: that one waits for name look-ups in flight.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
