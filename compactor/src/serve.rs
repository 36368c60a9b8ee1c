//! `serve`: each task over each table whenever its schedule says, in the schedules' time zone. Tables and schedules are read
//! anew before each round, so a change takes effect without a restart.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use coldfront_common::config::CompactorSchedule;
use coldfront_program::http;
use cron::Schedule;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{PolicyArgs, Task};
use crate::db::Relation;
use crate::error::{Error, Result};
use crate::metrics;
use crate::run::Session;
use crate::settings::Settings;

/// How often it is looked what is due.
const LOOK: Duration = Duration::from_secs(1);

pub async fn run(settings: &Settings) -> Result<()> {
    let zone = Tz::from_str(&settings.time_zone)
        .map_err(|_| Error::Usage(format!("\"{}\" is not a time zone, such as Europe/Prague", settings.time_zone)))?;
    for text in Task::ALL.iter().filter_map(|task| of_task(&settings.schedule, *task)).filter(|text| !text.is_empty()) {
        parse(text)?;
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    if let Some(listen) = &settings.metrics_listen {
        http::start(listen, &metrics::ALL).await?;
    }
    let work = async {
        let (mut looked, mut session) = (Utc::now(), None);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = Utc::now();
            if let Err(error) = round(settings, &mut session, zone, looked, now).await {
                tracing::error!("{}", error.chain());
                session = None;
            }
            looked = now;
        }
    };
    // Work that is cut short is done again by the next round; what it leaves, the orphan task removes.
    tokio::select! {
        () = work => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    Ok(())
}

/// Performs what became due since `from`.
async fn round<'a>(
    settings: &'a Settings,
    session: &mut Option<Session<'a>>,
    zone: Tz,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Result<()> {
    let session = match session {
        Some(session) => session,
        None => session.insert(Session::open(settings).await?),
    };
    let mut parsed: HashMap<String, Schedule> = HashMap::new();
    for relation in session.relations().await?.iter().filter(|relation| relation.enabled) {
        let mut due = Vec::new();
        for task in Task::ALL {
            match is_due(relation, task, settings, zone, from, to, &mut parsed) {
                Ok(true) => due.push(task),
                Ok(false) => {}
                Err(error) => tracing::error!(table = %relation, task = task.name(), "{}", error.chain()),
            }
        }
        if !due.is_empty() {
            session.renew().await?;
            session.table(relation, &due, &PolicyArgs::default(), false).await?;
        }
    }
    Ok(())
}

fn is_due(
    relation: &Relation,
    task: Task,
    settings: &Settings,
    zone: Tz,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    parsed: &mut HashMap<String, Schedule>,
) -> Result<bool> {
    let own = relation.configured.schedule(task);
    let Some(text) = own.or(of_task(&settings.schedule, task)).filter(|text| !text.is_empty()) else {
        return Ok(false);
    };
    if !parsed.contains_key(text) {
        parsed.insert(text.to_owned(), parse(text)?);
    }
    let next = parsed[text].after(&from.with_timezone(&zone)).next();
    Ok(next.is_some_and(|next| next <= to))
}

fn of_task(schedule: &CompactorSchedule, task: Task) -> Option<&str> {
    match task {
        Task::Compact => schedule.compact.as_deref(),
        Task::RewriteManifests => schedule.rewrite_manifests.as_deref(),
        Task::Expire => schedule.expire.as_deref(),
        Task::Metadata => schedule.metadata.as_deref(),
        Task::Orphans => schedule.orphans.as_deref(),
    }
}

fn parse(text: &str) -> Result<Schedule> {
    Schedule::from_str(text).map_err(|error| {
        Error::Usage(format!(
            "schedule \"{text}\" is not a cron expression with seconds, such as \"0 15 * * * *\": {error}"
        ))
    })
}
