//! A catalog that refuses, loses or delays: what is repeated, what is reported.

use std::net::TcpListener;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use coldfront_common::frame::CatalogAuth;
use coldfront_engine::gateway::observe::{CommitOutcome, CommittedTable};
use coldfront_engine::gateway::problem::ProblemKind;
use coldfront_engine::gateway::{Gateway, client};

use crate::http::{Client, Message};
use crate::scripted::{Reply, Scripted};

const COMMIT: &str = "/v1/p/transactions/commit";
/// Leaves no trace that could be recognised, so nothing is read back.
const CHANGE: &str = r#"{"table-changes":[{"identifier":{"namespace":["n"],"name":"t"},"requirements":[],"updates":[
    {"action":"set-properties","updates":{"a":"b"}}]}]}"#;

fn changed_table() -> CommittedTable {
    CommittedTable {
        namespace: vec!["n".to_owned()],
        name: "t".to_owned(),
        new_snapshots: vec![],
        current_snapshot: None,
        creates: false,
    }
}

#[test]
fn a_catalog_that_is_down_is_named_and_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let lake = coldfront_common::frame::Lake {
        warehouse: "lake".to_owned(),
        catalog_uri: format!("http://{address}"),
        ..Default::default()
    };
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&lake).unwrap();
    let watch = lake.watch_commits();
    let expected = format!("the Iceberg catalog at {address} does not answer: connection refused");
    let before = Instant::now();
    let answer = Client::of(&lake).get("/v1/config?warehouse=lake");
    assert_eq!((answer.status(), answer.error()), (502, expected.clone()));
    assert!(before.elapsed() < Duration::from_secs(5));
    assert_eq!(lake.problem_since(before).unwrap().kind, ProblemKind::Unreachable);
    assert_eq!(client::load_table(&lake, &["n"], "t").unwrap_err().to_string(), expected);
    assert_eq!(Client::of(&lake).post(COMMIT, CHANGE).status(), 502);
    let event = &watch.events()[0];
    assert_eq!(event.outcome, CommitOutcome::NotSent { cause: "connection refused".to_owned() });
    assert_eq!(event.tables, Some(vec![changed_table()]));

    let _catalog = Scripted::on(TcpListener::bind(address).unwrap(), |_, _| Reply::Json(200, "{}"));
    assert_eq!(Client::of(&lake).get("/v1/config").status(), 200);
}

#[test]
fn a_catalog_that_comes_back_in_time_costs_only_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let gateway = Gateway::start().unwrap();
    let lake = coldfront_common::frame::Lake { catalog_uri: format!("http://{address}"), ..Default::default() };
    let lake = gateway.register(&lake).unwrap();
    thread::scope(|scope| {
        // Nothing was sent while the connection was refused, so even a commit waits and goes out once.
        let commit = scope.spawn(|| Client::of(&lake).post(COMMIT, CHANGE).status());
        thread::sleep(Duration::from_millis(300));
        let catalog = Scripted::on(TcpListener::bind(address).unwrap(), |_, _| Reply::Json(200, "{}"));
        assert_eq!(commit.join().unwrap(), 200);
        assert_eq!(catalog.requests().len(), 1);
    });
}

#[test]
fn a_lost_answer_is_asked_for_again_unless_it_was_a_change() {
    let catalog = Scripted::start(|number, _| if number == 1 { Reply::Json(200, "{}") } else { Reply::HangUp });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    assert_eq!(Client::of(&lake).get("/v1/namespaces").status(), 200);
    assert_eq!(catalog.requests().len(), 2);

    let answer = Client::of(&lake).post(COMMIT, CHANGE);
    assert_eq!(answer.status(), 502);
    assert!(answer.error().contains("does not answer: the connection was lost after the request was sent"));
    assert!(answer.text().contains("CommitStateUnknownException"));
    assert_eq!(catalog.requests().len(), 3);
    assert!(matches!(watch.events()[0].outcome, CommitOutcome::Unknown { .. }));

    assert_eq!(Client::of(&lake).send("DELETE", "/v1/namespaces/n/tables/t", "").status(), 502);
    assert_eq!(catalog.requests().len(), 4);
}

