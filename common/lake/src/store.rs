//! Reaches the objects of a lake in S3-compatible stores, Azure, Google Cloud (HMAC keys or a vended token) and files.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use coldfront_common::frame::{Lake, Storage};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::buffered::BufWriter;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig, StaticCredentialProvider};

use crate::error::{LakeError, Result};
use crate::place::Place;

/// How long one request may take, and all tries of it together.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);
const RETRY_LIMIT: Duration = Duration::from_secs(180);
/// Single deletes under way at once, where a store has no bulk delete.
const DELETES_AT_ONCE: usize = 16;
/// Objects of one bulk delete; the most that S3 takes.
const DELETE_BATCH: usize = 1000;
/// Batches under way at once.
const BATCHES_AT_ONCE: usize = 8;
/// Parts of a long object, and how many are under way at once.
const PART_BYTES: usize = 8 * 1024 * 1024;
const PARTS_AT_ONCE: usize = 4;
/// Objects of a page of a listing, to count requests by.
const LIST_PAGE: u64 = 1000;
/// XML API of Google Cloud Storage, which takes HMAC keys with S3's signatures.
const GCS_XML_API: &str = "https://storage.googleapis.com";

/// The stores of a lake, opened when first needed.
pub struct Stores {
    storage: Option<Storage>,
    /// Properties that the catalog handed out, where the lake has no credentials of its own.
    vended: HashMap<String, String>,
    open: Mutex<HashMap<(String, String), Arc<dyn ObjectStore>>>,
    requests: AtomicU64,
}

/// Objects that were and were not removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    pub objects: u64,
    pub failed: u64,
}

impl Stores {
    pub fn new(lake: &Lake, vended: HashMap<String, String>) -> Self {
        Self { storage: lake.storage.clone(), vended, open: Mutex::default(), requests: AtomicU64::new(0) }
    }

