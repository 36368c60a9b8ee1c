//! HTTP/1.1 to a catalog: connection pool, TLS, time limits. Paths go out byte for byte as they came in.
//! It may not repeat a request that could have reached the other end.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Shorter than the idle limits of common proxies, so that a request seldom meets a connection that is being closed.
const POOL_IDLE_LIMIT: Duration = Duration::from_secs(20);
const POOL_IDLE_PER_HOST_MAX: usize = 32;
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// Why there is no answer. The cause is one line without URL or credential.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    #[error("{0}")]
    NotSent(String),
    #[error("the connection was lost after the request was sent ({0})")]
    Lost(String),
}

/// A pool of connections; clones share it.
#[derive(Clone)]
pub struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

impl Transport {
    /// Must be called inside a runtime.
    pub fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls()).https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_LIMIT)
            .pool_max_idle_per_host(POOL_IDLE_PER_HOST_MAX)
            .build(connector);
        Self { client }
    }

    /// Sends once, and waits for the head of the answer no longer than `limit`. (The pool may pick another connection while not a byte of the request was written.)
    pub async fn send(&self, request: Request<Body>, limit: Duration) -> Result<Response<Body>, TransportError> {
        match tokio::time::timeout(limit, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response.map(Body::new)),
            Ok(Err(error)) if error.is_connect() => Err(TransportError::NotSent(root_cause(&error))),
            Ok(Err(error)) => Err(TransportError::Lost(root_cause(&error))),
            Err(_) => Err(TransportError::Lost(format!("no answer within {} s", limit.as_secs()))),
        }
    }
}

/// TLS with the system's root certificates (or those in `SSL_CERT_FILE`), so that a private authority works.
fn tls() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the ring provider has the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// The innermost reason, in words: the layers above it repeat themselves.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    // "Connection refused", as the system says it, stands in the middle of a sentence.
    match cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
        Some(_) => text.to_lowercase(),
        None => text.to_owned(),
    }
}
