//! Commits whose answer is lost: what the gateway finds out, and what it tells whom.

use std::sync::atomic::{AtomicUsize, Ordering};

use coldfront_common::frame::CatalogAuth;
use coldfront_engine::gateway::Gateway;
use coldfront_engine::gateway::observe::CommitOutcome;

use crate::http::{Client, Message};
use crate::scripted::{Reply, Scripted, answer};

const COMMIT: &str = "/v1/p/transactions/commit";
/// Adds snapshot 77 on top of 5.
const APPEND: &str = r#"{"table-changes":[{"identifier":{"namespace":["n"],"name":"t"},
    "requirements":[{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":5}],
    "updates":[{"action":"add-snapshot","snapshot":{"snapshot-id":77}}]}]}"#;
const BEFORE: &str =
    r#"{"metadata":{"table-uuid":"u","location":"l","current-snapshot-id":5,"snapshots":[{"snapshot-id":5}]}}"#;
const AFTER: &str = r#"{"metadata":{"table-uuid":"u","location":"l","current-snapshot-id":77,
    "snapshots":[{"snapshot-id":5},{"snapshot-id":77}]}}"#;
const OVERTAKEN: &str = r#"{"metadata":{"table-uuid":"u","location":"l","current-snapshot-id":6,
    "snapshots":[{"snapshot-id":5},{"snapshot-id":6}]}}"#;
const CONFLICT: &str = r#"{"error":{"message":"stale","type":"CommitFailedException","code":409}}"#;

/// A catalog whose answers to the commits, in order, and to reading the table are given. The last ones repeat.
fn catalog(commits: Vec<fn() -> Reply>, tables: Vec<&'static str>) -> Scripted {
    let (sent, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Scripted::start(move |_, request: &Message| match request.start.starts_with("POST") {
        true => commits[sent.fetch_add(1, Ordering::SeqCst).min(commits.len() - 1)](),
        false => Reply::Json(200, tables[read.fetch_add(1, Ordering::SeqCst).min(tables.len() - 1)]),
    })
}

fn lost() -> Reply {
    Reply::HangUp
}

fn done() -> Reply {
    Reply::Text(204, String::new())
}

fn conflict() -> Reply {
    Reply::Json(409, CONFLICT)
}

fn failure() -> Reply {
    Reply::Json(500, r#"{"error":{"message":"disk","type":"X","code":500}}"#)
}

/// Commits `body`; gives the status that the client saw, and what a watch saw.
fn commit(catalog: &Scripted, path: &str, body: &str) -> (Message, CommitOutcome) {
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    let answer = Client::of(&lake).post(path, body);
    let mut events = watch.events();
    assert_eq!(events.len(), 1, "{events:?}");
    (answer, events.remove(0).outcome)
}

fn sent(catalog: &Scripted) -> usize {
    catalog.lines().iter().filter(|line| line.starts_with("POST")).count()
}

#[test]
fn a_commit_found_in_the_table_is_done_although_its_answer_was_lost() {
    let catalog = catalog(vec![lost], vec![AFTER]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (204, CommitOutcome::Committed));
    assert_eq!(catalog.lines(), [format!("POST {COMMIT}"), "GET /v1/p/namespaces/n/tables/t".to_owned()]);
}

#[test]
fn a_commit_missing_from_an_unchanged_table_is_sent_again() {
    let catalog = catalog(vec![lost, done], vec![BEFORE]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (204, CommitOutcome::Committed));
    assert_eq!(sent(&catalog), 2);
    assert_eq!(catalog.requests()[2].text(), APPEND);
}

#[test]
fn a_commit_that_was_applied_late_is_not_taken_for_a_conflict() {
    let catalog = catalog(vec![lost, conflict], vec![BEFORE, AFTER]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (204, CommitOutcome::Committed));
}

#[test]
fn a_conflict_while_the_first_attempt_may_be_running_is_not_believed() {
    let catalog = catalog(vec![lost, conflict, done], vec![BEFORE]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (204, CommitOutcome::Committed));
    assert_eq!(sent(&catalog), 3);
}

#[test]
fn a_commit_that_was_overtaken_is_a_conflict() {
    let catalog = catalog(vec![lost, conflict], vec![OVERTAKEN]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (409, CommitOutcome::Refused { status: 409 }));
    assert_eq!(answer.error(), "stale");
}

#[test]
fn a_conflict_with_oneself_is_none() {
    // A proxy before the catalog sent the commit twice.
    let catalog = catalog(vec![conflict], vec![AFTER]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (204, CommitOutcome::Committed));
    assert_eq!(sent(&catalog), 1);
}

#[test]
fn a_failure_after_which_the_table_is_unchanged_is_a_refusal() {
    let catalog = catalog(vec![failure], vec![BEFORE]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (502, CommitOutcome::Refused { status: 500 }));
    assert_eq!((answer.error().as_str(), sent(&catalog)), ("disk", 1));
}

#[test]
fn a_failure_after_the_commit_was_applied_is_a_success() {
    let catalog = catalog(vec![failure], vec![AFTER]);
    let (answer, outcome) = commit(&catalog, COMMIT, APPEND);
    assert_eq!((answer.status(), outcome), (204, CommitOutcome::Committed));
}

#[test]
fn a_commit_to_one_table_is_answered_with_the_table() {
    let catalog = catalog(vec![lost], vec![AFTER]);
    let change: serde_json::Value = serde_json::from_str(APPEND).unwrap();
    let path = "/v1/p/namespaces/n/tables/t";
    let (answer, outcome) = commit(&catalog, path, &change["table-changes"][0].to_string());
    assert_eq!((answer.status(), outcome), (200, CommitOutcome::Committed));
    assert_eq!(answer.text(), AFTER);
}

/// Without a requirement on the table's state, sending it again could apply it twice.
fn unguarded() -> String {
    APPEND.replace("assert-ref-snapshot-id", "assert-table-uuid")
}

#[test]
fn files_of_a_commit_in_doubt_are_kept_when_somebody_watches() {
    let catalog = catalog(vec![lost], vec![BEFORE]);
    let (answer, outcome) = commit(&catalog, COMMIT, &unguarded());
    assert_eq!(answer.status(), 204);
    assert!(matches!(outcome, CommitOutcome::Unknown { .. }), "{outcome:?}");
    assert_eq!(sent(&catalog), 1);
}

#[test]
fn a_commit_in_doubt_is_an_error_when_nobody_watches() {
    let catalog = catalog(vec![lost], vec![BEFORE]);
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    drop(lake.watch_commits());
    let answer = Client::of(&lake).post(COMMIT, &unguarded());
    assert_eq!(answer.status(), 502);
    assert!(answer.text().contains("CommitStateUnknownException"), "{}", answer.text());
}

#[test]
fn a_connection_that_the_catalog_closes_after_each_answer_costs_no_commit() {
    // The next commit may already be on its way into the closed connection.
    let catalog = catalog(vec![|| Reply::LastWords(answer(200, ""))], vec![BEFORE]);
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    for number in 0..20 {
        assert_eq!(Client::of(&lake).post(COMMIT, APPEND).status(), 200);
        assert_eq!(watch.events()[number].outcome, CommitOutcome::Committed);
    }
    assert_eq!(sent(&catalog), 20);
}
