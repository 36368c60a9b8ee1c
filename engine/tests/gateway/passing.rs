//! What passes the gateway, and in what shape.

use std::time::{Duration, Instant};

use coldfront_common::frame::{CatalogAuth, Lake};
use coldfront_engine::gateway::{Gateway, RegisterError, client};

use crate::http::{self, Client, read_chunk};
use crate::scripted::{Reply, Scripted};

#[test]
fn paths_queries_headers_and_bodies_pass_byte_for_byte() {
    let catalog = Scripted::start(|_, _| Reply::Json(200, r#"{"defaults":{}}"#));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::Bearer { token: "upstream-token".into() })).unwrap();
    let path = "/v1/p/namespaces/a%1Fb%2fc/tables/%C3%9C%22'..%2e?pageToken=&x=%20+y";
    let headers = "X-Iceberg-Access-Delegation: vended-credentials\r\nTE: trailers\r\n";
    let answer = http::read(&mut Client::of(&lake).open("PUT", path, headers, b"\x00\xff")).unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, r#"{"defaults":{}}"#));

    let request = &catalog.requests()[0];
    assert_eq!(request.start, format!("PUT {path} HTTP/1.1"));
    assert_eq!(request.body, b"\x00\xff");
    assert_eq!(request.header("authorization"), Some("Bearer upstream-token"));
    assert_eq!(request.header("x-iceberg-access-delegation"), Some("vended-credentials"));
    assert_eq!(request.header("te"), None);
    assert_eq!(request.header("host"), Some(catalog.address.to_string().as_str()));
}

#[test]
fn the_base_path_of_the_catalog_comes_first() {
    let catalog = Scripted::start(|_, _| Reply::Json(200, "{}"));
    let gateway = Gateway::start().unwrap();
    let mut lake = catalog.lake(CatalogAuth::None);
    lake.catalog_uri.push_str("/api/catalog/");
    let lake = gateway.register(&lake).unwrap();
    Client::of(&lake).get("/v1/config?warehouse=x");
    assert_eq!(catalog.lines(), ["GET /api/catalog/v1/config?warehouse=x"]);
    assert_eq!(catalog.requests()[0].header("authorization"), None);
}

#[test]
fn nobody_gets_in_without_the_token_of_the_lake() {
    let catalog = Scripted::start(|_, _| Reply::Json(200, "{}"));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let other = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    assert_ne!(lake.token, other.token);
    for token in ["", "x", &other.token, &lake.token[1..]] {
        assert_eq!(Client::of(&lake).with_token(token).get("/v1/config").status(), 401, "{token:?}");
    }
    let client = Client::of(&lake);
    assert_eq!(client.get("/v1/config").status(), 200);
    assert_eq!(client.get("/v2/config").status(), 404);
    assert_eq!(client.post("/v1/oauth/tokens", "grant_type=client_credentials").status(), 404);
    assert!(!format!("{lake:?}").contains(&lake.token));
    drop(lake);
    assert_eq!(client.get("/v1/config").status(), 401);
    assert_eq!(catalog.lines(), ["GET /v1/config"]);
}

#[test]
fn a_lake_without_a_usable_catalog_address_is_refused() {
    let gateway = Gateway::start().unwrap();
    let register = |uri: &str| gateway.register(&Lake { catalog_uri: uri.to_owned(), ..Lake::default() }).err();
    assert!(matches!(register(" "), Some(RegisterError::NoCatalog)));
    assert!(matches!(register("s3://x"), Some(RegisterError::CatalogUri(_))));
}

#[test]
fn an_answer_streams_while_the_catalog_still_writes_it() {
    let pause = Duration::from_secs(2);
    let catalog = Scripted::start(move |_, _| {
        Reply::Pieces(vec![
            (Duration::ZERO, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".to_vec()),
            (pause, b"6\r\nsecond\r\n0\r\n\r\n".to_vec()),
        ])
    });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let started = Instant::now();
    let mut stream = Client::of(&lake).open("GET", "/v1/namespaces", "", b"");
    assert!(http::read_head(&mut stream).unwrap().start.contains("200"));
    assert_eq!(read_chunk(&mut stream).unwrap().unwrap(), b"first");
    assert!(started.elapsed() < pause, "the first piece waited for the second");
    assert_eq!(read_chunk(&mut stream).unwrap().unwrap(), b"second");
    assert!(read_chunk(&mut stream).unwrap().is_none());
}

#[test]
fn a_request_body_too_large_to_hold_passes_whole() {
    let catalog = Scripted::start(|_, request| Reply::Text(200, request.body.len().to_string()));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let watch = lake.watch_commits();
    let body = vec![b' '; 40 * 1024 * 1024];
    let mut answer = Client::of(&lake).open("POST", "/v1/transactions/commit", "", &body);
    assert_eq!(http::read(&mut answer).unwrap().text(), body.len().to_string());
    assert_eq!(watch.events()[0].tables, None);
}

#[test]
fn a_configuration_that_leads_past_the_gateway_is_corrected() {
    let catalog = Scripted::start(|_, _| Reply::Json(200, r#"{"overrides":{"uri":"http://else.where","prefix":"p"}}"#));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    assert_eq!(Client::of(&lake).get("/v1/config").text(), r#"{"overrides":{"prefix":"p"}}"#);
}

#[test]
fn a_table_is_shown_with_its_head_long_ago_and_last() {
    let table = r#"{"metadata":{"table-uuid":"u","last-updated-ms":9,"current-snapshot-id":5,"metadata-log":[7],
        "snapshots":[{"snapshot-id":5,"sequence-number":2,"timestamp-ms":8},{"snapshot-id":6,"timestamp-ms":9}]}}"#;
    let catalog = Scripted::start(move |_, _| Reply::Json(200, table));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let path = "/v1/p/namespaces/n/tables/t?snapshots=all";
    let mut answer = Client::of(&lake).open("GET", path, "Accept-Encoding: gzip\r\n", b"");
    let shown: serde_json::Value = serde_json::from_slice(&http::read(&mut answer).unwrap().body).unwrap();
    let expected = serde_json::json!({"metadata": {
        "table-uuid": "u", "last-updated-ms": 1, "current-snapshot-id": 5, "metadata-log": [], "snapshot-log": [],
        "snapshots": [{"snapshot-id": 6, "timestamp-ms": 1},
            {"snapshot-id": 5, "sequence-number": 2, "timestamp-ms": 2}]}});
    assert_eq!(shown, expected);
    assert_eq!(catalog.requests()[0].header("accept-encoding"), None);
    assert_eq!(catalog.lines(), [format!("GET {path}")]);

    // Created tables too. What a commit answers, DuckDB does not read.
    let created = Client::of(&lake).post("/v1/p/namespaces/n/tables", "{}");
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&created.body).unwrap(), expected);
    assert_eq!(Client::of(&lake).post("/v1/p/namespaces/n/tables/t", "{}").text(), table);
}

#[test]
fn a_redirection_is_an_error_and_not_followed() {
    let moved = b"HTTP/1.1 308 Moved\r\nLocation: https://new.place/v1/config?code=1\r\nContent-Length: 0\r\n\r\n";
    let catalog = Scripted::start(|_, _| Reply::Pieces(vec![(Duration::ZERO, moved.to_vec())]));
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let answer = Client::of(&lake).get("/v1/config");
    assert_eq!((answer.status(), answer.header("location")), (502, None));
    assert!(answer.error().contains("sends us on to https://new.place/v1/config: "), "{}", answer.error());
}

#[test]
fn a_head_request_keeps_its_length_and_has_no_body() {
    let catalog = Scripted::start(|_, _| {
        Reply::Pieces(vec![(Duration::ZERO, b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_vec())])
    });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(CatalogAuth::None)).unwrap();
    let answer = Client::of(&lake).send("HEAD", "/v1/namespaces/a", "");
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("7")));
}

