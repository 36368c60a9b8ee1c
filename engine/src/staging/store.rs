//! Reaches the object store of a lake to remove objects from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coldfront_common::frame::{Lake, Storage};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Why an object cannot be reached. Holds no credential.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0} is not the name of an object in a store that can be reached with the configured credentials")]
    Foreign(String),
    #[error("cannot set up access to the object store")]
    Setup(#[source] object_store::Error),
    #[error("{path} is not a valid object name")]
    Name { path: String, source: object_store::path::Error },
}

/// A place in a store: which bucket or container, and the name of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    pub scheme: &'a str,
    pub bucket: &'a str,
    pub key: &'a str,
}

impl<'a> Place<'a> {
    /// Splits an object's URL; a path without scheme is a local file.
    pub fn parse(url: &'a str) -> Self {
        match url.split_once("://") {
            Some((scheme, rest)) if scheme != "file" => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                Self { scheme, bucket, key }
            }
            Some((_, path)) => Self { scheme: "file", bucket: "", key: path },
            None => Self { scheme: "file", bucket: "", key: url },
        }
    }

    pub fn path(&self) -> Result<Path, StoreError> {
        let key = self.key.trim_start_matches('/');
        Path::parse(key).map_err(|source| StoreError::Name { path: self.key.to_owned(), source })
    }
}

/// What is known about getting into a lake's store.
pub struct Access<'a> {
    pub lake: &'a Lake,
    /// Properties that the catalog handed out with a table, where the lake has no credentials of its own.
    pub vended: HashMap<String, String>,
}

/// How an S3 store is reached.
#[derive(Clone)]
pub struct S3Access {
    pub key: String,
    pub secret: String,
    pub session_token: Option<String>,
    pub region: String,
    /// Base URL without the bucket.
    pub endpoint: String,
    pub path_style: bool,
}

/// Opens the store of `place`.
pub fn open(access: &Access<'_>, place: &Place<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match place.scheme {
        "file" => Ok(Arc::new(LocalFileSystem::new())),
        "s3" | "s3a" | "s3n" => s3(&access.s3().ok_or_else(|| foreign(place))?, place.bucket),
        "gs" | "gcs" => gcs(access.vended.get("gcs.oauth2.token").ok_or_else(|| foreign(place))?, place.bucket),
        "abfs" | "abfss" | "az" | "azure" => match &access.lake.storage {
            Some(Storage::Azure { connection_string }) => azure(connection_string, place.bucket),
            _ => azure(&access.azure_connection().ok_or_else(|| foreign(place))?, place.bucket),
        },
        _ => Err(foreign(place)),
    }
}

fn foreign(place: &Place<'_>) -> StoreError {
    StoreError::Foreign(format!("{}://{}/{}", place.scheme, place.bucket, place.key))
}

