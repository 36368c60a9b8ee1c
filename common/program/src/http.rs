//! `/metrics` for Prometheus and `/healthz`, on a loopback address, while a program serves.

use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// Upper bounds of the buckets of times, in seconds.
const SECONDS_BUCKETS: [f64; 10] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0];

/// Why the endpoint is not there.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("metrics_listen = {0:?} is not an address with a port, such as 127.0.0.1:9188")]
    Address(String),
    #[error("metrics_listen = {0} is not a loopback address: let a proxy on this machine publish it")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {address} for /metrics")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot install the metrics recorder")]
    Recorder(#[source] BuildError),
}

/// A metric's name and what it tells.
pub type Described = (&'static str, &'static str);

/// The metrics of a program.
pub struct Metrics {
    pub counters: &'static [Described],
    pub gauges: &'static [Described],
    pub histograms: &'static [Described],
}

/// Starts the endpoint in the background; it lives as long as the program.
pub async fn start(listen: &str, metrics: &Metrics) -> Result<(), HttpError> {
    let address: SocketAddr = listen.parse().map_err(|_| HttpError::Address(listen.to_owned()))?;
    if !address.ip().is_loopback() {
        return Err(HttpError::NotLoopback(address));
    }
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("seconds".to_owned()), &SECONDS_BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(HttpError::Recorder)?;
    for (name, help) in metrics.counters {
        ::metrics::describe_counter!(*name, *help);
    }
    for (name, help) in metrics.gauges {
        ::metrics::describe_gauge!(*name, *help);
    }
    for (name, help) in metrics.histograms {
        ::metrics::describe_histogram!(*name, *help);
    }
    let listener =
        tokio::net::TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })?;
    let render =
        move || async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorder.render()) };
    let router = Router::new().route("/metrics", get(render)).route("/healthz", get(|| async { "ok\n" }));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "/metrics and /healthz stopped");
        }
    });
    tracing::info!(%address, "/metrics and /healthz are up");
    Ok(())
}