#[test]
fn the_typed_client_encodes_names_and_honours_the_prefix() {
    let metadata = r#"{"metadata":{"table-uuid":"u","location":"s3://l/t","current-snapshot-id":5,
        "snapshots":[{"snapshot-id":5,"manifest-list":"m","summary":{"total-records":"9"}}]}}"#;
    let catalog = Scripted::start(move |_, request| match request.start.contains("/v1/config") {
        true => Reply::Json(200, r#"{"defaults":{"prefix":"no"},"overrides":{"prefix":"a/b"}}"#),
        false if request.start.starts_with("DELETE") => Reply::Text(204, String::new()),
        false => Reply::Json(200, metadata),
    });
    let gateway = Gateway::start().unwrap();
    let mut lake = catalog.lake(CatalogAuth::None);
    lake.warehouse = "s3://w h".to_owned();
    let lake = gateway.register(&lake).unwrap();
    let table = client::load_table(&lake, &["n.1.ü"], r#"t/ "x'"#).unwrap();
    assert_eq!(table.current_snapshot().unwrap().summary["total-records"], "9");
    client::drop_table(&lake, &["n"], "t", true).unwrap();
    assert_eq!(
        catalog.lines(),
        [
            "GET /v1/config?warehouse=s3%3A%2F%2Fw%20h",
            "GET /v1/a/b/namespaces/n%1F1%1F%C3%BC/tables/t%2F%20%22x%27",
            "DELETE /v1/a/b/namespaces/n/tables/t?purgeRequested=true",
        ]
    );
}
