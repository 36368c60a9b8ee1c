//! `POST …/tables/{table}` and `POST …/transactions/commit`: passed on, and what became of them is told to the watchers.
//!
//! A commit goes its way in a task of its own: a client that hangs up neither stops it nor hides its outcome.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Deserialize;

use super::Asked;
use super::deliver::deliver;
use super::forward::upstream_request;
use crate::gateway::api::error_model::error;
use crate::gateway::api::target::Route;
use crate::gateway::observe::{CommitOutcome, CommittedTable};
use crate::gateway::registry::Entry;
use crate::gateway::store::upstream::UpstreamError;
use crate::metrics;

pub async fn table(entry: Arc<Entry>, namespace: Vec<String>, table: String, asked: Asked) -> Response<Body> {
    let route = Route::CommitTable { namespace: namespace.clone(), table: table.clone() };
    pass(entry, route, asked, move |body| {
        // Without a readable body the path still tells which table it is.
        let change = body.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_else(TableChange::default);
        Some(vec![change.read(namespace, table)])
    })
    .await
}

pub async fn transaction(entry: Arc<Entry>, asked: Asked) -> Response<Body> {
    pass(entry, Route::CommitTransaction, asked, |body| transaction_tables(body?)).await
}

async fn pass(
    entry: Arc<Entry>,
    route: Route,
    asked: Asked,
    tables: impl FnOnce(Option<&[u8]>) -> Option<Vec<CommittedTable>> + Send + 'static,
) -> Response<Body> {
    let request = match upstream_request(asked).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let task = tokio::spawn(async move {
        let in_flight = entry.commits.begin(tables(request.body.held().map(AsRef::as_ref)));
        let result = entry.upstream.send(request).await;
        let outcome = outcome(&result);
        ::metrics::counter!(metrics::GATEWAY_COMMITS_TOTAL, "outcome" => label(&outcome)).increment(1);
        in_flight.end(outcome);
        deliver(&entry, &route, result).await
    });
    task.await.unwrap_or_else(|_| {
        error(StatusCode::BAD_GATEWAY, "CommitStateUnknownException", "the ColdFront gateway lost track of a commit")
    })
}

fn outcome(result: &Result<Response<Body>, UpstreamError>) -> CommitOutcome {
    match result {
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

fn label(outcome: &CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Committed => "committed",
        CommitOutcome::Refused { .. } => "refused",
        CommitOutcome::NotSent { .. } => "not_sent",
        CommitOutcome::Unknown { .. } => "unknown",
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Transaction {
    table_changes: Vec<TableChange>,
}

/// What is read of a table's commit; everything else is skipped.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct TableChange {
    identifier: Option<Identifier>,
    requirements: Vec<Requirement>,
    updates: Vec<Update>,
}

#[derive(Deserialize)]
struct Identifier {
    namespace: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Requirement {
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Update {
    #[serde(default)]
    action: String,
    snapshot: Option<Snapshot>,
    ref_name: Option<String>,
    snapshot_id: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Snapshot {
    snapshot_id: i64,
}

impl TableChange {
    fn read(self, namespace: Vec<String>, name: String) -> CommittedTable {
        let moves_main = |update: &&Update| {
            update.action == "set-snapshot-ref" && update.ref_name.as_deref() == Some("main")
        };
        CommittedTable {
            namespace,
            name,
            new_snapshots: self.updates.iter().filter_map(|u| u.snapshot.as_ref()).map(|s| s.snapshot_id).collect(),
            current_snapshot: self.updates.iter().rfind(moves_main).and_then(|u| u.snapshot_id),
            creates: self.requirements.iter().any(|r| r.kind == "assert-create"),
        }
    }
}

fn transaction_tables(body: &[u8]) -> Option<Vec<CommittedTable>> {
    let transaction: Transaction = serde_json::from_slice(body).ok()?;
    let read = |mut change: TableChange| {
        let Identifier { namespace, name } = change.identifier.take()?;
        Some(change.read(namespace, name))
    };
    transaction.table_changes.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_names_its_tables_and_snapshots() {
        let body = br#"{"table-changes": [
            {"identifier": {"namespace": ["a", "b"], "name": "t"}, "requirements": [{"type": "assert-table-uuid", "uuid": "u"}],
             "updates": [
                {"action": "add-snapshot", "snapshot": {"snapshot-id": 7, "summary": {"operation": "append"}}},
                {"action": "add-snapshot", "snapshot": {"snapshot-id": -8, "parent-snapshot-id": 7}},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": -8},
                {"action": "set-snapshot-ref", "ref-name": "tag", "type": "tag", "snapshot-id": 7},
                {"action": "of-the-future", "x": [1]}]},
            {"identifier": {"namespace": ["c"], "name": "n"}, "requirements": [{"type": "assert-create"}], "updates": []}]}"#;
        let tables = transaction_tables(body).unwrap();
        assert_eq!(
            tables,
            [
                CommittedTable {
                    namespace: vec!["a".into(), "b".into()],
                    name: "t".into(),
                    new_snapshots: vec![7, -8],
                    current_snapshot: Some(-8),
                    creates: false,
                },
                CommittedTable {
                    namespace: vec!["c".into()],
                    name: "n".into(),
                    new_snapshots: vec![],
                    current_snapshot: None,
                    creates: true,
                },
            ]
        );
    }

    #[test]
    fn strange_bodies_are_not_understood_and_do_no_harm() {
        for body in [&b""[..], b"{", b"[]", b"{}", br#"{"table-changes":[{}]}"#, br#"{"table-changes":7}"#] {
            assert_eq!(transaction_tables(body), None);
        }
    }
}
