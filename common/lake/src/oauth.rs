//! Access tokens by OAuth2 client credentials, kept until shortly before they expire.

use std::time::{Duration, Instant};

use coldfront_common::redact;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::error::{LakeError, Result};

/// Life of a token whose answer does not tell, in seconds.
const DEFAULT_LIFE_S: u64 = 3600;
/// A token is renewed this long before its end, or after nine tenths of its life if that is later.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

pub struct OAuth {
    pub url: String,
    pub client_id: String,
    pub client_secret: String,
    pub scope: Option<String>,
    pub token: Mutex<Option<Token>>,
}

pub struct Token {
    value: String,
    renew_at: Instant,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<u64>,
}

impl OAuth {
    /// A token that is good for now.
    pub async fn token(&self, client: &reqwest::Client) -> Result<String> {
        let mut kept = self.token.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(token.value.clone());
        }
        let asked_at = Instant::now();
        let answer = self.fetch(client).await?;
        let life = Duration::from_secs(answer.expires_in.unwrap_or(DEFAULT_LIFE_S));
        let renew_at = asked_at + life.saturating_sub(RENEWAL_MARGIN).max(life * 9 / 10);
        *kept = Some(Token { value: answer.access_token.clone(), renew_at });
        Ok(answer.access_token)
    }

    /// Forgets a token that the catalog refused.
    pub async fn forget(&self) {
        *self.token.lock().await = None;
    }

    async fn fetch(&self, client: &reqwest::Client) -> Result<Answer> {
        let mut form = vec![
            ("grant_type", "client_credentials"),
            ("client_id", &self.client_id),
            ("client_secret", &self.client_secret),
        ];
        if let Some(scope) = &self.scope {
            form.push(("scope", scope));
        }
        let at = || self.url.clone();
        let unreachable =
            |error: reqwest::Error| LakeError::Unreachable { at: at(), cause: error.without_url().to_string() };
        let response = client.post(&self.url).form(&form).send().await.map_err(unreachable)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(unreachable)?;
        if !status.is_success() {
            let said = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
            let said = redact::mask(&said, std::slice::from_ref(&self.client_secret));
            return Err(match status.as_u16() {
                400 | 401 | 403 => LakeError::Unauthorized { at: at(), said },
                status => LakeError::Status { at: at(), what: "a token".to_owned(), status, said },
            });
        }
        serde_json::from_slice(&bytes).map_err(|_| LakeError::Malformed {
            at: at(),
            what: "a token".to_owned(),
            cause: "it holds no access token".to_owned(),
        })
    }
}
