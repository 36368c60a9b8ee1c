//! Reaches the object store of a lake to remove objects from it.

use std::sync::Arc;
use std::time::Duration;

use coldfront_common::frame::{Lake, Storage};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

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
pub fn open(lake: &Lake, place: &Place<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match (place.scheme, &lake.storage) {
        ("file", _) => Ok(Arc::new(LocalFileSystem::new())),
        ("s3" | "s3a" | "s3n", _) => match s3_access(lake) {
            Some(access) => s3(&access, place.bucket),
            None => Err(foreign(place)),
        },
        ("abfs" | "abfss" | "az" | "azure", Some(Storage::Azure { connection_string })) => {
            azure(connection_string, place.bucket)
        }
        _ => Err(foreign(place)),
    }
}

fn foreign(place: &Place<'_>) -> StoreError {
    StoreError::Foreign(format!("{}://{}/{}", place.scheme, place.bucket, place.key))
}

/// The lake's S3 store, if that is what it has.
pub fn s3_access(lake: &Lake) -> Option<S3Access> {
    let Some(Storage::S3 { key, secret, endpoint, region, url_style, use_ssl }) = &lake.storage else { return None };
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
        let error = open(&Lake::default(), &Place::parse("s3://b/k")).unwrap_err();
        assert!(error.to_string().contains("s3://b/k"));
    }

    #[test]
    fn azure_connection_strings_are_understood() {
        let text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.windows.net";
        azure(text, "c@acc.dfs.core.windows.net").unwrap();
    }
}