impl Access<'_> {
    /// The S3 store, if there are credentials for one.
    pub fn s3(&self) -> Option<S3Access> {
        let Some(Storage::S3 { key, secret, endpoint, region, url_style, use_ssl }) = &self.lake.storage else {
            return self.vended_s3();
        };
        let scheme = if *use_ssl { "https" } else { "http" };
        let endpoint = match endpoint {
            Some(endpoint) if endpoint.contains("://") => endpoint.clone(),
            Some(endpoint) => format!("{scheme}://{endpoint}"),
            None => format!("{scheme}://s3.{region}.amazonaws.com"),
        };
        Some(S3Access {
            key: key.clone(),
            secret: secret.clone(),
            session_token: None,
            region: region.clone(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            path_style: url_style == "path",
        })
    }

    fn vended_s3(&self) -> Option<S3Access> {
        let get = |name: &str| self.vended.get(name).cloned();
        let region = get("s3.region").or(get("client.region")).or(get("region")).unwrap_or("us-east-1".into());
        let endpoint = get("s3.endpoint").unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        Some(S3Access {
            key: get("s3.access-key-id")?,
            secret: get("s3.secret-access-key")?,
            session_token: get("s3.session-token"),
            region,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
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

impl S3Access {
    /// URL of a bucket.
    pub fn bucket_url(&self, bucket: &str) -> String {
        match self.endpoint.split_once("://") {
            Some((scheme, host)) if !self.path_style => format!("{scheme}://{bucket}.{host}"),
            _ => format!("{}/{bucket}", self.endpoint),
        }
    }
}

fn s3(access: &S3Access, bucket: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_access_key_id(&access.key)
        .with_secret_access_key(&access.secret)
        .with_region(&access.region)
        .with_virtual_hosted_style_request(!access.path_style)
        .with_client_options(client_options())
        .with_retry(retries());
    // In the virtual-host style the builder takes the bucket's own address.
    builder = builder.with_endpoint(match access.path_style {
        true => access.endpoint.clone(),
        false => access.bucket_url(bucket),
    });
    if let Some(token) = &access.session_token {
        builder = builder.with_token(token);
    }
    Ok(Arc::new(builder.build().map_err(StoreError::Setup)?))
}

/// For every request to a store.
pub fn client_options() -> ClientOptions {
    ClientOptions::new().with_allow_http(true).with_timeout(REQUEST_LIMIT)
}

fn gcs(token: &str, bucket: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let credential = GcpCredential { bearer: token.to_owned() };
    let builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_credentials(Arc::new(StaticCredentialProvider::new(credential)))
        .with_client_options(client_options())
        .with_retry(retries());
    Ok(Arc::new(builder.build().map_err(StoreError::Setup)?))
}

/// `container` is the first part of the URL, `container@account.dfs.core.windows.net` or just the container.
fn azure(connection_string: &str, container: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
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
    Ok(Arc::new(builder.build().map_err(StoreError::Setup)?))
}

fn sas_pairs(signature: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    (signature.trim_start_matches('?').split('&'))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// Few and quick: whoever waits wants an answer, and what is not removed now is tried again later.
fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: 2,
        retry_timeout: REQUEST_LIMIT,
        backoff: BackoffConfig { max_backoff: Duration::from_secs(1), ..BackoffConfig::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let place = Place::parse("s3://lake/n/t/data/p=2024-01/x.parquet");
        assert_eq!((place.scheme, place.bucket, place.key), ("s3", "lake", "n/t/data/p=2024-01/x.parquet"));
        assert_eq!(place.path().unwrap().as_ref(), "n/t/data/p=2024-01/x.parquet");
        for local in ["file:///tmp/x/y", "/tmp/x/y"] {
            let place = Place::parse(local);
            assert_eq!((place.scheme, place.path().unwrap().as_ref()), ("file", "tmp/x/y"));
        }
    }

    #[test]
    fn buckets_are_addressed_in_both_styles() {
        let mut access = S3Access {
            key: "k".into(),
            secret: "s".into(),
            session_token: None,
            region: "r".into(),
            endpoint: "http://host:9000".into(),
            path_style: true,
        };
        assert_eq!(access.bucket_url("b"), "http://host:9000/b");
        access.path_style = false;
        assert_eq!(access.bucket_url("b"), "http://b.host:9000");
    }

    #[test]
    fn a_store_without_credentials_is_refused() {
        let access = Access { lake: &Lake::default(), vended: HashMap::new() };
        for url in ["s3://b/k", "gs://b/k", "abfss://c@a.dfs.core.windows.net/k", "ftp://b/k"] {
            let error = open(&access, &Place::parse(url)).unwrap_err();
            assert!(error.to_string().contains("with the configured credentials"), "{url} {error}");
        }
    }

    #[test]
    fn credentials_of_the_catalog_are_used() {
        let given = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let lake = Lake { storage: Some(Storage::Vended { kind: "s3".into() }), ..Lake::default() };
        let vended = given(&[
            ("s3.access-key-id", "k"),
            ("s3.secret-access-key", "s"),
            ("s3.session-token", "t"),
            ("client.region", "eu-west-1"),
            ("s3.path-style-access", "true"),
        ]);
        let s3 = Access { lake: &lake, vended }.s3().unwrap();
        assert_eq!((s3.session_token.as_deref(), s3.region.as_str(), s3.path_style), (Some("t"), "eu-west-1", true));
        assert_eq!(s3.bucket_url("b"), "https://s3.eu-west-1.amazonaws.com/b");
        let vended = given(&[("adls.sas-token.acc.dfs.core.windows.net", "?sv=1&sig=a%2Bb")]);
        let access = Access { lake: &lake, vended };
        open(&access, &Place::parse("abfss://c@acc.dfs.core.windows.net/k")).unwrap();
        let access = Access { lake: &lake, vended: given(&[("gcs.oauth2.token", "x")]) };
        open(&access, &Place::parse("gs://b/k")).unwrap();
    }

    #[test]
    fn azure_connection_strings_are_understood() {
        let text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.windows.net";
        azure(text, "c@acc.dfs.core.windows.net").unwrap();
    }
}