#[test]
fn passing_trouble_is_waited_out_for_reads_only() {
    let catalog = Scripted::start(|number, request| match (number, request.start.starts_with("GET")) {
        (0 | 1, true) => Reply::Text(503, "busy".to_owned()),
        (_, true) => Reply::Json(200, "{}"),
        (_, false) => Reply::Json(503, r#"{"error":{"message":"busy","type":"X","code":503}}"#),
    });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    assert_eq!(Client::of(&lake).get("/v1/namespaces").status(), 200);
    assert_eq!(catalog.requests().len(), 3);

    // 503 would make DuckDB send the commit again.
    let answer = Client::of(&lake).post(COMMIT, CHANGE);
    assert_eq!((answer.status(), answer.header("x-coldfront-upstream-status")), (502, Some("503")));
    assert_eq!(answer.error(), "busy");
    assert_eq!(catalog.requests().len(), 4);
    assert!(matches!(&watch.events()[0].outcome, CommitOutcome::Unknown { cause } if cause.contains("503")));
}

#[test]
fn a_page_of_a_proxy_becomes_an_error_that_clients_can_read() {
    let catalog = Scripted::start(|_, _| Reply::Text(500, "<html>oops</html>".to_owned()));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let answer = Client::of(&lake).get("/v1/namespaces");
    assert_eq!(answer.status(), 502);
    assert!(answer.error().contains(&format!("the Iceberg catalog at {} failed with 500", catalog.address)));
}

#[test]
fn refusals_pass_as_they_are() {
    let conflict = r#"{"error":{"message":"stale","type":"CommitFailedException","code":409}}"#;
    let catalog = Scripted::start(move |_, _| Reply::Json(409, conflict));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    lake.on_commit(move |event| sink.lock().unwrap().push(event.clone()));
    let answer = Client::of(&lake).post("/v1/p/namespaces/n%1Fm/tables/t%20t", "not even JSON");
    assert_eq!((answer.status(), answer.text().as_str()), (409, conflict));
    let events = watch.events();
    assert_eq!(events[0].outcome, CommitOutcome::Refused { status: 409 });
    let table = &events[0].tables.as_ref().unwrap()[0];
    assert_eq!((table.namespace.join("|"), table.name.as_str()), ("n|m".to_owned(), "t t"));
    assert_eq!(*seen.lock().unwrap(), events);
}

#[test]
fn a_commit_whose_client_hangs_up_still_has_an_outcome() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let (arrived, has_arrived) = mpsc::channel();
    let catalog = Scripted::start(move |_, _: &Message| {
        arrived.send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        Reply::Json(200, "{}")
    });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    let stream = Client::of(&lake).open("POST", COMMIT, "", CHANGE.as_bytes());
    has_arrived.recv().unwrap();
    drop(stream);
    assert!(!watch.settle(Duration::from_millis(50)));
    go.send(()).unwrap();
    assert!(watch.settle(Duration::from_secs(5)));
    assert_eq!(watch.events()[0].outcome, CommitOutcome::Committed);
}

#[test]
fn an_answer_cut_off_in_the_middle_is_not_taken_for_whole() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"defaults\":";
    let catalog = Scripted::start(|_, _| Reply::LastWords(half.to_vec()));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let error = client::load_table(&lake, &["n"], "t").unwrap_err();
    assert!(matches!(error, client::ClientError::Unreachable(_)), "{error}");
    assert!(error.to_string().contains("its answer was cut off"), "{error}");
    assert_eq!(Client::of(&lake).get("/v1/config").status(), 502);
}

#[test]
fn missing_tables_and_warehouses_are_told_apart_from_other_trouble() {
    let catalog = Scripted::start(|_, request| match &request.start {
        line if line.contains("/v1/config") => Reply::Json(200, "{}"),
        line if line.contains("/tables/") => Reply::Json(404, r#"{"error":{"message":"gone","type":"X","code":404}}"#),
        _ => Reply::Json(404, r#"{"error":{"message":"no bucket","type":"X","code":404}}"#),
    });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let at = catalog.address;
    let error = client::load_table(&lake, &["n"], "t").unwrap_err();
    assert_eq!(error.to_string(), format!(r#"the Iceberg catalog at {at} has no table "n"."t": gone"#));
    let before = Instant::now();
    let error = client::check_warehouse(&lake).unwrap_err();
    assert_eq!(error.to_string(), format!(r#"the Iceberg catalog at {at} has no warehouse "lake": no bucket"#));
    assert_eq!(lake.problem_since(before).unwrap().kind, ProblemKind::NoWarehouse);
}
