//! Changes the body of a catalog's answer on its way to the client.

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use axum::http::{Response, StatusCode};

use super::Asked;
use super::deliver::deliver;
use super::forward::upstream_request;
use crate::gateway::api::error_model::error;
use crate::gateway::api::target::Route;
use crate::gateway::registry::Entry;
use crate::gateway::store::body;

/// What to do to a body.
pub struct Rewrite {
    /// What the body holds, for messages.
    pub what: &'static str,
    /// Largest body that is read, in bytes.
    pub max_bytes: usize,
    /// Gives the new body; None leaves it as it is.
    pub change: fn(&[u8]) -> Option<Vec<u8>>,
}

/// Passes a request on, and its answer back with another body, if it is a success.
pub async fn forward(entry: &Entry, route: &Route, mut asked: Asked, rewrite: Rewrite) -> Response<Body> {
    // It is going to be read here.
    asked.headers.remove(ACCEPT_ENCODING);
    let request = match upstream_request(asked).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let response = deliver(entry, route, entry.upstream.send(request).await).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = body::collect(body, rewrite.max_bytes).await else {
        let text = format!("the Iceberg catalog at {} gave half a {}", entry.upstream.address(), rewrite.what);
        return error(StatusCode::BAD_GATEWAY, "ServiceFailureException", &text);
    };
    let original = bytes.clone();
    // Not on a thread that moves bytes: a large one takes a while.
    let bytes = match tokio::task::spawn_blocking(move || (rewrite.change)(&original)).await {
        Ok(Some(changed)) => changed.into(),
        Ok(None) | Err(_) => bytes,
    };
    parts.headers.insert(CONTENT_LENGTH, bytes.len().into());
    Response::from_parts(parts, Body::from(bytes))
}
