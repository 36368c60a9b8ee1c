//! Tokens from an OAuth2 endpoint: fetched once, renewed when refused, never shown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use coldfront_common::frame::CatalogAuth;
use coldfront_engine::gateway::problem::ProblemKind;
use coldfront_engine::gateway::{Gateway, client};

use crate::http::Client;
use crate::scripted::{Reply, Scripted};

const SECRET: &str = "s3cr3t&/+";

fn client_credentials(token_url: Option<&str>) -> CatalogAuth {
    CatalogAuth::OAuth2 {
        client_id: "id".to_owned(),
        client_secret: SECRET.to_owned(),
        token_url: token_url.map(str::to_owned),
        scope: Some("PRINCIPAL_ROLE:ALL".to_owned()),
    }
}

/// A catalog whose tokens are numbered; it accepts those that `good` accepts.
fn catalog(expires_in: u64, good: impl Fn(usize) -> bool + Send + Sync + 'static) -> Scripted {
    let issued = AtomicUsize::new(0);
    Scripted::start(move |_, request| {
        if request.start.contains("/v1/oauth/tokens") {
            let number = issued.fetch_add(1, Ordering::SeqCst) + 1;
            return Reply::Text(200, format!(r#"{{"access_token":"t{number}","expires_in":{expires_in}}}"#));
        }
        let token = request.header("authorization").unwrap_or_default();
        match token.strip_prefix("Bearer t").and_then(|n| n.parse().ok()).is_some_and(&good) {
            true => Reply::Json(200, "{}"),
            false => Reply::Json(401, r#"{"error":{"message":"expired","type":"NotAuthorizedException","code":401}}"#),
        }
    })
}

fn token_requests(catalog: &Scripted) -> usize {
    catalog.lines().iter().filter(|line| line.contains("tokens")).count()
}

#[test]
fn one_token_serves_many_requests() {
    let catalog = catalog(3600, |_| true);
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(client_credentials(None))).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(Client::of(&lake).get("/v1/namespaces").status(), 200));
        }
    });
    assert_eq!(token_requests(&catalog), 1);
    let request = &catalog.requests()[0];
    assert_eq!(request.start, "POST /v1/oauth/tokens HTTP/1.1");
    assert_eq!(
        request.text(),
        "grant_type=client_credentials&client_id=id&client_secret=s3cr3t%26%2F%2B&scope=PRINCIPAL_ROLE%3AALL"
    );
}

#[test]
fn a_token_is_renewed_before_it_expires() {
    let catalog = catalog(2, |_| true);
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(client_credentials(Some("/v1/oauth/tokens")))).unwrap();
    let client = Client::of(&lake);
    client.get("/v1/namespaces");
    client.get("/v1/namespaces");
    assert_eq!(token_requests(&catalog), 1);
    thread::sleep(Duration::from_millis(1900));
    client.get("/v1/namespaces");
    assert_eq!(token_requests(&catalog), 2);
}

#[test]
fn a_refused_token_is_renewed_once_and_the_request_repeated() {
    let catalog = catalog(3600, |number| number == 2);
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(client_credentials(None))).unwrap();
    let watch = lake.watch_commits();
    let commit = "/v1/p/transactions/commit";
    assert_eq!(Client::of(&lake).post(commit, r#"{"table-changes":[]}"#).status(), 200);
    let (token, send) = ("POST /v1/oauth/tokens".to_owned(), format!("POST {commit}"));
    assert_eq!(catalog.lines(), [token.clone(), send.clone(), token, send]);
    assert_eq!(catalog.requests()[3].text(), r#"{"table-changes":[]}"#);
    assert_eq!(watch.events().len(), 1);
}

#[test]
fn credentials_that_stay_refused_are_an_error_that_says_so() {
    let catalog = catalog(3600, |_| false);
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(client_credentials(None))).unwrap();
    let before = Instant::now();
    let answer = Client::of(&lake).get("/v1/namespaces");
    let expected = format!("the Iceberg catalog at {} rejected the credentials: expired", catalog.address);
    assert_eq!((answer.status(), answer.error()), (401, expected.clone()));
    assert_eq!(catalog.lines().len(), 4, "{:?}", catalog.lines());
    let problem = lake.problem_since(before).unwrap();
    assert_eq!((problem.kind, problem.message), (ProblemKind::Unauthorized, expected));
    assert_eq!(lake.problem_since(Instant::now()), None);
}

#[test]
fn wrong_client_credentials_are_named_and_not_shown() {
    let catalog = Scripted::start(|_, _| {
        Reply::Text(400, format!(r#"{{"error":"invalid_client","error_description":"no client {SECRET}"}}"#))
    });
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(client_credentials(None))).unwrap();
    let answer = Client::of(&lake).get("/v1/config");
    let expected = format!(
        "the Iceberg catalog at {} rejected the credentials: invalid_client - no client ********",
        catalog.address
    );
    assert_eq!((answer.status(), answer.error()), (401, expected.clone()));
    let error = client::check_warehouse(&lake).unwrap_err();
    assert!(matches!(error, client::ClientError::Unauthorized(_)), "{error:?}");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_token_endpoint_that_is_down_fails_all_who_wait_at_once() {
    let catalog = Scripted::start(|_, _| Reply::Json(200, "{}"));
    let gateway = Gateway::start().unwrap();
    // Port 1 is reserved and nothing listens there.
    let lake = gateway.register(&catalog.lake(client_credentials(Some("http://127.0.0.1:1/t")))).unwrap();
    let before = Instant::now();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let answer = Client::of(&lake).get("/v1/config");
                let expected = format!(
                    "the Iceberg catalog at {} does not answer: its token endpoint 127.0.0.1:1: connection refused",
                    catalog.address
                );
                assert_eq!((answer.status(), answer.error()), (502, expected));
            });
        }
    });
    assert!(before.elapsed() < Duration::from_secs(5), "they failed one after the other");
    assert!(catalog.requests().is_empty());
}
