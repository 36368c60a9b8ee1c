//! RENAME and SET SCHEMA of a registered view: the registry follows in the same transaction.

#![allow(unsafe_code)]

use pgrx::{Spi, pg_sys};

use super::{guard, registry};
use crate::{
    error::{Error, OrRaise},
    pg::{catalog, privilege},
};

/// A relation whose name may change, as it was registered before.
pub struct Pending {
    relation: pg_sys::Oid,
    entry: registry::Entry,
}

/// # Safety
/// `statement` is a RenameStmt.
pub unsafe fn before_rename(statement: *mut pg_sys::RenameStmt) -> Option<Pending> {
    // SAFETY: relation is null or a RangeVar.
    unsafe { pending((*statement).relation) }
}

/// # Safety
/// `statement` is an AlterObjectSchemaStmt.
pub unsafe fn before_move(statement: *mut pg_sys::AlterObjectSchemaStmt) -> Option<Pending> {
    // SAFETY: relation is null or a RangeVar.
    unsafe { pending((*statement).relation) }
}

/// The registered relation behind a name. Its foreign table may not be renamed: name and columns tie registry and lake.
unsafe fn pending(range: *mut pg_sys::RangeVar) -> Option<Pending> {
    // SAFETY: null or a RangeVar, by the callers.
    let relation = unsafe { catalog::resolve(range) };
    let entry = registry::find(relation)?;
    if catalog::relation_kind(relation) == b'f' {
        guard::refuse_columns(&entry);
    }
    Some(Pending { relation, entry })
}

/// Writes the new name into the registry.
pub fn follow(pending: &Pending) {
    let (schema, name) = catalog::schema_and_name(pending.relation);
    if (schema.as_str(), name.as_str()) == (pending.entry.schema.as_str(), pending.entry.table.as_str()) {
        return;
    }
    let outcome = privilege::as_bootstrap_superuser(|| {
        Spi::run_with_args(
            include_str!("../../sql/query/registry_rename.sql"),
            &[pending.entry.schema.as_str().into(), pending.entry.table.as_str().into(), schema.into(), name.into()],
        )
    });
    outcome
        .map_err(|e| Error::value("XX000", format!("coldfront: the registry could not follow a rename: {e}")))
        .or_raise();
}
