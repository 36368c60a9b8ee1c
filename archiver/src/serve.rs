//! `serve`: a pass whenever the schedule says, in the schedule's time zone. A pass that takes longer than the schedule's
//! interval is followed by the next moment that lies ahead.

use std::str::FromStr;

use chrono::{TimeZone, Utc};
use chrono_tz::Tz;
use coldfront_program::http;
use cron::Schedule;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Run;
use crate::error::{Error, Result};
use crate::metrics;
use crate::pass;
use crate::settings::Settings;

pub async fn run(settings: &Settings) -> Result<()> {
    let (schedule, zone) = parse(settings)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    if let Some(listen) = &settings.metrics_listen {
        http::start(listen, &metrics::ALL).await?;
    }
    loop {
        let Some(next) = next(&schedule, zone, Utc::now()) else {
            return Err(Error::Usage("the schedule has no moment that lies ahead".to_owned()));
        };
        tracing::info!(%next, "waiting");
        let wait = (next.with_timezone(&Utc) - Utc::now()).to_std().unwrap_or_default();
        let pass = async {
            tokio::time::sleep(wait).await;
            once(settings).await;
        };
        // A pass that is cut short is finished by the next one, so a stop need not wait.
        tokio::select! {
            () = pass => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!("stopping");
    Ok(())
}

async fn once(settings: &Settings) {
    match pass::choose(&Run::default(), settings).await {
        Ok(chosen) => {
            pass::all(&chosen, settings).await;
        }
        Err(error) => tracing::error!("{}", error.chain()),
    }
}

fn parse(settings: &Settings) -> Result<(Schedule, Tz)> {
    let text = settings.schedule.as_deref().ok_or_else(|| {
        Error::Usage("serve needs a schedule: give --schedule, COLDFRONT_ARCHIVER_SCHEDULE, or schedule in the configuration file".to_owned())
    })?;
    let schedule = Schedule::from_str(text).map_err(|error| {
        Error::Usage(format!(
            "schedule \"{text}\" is not a cron expression with seconds, such as \"0 15 * * * *\": {error}"
        ))
    })?;
    let zone = Tz::from_str(&settings.time_zone)
        .map_err(|_| Error::Usage(format!("\"{}\" is not a time zone, such as Europe/Prague", settings.time_zone)))?;
    Ok((schedule, zone))
}

fn next<Z: TimeZone>(schedule: &Schedule, zone: Tz, now: chrono::DateTime<Z>) -> Option<chrono::DateTime<Tz>> {
    schedule.after(&now.with_timezone(&zone)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_follows_its_time_zone_through_a_change_of_clocks() {
        let schedule = Schedule::from_str("0 30 3 * * *").unwrap();
        let zone: Tz = "Europe/Prague".parse().unwrap();
        for (now, expected) in
            [("2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"), ("2026-03-27T12:00:00Z", "2026-03-28T02:30:00Z")]
        {
            let now: chrono::DateTime<Utc> = now.parse().unwrap();
            assert_eq!(
                next(&schedule, zone, now).unwrap().with_timezone(&Utc).to_rfc3339(),
                expected.replace('Z', "+00:00")
            );
        }
    }
}