    /// Requests made so far; retries inside a store's client are not counted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    fn locate(&self, url: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        let place = Place::parse(url);
        let path = place.path()?;
        let key = (place.scheme.to_owned(), place.bucket.to_owned());
        let mut open = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(store) = open.get(&key) {
            return Ok((Arc::clone(store), path));
        }
        let store = self.connect(&place)?;
        open.insert(key, Arc::clone(&store));
        Ok((store, path))
    }

    /// A whole object.
    pub async fn get(&self, url: &str) -> Result<Bytes> {
        let (store, path) = self.locate(url)?;
        self.requests.fetch_add(1, Relaxed);
        let answer = async { store.get(&path).await?.bytes().await }.await;
        answer.map_err(|source| failed("read", url, source))
    }

    pub async fn get_range(&self, url: &str, range: Range<u64>) -> Result<Bytes> {
        let (store, path) = self.locate(url)?;
        self.requests.fetch_add(1, Relaxed);
        store.get_range(&path, range).await.map_err(|source| failed("read", url, source))
    }

    pub async fn put(&self, url: &str, bytes: Bytes) -> Result<()> {
        let (store, path) = self.locate(url)?;
        self.requests.fetch_add(1, Relaxed);
        store.put(&path, bytes.into()).await.map(drop).map_err(|source| failed("write", url, source))
    }

    /// Writes an object of any length; one request if it is short, a multipart upload otherwise.
    pub fn writer(&self, url: &str) -> Result<BufWriter> {
        let (store, path) = self.locate(url)?;
        self.requests.fetch_add(1, Relaxed);
        Ok(BufWriter::with_capacity(store, path, PART_BYTES).with_max_concurrency(PARTS_AT_ONCE))
    }

    /// Everything below a location, page by page, with the URL that leads to it.
    pub fn list(self: &Arc<Self>, location: &str) -> Result<BoxStream<'static, Result<(String, ObjectMeta)>>> {
        let place = Place::parse(location);
        let (store, path) = self.locate(location)?;
        let base = match (place.scheme, location.contains("://")) {
            ("file", true) => "file:///".to_owned(),
            ("file", false) => "/".to_owned(),
            (scheme, _) => format!("{scheme}://{}/", place.bucket),
        };
        let (location, stores) = (location.to_owned(), Arc::clone(self));
        let mut seen = 0u64;
        let objects = store.list(Some(&path)).map(move |found| {
            if seen.is_multiple_of(LIST_PAGE) {
                stores.requests.fetch_add(1, Relaxed);
            }
            seen += 1;
            match found {
                Ok(meta) => Ok((format!("{base}{}", meta.location), meta)),
                Err(source) => Err(failed("list", &location, source)),
            }
        });
        Ok(objects.boxed())
    }

    /// Removes objects in batches; one by one where the store refuses batches. What is gone already counts as removed.
    pub async fn remove(&self, urls: &[String]) -> Result<Removed> {
        let mut by_store: HashMap<(&str, &str), Vec<&String>> = HashMap::new();
        for url in urls {
            let place = Place::parse(url);
            by_store.entry((place.scheme, place.bucket)).or_default().push(url);
        }
        let mut batches = Vec::new();
        for batch in by_store.values().flat_map(|urls| urls.chunks(DELETE_BATCH)) {
            let Some(first) = batch.first() else { continue };
            let (store, _) = self.locate(first)?;
            let paths = batch.iter().map(|url| Place::parse(url).path()).collect::<Result<Vec<_>>>()?;
            batches.push((store, paths));
        }
        let removals: Vec<_> =
            batches.into_iter().map(|(store, paths)| self.remove_batch(store, paths).boxed()).collect();
        let removed: Vec<Removed> = futures::stream::iter(removals).buffer_unordered(BATCHES_AT_ONCE).collect().await;
        Ok(removed.iter().fold(Removed::default(), |sum, batch| Removed {
            objects: sum.objects + batch.objects,
            failed: sum.failed + batch.failed,
        }))
    }

    async fn remove_batch(&self, store: Arc<dyn ObjectStore>, paths: Vec<Path>) -> Removed {
        self.requests.fetch_add(1, Relaxed);
        let in_bulk = store.delete_stream(futures::stream::iter(paths.clone().into_iter().map(Ok)).boxed());
        let gone =
            |answer: &Result<Path, object_store::Error>| matches!(answer, Err(object_store::Error::NotFound { .. }));
        let done: Result<Vec<_>, _> =
            in_bulk.filter(|answer| futures::future::ready(!gone(answer))).try_collect().await;
        match done {
            Ok(_) => Removed { objects: paths.len() as u64, failed: 0 },
            Err(error) => {
                tracing::debug!(%error, "a bulk delete failed; deleting one by one");
                self.remove_one_by_one(&store, paths).await
            }
        }
    }

    async fn remove_one_by_one(&self, store: &Arc<dyn ObjectStore>, paths: Vec<Path>) -> Removed {
        self.requests.fetch_add(paths.len() as u64, Relaxed);
        let answers: Vec<bool> = futures::stream::iter(paths)
            .map(|path| async move {
                match store.delete(&path).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => true,
                    Err(error) => {
                        tracing::warn!(object = %path, %error, "cannot remove an object; the next pass tries again");
                        false
                    }
                }
            })
            .buffer_unordered(DELETES_AT_ONCE)
            .collect()
            .await;
        let objects = answers.iter().filter(|done| **done).count() as u64;
        Removed { objects, failed: answers.len() as u64 - objects }
    }

    fn connect(&self, place: &Place<'_>) -> Result<Arc<dyn ObjectStore>> {
        match place.scheme {
            "file" => Ok(Arc::new(LocalFileSystem::new())),
            "s3" | "s3a" | "s3n" => s3(&self.s3().ok_or_else(|| foreign(place))?, place.bucket),
            "gs" | "gcs" => match (self.vended.get("gcs.oauth2.token"), self.s3()) {
                (Some(token), _) => gcs(token, place.bucket),
                (None, Some(hmac)) => s3(&hmac.for_gcs(), place.bucket),
                (None, None) => Err(foreign(place)),
            },
            "abfs" | "abfss" | "az" | "azure" | "wasb" | "wasbs" => match &self.storage {
                Some(Storage::Azure { connection_string }) => azure(connection_string, place.bucket),
                _ => azure(&self.azure_connection().ok_or_else(|| foreign(place))?, place.bucket),
            },
            _ => Err(foreign(place)),
        }
    }

    fn s3(&self) -> Option<S3Access> {
        let Some(Storage::S3 { key, secret, endpoint, region, url_style, use_ssl }) = &self.storage else {
            return self.vended_s3();
        };
        let scheme = if *use_ssl { "https" } else { "http" };
        Some(S3Access {
            key: key.clone(),
            secret: secret.clone(),
            session_token: None,
            region: region.clone(),
            endpoint: endpoint.as_ref().map(|endpoint| match endpoint.contains("://") {
                true => endpoint.clone(),
                false => format!("{scheme}://{endpoint}"),
            }),
            path_style: url_style == "path",
        })
    }

    fn vended_s3(&self) -> Option<S3Access> {
        let get = |name: &str| self.vended.get(name).cloned();
        Some(S3Access {
            key: get("s3.access-key-id")?,
            secret: get("s3.secret-access-key")?,
            session_token: get("s3.session-token"),
            region: get("s3.region").or(get("client.region")).or(get("region")).unwrap_or("us-east-1".into()),
            endpoint: get("s3.endpoint"),
            path_style: get("s3.path-style-access").is_some_and(|value| value == "true"),
        })
    }

    /// A shared access signature, in the form of a connection string.
    fn azure_connection(&self) -> Option<String> {
        let (host, signature) =
            self.vended.iter().find_map(|(name, value)| Some((name.strip_prefix("adls.sas-token.")?, value)))?;
        let account = host.split('.').next().unwrap_or(host);
        Some(format!("AccountName={account};SharedAccessSignature={signature}"))
    }
}

