//! The whitelist: which operators the engine may evaluate, and under which condition.
//!
//! An entry is here because the engine's answer was proven equal to PostgreSQL's on all values the lake can hold
//! (`tests/twin/`, `ship-operators.sql` above all). Whatever is not here runs in PostgreSQL.

#![allow(unsafe_code)]

use std::{cell::OnceCell, collections::HashMap, ffi::CString};

use pgrx::pg_sys;

/// A comparison or match that the engine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// The engine's spelling.
    pub symbol: &'static str,
    pub condition: Condition,
}

/// What has to hold beyond the operand types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// Equality of text: the collation is deterministic.
    Deterministic,
    /// Equality of `char(n)`: the same, without padding.
    Padded,
    /// Order of text: the collation orders by bytes.
    Bytewise,
    /// LIKE: deterministic, and a constant pattern without backslash, which only PostgreSQL takes for an escape.
    Pattern,
    /// Floats: column against finite constant, and NaN, which file statistics leave out, asked for by name.
    Float,
    /// Numerics: column against constant, so that both fit one decimal type.
    Numeric,
}

const COMPARISONS: [(&str, &str); 6] =
    [("eq", "="), ("ne", "<>"), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")];

thread_local! {
    static TABLE: OnceCell<HashMap<u32, Operator>> = const { OnceCell::new() };
}

/// The engine's operator for the function behind a PostgreSQL operator.
pub fn operator(function: pg_sys::Oid) -> Option<Operator> {
    TABLE.with(|table| table.get_or_init(build).get(&function.to_u32()).copied())
}

fn build() -> HashMap<u32, Operator> {
    let mut table = HashMap::new();
    let mut add = |name: &str, symbol, condition| {
        if let Some(function) = builtin(name) {
            table.insert(function, Operator { symbol, condition });
        }
    };
    for (suffix, symbol) in COMPARISONS {
        for pair in ["2", "4", "8", "24", "42", "28", "82", "48", "84"] {
            add(&format!("int{pair}{suffix}"), symbol, Condition::Always);
        }
        for family in ["date_", "uuid_", "bytea", "bool"] {
            add(&format!("{family}{suffix}"), symbol, Condition::Always);
        }
        for pair in ["4", "8", "48", "84"] {
            add(&format!("float{pair}{suffix}"), symbol, Condition::Float);
        }
        add(&format!("numeric_{suffix}"), symbol, Condition::Numeric);
    }
    for (name, symbol, condition) in [
        ("texteq", "=", Condition::Deterministic),
        ("textne", "<>", Condition::Deterministic),
        ("bpchareq", "=", Condition::Padded),
        ("bpcharne", "<>", Condition::Padded),
        ("text_lt", "<", Condition::Bytewise),
        ("text_le", "<=", Condition::Bytewise),
        ("text_gt", ">", Condition::Bytewise),
        ("text_ge", ">=", Condition::Bytewise),
        ("textlike", "LIKE", Condition::Pattern),
        ("textnlike", "NOT LIKE", Condition::Pattern),
    ] {
        add(name, symbol, condition);
    }
    // timestamp and timestamptz have one C function, by whose name only one of them would be found.
    for (function, symbol) in [
        (pg_sys::F_TIMESTAMP_EQ, "="),
        (pg_sys::F_TIMESTAMP_NE, "<>"),
        (pg_sys::F_TIMESTAMP_LT, "<"),
        (pg_sys::F_TIMESTAMP_LE, "<="),
        (pg_sys::F_TIMESTAMP_GT, ">"),
        (pg_sys::F_TIMESTAMP_GE, ">="),
        (pg_sys::F_TIMESTAMPTZ_EQ, "="),
        (pg_sys::F_TIMESTAMPTZ_NE, "<>"),
        (pg_sys::F_TIMESTAMPTZ_LT, "<"),
        (pg_sys::F_TIMESTAMPTZ_LE, "<="),
        (pg_sys::F_TIMESTAMPTZ_GT, ">"),
        (pg_sys::F_TIMESTAMPTZ_GE, ">="),
    ] {
        table.insert(function, Operator { symbol, condition: Condition::Always });
    }
    table
}

/// OID of a built-in function, which is the OID of its `pg_proc` row.
fn builtin(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a valid C string; the function searches a static table.
    let function = unsafe { pg_sys::fmgr_internal_function(name.as_ptr()) };
    (function != pg_sys::InvalidOid).then(|| function.to_u32())
}
