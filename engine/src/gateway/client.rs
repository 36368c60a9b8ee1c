//! What the engine itself asks a catalog, for plain threads: the state of a table, and its removal.
//! It goes the way of every other request, past the loopback socket only; it may not be called inside a runtime.
//!
//! Namespaces are named as in DuckDB's SQL, where a dot in a schema's name separates levels: `&["a.b"]` is the namespace
//! that DuckDB calls `ice."a.b"`, and the same as `&["a", "b"]`. A level with a dot in its name cannot be reached, here or
//! there.

use std::collections::HashMap;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use coldfront_common::redact;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Registration;
use super::api::error_model::message;
use super::percent;
use super::problem::ProblemKind;
use super::registry::Entry;
use super::store::body::{self, RequestBody};
use super::store::upstream::{ANSWER_LIMIT, UpstreamError, UpstreamRequest};
use super::table::LoadedTable;
pub use super::table::{Snapshot, TableMetadata};

/// Largest answer that is read, in bytes: metadata of a table with a hundred thousand snapshots.
const ANSWER_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Why the catalog could not be asked. Every text names the catalog or the table and holds no credential.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No answer. After a request that changes something: nobody knows whether it did.
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Unauthorized(String),
    /// The table, or what it is in.
    #[error("the Iceberg catalog at {at} has no {what}: {said}")]
    NotFound { at: String, what: String, said: String },
    #[error("the Iceberg catalog at {at} answered {status} when asked for {what}: {said}")]
    Status { at: String, what: String, status: u16, said: String },
    #[error("the Iceberg catalog at {at} gave an answer for {what} that cannot be read: {cause}")]
    Malformed { at: String, what: String, cause: String },
}

/// Reads a table's current metadata from the catalog.
pub fn load_table(lake: &Registration, namespace: &[&str], table: &str) -> Result<TableMetadata, ClientError> {
    lake.block_on(async {
        let entry = &*lake.entry;
        let what = table_name(namespace, table);
        let path = table_path(entry, namespace, table).await?;
        let answer: LoadedTable = parse(entry, &what, &ask(entry, Method::GET, path, &what).await?)?;
        Ok(answer.metadata)
    })
}

/// Credentials that a catalog hands out.
#[derive(Deserialize)]
pub struct TableCredential {
    /// Locations they are for; empty for all.
    pub prefix: String,
    pub config: HashMap<String, String>,
}

/// The credentials that the catalog hands out for a table's files.
pub fn table_credentials(
    lake: &Registration,
    namespace: &[&str],
    table: &str,
) -> Result<Vec<TableCredential>, ClientError> {
    #[derive(Deserialize)]
    struct Delegated {
        #[serde(default, rename = "storage-credentials")]
        credentials: Vec<TableCredential>,
        #[serde(default)]
        config: HashMap<String, String>,
    }
    lake.block_on(async {
        let entry = &*lake.entry;
        let what = table_name(namespace, table);
        let path = table_path(entry, namespace, table).await?;
        let mut headers = plain_headers();
        headers.insert("x-iceberg-access-delegation", HeaderValue::from_static("vended-credentials"));
        let answer = ask_with(entry, Method::GET, path, &what, headers).await?;
        let Delegated { mut credentials, config } = parse(entry, &what, &answer)?;
        // What is not in the list of credentials is for everything.
        credentials.push(TableCredential { prefix: String::new(), config });
        Ok(credentials)
    })
}

/// Removes a table from the catalog; with `purge`, the catalog is asked to remove its files too.
pub fn drop_table(lake: &Registration, namespace: &[&str], table: &str, purge: bool) -> Result<(), ClientError> {
    lake.block_on(async {
        let entry = &*lake.entry;
        let path = format!("{}?purgeRequested={purge}", table_path(entry, namespace, table).await?);
        ask(entry, Method::DELETE, path, &table_name(namespace, table)).await.map(drop)
    })
}

/// Finds out whether the catalog answers, lets us in and knows the warehouse. Some catalogs accept any warehouse name
/// until it is used, so this lists its namespaces.
pub fn check_warehouse(lake: &Registration) -> Result<(), ClientError> {
    lake.block_on(async {
        let entry = &*lake.entry;
        let what = format!("warehouse \"{}\"", entry.upstream.warehouse());
        let path = format!("{}/namespaces?pageSize=1", base_path(entry).await?);
        let result = ask(entry, Method::GET, path, &what).await.map(drop);
        if let Err(error @ ClientError::NotFound { .. }) = &result {
            entry.problems.record(ProblemKind::NoWarehouse, error.to_string());
        }
        result
    })
}

