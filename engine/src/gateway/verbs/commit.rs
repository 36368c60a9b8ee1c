//! `POST …/tables/{table}` and `POST …/transactions/commit`: passed on, followed up, and told to the watchers.
//!
//! A commit goes its way in a task of its own: a client that hangs up neither stops it nor hides its outcome.
//! DuckDB takes any answer but success, and none within 30 s, for a failure, and then deletes the files of the commit.
//! So it is never told of a failure that may turn out a success, as long as somebody watches who knows the difference.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode};

use super::Asked;
use super::change::{self, Change};
use super::deliver::deliver;
use super::forward::upstream_request;
use super::resolve::{self, Commit};
use crate::gateway::api::error_model::error;
use crate::gateway::api::target::Route;
use crate::gateway::observe::CommitOutcome;
use crate::gateway::registry::Entry;
use crate::metrics;

/// How long the client is kept waiting, if it may be put off: less than DuckDB's patience.
const CLIENT_LIMIT: Duration = Duration::from_secs(25);

pub async fn table(entry: Arc<Entry>, namespace: Vec<String>, table: String, asked: Asked) -> Response<Body> {
    let route = Route::CommitTable { namespace: namespace.clone(), table: table.clone() };
    pass(entry, route, asked, |body| Some(vec![change::of_table(body, namespace, table)])).await
}

pub async fn transaction(entry: Arc<Entry>, asked: Asked) -> Response<Body> {
    pass(entry, Route::CommitTransaction, asked, |body| change::of_transaction(body?)).await
}

async fn pass(
    entry: Arc<Entry>,
    route: Route,
    asked: Asked,
    changes: impl FnOnce(Option<&[u8]>) -> Option<Vec<Change>>,
) -> Response<Body> {
    let request = match upstream_request(asked).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let path = request.path_and_query.clone();
    let changes = changes(request.body.held().map(AsRef::as_ref));
    // What is not understood may well bring files.
    let brings_files = changes.as_ref().is_none_or(|changes| changes.iter().any(Change::brings_files));
    let mut task = tokio::spawn(run(entry.clone(), route, Commit { request, changes }));
    let put_off = || brings_files && entry.commits.is_watched();
    match tokio::time::timeout(CLIENT_LIMIT, &mut task).await {
        Err(_) if put_off() => return assumed(&path, "the catalog takes its time"),
        Ok(Ok((CommitOutcome::Unknown { cause }, _))) if put_off() => return assumed(&path, &cause),
        Ok(Ok((_, response))) => return response,
        Ok(Err(_)) => return lost_track(),
        Err(_) => {}
    }
    match task.await {
        Ok((_, response)) => response,
        Err(_) => lost_track(),
    }
}

async fn run(entry: Arc<Entry>, route: Route, commit: Commit) -> (CommitOutcome, Response<Body>) {
    let tables = commit.changes.as_ref().map(|changes| changes.iter().map(|c| c.table.clone()).collect());
    let in_flight = entry.commits.begin(tables);
    let (outcome, answer) = resolve::send(&entry, commit).await;
    ::metrics::counter!(metrics::GATEWAY_COMMITS_TOTAL, "outcome" => label(&outcome)).increment(1);
    let response = deliver(&entry, &route, answer).await;
    in_flight.end(outcome.clone());
    (outcome, response)
}

/// Tells DuckDB that a commit was applied of which that is not known.
fn assumed(path: &str, cause: &str) -> Response<Body> {
    tracing::warn!(path, cause, "the outcome of an Iceberg commit is unknown; its files are kept");
    resolve::applied(path, Bytes::from_static(b"{}"))
}

fn lost_track() -> Response<Body> {
    error(StatusCode::BAD_GATEWAY, "CommitStateUnknownException", "the ColdFront gateway lost track of a commit")
}

fn label(outcome: &CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Committed => "committed",
        CommitOutcome::Refused { .. } => "refused",
        CommitOutcome::NotSent { .. } => "not_sent",
        CommitOutcome::Unknown { .. } => "unknown",
    }
}
