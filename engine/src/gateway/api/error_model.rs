//! The error body of the Iceberg REST protocol.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

/// `IcebergErrorResponse`, both ways; reading is lenient.
#[derive(Serialize, Deserialize)]
pub struct ErrorResponse {
    pub error: ErrorModel,
}

#[derive(Serialize, Deserialize)]
pub struct ErrorModel {
    #[serde(default)]
    pub message: String,
    /// Name of the exception that a Java client would throw.
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub code: u16,
}

/// An answer of the gateway's own.
pub fn error(status: StatusCode, kind: &str, message: &str) -> Response<Body> {
    let body = ErrorResponse {
        error: ErrorModel { message: message.to_owned(), kind: kind.to_owned(), code: status.as_u16() },
    };
    let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The message in a catalog's error body, if it is one.
pub fn message(body: &[u8]) -> Option<String> {
    let parsed: ErrorResponse = serde_json::from_slice(body).ok()?;
    Some(parsed.error.message).filter(|message| !message.is_empty())
}
