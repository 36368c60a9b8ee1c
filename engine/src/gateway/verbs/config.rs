//! `GET /v1/config`: passed on, without the settings that would lead the client past the gateway.

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use axum::http::{Response, StatusCode};
use serde_json::Value;

use super::Asked;
use super::deliver::deliver;
use super::forward::upstream_request;
use crate::gateway::api::error_model::error;
use crate::gateway::api::target::Route;
use crate::gateway::registry::Entry;
use crate::gateway::store::body;

/// Largest configuration that is read, in bytes.
const CONFIG_MAX_BYTES: usize = 1024 * 1024;
/// Where the catalog is and how to get in: the client has our answers to both.
const LEADING_PAST_US: [&str; 4] = ["uri", "oauth2-server-uri", "token", "credential"];

pub async fn get(entry: &Entry, mut asked: Asked) -> Response<Body> {
    // It is going to be read here.
    asked.headers.remove(ACCEPT_ENCODING);
    let request = match upstream_request(asked).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let response = deliver(entry, &Route::Config, entry.upstream.send(request).await).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = body::collect(body, CONFIG_MAX_BYTES).await else {
        let text = format!("the Iceberg catalog at {} gave half a configuration", entry.upstream.address());
        return error(StatusCode::BAD_GATEWAY, "ServiceFailureException", &text);
    };
    let bytes = match without_way_past(&bytes) {
        Some(changed) => changed.into(),
        None => bytes,
    };
    parts.headers.insert(CONTENT_LENGTH, bytes.len().into());
    Response::from_parts(parts, Body::from(bytes))
}

/// The configuration without [`LEADING_PAST_US`]; None if there is nothing to change.
fn without_way_past(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut config: Value = serde_json::from_slice(bytes).ok()?;
    let mut changed = false;
    for part in ["defaults", "overrides"] {
        if let Some(settings) = config.get_mut(part).and_then(Value::as_object_mut) {
            for name in LEADING_PAST_US {
                changed |= settings.remove(name).is_some();
            }
        }
    }
    changed.then(|| config.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_past_the_gateway_are_removed() {
        let config =
            br#"{"defaults":{"oauth2-server-uri":"http://c/t","x":"1"},"overrides":{"uri":"http://c","prefix":"p"}}"#;
        let changed: Value = serde_json::from_slice(&without_way_past(config).unwrap()).unwrap();
        assert_eq!(changed, serde_json::json!({"defaults": {"x": "1"}, "overrides": {"prefix": "p"}}));
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        for config in
            [&br#"{"defaults":{},"overrides":{"prefix":"uri"}}"#[..], b"[]", b"{", b"", br#"{"overrides":null}"#]
        {
            assert_eq!(without_way_past(config), None);
        }
    }
}
