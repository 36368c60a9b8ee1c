//! Access tokens by OAuth2 client credentials: fetched when needed, kept until shortly before they expire, one fetch at a
//! time. It may not let the client secret, or a token, into an error.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use coldfront_common::redact;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::body;
use super::retry::Backoff;
use super::transport::{Transport, TransportError};
use super::upstream::address;
use crate::gateway::percent;
use crate::metrics;

/// Largest answer of a token endpoint that is read, in bytes.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
/// How long a token endpoint may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Life of a token whose answer does not tell, in seconds.
const DEFAULT_LIFE_S: u64 = 3600;
/// A token is renewed this long before its end, or after nine tenths of its life if that is later.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

/// Why there is no token.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TokenError {
    #[error("its token endpoint {at}: {cause}")]
    Unreachable { at: String, cause: String },
    #[error("{cause}")]
    Rejected { cause: String },
    #[error("its token endpoint {at} answered {status}: {cause}")]
    Failed { at: String, status: u16, cause: String },
}

/// A client at a token endpoint, and its current token.
pub struct OAuth {
    endpoint: Uri,
    form: String,
    secrets: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// The latest failure, shared with those who waited for the same attempt.
    failure: Option<(Instant, TokenError)>,
}

struct Token {
    header: HeaderValue,
    renew_at: Instant,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: serde_json::Value,
    error_description: Option<String>,
}

impl OAuth {
    pub fn new(endpoint: Uri, client_id: &str, client_secret: &str, scope: Option<&str>) -> Self {
        let mut form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}",
            percent::encode(client_id),
            percent::encode(client_secret)
        );
        if let Some(scope) = scope {
            form.push_str("&scope=");
            form.push_str(&percent::encode(scope));
        }
        Self { endpoint, form, secrets: vec![client_secret.to_owned()], state: Mutex::default() }
    }

    /// An `Authorization` value that is good for now.
    pub async fn authorization(&self, transport: &Transport) -> Result<HeaderValue, TokenError> {
        let asked_at = Instant::now();
        let mut state = self.state.lock().await;
        if let Some(token) = state.token.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(token.header.clone());
        }
        // Whoever waited here while the attempt failed would only fail again, one after the other.
        if let Some((_, error)) = state.failure.as_ref().filter(|(at, _)| *at >= asked_at) {
            return Err(error.clone());
        }
        match self.fetch(transport).await {
            Ok(token) => {
                ::metrics::counter!(metrics::GATEWAY_TOKEN_REQUESTS_TOTAL, "outcome" => "ok").increment(1);
                let header = token.header.clone();
                *state = State { token: Some(token), failure: None };
                Ok(header)
            }
            Err(error) => {
                ::metrics::counter!(metrics::GATEWAY_TOKEN_REQUESTS_TOTAL, "outcome" => "failed").increment(1);
                *state = State { token: None, failure: Some((Instant::now(), error.clone())) };
                Err(error)
            }
        }
    }

    /// Forgets a token that the catalog refused, unless a newer one is already here.
    pub async fn forget(&self, refused: &HeaderValue) {
        let mut state = self.state.lock().await;
        if state.token.as_ref().is_some_and(|token| token.header == *refused) {
            state.token = None;
        }
    }

    /// Asking twice for a token does no harm, so a lost answer is repeated too.
    async fn fetch(&self, transport: &Transport) -> Result<Token, TokenError> {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.fetch_once(transport).await {
                Err(error @ TokenError::Unreachable { .. }) => error,
                Err(error @ TokenError::Failed { status: 502..=504, .. }) => error,
                decided => return decided,
            };
            if !backoff.wait("token").await {
                return Err(error);
            }
        }
    }

    async fn fetch_once(&self, transport: &Transport) -> Result<Token, TokenError> {
        let at = || address(&self.endpoint);
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(Body::from(self.form.clone()))
            .map_err(|e| TokenError::Unreachable { at: at(), cause: e.to_string() })?;
        let unreachable = |cause: String| TokenError::Unreachable { at: at(), cause };
        let sent_at = Instant::now();
        let response =
            transport.send(request, ANSWER_LIMIT).await.map_err(|e: TransportError| unreachable(e.to_string()))?;
        let status = response.status();
        let bytes = body::collect(response.into_body(), ANSWER_MAX_BYTES)
            .await
            .map_err(|_| unreachable("its answer was cut off".to_owned()))?;
        if !status.is_success() {
            let cause = self.refusal(&bytes);
            return Err(match status {
                StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    TokenError::Rejected { cause }
                }
                _ => TokenError::Failed { at: at(), status: status.as_u16(), cause },
            });
        }
        let failed = |cause: &str| TokenError::Failed { at: at(), status: status.as_u16(), cause: cause.to_owned() };
        let answer: TokenAnswer =
            serde_json::from_slice(&bytes).map_err(|_| failed("the answer holds no access token"))?;
        let mut header = HeaderValue::try_from(format!("Bearer {}", answer.access_token))
            .map_err(|_| failed("the access token is not fit for a header"))?;
        header.set_sensitive(true);
        let life = Duration::from_secs(answer.expires_in.unwrap_or(DEFAULT_LIFE_S));
        Ok(Token { header, renew_at: sent_at + life.saturating_sub(RENEWAL_MARGIN).max(life * 9 / 10) })
    }

    /// What the endpoint said, in one line: OAuth2's own error, or an Iceberg one.
    fn refusal(&self, bytes: &[u8]) -> String {
        let text = match serde_json::from_slice::<TokenRefusal>(bytes) {
            Ok(TokenRefusal { error: serde_json::Value::String(code), error_description }) => match error_description {
                Some(description) => format!("{code} - {description}"),
                None => code,
            },
            Ok(TokenRefusal { error, .. }) => match error.get("message").and_then(|m| m.as_str()) {
                Some(message) => message.to_owned(),
                None => "no reason given".to_owned(),
            },
            Err(_) => "no reason given".to_owned(),
        };
        redact::mask(&text, &self.secrets)
    }
}
