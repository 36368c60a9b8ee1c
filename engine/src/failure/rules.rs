//! The table of texts by which DuckDB's errors are told apart. First match wins.
//!
//! DuckDB has few error classes and no codes, so its words decide. Each text was seen from DuckDB 1.5.5; the
//! integration tests provoke most of them.

use coldfront_common::sqlstate;

use crate::duckdb::Kind;

/// SQLSTATEs of PostgreSQL that only this table uses.
pub mod state {
    pub const IN_FAILED_TRANSACTION: &str = "25P02";
    pub const READ_ONLY_TRANSACTION: &str = "25006";
    pub const CARDINALITY_VIOLATION: &str = "21000";
    pub const INVALID_DATETIME: &str = "22007";
    pub const INVALID_TEXT: &str = "22P02";
    pub const INVALID_LOGARITHM: &str = "2201E";
    pub const INVALID_POWER: &str = "2201F";
    pub const INVALID_REGULAR_EXPRESSION: &str = "2201B";
    pub const NOT_NULL: &str = "23502";
    pub const CONSTRAINT: &str = "23000";
    pub const UNDEFINED_SCHEMA: &str = "3F000";
    pub const DUPLICATE_SCHEMA: &str = "42P06";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const SYNTAX_OR_ACCESS: &str = "42000";
}

/// What one kind of text means.
pub struct Rule {
    /// Classes it applies to; empty for all.
    pub kinds: &'static [Kind],
    /// All of these must occur.
    pub words: &'static [&'static str],
    pub sqlstate: &'static str,
}

