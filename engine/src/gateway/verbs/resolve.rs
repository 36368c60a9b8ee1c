//! Finds out what became of a commit whose answer was lost, or leaves the matter in doubt.
//!
//! The table is read back first. Only where it does not show the commit, and the commit carries the requirement that the
//! table is as it was, it is sent again: then it applies once, whichever of the two arrives. It may never say "refused"
//! of a commit that might still be applied.

use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::change::Change;
use crate::gateway::observe::CommitOutcome;
use crate::gateway::percent;
use crate::gateway::registry::Entry;
use crate::gateway::store::body::{self, RequestBody};
use crate::gateway::store::upstream::{UpstreamError, UpstreamRequest};
use crate::gateway::table::LoadedTable;

/// How long a commit may take, with all that is done to learn its outcome.
const COMMIT_LIMIT: Duration = Duration::from_secs(120);
/// How long reading a table back may take, each time.
const READ_LIMIT: Duration = Duration::from_secs(10);
/// Before the next attempt to send or to read.
const ROUND_PAUSE: Duration = Duration::from_millis(500);
/// Largest table metadata that is read, in bytes.
const TABLE_MAX_BYTES: usize = 256 * 1024 * 1024;

type Answer = Result<Response<Body>, UpstreamError>;

/// A commit as it is to be sent, and what it does.
pub struct Commit {
    pub request: UpstreamRequest,
    /// None if its body is not understood.
    pub changes: Option<Vec<Change>>,
}

/// What the tables say of a commit.
enum Trace {
    /// They hold it; with the last table as the catalog showed it.
    Applied(Bytes),
    /// They do not hold it; if they have moved on, they never will.
    Absent {
        moved_on: bool,
    },
    /// Some hold it and some do not, which the protocol rules out.
    Torn,
    /// It would leave no trace that can be recognised.
    Traceless,
    Unreadable,
}

/// What is known of a commit that was sent.
#[derive(Default)]
struct Doubt {
    /// Why the outcome of an attempt was not known.
    cause: Option<String>,
    /// An attempt may still be on its way to the catalog, or in it.
    is_open: bool,
}

enum Next {
    Done(CommitOutcome),
    ReadAgain,
    SendAgain,
}

/// Sends `commit` and follows it until its outcome is known, or it has taken too long.
pub async fn send(entry: &Entry, mut commit: Commit) -> (CommitOutcome, Answer) {
    let deadline = Instant::now() + COMMIT_LIMIT;
    commit.request.limit = COMMIT_LIMIT;
    let copy = commit.request.copy();
    let path = commit.request.path_and_query.clone();
    let mut answer = entry.upstream.send(commit.request).await;
    let (Some(copy), Some(changes)) = (copy, commit.changes) else { return (outcome(&answer), answer) };
    let mut doubt = Doubt::default();
    loop {
        let seen = outcome(&answer);
        doubt.note(&answer);
        if !doubt.needs_reading(&seen) {
            return (seen, answer);
        }
        let next = match trace(entry, &path, &changes).await {
            Trace::Applied(table) => return (CommitOutcome::Committed, Ok(applied(&path, table))),
            trace => doubt.judge(trace, seen, changes.iter().all(Change::is_guarded)),
        };
        match next {
            Next::Done(outcome) => return (outcome, answer),
            _ if Instant::now() >= deadline => return (doubt.unknown(), answer),
            Next::ReadAgain => tokio::time::sleep(ROUND_PAUSE).await,
            Next::SendAgain => {
                tokio::time::sleep(ROUND_PAUSE).await;
                let Some(mut again) = copy.copy() else { return (doubt.unknown(), answer) };
                again.limit = deadline.saturating_duration_since(Instant::now()).max(ROUND_PAUSE);
                tracing::info!(path = %path, cause = %doubt.cause(), "sending a commit again whose answer was lost");
                answer = entry.upstream.send(again).await;
            }
        }
    }
}

impl Doubt {
    fn note(&mut self, answer: &Answer) {
        if let CommitOutcome::Unknown { cause } = outcome(answer) {
            self.cause.get_or_insert(cause);
            // What answers 500 is the catalog, and it is done. Other 5xx may be a proxy's, and say nothing of the catalog.
            self.is_open |= status(answer) != Some(StatusCode::INTERNAL_SERVER_ERROR);
        }
    }

    /// Whether the tables have to be asked. They are asked about every conflict, since it may be one with ourselves: a
    /// proxy may have sent a commit twice.
    fn needs_reading(&self, seen: &CommitOutcome) -> bool {
        match seen {
            CommitOutcome::Committed => false,
            CommitOutcome::Unknown { .. } => true,
            CommitOutcome::Refused { status } if *status == StatusCode::CONFLICT.as_u16() => true,
            CommitOutcome::Refused { .. } | CommitOutcome::NotSent { .. } => self.cause.is_some(),
        }
    }

