//! SQL functions behind `coldfront.create_iceberg_table`: types, names, partition terms.

#![allow(unsafe_code)]

use std::ffi::CString;

use coldfront_common::{ident::TableRef, partition, quote, sqlstate, types::ColumnType};
use pgrx::{iter::TableIterator, name, pg_extern, pg_sys};

use crate::{
    error::{Error, OrRaise, Result},
    pg::catalog,
};

/// A declared type, resolved.
struct Resolved {
    /// As PostgreSQL spells it.
    declared: String,
    ty: ColumnType,
    /// Dimensions of a `vector(n)`.
    dimensions: Option<u32>,
}

/// Resolves a type's text: `vector(n)` and `halfvec(n)` by name, everything else by PostgreSQL's own parser.
fn resolve(text: &str) -> Result<Resolved> {
    if let Some(dimensions) = vector_dimensions(text) {
        return Ok(Resolved { declared: "real[]".into(), ty: ColumnType::Float4Array, dimensions: dimensions? });
    }
    let c_text = CString::new(text)
        .map_err(|_| Error::value(sqlstate::INVALID_PARAMETER, "coldfront: a type name holds U+0000"))?;
    // SAFETY: a valid C string and valid out-pointers; raises for an unknown type. The formatted name is palloc'd.
    let (type_oid, typmod, declared) = unsafe {
        let (mut type_oid, mut typmod) = (pg_sys::InvalidOid, -1);
        pg_sys::parseTypeString(c_text.as_ptr(), &raw mut type_oid, &raw mut typmod, std::ptr::null_mut());
        (
            type_oid,
            typmod,
            catalog::text(pg_sys::format_type_extended(type_oid, typmod, pg_sys::FORMAT_TYPE_TYPEMOD_GIVEN as u16)),
        )
    };
    let ty = ColumnType::from_postgres(type_oid.to_u32(), typmod).map_err(|why| {
        Error::refused(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("coldfront: type {declared} is not supported: {why}"),
            why.hint(),
        )
    })?;
    if ty == ColumnType::Float4Array {
        return Err(Error::refused(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("coldfront: type {declared} is not supported: arrays have no exact counterpart in Iceberg"),
            "Declare a vector as vector(n); it reads as real[].",
        ));
    }
    Ok(Resolved { declared, ty, dimensions: None })
}

/// `Some` for the two vector types of pgvector, which need not be installed.
fn vector_dimensions(text: &str) -> Option<Result<Option<u32>>> {
    let text = text.trim().to_ascii_lowercase();
    let rest = text.strip_prefix("vector").or_else(|| text.strip_prefix("halfvec"))?.trim();
    if rest.is_empty() {
        return Some(Ok(None));
    }
    let inner = rest.strip_prefix('(')?.strip_suffix(')')?;
    Some(match inner.trim().parse::<u32>() {
        Ok(n) if (1..=16_000).contains(&n) => Ok(Some(n)),
        _ => Err(Error::value(
            sqlstate::INVALID_PARAMETER,
            format!("coldfront: \"{inner}\" is not a number of dimensions"),
        )),
    })
}

#[pg_extern]
fn _iceberg_storage_type(declared: &str) -> String {
    resolve(declared).or_raise().ty.storage_type()
}

/// For each type its PostgreSQL spelling, its storage type and the dimensions of a vector; errors name the column.
#[pg_extern]
fn _column_types(
    names: Vec<String>,
    types: Vec<String>,
) -> TableIterator<
    'static,
    (name!(position, i32), name!(declared, String), name!(storage, String), name!(dimensions, Option<i32>)),
> {
    let mut rows = Vec::new();
    for (i, (column, text)) in names.iter().zip(&types).enumerate() {
        let resolved = resolve(text).map_err(|error| name_column(error, column)).or_raise();
        let dimensions = resolved.dimensions.and_then(|n| i32::try_from(n).ok());
        rows.push((i as i32 + 1, resolved.declared, resolved.ty.storage_type(), dimensions));
    }
    TableIterator::new(rows)
}

fn name_column(error: Error, column: &str) -> Error {
    match error {
        Error::Refused { sqlstate, message, detail, hint } => {
            let rest = message.strip_prefix("coldfront: ").unwrap_or(&message).to_owned();
            Error::Refused { sqlstate, message: format!("coldfront: column \"{column}\": {rest}"), detail, hint }
        }
        other => other,
    }
}

#[pg_extern]
fn _partition_clause(terms: Vec<String>, names: Vec<String>, types: Vec<String>) -> String {
    let columns: Result<Vec<(String, ColumnType)>> =
        names.into_iter().zip(&types).map(|(name, text)| Ok((name, resolve(text)?.ty))).collect();
    partition::clause(&terms, &columns.or_raise())
        .map_err(|e| Error::refused(e.sqlstate, format!("coldfront: {e}"), e.hint))
        .or_raise()
}

#[pg_extern]
fn _engine_ident(name: &str) -> String {
    quote::ident(name)
}

#[pg_extern]
fn _table_ref(namespace: &str, table: &str) -> String {
    TableRef::new(namespace, table).to_string()
}

/// Tells every backend that `coldfront.storage_secret` changed, so that its next cold access uses the new value.
#[pg_extern]
fn _announce_secret_change() {
    let relation = catalog::relation_oid("coldfront", "storage_secret");
    if relation != 0 {
        // SAFETY: the relation exists and this transaction holds a lock on it (a trigger of it is running).
        unsafe { pg_sys::CacheInvalidateRelcacheByRelid(pg_sys::Oid::from(relation)) };
    }
}
