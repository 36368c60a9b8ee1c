//! A table that is worked on: its relation, the way to its catalog and store, and what a task reports.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coldfront_common::frame::{Lake, Storage};
use coldfront_lake::catalog::{Catalog, Loaded, TableId};
use coldfront_lake::read::{Cache, Reader};
use coldfront_lake::store::Stores;
use coldfront_program::claim::Claim;
use coldfront_program::database;
use sqlx::PgConnection;
use tokio::sync::OnceCell;

use crate::compact;
use crate::db::Relation;
use crate::error::{Error, Result};
use crate::settings::Settings;

/// A head that is not older is tried first: whether it is still the head, the catalog knows.
const FRESH: Duration = Duration::from_secs(1);

/// Where the tables of the catalog keep files; read at most once in a run.
pub type Locations = Arc<OnceCell<Vec<(TableId, String)>>>;

pub struct Work<'a> {
    pub relation: &'a Relation,
    pub settings: &'a Settings,
    pub catalog: Arc<Catalog>,
    pub locations: Locations,
    pub reader: Arc<Reader>,
    pub jobs: usize,
    pub dry_run: bool,
    /// What compaction saw last, for the table's statistics.
    pub measured: Option<compact::State>,
    delegates: bool,
    /// Snapshot that was loaded last, and when.
    seen: Mutex<Option<(Option<i64>, Instant)>>,
}

/// What a task did, in words and in numbers.
#[derive(Debug, Default)]
pub struct Outcome {
    pub text: String,
    pub counts: Vec<(&'static str, u64)>,
}

impl Outcome {
    pub fn nothing(text: impl Into<String>) -> Self {
        Self { text: text.into(), counts: Vec::new() }
    }

    pub fn done(text: String, counts: &[(&'static str, u64)]) -> Self {
        Self { text, counts: counts.to_vec() }
    }
}

impl<'a> Work<'a> {
    pub async fn begin(
        relation: &'a Relation,
        settings: &'a Settings,
        lake: &Lake,
        catalog: Arc<Catalog>,
        locations: Locations,
        cache: Arc<Cache>,
        dry_run: bool,
    ) -> Result<Self> {
        let delegates = matches!(lake.storage, Some(Storage::Vended { .. }));
        let vended = match delegates {
            true => catalog.load(&relation.id, true).await?.config,
            false => Default::default(),
        };
        Ok(Self {
            relation,
            settings,
            catalog,
            locations,
            reader: Arc::new(Reader::new(Arc::new(Stores::new(lake, vended)), cache)),
            jobs: settings.jobs,
            dry_run,
            measured: None,
            delegates,
            seen: Mutex::default(),
        })
    }

    pub async fn load(&self) -> Result<Loaded> {
        let head = self.catalog.load(&self.relation.id, self.delegates).await?;
        self.loaded(&head);
        Ok(head)
    }

    pub fn loaded(&self, head: &Loaded) {
        *self.seen() = Some((head.metadata.current_snapshot_id(), Instant::now()));
    }

    /// Whether a head was loaded a moment ago.
    pub fn is_fresh(&self, head: &Loaded) -> bool {
        self.seen().is_some_and(|(id, at)| id == head.metadata.current_snapshot_id() && at.elapsed() < FRESH)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Option<(Option<i64>, Instant)>> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A connection for a claim. It is not the one that holds the compactor's lock: either may be lost alone.
    pub async fn claims(&self) -> Result<PgConnection> {
        database::connect(&self.settings.connection).await.map_err(Error::Connect)
    }

    /// Waits for the table's write claim.
    pub async fn claim<'c>(&self, connection: &'c mut PgConnection) -> Result<Claim<'c>> {
        Ok(Claim::take(connection, &self.relation.to_string(), &self.relation.reference).await?)
    }

    /// Requests to the catalog and the store so far.
    pub fn requests(&self) -> u64 {
        self.catalog.requests() + self.reader.stores().requests()
    }
}
