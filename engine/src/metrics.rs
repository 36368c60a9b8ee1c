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

/// Counters with their help texts.
pub const COUNTERS: &[(&str, &str)] = &[
    (GATEWAY_REQUESTS_TOTAL, "Requests served by the Iceberg gateway"),
    (GATEWAY_UPSTREAM_RETRIES_TOTAL, "Requests repeated towards the Iceberg catalog"),
    (GATEWAY_TOKEN_REQUESTS_TOTAL, "Access tokens asked of an OAuth2 endpoint"),
    (GATEWAY_COMMITS_TOTAL, "Iceberg commits that passed the gateway, by outcome"),
];

/// Gauges with their help texts.
pub const GAUGES: &[(&str, &str)] = &[(GATEWAY_REGISTRATIONS, "Lakes registered at the Iceberg gateway")];

/// Histograms with their help texts; all in seconds.
pub const HISTOGRAMS: &[(&str, &str)] =
    &[(GATEWAY_REQUEST_SECONDS, "Time from the head of a gateway request to the head of its answer")];

/// Sessions connected now.
pub const SESSIONS: &str = "coldfront_engine_sessions";
/// Statements ended. Labels: `kind` (`query`, `exec`, `commit`, `rollback`, `stats`), `outcome` (`ok` or a SQLSTATE).
pub const STATEMENTS_TOTAL: &str = "coldfront_engine_statements_total";
/// Time from a statement's arrival to its answer, in seconds. Label: `kind`.
pub const STATEMENT_SECONDS: &str = "coldfront_engine_statement_seconds";
/// Rows sent to PostgreSQL.
pub const ROWS_SENT_TOTAL: &str = "coldfront_engine_rows_sent_total";
/// Bytes of Arrow sent to PostgreSQL.
pub const SENT_BYTES_TOTAL: &str = "coldfront_engine_sent_bytes_total";
/// Rows received from PostgreSQL.
pub const ROWS_RECEIVED_TOTAL: &str = "coldfront_engine_rows_received_total";
/// Bytes of Arrow received from PostgreSQL.
pub const RECEIVED_BYTES_TOTAL: &str = "coldfront_engine_received_bytes_total";
/// DuckDB instances alive now.
pub const INSTANCES: &str = "coldfront_engine_instances";
/// Result streams that had to make way for another statement of their transaction.
pub const PARKED_STREAMS_TOTAL: &str = "coldfront_engine_parked_streams_total";
/// Bytes of parked streams and spooled inputs written to disk.
pub const SPILLED_BYTES_TOTAL: &str = "coldfront_engine_spilled_bytes_total";
/// Bytes of parked streams and spooled inputs on disk now.
pub const SPILL_BYTES: &str = "coldfront_engine_spill_bytes";
/// Objects written for transactions that then failed, and removed again.
pub const STAGED_REMOVED_TOTAL: &str = "coldfront_engine_staged_objects_removed_total";
