//! Names, units and meanings of the engine's metrics, all in one place. It may not compute any of them.
//!
//! A new metric is a constant here and a line in the list of its kind.

/// Labels: `method`, `route`, `status`.
pub const GATEWAY_REQUESTS_TOTAL: &str = "coldfront_gateway_requests_total";
/// Labels: `method`, `route`.
pub const GATEWAY_REQUEST_SECONDS: &str = "coldfront_gateway_request_seconds";
/// Label: `cause` (`connect`, `lost`, `status`, `token`).
pub const GATEWAY_UPSTREAM_RETRIES_TOTAL: &str = "coldfront_gateway_upstream_retries_total";
/// Label: `outcome` (`ok`, `failed`).
pub const GATEWAY_TOKEN_REQUESTS_TOTAL: &str = "coldfront_gateway_token_requests_total";
/// Label: `outcome` (`committed`, `refused`, `not_sent`, `unknown`).
pub const GATEWAY_COMMITS_TOTAL: &str = "coldfront_gateway_commits_total";
pub const GATEWAY_REGISTRATIONS: &str = "coldfront_gateway_registrations";

pub const SESSIONS: &str = "coldfront_engine_sessions";
/// Labels: `kind` (`hello`, `query`, `fetch`, `exec`, `commit`, `rollback`, `stats`), `outcome` (`ok` or a SQLSTATE).
pub const STATEMENTS_TOTAL: &str = "coldfront_engine_statements_total";
/// Label: `kind`.
pub const STATEMENT_SECONDS: &str = "coldfront_engine_statement_seconds";
pub const ROWS_SENT_TOTAL: &str = "coldfront_engine_rows_sent_total";
pub const SENT_BYTES_TOTAL: &str = "coldfront_engine_sent_bytes_total";
pub const ROWS_RECEIVED_TOTAL: &str = "coldfront_engine_rows_received_total";
pub const RECEIVED_BYTES_TOTAL: &str = "coldfront_engine_received_bytes_total";
pub const INSTANCES: &str = "coldfront_engine_instances";
pub const PARKED_STREAMS_TOTAL: &str = "coldfront_engine_parked_streams_total";
pub const SPILLED_BYTES_TOTAL: &str = "coldfront_engine_spilled_bytes_total";
pub const SPILL_BYTES: &str = "coldfront_engine_spill_bytes";
pub const STAGED_REMOVED_TOTAL: &str = "coldfront_engine_staged_objects_removed_total";

/// Counters with their help texts.
pub const COUNTERS: &[(&str, &str)] = &[
    (GATEWAY_REQUESTS_TOTAL, "Requests served by the Iceberg gateway"),
    (GATEWAY_UPSTREAM_RETRIES_TOTAL, "Requests repeated towards the Iceberg catalog"),
    (GATEWAY_TOKEN_REQUESTS_TOTAL, "Access tokens asked of an OAuth2 endpoint"),
    (GATEWAY_COMMITS_TOTAL, "Iceberg commits that passed the gateway, by outcome"),
    (STATEMENTS_TOTAL, "Statements ended"),
    (ROWS_SENT_TOTAL, "Rows sent to PostgreSQL"),
    (SENT_BYTES_TOTAL, "Bytes of Arrow sent to PostgreSQL"),
    (ROWS_RECEIVED_TOTAL, "Rows received from PostgreSQL"),
    (RECEIVED_BYTES_TOTAL, "Bytes of Arrow received from PostgreSQL"),
    (PARKED_STREAMS_TOTAL, "Result streams that had to make way for another statement of their transaction"),
    (SPILLED_BYTES_TOTAL, "Bytes of parked streams and spooled inputs written to disk"),
    (STAGED_REMOVED_TOTAL, "Objects written for transactions that then failed, and removed again"),
];

/// Gauges with their help texts.
pub const GAUGES: &[(&str, &str)] = &[
    (GATEWAY_REGISTRATIONS, "Lakes registered at the Iceberg gateway"),
    (SESSIONS, "Sessions connected now"),
    (INSTANCES, "DuckDB instances alive now"),
    (SPILL_BYTES, "Bytes of parked streams and spooled inputs on disk now"),
];

/// Histograms with their help texts; all in seconds.
pub const HISTOGRAMS: &[(&str, &str)] = &[
    (GATEWAY_REQUEST_SECONDS, "Time from the head of a gateway request to the head of its answer"),
    (STATEMENT_SECONDS, "Time from a statement's arrival to its answer, in seconds"),
];
