//! The Iceberg REST catalog: reading a table, committing to it, listing tables.
//!
//! A commit is sent with what it requires of the table, and its outcome is always known: where an answer is lost, the
//! table is read back before anything is repeated.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use coldfront_common::frame::{CatalogAuth, Lake};
use coldfront_common::redact;
use iceberg::spec::{SnapshotReference, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, OnceCell};

use crate::error::{LakeError, Result};
use crate::oauth::OAuth;
use crate::percent;

/// Longest wait for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A commit without a known outcome is read back and sent again this often.
const COMMIT_TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(300);
/// A read that met no answer is repeated this often.
const READ_TRIES: u32 = 3;

/// A table's name as the catalog knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct TableId {
    pub namespace: Vec<String>,
    pub name: String,
}

impl TableId {
    /// A dot in a schema's name separates levels, as in the engine's SQL.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.split('.').map(str::to_owned).collect(), name: name.to_owned() }
    }
}

impl std::fmt::Display for TableId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "table \"{}\".\"{}\"", self.namespace.join("\".\""), self.name)
    }
}

/// A table as the catalog showed it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub metadata: Arc<TableMetadata>,
    /// Branches and tags.
    pub refs: HashMap<String, SnapshotReference>,
    /// Metadata file that this is.
    pub metadata_location: Option<String>,
    /// What the catalog hands out with the table: credentials and addresses.
    pub config: HashMap<String, String>,
}

/// How a commit is recognised in a table that is read back.
#[derive(Debug, Clone)]
pub enum Trace {
    /// The table has this snapshot.
    Added(i64),
    /// The table has none of these snapshots.
    Gone(Vec<i64>),
}

impl Trace {
    fn is_in(&self, metadata: &TableMetadata) -> bool {
        match self {
            Self::Added(id) => metadata.snapshot_by_id(*id).is_some(),
            Self::Gone(ids) => ids.iter().all(|id| metadata.snapshot_by_id(*id).is_none()),
        }
    }
}

pub struct Catalog {
    client: reqwest::Client,
    /// Base URI without a slash at its end.
    base: String,
    warehouse: String,
    auth: Auth,
    secrets: Vec<String>,
    prefix: OnceCell<String>,
    requests: AtomicU64,
}

enum Auth {
    None,
    Bearer(String),
    ClientCredentials(Box<OAuth>),
}

#[derive(Deserialize)]
struct LoadAnswer {
    metadata: Box<RawValue>,
    #[serde(rename = "metadata-location")]
    metadata_location: Option<String>,
    #[serde(default)]
    config: HashMap<String, String>,
    #[serde(default, rename = "storage-credentials")]
    credentials: Vec<StorageCredential>,
}