    fn judge(&self, trace: Trace, seen: CommitOutcome, is_guarded: bool) -> Next {
        match trace {
            Trace::Applied(_) => Next::Done(CommitOutcome::Committed),
            Trace::Torn => Next::Done(CommitOutcome::Unknown {
                cause: "the catalog applied it to some of its tables only".to_owned(),
            }),
            Trace::Absent { moved_on } => match seen {
                CommitOutcome::Refused { .. } if !self.is_open || moved_on => Next::Done(seen),
                CommitOutcome::Unknown { .. } if !self.is_open => {
                    Next::Done(CommitOutcome::Refused { status: StatusCode::INTERNAL_SERVER_ERROR.as_u16() })
                }
                _ if is_guarded => Next::SendAgain,
                _ => Next::Done(self.unknown()),
            },
            // Without any doubt a conflict needs no second opinion.
            Trace::Traceless | Trace::Unreadable if self.cause.is_none() => Next::Done(seen),
            Trace::Traceless => Next::Done(self.unknown()),
            Trace::Unreadable => Next::ReadAgain,
        }
    }

    fn cause(&self) -> String {
        self.cause.clone().unwrap_or_default()
    }

    fn unknown(&self) -> CommitOutcome {
        CommitOutcome::Unknown { cause: self.cause() }
    }
}

/// What an answer alone says.
fn outcome(answer: &Answer) -> CommitOutcome {
    match answer {
        Ok(answer) if answer.status().is_success() => CommitOutcome::Committed,
        // The protocol leaves open whether a commit answered 5xx was applied.
        Ok(answer) if answer.status().is_server_error() => {
            CommitOutcome::Unknown { cause: format!("the catalog answered {}", answer.status()) }
        }
        Ok(answer) => CommitOutcome::Refused { status: answer.status().as_u16() },
        Err(UpstreamError::Lost { cause, .. }) => CommitOutcome::Unknown { cause: cause.clone() },
        Err(UpstreamError::Unreachable { cause, .. } | UpstreamError::Rejected { cause, .. }) => {
            CommitOutcome::NotSent { cause: cause.clone() }
        }
    }
}

fn status(answer: &Answer) -> Option<StatusCode> {
    answer.as_ref().ok().map(Response::status)
}

async fn trace(entry: &Entry, path: &str, changes: &[Change]) -> Trace {
    let (mut applied, mut absent, mut moved_on) = (None, false, false);
    for change in changes {
        // Spares the request where there is nothing to recognise.
        if change.is_in(None).is_none() {
            continue;
        }
        let Ok(bytes) = load(entry, &table_path(path, change)).await else { return Trace::Unreadable };
        let table = match &bytes {
            Some(bytes) => match serde_json::from_slice::<LoadedTable>(bytes) {
                Ok(loaded) => Some(loaded.metadata),
                Err(_) => return Trace::Unreadable,
            },
            None => None,
        };
        match change.is_in(table.as_ref()) {
            Some(true) => applied = bytes,
            Some(false) => {
                absent = true;
                moved_on |= change.is_stale(table.as_ref());
            }
            None => {}
        }
    }
    match (applied, absent) {
        (Some(table), false) => Trace::Applied(table),
        (Some(_), true) => Trace::Torn,
        (None, true) => Trace::Absent { moved_on },
        (None, false) => Trace::Traceless,
    }
}

/// A table's metadata as it came; None if there is no such table.
async fn load(entry: &Entry, path: &str) -> Result<Option<Bytes>, ()> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let request = UpstreamRequest {
        method: Method::GET,
        path_and_query: path.to_owned(),
        headers,
        body: RequestBody::empty(),
        limit: READ_LIMIT,
    };
    let response = entry.upstream.send(request).await.map_err(drop)?;
    match response.status() {
        StatusCode::OK => body::collect(response.into_body(), TABLE_MAX_BYTES).await.map(Some).map_err(drop),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(()),
    }
}

/// Path of a table, from the path of the commit that changes it.
fn table_path(commit_path: &str, change: &Change) -> String {
    let path = commit_path.split('?').next().unwrap_or_default();
    match path.strip_suffix("/transactions/commit") {
        Some(base) => {
            let levels: Vec<&str> = change.table.namespace.iter().map(String::as_str).collect();
            let (namespace, table) = (percent::encode_namespace(&levels), percent::encode(&change.table.name));
            format!("{base}/namespaces/{namespace}/tables/{table}")
        }
        None => path.to_owned(),
    }
}

/// The answer that the catalog gives, or would have given, to a commit that it applied.
pub fn applied(path: &str, table: Bytes) -> Response<Body> {
    let is_transaction = path.split('?').next().unwrap_or_default().ends_with("/transactions/commit");
    if is_transaction {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return response;
    }
    // What a commit to one table answers is a part of what loading it answers.
    let mut response = Response::new(Body::from(table));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::verbs::change;

    #[test]
    fn tables_are_found_from_the_path_of_the_commit() {
        let change = change::of_table(None, vec!["a".into(), "ü".into()], "t/".into());
        assert_eq!(table_path("/v1/p/q/transactions/commit?x", &change), "/v1/p/q/namespaces/a%1F%C3%BC/tables/t%2F");
        assert_eq!(table_path("/v1/namespaces/n/tables/t?x", &change), "/v1/namespaces/n/tables/t");
    }
}
