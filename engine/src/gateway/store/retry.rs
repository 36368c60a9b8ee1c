//! When a request may be sent again, and how long to wait before.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};

use crate::metrics;

/// Pauses between attempts, in milliseconds: together under two seconds, enough for a catalog that restarts quickly.
const PAUSES_MS: [u64; 5] = [50, 100, 200, 400, 800];

/// No attempt begins later than this after the first: one that timed out is not worth another.
const LAST_ATTEMPT: Duration = Duration::from_secs(2);

/// The pauses of one request.
pub struct Backoff {
    began: Instant,
    taken: usize,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { began: Instant::now(), taken: 0 }
    }
}

impl Backoff {
    /// Waits for the next attempt; false when there have been enough. `cause` labels the metric.
    pub async fn wait(&mut self, cause: &'static str) -> bool {
        let Some(pause) = PAUSES_MS.get(self.taken).copied().map(Duration::from_millis) else { return false };
        if self.began.elapsed() + pause > LAST_ATTEMPT {
            return false;
        }
        self.taken += 1;
        ::metrics::counter!(metrics::GATEWAY_UPSTREAM_RETRIES_TOTAL, "cause" => cause).increment(1);
        tokio::time::sleep(pause).await;
        true
    }
}

/// Whether sending a request twice does no more than sending it once. DELETE is left out: the second would be told 404.
pub fn is_idempotent(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// Statuses of a catalog, or of a proxy before it, that is not there for the moment.
pub fn is_passing(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}
