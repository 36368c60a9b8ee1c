//! The gateway in front of a real catalog.

use coldfront_engine::gateway::observe::CommitOutcome;
use coldfront_engine::gateway::{Gateway, Registration, client};
use serde_json::json;

use crate::http::Client;
use crate::seaweed::{SECRET, SeaweedFs, WAREHOUSE};

fn create_table(lake: &Registration) {
    let client = Client::of(lake);
    let answer = client.post("/v1/lake/namespaces", &json!({"namespace": ["n"], "properties": {}}).to_string());
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let table = json!({"name": "t", "schema": {"type": "struct", "schema-id": 0, "fields":
        [{"id": 1, "name": "a", "required": false, "type": "long"}]}});
    let answer = client.post("/v1/lake/namespaces/n/tables", &table.to_string());
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

fn commit(uuid: &str, value: &str) -> String {
    json!({"identifier": {"namespace": ["n"], "name": "t"},
        "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
        "updates": [{"action": "set-properties", "updates": {"colour": value}}]})
    .to_string()
}

#[test]
fn a_table_lives_and_dies_behind_the_gateway() {
    let catalog = SeaweedFs::start();
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(SECRET, WAREHOUSE)).unwrap();
    client::check_warehouse(&lake).unwrap();
    create_table(&lake);
    let watch = lake.watch_commits();
    let table = client::load_table(&lake, &["n"], "t").unwrap();
    assert_eq!((table.current_snapshot_id, table.snapshots.len()), (None, 0));

    let path = "/v1/lake/namespaces/n/tables/t";
    let answer = Client::of(&lake).post(path, &commit(&table.table_uuid, "red"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(client::load_table(&lake, &["n"], "t").unwrap().properties["colour"], "red");

    let stale = Client::of(&lake).post(path, &commit("00000000-0000-0000-0000-000000000000", "blue"));
    assert!((400..500).contains(&stale.status()), "{}", stale.text());
    let outcomes: Vec<_> = watch.events().into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, [CommitOutcome::Committed, CommitOutcome::Refused { status: stale.status() }]);

    client::drop_table(&lake, &["n"], "t", true).unwrap();
    let error = client::load_table(&lake, &["n"], "t").unwrap_err();
    assert!(matches!(error, client::ClientError::NotFound { .. }), "{error}");

    let at = format!("the Iceberg catalog at 127.0.0.1:{}", catalog.catalog_port);
    let stranger = gateway.register(&catalog.lake("wrong-secret", WAREHOUSE)).unwrap();
    let error = client::check_warehouse(&stranger).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{at} rejected the credentials")), "{error}");
    let nowhere = gateway.register(&catalog.lake(SECRET, "nosuch")).unwrap();
    let error = client::check_warehouse(&nowhere).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{at} has no warehouse \"nosuch\"")), "{error}");
}
