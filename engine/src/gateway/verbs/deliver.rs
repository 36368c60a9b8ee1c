//! Turns what the catalog answered, or that it did not, into the answer for the client.
//!
//! Answers pass unchanged with these exceptions. Rejected credentials and missing answers get a message that names the
//! catalog. A redirection becomes an error, since the client would follow it past the gateway. And 500, 503 and 504 become
//! 502 with the same body: DuckDB repeats a request so answered three times, commits included, and then throws the body
//! away. The original status is kept in a header.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, LOCATION};
use axum::http::{HeaderName, Response, StatusCode};
use coldfront_common::redact;

use crate::gateway::api::error_model::{error, message};
use crate::gateway::api::headers::drop_hop_by_hop;
use crate::gateway::api::target::Route;
use crate::gateway::problem::ProblemKind;
use crate::gateway::registry::Entry;
use crate::gateway::store::body;
use crate::gateway::store::upstream::UpstreamError;

/// Tells what the catalog answered where the gateway answers otherwise.
const UPSTREAM_STATUS: HeaderName = HeaderName::from_static("x-coldfront-upstream-status");
/// Largest error body that is read, in bytes.
const ERROR_BODY_MAX_BYTES: usize = 256 * 1024;

pub async fn deliver(entry: &Entry, route: &Route, result: Result<Response<Body>, UpstreamError>) -> Response<Body> {
    let mut response = match result {
        Ok(response) => response,
        Err(error) => return missing(entry, route, &error),
    };
    entry.problems.answered();
    drop_hop_by_hop(response.headers_mut());
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
        return rejected(entry, response).await;
    }
    if status.is_server_error() {
        return failing(entry, response).await;
    }
    if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
        return redirected(entry, &response);
    }
    if status == StatusCode::NOT_FOUND && matches!(route, Route::Config | Route::Namespaces) {
        return no_warehouse(entry, response).await;
    }
    response
}

fn missing(entry: &Entry, route: &Route, problem: &UpstreamError) -> Response<Body> {
    let text = redact::mask(&problem.to_string(), entry.upstream.secrets());
    let (status, kind, exception) = match problem {
        UpstreamError::Unreachable { .. } => {
            (StatusCode::BAD_GATEWAY, ProblemKind::Unreachable, "ServiceUnavailableException")
        }
        UpstreamError::Lost { .. } => {
            let commit = matches!(route, Route::CommitTable { .. } | Route::CommitTransaction);
            let exception = if commit { "CommitStateUnknownException" } else { "ServiceUnavailableException" };
            (StatusCode::BAD_GATEWAY, ProblemKind::Unreachable, exception)
        }
        UpstreamError::Rejected { .. } => {
            (StatusCode::UNAUTHORIZED, ProblemKind::Unauthorized, "NotAuthorizedException")
        }
    };
    entry.problems.record(kind, text.clone());
    error(status, exception, &text)
}

async fn rejected(entry: &Entry, response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let (_, said) = read(entry, response).await;
    let at = entry.upstream.address();
    let said = said.unwrap_or_else(|| status.to_string());
    let (kind, exception, text) = if status == StatusCode::UNAUTHORIZED {
        let text = format!("the Iceberg catalog at {at} rejected the credentials: {said}");
        (ProblemKind::Unauthorized, "NotAuthorizedException", text)
    } else {
        let text = format!("the Iceberg catalog at {at} rejected the credentials for this request: {said}");
        (ProblemKind::Forbidden, "ForbiddenException", text)
    };
    entry.problems.record(kind, text.clone());
    error(status, exception, &text)
}

async fn failing(entry: &Entry, response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let (mut response, said) = read(entry, response).await;
    let at = entry.upstream.address();
    let text = match &said {
        Some(said) => format!("the Iceberg catalog at {at} failed with {status}: {said}"),
        None => format!("the Iceberg catalog at {at} failed with {status}"),
    };
    entry.problems.record(ProblemKind::Failing(status.as_u16()), text.clone());
    if said.is_none() {
        // A proxy's page, or nothing: no Iceberg client could read it.
        response = error(status, "ServiceFailureException", &text);
    }
    if matches!(
        status,
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    ) {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response.headers_mut().insert(UPSTREAM_STATUS, status.as_u16().into());
    }
    response
}

fn redirected(entry: &Entry, response: &Response<Body>) -> Response<Body> {
    let (at, status) = (entry.upstream.address(), response.status());
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
    let to = redact::mask(to.split('?').next().unwrap_or_default(), entry.upstream.secrets());
    let text =
        format!("the Iceberg catalog at {at} sends us on to {to}: set coldfront.lakekeeper_endpoint to its new place");
    entry.problems.record(ProblemKind::Failing(status.as_u16()), text.clone());
    error(StatusCode::BAD_GATEWAY, "ServiceFailureException", &text)
}

async fn no_warehouse(entry: &Entry, response: Response<Body>) -> Response<Body> {
    let (response, said) = read(entry, response).await;
    let (at, warehouse) = (entry.upstream.address(), entry.upstream.warehouse());
    let said = said.unwrap_or_else(|| StatusCode::NOT_FOUND.to_string());
    let text = format!("the Iceberg catalog at {at} has no warehouse \"{warehouse}\": {said}");
    entry.problems.record(ProblemKind::NoWarehouse, text);
    response
}

/// Reads an error body and puts it back. Also gives its message, if it has one, fit for showing.
async fn read(entry: &Entry, response: Response<Body>) -> (Response<Body>, Option<String>) {
    let (mut parts, body) = response.into_parts();
    let bytes = body::collect(body, ERROR_BODY_MAX_BYTES).await.unwrap_or_else(|_| {
        parts.headers.remove(CONTENT_ENCODING);
        Bytes::new()
    });
    // Of a HEAD, the length is that of a body which is not there.
    if !bytes.is_empty() {
        parts.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    let said = message(&bytes).map(|text| redact::mask(&text, entry.upstream.secrets()));
    (Response::from_parts(parts, Body::from(bytes)), said)
}
