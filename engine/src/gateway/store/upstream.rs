//! One lake's catalog: its address, its credentials, and the rules by which a request to it is repeated.
//!
//! A request that may have been received is repeated only if it is idempotent; after 401 the token is renewed and the
//! request sent once more, since a refused request did nothing. The head cache will stand in front of this.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH};
use axum::http::uri::{Authority, Parts, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use coldfront_common::frame::{CatalogAuth, Lake};

use super::body::{RequestBody, with_idle_limit};
use super::oauth::{OAuth, TokenError};
use super::retry::{Backoff, is_idempotent, is_passing};
use super::transport::{Transport, TransportError};

/// How long the catalog may take to begin an answer. DuckDB gives up after 30 s, and its own error names nobody.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(25);

/// The catalog's address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCatalogUri {
    #[error("the catalog address {0:?} is not an http or https URL: set coldfront.lakekeeper_endpoint")]
    NotHttp(String),
    #[error("the catalog address has a user name or password in it: use coldfront.set_catalog_secret instead")]
    HasCredentials,
    #[error("the token URL of the catalog is not an http or https URL: repeat coldfront.set_catalog_secret")]
    TokenUrl,
    #[error("the catalog token is not fit for an HTTP header: repeat coldfront.set_catalog_token")]
    Token,
}

/// Why the catalog gave no answer to pass on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpstreamError {
    /// Nothing was done at the catalog.
    #[error("the Iceberg catalog at {at} does not answer: {cause}")]
    Unreachable { at: String, cause: String },
    /// The catalog may have done what was asked.
    #[error("the Iceberg catalog at {at} does not answer: {cause}")]
    Lost { at: String, cause: String },
    /// No token could be had.
    #[error("the Iceberg catalog at {at} rejected the credentials: {cause}")]
    Rejected { at: String, cause: String },
}

/// A request as it shall leave.
pub struct UpstreamRequest {
    pub method: Method,
    /// From `/v1` on, percent-encoded; sent byte for byte.
    pub path_and_query: String,
    pub headers: HeaderMap,
    pub body: RequestBody,
    /// How long each attempt may wait for the head of its answer.
    pub limit: Duration,
}

impl UpstreamRequest {
    /// The same request once more, if its body is still here.
    pub fn copy(&self) -> Option<Self> {
        Some(Self {
            method: self.method.clone(),
            path_and_query: self.path_and_query.clone(),
            headers: self.headers.clone(),
            body: RequestBody::Held(self.body.held()?.clone()),
            limit: self.limit,
        })
    }
}

/// A lake's catalog.
pub struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// Path of the catalog's base URI, without a slash at its end.
    base_path: String,
    address: String,
    warehouse: String,
    credentials: Credentials,
    secrets: Vec<String>,
    transport: Transport,
}

enum Credentials {
    None,
    Bearer(HeaderValue),
    OAuth(Box<OAuth>),
}

