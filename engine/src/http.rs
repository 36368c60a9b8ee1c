//! `/metrics` for Prometheus and `/healthz` for whoever restarts us, on a loopback address; off unless one is configured.
//! Nothing here changes anything, and nothing in the answers is secret.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::metrics;

/// Upper bounds of the buckets of request times, in seconds.
const SECONDS_BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Why the endpoint is not there.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("metrics_listen = {0:?} is not an address with a port, such as 127.0.0.1:9187")]
    Address(String),
    #[error("metrics_listen = {0} is not a loopback address: let a proxy on this machine publish it")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {address} for /metrics and /healthz")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot start the thread of /metrics and /healthz")]
    Thread(#[source] std::io::Error),
    #[error("cannot install the metrics recorder")]
    Recorder(#[source] BuildError),
}

/// How the engine is, as `/healthz` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub sessions: usize,
    /// Why the engine cannot serve; None when it can.
    pub trouble: Option<String>,
}

/// The running endpoint; it stops when dropped.
pub struct HttpServer {
    pub address: SocketAddr,
    /// Dropped to stop.
    _stop: oneshot::Sender<()>,
}

#[derive(Clone)]
struct Endpoint {
    recorder: PrometheusHandle,
    health: Arc<dyn Fn() -> Health + Send + Sync>,
    started: Instant,
}

/// Starts to record metrics; once per process, further calls give the same recorder.
pub fn install_recorder() -> Result<PrometheusHandle, HttpError> {
    if let Some(handle) = RECORDER.get() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(HttpError::Recorder)?;
    describe();
    Ok(RECORDER.get_or_init(|| handle).clone())
}

fn describe() {
    for (name, help) in metrics::COUNTERS {
        ::metrics::describe_counter!(*name, *help);
    }
    for (name, help) in metrics::GAUGES {
        ::metrics::describe_gauge!(*name, *help);
    }
    for (name, help) in metrics::HISTOGRAMS {
        ::metrics::describe_histogram!(*name, *help);
    }
}

/// Serves on `listen`, in a thread of its own. `health` is called for each request and must not block.
pub fn start(
    listen: Option<&str>,
    health: impl Fn() -> Health + Send + Sync + 'static,
) -> Result<Option<HttpServer>, HttpError> {
    let Some(listen) = listen.filter(|l| !l.is_empty()) else { return Ok(None) };
    let address: SocketAddr = listen.parse().map_err(|_| HttpError::Address(listen.to_owned()))?;
    if !address.ip().is_loopback() {
        return Err(HttpError::NotLoopback(address));
    }
    let endpoint = Endpoint { recorder: install_recorder()?, health: Arc::new(health), started: Instant::now() };
    let failed = |source| HttpError::Listen { address, source };
    let listener = StdListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(HttpError::Thread)?;
    thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || runtime.block_on(serve(listener, endpoint, stopped)))
        .map_err(HttpError::Thread)?;
    tracing::info!(%address, "/metrics and /healthz are up");
    Ok(Some(HttpServer { address, _stop: stop }))
}

async fn serve(listener: StdListener, endpoint: Endpoint, stopped: oneshot::Receiver<()>) {
    let router = Router::new().route("/metrics", get(render)).route("/healthz", get(healthz)).with_state(endpoint);
    let served = async { axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await };
    tokio::select! {
        result = served => {
            if let Err(error) = result {
                tracing::error!(%error, "/metrics and /healthz stopped");
            }
        }
        _ = stopped => {}
    }
}

async fn render(State(endpoint): State<Endpoint>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], endpoint.recorder.render()).into_response()
}

#[derive(Serialize)]
struct HealthAnswer {
    status: &'static str,
    version: &'static str,
    uptime_s: u64,
    sessions: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

async fn healthz(State(endpoint): State<Endpoint>) -> Response {
    let Health { sessions, trouble } = (endpoint.health)();
    let (code, status) = match trouble {
        None => (StatusCode::OK, "ok"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let uptime_s = endpoint.started.elapsed().as_secs();
    (code, Json(HealthAnswer { status, version: env!("CARGO_PKG_VERSION"), uptime_s, sessions, trouble }))
        .into_response()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn health_and_metrics_are_served() {
        let broken = Arc::new(AtomicBool::new(false));
        let is_broken = broken.clone();
        let health = move || Health {
            sessions: 3,
            trouble: is_broken.load(Ordering::Relaxed).then(|| "the socket is gone".to_owned()),
        };
        let server = start(Some("127.0.0.1:0"), health).unwrap().unwrap();
        ::metrics::counter!(metrics::GATEWAY_COMMITS_TOTAL, "outcome" => "committed").increment(1);

        let answer = get(server.address, "/healthz");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(r#""status":"ok""#) && answer.contains(r#""sessions":3"#), "{answer}");
        broken.store(true, Ordering::Relaxed);
        let answer = get(server.address, "/healthz");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("the socket is gone"), "{answer}");
        let answer = get(server.address, "/metrics");
        assert!(answer.contains(r#"coldfront_gateway_commits_total{outcome="committed"}"#), "{answer}");
        assert!(answer.contains("# HELP coldfront_gateway_commits_total "), "{answer}");
    }

    #[test]
    fn only_loopback_addresses_are_served_and_none_is_fine() {
        let health = || Health { sessions: 0, trouble: None };
        assert!(start(None, health).unwrap().is_none());
        assert!(matches!(start(Some("9187"), health), Err(HttpError::Address(_))));
        assert!(matches!(start(Some("0.0.0.0:0"), health), Err(HttpError::NotLoopback(_))));
    }
}