fn table_name(namespace: &[&str], table: &str) -> String {
    format!("table \"{}\".\"{table}\"", namespace.join("\".\""))
}

async fn table_path(entry: &Entry, namespace: &[&str], table: &str) -> Result<String, ClientError> {
    let levels: Vec<&str> = namespace.iter().flat_map(|name| name.split('.')).collect();
    let (namespace, table) = (percent::encode_namespace(&levels), percent::encode(table));
    Ok(format!("{}/namespaces/{namespace}/tables/{table}", base_path(entry).await?))
}

/// `/v1`, or `/v1/{prefix}` where the catalog wants a prefix; it is asked once per registration.
async fn base_path(entry: &Entry) -> Result<String, ClientError> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        overrides: HashMap<String, serde_json::Value>,
        #[serde(default)]
        defaults: HashMap<String, serde_json::Value>,
    }
    let prefix = entry
        .prefix
        .get_or_try_init(|| async {
            let warehouse = entry.upstream.warehouse();
            let path = match warehouse {
                "" => "/v1/config".to_owned(),
                name => format!("/v1/config?warehouse={}", percent::encode(name)),
            };
            let what = format!("warehouse \"{warehouse}\"");
            let config: Config = parse(entry, &what, &ask(entry, Method::GET, path, &what).await?)?;
            let prefix = config.overrides.get("prefix").or(config.defaults.get("prefix"));
            Ok(prefix.and_then(|p| p.as_str()).filter(|p| !p.is_empty()).map(str::to_owned))
        })
        .await?;
    Ok(match prefix {
        // Catalogs hand it out ready for use in a path.
        Some(prefix) => format!("/v1/{prefix}"),
        None => "/v1".to_owned(),
    })
}

fn plain_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("coldfront-engine/", env!("CARGO_PKG_VERSION"))));
    headers
}

async fn ask(entry: &Entry, method: Method, path_and_query: String, what: &str) -> Result<Bytes, ClientError> {
    ask_with(entry, method, path_and_query, what, plain_headers()).await
}

async fn ask_with(
    entry: &Entry,
    method: Method,
    path_and_query: String,
    what: &str,
    headers: HeaderMap,
) -> Result<Bytes, ClientError> {
    let request = UpstreamRequest { method, path_and_query, headers, body: RequestBody::empty(), limit: ANSWER_LIMIT };
    let response = entry.upstream.send(request).await.map_err(|error| unanswered(entry, &error))?;
    entry.problems.answered();
    let status = response.status();
    let bytes = read(entry, response).await?;
    if status.is_success() {
        return Ok(bytes);
    }
    let said = message(&bytes).map_or_else(|| status.to_string(), |m| redact::mask(&m, entry.upstream.secrets()));
    let (at, what) = (entry.upstream.address().to_owned(), what.to_owned());
    Err(match status {
        StatusCode::NOT_FOUND => ClientError::NotFound { at, what, said },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ClientError::Unauthorized(format!("the Iceberg catalog at {at} rejected the credentials: {said}"))
        }
        _ => ClientError::Status { at, what, status: status.as_u16(), said },
    })
}

async fn read(entry: &Entry, response: Response<Body>) -> Result<Bytes, ClientError> {
    body::collect(response.into_body(), ANSWER_MAX_BYTES).await.map_err(|_| {
        let at = entry.upstream.address();
        ClientError::Unreachable(format!("the Iceberg catalog at {at} does not answer: its answer was cut off"))
    })
}

fn parse<T: DeserializeOwned>(entry: &Entry, what: &str, bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes).map_err(|error| ClientError::Malformed {
        at: entry.upstream.address().to_owned(),
        what: what.to_owned(),
        cause: redact::mask(&error.to_string(), entry.upstream.secrets()),
    })
}

fn unanswered(entry: &Entry, error: &UpstreamError) -> ClientError {
    let text = redact::mask(&error.to_string(), entry.upstream.secrets());
    match error {
        UpstreamError::Rejected { .. } => {
            entry.problems.record(ProblemKind::Unauthorized, text.clone());
            ClientError::Unauthorized(text)
        }
        UpstreamError::Unreachable { .. } | UpstreamError::Lost { .. } => {
            entry.problems.record(ProblemKind::Unreachable, text.clone());
            ClientError::Unreachable(text)
        }
    }
}
