//! `run`: tasks over tables, once. A table that fails does not keep the others from being worked on.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use coldfront_common::frame::Lake;
use coldfront_lake::catalog::Catalog;
use coldfront_lake::read::Cache;
use coldfront_program::lake;
use sqlx::PgConnection;

use crate::cli::{PolicyArgs, Run, Task};
use crate::db::{During, Relation};
use crate::error::{EXIT_FAILED, Error, Result};
use crate::policy::Policy;
use crate::settings::Settings;
use crate::work::{Locations, Outcome, Work};
use crate::{claim, compact, db, expire, manifests, metrics, old_metadata, orphans, state};

const RECORD: &str = "
INSERT INTO coldfront.maintenance_run AS r (schema_name, table_name, task, started_at, finished_at, outcome, failed)
SELECT v.schema_name, v.table_name, $3, now() - $4 * interval '1 second', now(), $5, $6
  FROM coldfront.tiered_views AS v WHERE v.schema_name = $1 AND v.table_name = $2
ON CONFLICT (schema_name, table_name, task) DO UPDATE
   SET started_at = EXCLUDED.started_at, finished_at = EXCLUDED.finished_at,
       outcome = EXCLUDED.outcome, failed = EXCLUDED.failed";

/// Connection, lake and catalog of a run.
pub struct Session<'a> {
    pub settings: &'a Settings,
    pub connection: PgConnection,
    pub lake: Lake,
    pub catalog: Arc<Catalog>,
    pub locations: Locations,
    /// What one task or round has read, the next need not.
    pub cache: Arc<Cache>,
}

impl<'a> Session<'a> {
    pub async fn open(settings: &'a Settings) -> Result<Self> {
        let mut connection = db::connect(settings).await?;
        let lake = lake::read(&mut connection).await?;
        let catalog = Arc::new(Catalog::new(&lake)?);
        Ok(Self { settings, connection, lake, catalog, locations: Locations::default(), cache: Arc::default() })
    }

    /// Settings and credentials may have changed since.
    pub async fn renew(&mut self) -> Result<()> {
        let lake = lake::read(&mut self.connection).await?;
        self.locations = Locations::default();
        if lake != self.lake {
            self.catalog = Arc::new(Catalog::new(&lake)?);
            self.cache = Arc::default();
            self.lake = lake;
        }
        Ok(())
    }

    pub async fn relations(&mut self) -> Result<Vec<Relation>> {
        db::relations(&mut self.connection).await
    }
}

pub async fn run(args: &Run, settings: &Settings) -> Result<ExitCode> {
    args.policy.check()?;
    let mut session = Session::open(settings).await?;
    let mut relations = session.relations().await?;
    match &args.table {
        Some(name) => {
            let (schema, table) = db::parse_name(name)?;
            relations.retain(|relation| relation.schema == schema && relation.table == table);
            if relations.is_empty() {
                return Err(Error::Usage(format!(
                    "{name} has no cold part in this database; SELECT * FROM coldfront.tiered_views lists what has"
                )));
            }
        }
        None => relations.retain(|relation| relation.enabled),
    }
    let tasks = if args.tasks.is_empty() { Task::ALL.to_vec() } else { args.tasks.clone() };
    let mut failed = false;
    for relation in &relations {
        failed |= !session.table(relation, &tasks, &args.policy, args.dry_run).await?;
    }
    Ok(if failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

impl Session<'_> {
    /// Performs tasks on a table; false if one failed.
    pub async fn table(
        &mut self,
        relation: &Relation,
        tasks: &[Task],
        args: &PolicyArgs,
        dry_run: bool,
    ) -> Result<bool> {
        match claim::work_on(&mut self.connection, relation).await {
            Err(Error::Busy(table)) => {
                tracing::info!(%table, "another compactor works on it");
                return Ok(true);
            }
            other => other?,
        }
        let mut ok = true;
        for task in tasks {
            ok &= self.task(relation, *task, args, dry_run).await?;
        }
        claim::done_with(&mut self.connection, relation).await?;
        Ok(ok)
    }

    async fn task(&mut self, relation: &Relation, task: Task, args: &PolicyArgs, dry_run: bool) -> Result<bool> {
        let began = Instant::now();
        let labels = [("table", relation.to_string()), ("task", task.name().to_owned())];
        ::metrics::counter!(metrics::RUNS_TOTAL, &labels).increment(1);
        let catalog = Arc::clone(&self.catalog);
        let before = catalog.requests();
        let (locations, cache) = (Arc::clone(&self.locations), Arc::clone(&self.cache));
        let work = Work::begin(relation, self.settings, &self.lake, catalog, locations, cache, dry_run).await;
        let (outcome, requests) = match work {
            Err(error) => (Err(error), 0),
            Ok(mut work) => {
                let outcome = perform(&mut work, task, args).await;
                let requests = work.requests() - before;
                if let (Some(seen), false) = (work.measured.take(), dry_run) {
                    state::record(&mut self.connection, &work, seen, args).await?;
                }
                (outcome, requests)
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        ::metrics::histogram!(metrics::TASK_SECONDS, &labels).record(seconds);
        ::metrics::counter!(metrics::REQUESTS_TOTAL, &labels).increment(requests);
        let (text, failed) = match &outcome {
            Ok(outcome) => {
                for (name, count) in &outcome.counts {
                    ::metrics::counter!(*name, &labels).increment(*count);
                }
                let now = chrono::Utc::now().timestamp_millis() as f64 / 1000.0;
                ::metrics::gauge!(metrics::LAST_SUCCESS, &labels).set(now);
                tracing::info!(table = %relation, task = task.name(), seconds, requests, dry_run, "{}", outcome.text);
                (outcome.text.clone(), false)
            }
            Err(error) => {
                ::metrics::counter!(metrics::FAILURES_TOTAL, &labels).increment(1);
                tracing::error!(table = %relation, task = task.name(), seconds, "{}", error.chain());
                (error.chain(), true)
            }
        };
        if dry_run {
            println!("{relation}: {}: {text}", task.name());
        } else {
            self.record(relation, task, seconds, &text, failed).await?;
        }
        Ok(!failed)
    }

    async fn record(&mut self, relation: &Relation, task: Task, seconds: f64, text: &str, failed: bool) -> Result<()> {
        sqlx::query(RECORD)
            .bind(&relation.schema)
            .bind(&relation.table)
            .bind(task.name())
            .bind(seconds)
            .bind(text)
            .bind(failed)
            .execute(&mut self.connection)
            .await
            .during(format!("recording the run over {relation}"))?;
        Ok(())
    }
}

async fn perform(work: &mut Work<'_>, task: Task, args: &PolicyArgs) -> Result<Outcome> {
    let head = work.load().await?;
    let policy = Policy::new(args, &work.relation.configured, &head.metadata)?;
    match task {
        Task::Compact => compact::run(work, &policy, head).await,
        Task::RewriteManifests => manifests::run(work, &policy, head).await,
        Task::Expire => expire::run(work, &policy, head).await,
        Task::Metadata => old_metadata::run(work, &policy, head).await,
        Task::Orphans => orphans::run(work, &policy, head).await,
    }
}
