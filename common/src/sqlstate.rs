//! The SQLSTATEs that cross the wire between engine and extension.
//!
//! Source of the meanings: PostgreSQL's appendix "Error Codes". Only codes used
//! by ColdFront are listed; a code that is not here is passed through verbatim.

/// `query_canceled`
pub const QUERY_CANCELED: &str = "57014";
/// `in_failed_sql_transaction`
pub const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
/// `system_error`: the engine or a connection to it was lost; the statement may be retried.
pub const SYSTEM_ERROR: &str = "58000";
/// `io_error`: object store or catalog could not be read or written.
pub const IO_ERROR: &str = "58030";
/// `disk_full`: the spill directory has no space or reached its cap.
pub const DISK_FULL: &str = "53100";
/// `out_of_memory`: the engine's memory limit was reached.
pub const OUT_OF_MEMORY: &str = "53200";
/// `invalid_authorization_specification`: the store or the catalog rejected our credentials.
pub const INVALID_AUTHORIZATION: &str = "28000";
/// `insufficient_privilege`: credentials are known but may not do this (read-only bucket).
pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
/// `sqlclient_unable_to_establish_sqlconnection`: catalog or object store does not answer.
pub const UNABLE_TO_CONNECT: &str = "08001";
/// `transaction_resolution_unknown`: a commit was sent and its outcome could not be learnt.
pub const RESOLUTION_UNKNOWN: &str = "08007";
/// `protocol_violation`
pub const PROTOCOL_VIOLATION: &str = "08P01";
/// `serialization_failure`: another writer changed the table first.
pub const SERIALIZATION_FAILURE: &str = "40001";
/// `undefined_object`: warehouse, namespace or table is missing in the catalog.
pub const UNDEFINED_OBJECT: &str = "42704";
/// `undefined_table`
pub const UNDEFINED_TABLE: &str = "42P01";
/// `duplicate_table`
pub const DUPLICATE_TABLE: &str = "42P07";
/// `feature_not_supported`
pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
/// `numeric_value_out_of_range`
pub const NUMERIC_OUT_OF_RANGE: &str = "22003";
/// `datetime_field_overflow`
pub const DATETIME_OVERFLOW: &str = "22008";
/// `division_by_zero`
pub const DIVISION_BY_ZERO: &str = "22012";
/// `syntax_error`
pub const SYNTAX_ERROR: &str = "42601";
/// `invalid_parameter_value`
pub const INVALID_PARAMETER: &str = "22023";
/// `internal_error`
pub const INTERNAL: &str = "XX000";
