//! Every request that needs nothing done on its way.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use super::Asked;
use super::deliver::deliver;
use crate::gateway::api::error_model::error;
use crate::gateway::api::target::Route;
use crate::gateway::registry::Entry;
use crate::gateway::store::body::RequestBody;
use crate::gateway::store::upstream::{ANSWER_LIMIT, UpstreamRequest};

pub async fn forward(entry: &Entry, route: &Route, asked: Asked) -> Response<Body> {
    let request = match upstream_request(asked).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    deliver(entry, route, entry.upstream.send(request).await).await
}

/// Takes in the body, as far as it is to be held.
pub async fn upstream_request(asked: Asked) -> Result<UpstreamRequest, Response<Body>> {
    let Asked { method, path_and_query, headers, body, length_bytes } = asked;
    match RequestBody::gather(length_bytes, body).await {
        Ok(body) => Ok(UpstreamRequest { method, path_and_query, headers, body, limit: ANSWER_LIMIT }),
        Err(_) => Err(error(StatusCode::BAD_REQUEST, "BadRequestException", "the body of the request was cut off")),
    }
}