impl Upstream {
    pub fn new(lake: &Lake, transport: Transport) -> Result<Self, BadCatalogUri> {
        let text = lake.catalog_uri.trim();
        let uri = http_uri(text).ok_or_else(|| BadCatalogUri::NotHttp(without_userinfo(text)))?;
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(BadCatalogUri::HasCredentials);
        }
        if uri.query().is_some() {
            return Err(BadCatalogUri::NotHttp(text.to_owned()));
        }
        let credentials = match &lake.catalog_auth {
            CatalogAuth::None => Credentials::None,
            CatalogAuth::Bearer { token } => {
                let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| BadCatalogUri::Token)?;
                header.set_sensitive(true);
                Credentials::Bearer(header)
            }
            CatalogAuth::OAuth2 { client_id, client_secret, token_url, scope } => {
                let url = token_endpoint(text, token_url.as_deref()).ok_or(BadCatalogUri::TokenUrl)?;
                Credentials::OAuth(Box::new(OAuth::new(url, client_id, client_secret, scope.as_deref())))
            }
        };
        let Parts { scheme, authority, .. } = uri.clone().into_parts();
        let (Some(scheme), Some(authority)) = (scheme, authority) else {
            return Err(BadCatalogUri::NotHttp(text.to_owned()));
        };
        Ok(Self {
            address: address(&uri),
            base_path: uri.path().trim_end_matches('/').to_owned(),
            scheme,
            authority,
            warehouse: lake.warehouse.clone(),
            credentials,
            secrets: lake.secrets(),
            transport,
        })
    }

    /// `host:port`, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn warehouse(&self) -> &str {
        &self.warehouse
    }

    /// Values that must not appear in a message.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Sends `request` with the lake's credentials, as often as is safe. The body of the answer ends with an error if it
    /// stands still.
    pub async fn send(&self, mut request: UpstreamRequest) -> Result<Response<Body>, UpstreamError> {
        let mut backoff = Backoff::default();
        let mut may_renew = matches!(self.credentials, Credentials::OAuth(_));
        let uri = self.uri(&request.path_and_query)?;
        loop {
            let authorization = self.authorization().await?;
            // A streamed body is gone after this, so what happens then is final.
            let repeatable = request.body.held().is_some();
            let outgoing = self.outgoing(&mut request, uri.clone(), authorization.clone());
            let result = self.transport.send(outgoing, request.limit).await;
            let again = match next(&result, &request.method, may_renew) {
                Next::Finish => false,
                _ if !repeatable => false,
                Next::Renew => {
                    may_renew = false;
                    self.forget(authorization.as_ref()).await;
                    true
                }
                Next::Repeat { cause } => backoff.wait(cause).await,
            };
            if !again {
                return self.finish(result);
            }
        }
    }

    fn outgoing(&self, request: &mut UpstreamRequest, uri: Uri, authorization: Option<HeaderValue>) -> Request<Body> {
        let mut headers = request.headers.clone();
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value);
        }
        let body = match &mut request.body {
            RequestBody::Held(bytes) => Body::from(bytes.clone()),
            RequestBody::Streamed { body, length_bytes } => {
                if let Some(length) = *length_bytes {
                    headers.insert(CONTENT_LENGTH, length.into());
                }
                std::mem::take(body)
            }
        };
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = request.method.clone();
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = headers;
        outgoing
    }

    fn finish(&self, result: Result<Response<Body>, TransportError>) -> Result<Response<Body>, UpstreamError> {
        let at = self.address.clone();
        match result {
            Ok(answer) => Ok(answer.map(with_idle_limit)),
            Err(error @ TransportError::NotSent(_)) => Err(UpstreamError::Unreachable { at, cause: error.to_string() }),
            Err(error @ TransportError::Lost(_)) => Err(UpstreamError::Lost { at, cause: error.to_string() }),
        }
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, UpstreamError> {
        let oauth = match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::Bearer(value) => return Ok(Some(value.clone())),
            Credentials::OAuth(oauth) => oauth,
        };
        let at = self.address.clone();
        match oauth.authorization(&self.transport).await {
            Ok(value) => Ok(Some(value)),
            Err(TokenError::Rejected { cause }) => Err(UpstreamError::Rejected { at, cause }),
            // The catalog's own endpoint needs no second name.
            Err(TokenError::Unreachable { at: endpoint, cause }) if endpoint == at => {
                Err(UpstreamError::Unreachable { at, cause })
            }
            Err(error) => Err(UpstreamError::Unreachable { at, cause: error.to_string() }),
        }
    }

    async fn forget(&self, refused: Option<&HeaderValue>) {
        if let (Credentials::OAuth(oauth), Some(refused)) = (&self.credentials, refused) {
            oauth.forget(refused).await;
        }
    }

    fn uri(&self, path_and_query: &str) -> Result<Uri, UpstreamError> {
        let path = PathAndQuery::try_from(format!("{}{path_and_query}", self.base_path));
        path.ok()
            .and_then(|path| {
                Uri::builder()
                    .scheme(self.scheme.clone())
                    .authority(self.authority.clone())
                    .path_and_query(path)
                    .build()
                    .ok()
            })
            .ok_or_else(|| UpstreamError::Unreachable {
                at: self.address.clone(),
                cause: "the path of the request is not fit for a URL".to_owned(),
            })
    }
}