#[derive(Deserialize)]
struct StorageCredential {
    config: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Refs {
    #[serde(default)]
    refs: HashMap<String, SnapshotReference>,
}

#[derive(Deserialize)]
struct ConfigAnswer {
    #[serde(default)]
    overrides: HashMap<String, serde_json::Value>,
    #[serde(default)]
    defaults: HashMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Namespaces {
    #[serde(default)]
    namespaces: Vec<Vec<String>>,
    #[serde(rename = "next-page-token")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    identifiers: Vec<TableId>,
    #[serde(rename = "next-page-token")]
    next: Option<String>,
}

/// A page of a listing. Its token is missing, null or empty on the last one.
trait Page: serde::de::DeserializeOwned {
    fn next(&self) -> Option<&str>;
}

impl Page for Namespaces {
    fn next(&self) -> Option<&str> {
        self.next.as_deref().filter(|token| !token.is_empty())
    }
}

impl Page for Tables {
    fn next(&self) -> Option<&str> {
        self.next.as_deref().filter(|token| !token.is_empty())
    }
}

impl Catalog {
    pub fn new(lake: &Lake) -> Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(ANSWER_LIMIT)
            .connect_timeout(CONNECT_LIMIT)
            .user_agent(concat!("coldfront/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| LakeError::Unreachable { at: lake.catalog_uri.clone(), cause: error.to_string() })?;
        let base = lake.catalog_uri.trim().trim_end_matches('/').to_owned();
        let auth = match &lake.catalog_auth {
            CatalogAuth::None => Auth::None,
            CatalogAuth::Bearer { token } => Auth::Bearer(token.clone()),
            CatalogAuth::OAuth2 { client_id, client_secret, token_url, scope } => {
                Auth::ClientCredentials(Box::new(OAuth {
                    url: token_url.clone().unwrap_or_else(|| format!("{base}/v1/oauth/tokens")),
                    client_id: client_id.clone(),
                    client_secret: client_secret.clone(),
                    scope: scope.clone(),
                    token: Mutex::default(),
                }))
            }
        };
        Ok(Self {
            client,
            base,
            warehouse: lake.warehouse.clone(),
            auth,
            secrets: lake.secrets(),
            prefix: OnceCell::new(),
            requests: AtomicU64::new(0),
        })
    }

    /// Requests made so far, without those for tokens and configuration.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// The table as it is now, with the credentials that the catalog hands out for it if `delegate` asks for some.
    pub async fn load(&self, table: &TableId, delegate: bool) -> Result<Loaded> {
        let path = self.table_path(table).await?;
        let what = table.to_string();
        self.requests.fetch_add(1, Relaxed);
        let bytes = self.ask(Method::GET, &path, None, delegate, &what).await?;
        self.loaded(&what, &bytes)
    }

    /// Commits, or says [`LakeError::Conflict`] where the table no longer meets `requirements`.
    ///
    /// Every set of requirements has to fail once the commit is applied, so that a second copy of it cannot be.
    pub async fn commit(
        &self,
        table: &TableId,
        requirements: &[TableRequirement],
        updates: &[TableUpdate],
        trace: &Trace,
    ) -> Result<Loaded> {
        let (path, what) = (self.table_path(table).await?, table.to_string());
        let body = serde_json::json!({
            "identifier": { "namespace": table.namespace, "name": table.name },
            "requirements": requirements,
            "updates": updates,
        });
        let body = Bytes::from(body.to_string());
        // Why it is not known whether an earlier copy was applied.
        let mut doubt: Option<String> = None;
        for _ in 0..COMMIT_TRIES {
            self.requests.fetch_add(1, Relaxed);
            let refusal = match self.ask(Method::POST, &path, Some(body.clone()), false, &what).await {
                Ok(bytes) => match self.loaded(&what, &bytes) {
                    Ok(loaded) => return Ok(loaded),
                    // It was applied, and the table tells.
                    Err(error) => {
                        doubt = Some(error.to_string());
                        None
                    }
                },
                Err(error) if error.is_refusal() => Some(error),
                Err(error) => {
                    doubt = Some(error.to_string());
                    tokio::time::sleep(PAUSE).await;
                    None
                }
            };
            // A proxy may have sent it twice, so a conflict may be one with ourselves.
            let is_conflict = matches!(refusal, Some(LakeError::Status { status: 409, .. }));
            match refusal {
                Some(refusal) if !is_conflict && doubt.is_none() => return Err(refusal),
                _ => match self.load(table, false).await {
                    Ok(now) if trace.is_in(&now.metadata) => return Ok(now),
                    // The table has moved on, so no copy that is still under way can be applied.
                    Ok(_) if is_conflict => return Err(LakeError::Conflict { what }),
                    Ok(_) => {
                        tracing::info!(table = %what, cause = ?doubt, "sending a commit again whose answer was lost")
                    }
                    Err(error) => doubt = Some(error.to_string()),
                },
            }
        }
        Err(LakeError::InDoubt { what, cause: doubt.unwrap_or_default() })
    }

    /// All tables of the warehouse.
    pub async fn list_tables(&self) -> Result<Vec<TableId>> {
        let mut tables = Vec::new();
        for namespace in self.namespaces().await? {
            let path =
                format!("{}/namespaces/{}/tables?", self.base_path().await?, percent::encode_namespace(&namespace));
            match self.pages(&path, "tables", |page: Tables| page.identifiers).await {
                // Dropped since it was listed.
                Err(LakeError::NotFound { .. }) => {}
                other => tables.extend(other?),
            }
        }
        Ok(tables)
    }

    /// All namespaces, at every level.
    async fn namespaces(&self) -> Result<Vec<Vec<String>>> {
        let base = self.base_path().await?;
        let mut found: Vec<Vec<String>> = Vec::new();
        let mut parents: Vec<Vec<String>> = vec![Vec::new()];
        while let Some(parent) = parents.pop() {
            let path = match parent.is_empty() {
                true => format!("{base}/namespaces?"),
                false => format!("{base}/namespaces?parent={}&", percent::encode_namespace(&parent)),
            };
            let below = match self.pages(&path, "namespaces", |page: Namespaces| page.namespaces).await {
                // Catalogs without nested namespaces know no parent.
                Err(LakeError::Status { .. } | LakeError::NotFound { .. }) if !parent.is_empty() => Vec::new(),
                other => other?,
            };
            for namespace in below.into_iter().filter(|n| n.len() > parent.len() && n.starts_with(&parent)) {
                if !found.contains(&namespace) {
                    parents.push(namespace.clone());
                    found.push(namespace);
                }
            }
        }
        Ok(found)
    }

    /// Everything that a listing at `path`, which ends in `?` or `&`, holds on all its pages.
    async fn pages<P: Page, T>(&self, path: &str, what: &str, items: impl Fn(P) -> Vec<T>) -> Result<Vec<T>> {
        let (mut out, mut token) = (Vec::new(), String::new());
        loop {
            let bytes = self.read(&format!("{path}pageSize=1000{token}"), what).await?;
            let page: P = self.parse(what, &bytes)?;
            let next = page.next().map(percent::encode);
            out.extend(items(page));
            match next {
                Some(next) => token = format!("&pageToken={next}"),
                None => return Ok(out),
            }
        }
    }

    async fn read(&self, path: &str, what: &str) -> Result<Bytes> {
        self.requests.fetch_add(1, Relaxed);
        self.ask(Method::GET, path, None, false, what).await
    }

    async fn table_path(&self, table: &TableId) -> Result<String> {
        let namespace = percent::encode_namespace(&table.namespace);
        Ok(format!("{}/namespaces/{namespace}/tables/{}", self.base_path().await?, percent::encode(&table.name)))
    }

    /// `/v1`, or `/v1/{prefix}` where the catalog wants a prefix; it is asked once.
    async fn base_path(&self) -> Result<&str> {
        let prefix = self
            .prefix
            .get_or_try_init(|| async {
                let path = match self.warehouse.as_str() {
                    "" => "/v1/config".to_owned(),
                    name => format!("/v1/config?warehouse={}", percent::encode(name)),
                };
                let what = format!("warehouse \"{}\"", self.warehouse);
                let bytes = self.ask(Method::GET, &path, None, false, &what).await?;
                let config: ConfigAnswer = self.parse(&what, &bytes)?;
                let prefix = config.overrides.get("prefix").or(config.defaults.get("prefix"));
                // Catalogs hand it out ready for use in a path.
                Ok::<_, LakeError>(match prefix.and_then(|p| p.as_str()).filter(|p| !p.is_empty()) {
                    Some(prefix) => format!("/v1/{prefix}"),
                    None => "/v1".to_owned(),
                })
            })
            .await?;
        Ok(prefix)
    }

    /// Asks; a read that met no answer is repeated, a change never.
    async fn ask(&self, method: Method, path: &str, body: Option<Bytes>, delegate: bool, what: &str) -> Result<Bytes> {
        let is_read = method == Method::GET;
        let (mut tries, mut renewed) = (0, false);
        loop {
            tries += 1;
            match self.ask_once(&method, path, body.clone(), delegate, what).await {
                Err(LakeError::Unauthorized { .. }) if !renewed && matches!(self.auth, Auth::ClientCredentials(_)) => {
                    renewed = true;
                    if let Auth::ClientCredentials(oauth) = &self.auth {
                        oauth.forget().await;
                    }
                }
                Err(LakeError::Unreachable { .. } | LakeError::Status { status: 500.., .. })
                    if is_read && tries < READ_TRIES =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    async fn ask_once(
        &self,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
        delegate: bool,
        what: &str,
    ) -> Result<Bytes> {
        let at = || self.base.clone();
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.base));
        request = match &self.auth {
            Auth::None => request,
            Auth::Bearer(token) => request.bearer_auth(token),
            Auth::ClientCredentials(oauth) => request.bearer_auth(oauth.token(&self.client).await?),
        };
        if delegate {
            request = request.header("x-iceberg-access-delegation", "vended-credentials");
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let unanswered = |error: reqwest::Error| LakeError::Unreachable {
            at: at(),
            cause: redact::mask(&root_cause(&error.without_url()), &self.secrets),
        };
        let response = request.send().await.map_err(unanswered)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(unanswered)?;
        if status.is_success() {
            return Ok(bytes);
        }
        let said = redact::mask(&message(&bytes).unwrap_or_else(|| status.to_string()), &self.secrets);
        let what = what.to_owned();
        Err(match status {
            StatusCode::NOT_FOUND => LakeError::NotFound { at: at(), what, said },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => LakeError::Unauthorized { at: at(), said },
            _ => LakeError::Status { at: at(), what, status: status.as_u16(), said },
        })
    }

    fn loaded(&self, what: &str, bytes: &[u8]) -> Result<Loaded> {
        let answer: LoadAnswer = self.parse(what, bytes)?;
        // The types of the crate do not show the references, so they are read on their own.
        let refs: Refs = self.parse(what, answer.metadata.get().as_bytes())?;
        let metadata: TableMetadata = self.parse(what, answer.metadata.get().as_bytes())?;
        let mut config = answer.config;
        config.extend(answer.credentials.into_iter().flat_map(|credential| credential.config));
        Ok(Loaded {
            metadata: Arc::new(metadata),
            refs: refs.refs,
            metadata_location: answer.metadata_location,
            config,
        })
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, what: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| LakeError::Malformed {
            at: self.base.clone(),
            what: what.to_owned(),
            cause: redact::mask(&error.to_string(), &self.secrets),
        })
    }
}

/// The message of an Iceberg error answer.
fn message(bytes: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    Some(answer.get("error")?.get("message")?.as_str()?.to_owned())
}

/// The innermost reason: the layers above it repeat themselves.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