struct S3Access {
    key: String,
    secret: String,
    session_token: Option<String>,
    region: String,
    /// Base URL without the bucket; none for the provider's own.
    endpoint: Option<String>,
    path_style: bool,
}

impl S3Access {
    fn for_gcs(self) -> Self {
        let endpoint = self.endpoint.or_else(|| Some(GCS_XML_API.to_owned()));
        Self { endpoint, path_style: true, region: "auto".to_owned(), ..self }
    }
}

fn failed(action: &'static str, what: &str, source: object_store::Error) -> LakeError {
    LakeError::Store { action, what: what.to_owned(), source }
}

fn foreign(place: &Place<'_>) -> LakeError {
    LakeError::Foreign(format!("{}://{}/{}", place.scheme, place.bucket, place.key))
}

fn client_options() -> ClientOptions {
    ClientOptions::new().with_allow_http(true).with_timeout(REQUEST_LIMIT)
}

fn retries() -> RetryConfig {
    RetryConfig { max_retries: 5, retry_timeout: RETRY_LIMIT, ..RetryConfig::default() }
}

fn s3(access: &S3Access, bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_access_key_id(&access.key)
        .with_secret_access_key(&access.secret)
        .with_region(&access.region)
        .with_virtual_hosted_style_request(!access.path_style)
        .with_client_options(client_options())
        .with_retry(retries());
    let endpoint = access.endpoint.clone().unwrap_or_else(|| format!("https://s3.{}.amazonaws.com", access.region));
    // In the virtual-host style the builder takes the bucket's own address.
    builder = builder.with_endpoint(match endpoint.trim_end_matches('/').split_once("://") {
        Some((scheme, host)) if !access.path_style => format!("{scheme}://{bucket}.{host}"),
        _ => endpoint.trim_end_matches('/').to_owned(),
    });
    if let Some(token) = &access.session_token {
        builder = builder.with_token(token);
    }
    Ok(Arc::new(builder.build().map_err(LakeError::Setup)?))
}

fn gcs(token: &str, bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    let credential = GcpCredential { bearer: token.to_owned() };
    let builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_credentials(Arc::new(StaticCredentialProvider::new(credential)))
        .with_client_options(client_options())
        .with_retry(retries());
    Ok(Arc::new(builder.build().map_err(LakeError::Setup)?))
}

/// `container` is the first part of the URL, `container@account.dfs.core.windows.net` or just the container.
fn azure(connection_string: &str, container: &str) -> Result<Arc<dyn ObjectStore>> {
    let container = container.split('@').next().unwrap_or(container);
    let mut builder = MicrosoftAzureBuilder::new()
        .with_container_name(container)
        .with_client_options(client_options())
        .with_retry(retries());
    for (name, value) in connection_string.split(';').filter_map(|part| part.split_once('=')) {
        builder = match name.trim().to_ascii_lowercase().as_str() {
            "accountname" => builder.with_account(value),
            "accountkey" => builder.with_access_key(value),
            "blobendpoint" => builder.with_endpoint(value.to_owned()),
            "sharedaccesssignature" => builder.with_sas_authorization(sas_pairs(value)),
            _ => builder,
        };
    }
    Ok(Arc::new(builder.build().map_err(LakeError::Setup)?))
}

fn sas_pairs(signature: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    (signature.trim_start_matches('?').split('&'))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(storage: Option<Storage>, vended: &[(&str, &str)]) -> Stores {
        let vended = vended.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Stores::new(&Lake { storage, ..Lake::default() }, vended)
    }

    #[test]
    fn a_store_without_credentials_is_refused() {
        for url in ["s3://b/k", "gs://b/k", "abfss://c@a.dfs.core.windows.net/k", "ftp://b/k"] {
            let error = stores(None, &[]).locate(url).unwrap_err();
            assert!(error.to_string().contains("with the configured credentials"), "{url} {error}");
        }
    }

    #[test]
    fn every_kind_of_credential_opens_its_store() {
        let s3 = Storage::S3 {
            key: "k".into(),
            secret: "s".into(),
            endpoint: None,
            region: "r".into(),
            url_style: "vhost".into(),
            use_ssl: true,
        };
        stores(Some(s3.clone()), &[]).locate("s3://b/k").unwrap();
        stores(Some(s3), &[]).locate("gs://b/k").unwrap();
        let text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.windows.net";
        let azure = Storage::Azure { connection_string: text.into() };
        stores(Some(azure), &[]).locate("abfss://c@acc.dfs.core.windows.net/k").unwrap();
        let sas = [("adls.sas-token.acc.dfs.core.windows.net", "?sv=1&sig=a%2Bb")];
        stores(None, &sas).locate("abfss://c@acc.dfs.core.windows.net/k").unwrap();
        stores(None, &[("gcs.oauth2.token", "x")]).locate("gs://b/k").unwrap();
        stores(None, &[]).locate("file:///tmp/x").unwrap();
    }
}
