//! Which headers pass the gateway.

use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue};

/// Headers that concern one connection only.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers of a request that the gateway sets itself. The client's `Authorization` is for the gateway only.
const OWN: [HeaderName; 4] = [AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST];

/// What of a client's request goes to the catalog.
pub fn to_catalog(mut headers: HeaderMap) -> HeaderMap {
    drop_hop_by_hop(&mut headers);
    for name in OWN {
        headers.remove(name);
    }
    headers
}

/// Removes from a catalog's answer what concerned only the connection to it.
pub fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.into_iter().chain(named) {
        headers.remove(name);
    }
}

/// The token of `Authorization: Bearer …`, empty if there is none.
pub fn bearer(headers: &HeaderMap) -> &[u8] {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    match value.split_at_checked(b"Bearer ".len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"Bearer ") => token,
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn only_end_to_end_headers_pass() {
        let passed = to_catalog(headers(&[
            ("authorization", "Bearer x"),
            ("connection", "keep-alive, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "timeout=5"),
            ("host", "127.0.0.1"),
            ("content-length", "3"),
            ("x-iceberg-access-delegation", "vended-credentials"),
            ("content-type", "application/json"),
        ]));
        let mut names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "x-iceberg-access-delegation"]);
    }

    #[test]
    fn bearer_tokens_are_found() {
        assert_eq!(bearer(&headers(&[("authorization", "bearer abc")])), b"abc");
        assert_eq!(bearer(&headers(&[("authorization", "Basic abc")])), b"");
        assert_eq!(bearer(&HeaderMap::new()), b"");
    }
}
