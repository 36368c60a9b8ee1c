//! `POST /v1/oauth/tokens`: the gateway gives no tokens away, its own or the catalog's.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use crate::gateway::api::error_model::error;

pub fn post() -> Response<Body> {
    error(
        StatusCode::NOT_FOUND,
        "NotFoundException",
        "the ColdFront gateway gives no tokens: use the one you came with",
    )
}