/// What to do after an attempt.
enum Next {
    Finish,
    /// Get another token and send once more.
    Renew,
    Repeat {
        cause: &'static str,
    },
}

fn next(result: &Result<Response<Body>, TransportError>, method: &Method, may_renew: bool) -> Next {
    match result {
        Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED && may_renew => Next::Renew,
        Ok(answer) if is_passing(answer.status()) && is_idempotent(method) => Next::Repeat { cause: "status" },
        Ok(_) => Next::Finish,
        Err(TransportError::NotSent(_)) => Next::Repeat { cause: "connect" },
        Err(TransportError::Lost(_)) if is_idempotent(method) => Next::Repeat { cause: "lost" },
        Err(TransportError::Lost(_)) => Next::Finish,
    }
}

/// Where tokens come from: the catalog's own endpoint, a path below the catalog, or a URL.
fn token_endpoint(catalog_uri: &str, token_url: Option<&str>) -> Option<Uri> {
    let base = catalog_uri.trim_end_matches('/');
    match token_url.map(str::trim).filter(|url| !url.is_empty()) {
        None => http_uri(&format!("{base}/v1/oauth/tokens")),
        Some(url) if url.contains("://") => http_uri(url),
        Some(path) => http_uri(&format!("{base}/{}", path.trim_start_matches('/'))),
    }
}

/// `host:port` of a URL.
pub fn address(uri: &Uri) -> String {
    let port = uri.port_u16().unwrap_or(if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 });
    format!("{}:{port}", uri.host().unwrap_or_default())
}

fn http_uri(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let http = matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some();
    http.then_some(uri)
}

/// A URL that could not be parsed may still hold a password.
fn without_userinfo(text: &str) -> String {
    text.rsplit('@').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lake(catalog_uri: &str) -> Lake {
        Lake { catalog_uri: catalog_uri.to_owned(), ..Lake::default() }
    }

    #[tokio::test]
    async fn paths_are_joined_byte_for_byte() {
        let upstream = Upstream::new(&lake("https://cat.example/catalog/"), Transport::new()).unwrap();
        assert_eq!(upstream.address(), "cat.example:443");
        let path = "/v1/p%2Fq/namespaces/a%1Fb/tables/%C3%9C%22'..%2e?x=%20&y";
        assert_eq!(upstream.uri(path).unwrap().to_string(), format!("https://cat.example/catalog{path}"));
    }

    #[tokio::test]
    async fn addresses_that_cannot_work_are_refused_without_their_password() {
        for bad in ["", "localhost", "ftp://x", "file:///tmp/x", "http://", "http://h/p?q=1"] {
            assert!(matches!(Upstream::new(&lake(bad), Transport::new()), Err(BadCatalogUri::NotHttp(_))), "{bad:?}");
        }
        for bad in ["http://u:pw@host:1", "u:pw@host", "http://u:pw@ho st"] {
            let Err(error) = Upstream::new(&lake(bad), Transport::new()) else { panic!("{bad} passed") };
            assert!(!error.to_string().contains("pw"), "{error}");
        }
    }

    #[test]
    fn token_endpoints_default_to_the_catalogs_own() {
        let at = |url| token_endpoint("http://c:1/cat/", url).map(|uri| uri.to_string());
        assert_eq!(at(None).unwrap(), "http://c:1/cat/v1/oauth/tokens");
        assert_eq!(at(Some("/v1/other")).unwrap(), "http://c:1/cat/v1/other");
        assert_eq!(at(Some("https://idp/realm/token")).unwrap(), "https://idp/realm/token");
        assert_eq!(at(Some("ftp://idp/")), None);
    }
}
