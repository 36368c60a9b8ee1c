//! Accepts requests, checks who asks, and hands them to the verb that their path names.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Method, Response, StatusCode};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use super::error_model::error;
use super::headers;
use super::target::{self, Route};
use crate::gateway::registry::Registry;
use crate::gateway::verbs::{self, Asked};
use crate::metrics;

/// Serves until the runtime ends.
pub async fn serve(listener: TcpListener, registry: Arc<Registry>) {
    // Answers are small and waited for: holding them back to fill packets would cost 40 ms each.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off packet coalescing");
        }
    });
    let router = Router::new().fallback(handle).with_state(registry);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the Iceberg gateway stopped listening");
    }
}

async fn handle(State(registry): State<Arc<Registry>>, request: Request) -> Response<Body> {
    let started = Instant::now();
    let method = request.method().clone();
    let (route, response) = dispatch(&registry, request).await;
    let method = label(&method);
    let status = response.status().as_u16().to_string();
    ::metrics::counter!(metrics::GATEWAY_REQUESTS_TOTAL, "method" => method, "route" => route, "status" => status)
        .increment(1);
    ::metrics::histogram!(metrics::GATEWAY_REQUEST_SECONDS, "method" => method, "route" => route)
        .record(started.elapsed().as_secs_f64());
    response
}

async fn dispatch(registry: &Registry, request: Request) -> (&'static str, Response<Body>) {
    let (parts, body) = request.into_parts();
    let path_and_query = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let Some((id, path_and_query)) = target::split(&path_and_query) else {
        return ("none", error(StatusCode::NOT_FOUND, "NotFoundException", "this path belongs to no lake"));
    };
    let Some(entry) = registry.authenticate(id, headers::bearer(&parts.headers)) else {
        let message = "the ColdFront gateway does not know this token";
        return ("none", error(StatusCode::UNAUTHORIZED, "NotAuthorizedException", message));
    };
    let path = path_and_query.split('?').next().unwrap_or_default();
    let route = Route::of(&parts.method, path);
    let label = route.label();
    let length_bytes = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let asked = Asked {
        method: parts.method,
        path_and_query: path_and_query.to_owned(),
        headers: headers::to_catalog(parts.headers),
        body,
        length_bytes,
    };
    (label, verbs::answer(entry, route, asked).await)
}

/// A client may invent methods, but not make new time series with them.
fn label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