const fn rule(kinds: &'static [Kind], words: &'static [&'static str], sqlstate: &'static str) -> Rule {
    Rule { kinds, words, sqlstate }
}

const DATA: &[Kind] = &[Kind::Conversion, Kind::OutOfRange, Kind::InvalidInput];
const NAMES: &[Kind] = &[Kind::Catalog, Kind::Binder];

/// Errors of the statement and its data.
pub const STATEMENT: &[Rule] = &[
    rule(&[], &["database has been invalidated"], sqlstate::SYSTEM_ERROR),
    rule(&[], &["is not a valid Iceberg Type"], sqlstate::FEATURE_NOT_SUPPORTED),
    rule(&[Kind::Transaction], &["transaction is aborted"], state::IN_FAILED_TRANSACTION),
    rule(&[Kind::Transaction, Kind::InvalidInput], &["read-only mode"], state::READ_ONLY_TRANSACTION),
    rule(DATA, &["ivision by zero"], sqlstate::DIVISION_BY_ZERO),
    rule(DATA, &["date field value out of range"], sqlstate::DATETIME_OVERFLOW),
    rule(DATA, &["not in timestamp range"], sqlstate::DATETIME_OVERFLOW),
    rule(DATA, &["imestamp", "out of range"], sqlstate::DATETIME_OVERFLOW),
    rule(DATA, &["Date", "out of range"], sqlstate::DATETIME_OVERFLOW),
    rule(DATA, &["infinity"], sqlstate::DATETIME_OVERFLOW),
    rule(DATA, &["invalid date field format"], state::INVALID_DATETIME),
    rule(DATA, &["invalid timestamp field format"], state::INVALID_DATETIME),
    rule(DATA, &["square root of a negative"], state::INVALID_POWER),
    rule(DATA, &["logarithm"], state::INVALID_LOGARITHM),
    rule(DATA, &["verflow"], sqlstate::NUMERIC_OUT_OF_RANGE),
    rule(DATA, &["out of range"], sqlstate::NUMERIC_OUT_OF_RANGE),
    rule(DATA, &["Could not cast value"], sqlstate::NUMERIC_OUT_OF_RANGE),
    rule(DATA, &["Could not convert"], state::INVALID_TEXT),
    rule(&[Kind::Conversion], &[], state::INVALID_TEXT),
    rule(&[Kind::OutOfRange], &[], sqlstate::NUMERIC_OUT_OF_RANGE),
    rule(&[Kind::InvalidInput], &["More than one row returned by a subquery"], state::CARDINALITY_VIOLATION),
    rule(&[Kind::InvalidInput], &["missing )"], state::INVALID_REGULAR_EXPRESSION),
    rule(&[Kind::InvalidInput], &[], sqlstate::INVALID_PARAMETER),
    rule(&[Kind::Constraint], &["NOT NULL"], state::NOT_NULL),
    rule(&[Kind::Constraint], &[], state::CONSTRAINT),
    rule(&[Kind::Parser], &[], sqlstate::SYNTAX_ERROR),
    rule(NAMES, &["Function", "does not exist"], state::UNDEFINED_FUNCTION),
    rule(NAMES, &["No function matches"], state::UNDEFINED_FUNCTION),
    rule(NAMES, &["because schema"], state::UNDEFINED_SCHEMA),
    rule(NAMES, &["Schema with name", "already exists"], state::DUPLICATE_SCHEMA),
    rule(NAMES, &["Schema with name"], state::UNDEFINED_SCHEMA),
    rule(NAMES, &["Table with name", "does not exist"], sqlstate::UNDEFINED_TABLE),
    rule(NAMES, &["Table with name", "already exists"], sqlstate::DUPLICATE_TABLE),
    rule(NAMES, &["does not have a column"], state::UNDEFINED_COLUMN),
    rule(NAMES, &["Referenced column"], state::UNDEFINED_COLUMN),
    rule(NAMES, &["mbiguous"], state::AMBIGUOUS_COLUMN),
    rule(NAMES, &["does not exist"], sqlstate::UNDEFINED_OBJECT),
    rule(NAMES, &["already exists"], sqlstate::DUPLICATE_TABLE),
    rule(NAMES, &["Cannot compare values"], state::DATATYPE_MISMATCH),
    rule(&[Kind::Binder, Kind::Catalog], &[], state::SYNTAX_OR_ACCESS),
    rule(&[Kind::NotImplemented, Kind::MissingExtension], &[], sqlstate::FEATURE_NOT_SUPPORTED),
    rule(&[Kind::Permission], &[], sqlstate::INSUFFICIENT_PRIVILEGE),
    rule(&[Kind::Io, Kind::Http, Kind::Connection], &[], sqlstate::IO_ERROR),
    rule(&[Kind::Fatal], &[], sqlstate::SYSTEM_ERROR),
];

/// What can be wrong with the object store, from the answers of S3 and Azure and of the network below.
pub const STORE: &[Rule] = &[
    rule(&[], &["Could not connect"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["Could not resolve"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["Connection refused"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["Connection reset"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["imeout was reached"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["imed out"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["Server returned nothing"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["Failure when receiving data"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["Failed sending data"], sqlstate::UNABLE_TO_CONNECT),
    rule(&[], &["InvalidAccessKeyId"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["SignatureDoesNotMatch"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["InvalidToken"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["ExpiredToken"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["RequestTimeTooSkewed"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["AuthenticationFailed"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["401"], sqlstate::INVALID_AUTHORIZATION),
    rule(&[], &["NoSuchBucket"], sqlstate::UNDEFINED_OBJECT),
    rule(&[], &["ContainerNotFound"], sqlstate::UNDEFINED_OBJECT),
    rule(&[], &["AccessDenied"], sqlstate::INSUFFICIENT_PRIVILEGE),
    rule(&[], &["403"], sqlstate::INSUFFICIENT_PRIVILEGE),
    rule(&[], &[], sqlstate::IO_ERROR),
];

/// The first rule that applies.
pub fn find(rules: &[Rule], kind: Kind, text: &str) -> Option<&'static str> {
    let applies = |rule: &&Rule| {
        (rule.kinds.is_empty() || rule.kinds.contains(&kind)) && rule.words.iter().all(|word| text.contains(word))
    };
    rules.iter().find(applies).map(|rule| rule.sqlstate)
}
