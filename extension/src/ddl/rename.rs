//! RENAME and SET SCHEMA of a registered view, and RENAME of its schema: the registry follows in the same transaction.

#![allow(unsafe_code)]

use pgrx::{Spi, pg_sys};

use super::{guard, registry};
use crate::{
    error::{Error, OrRaise},
    pg::{catalog, privilege},
};

/// What gets another name once the statement has run.
pub enum Pending {
    /// A relation, as it was registered before.
    Relation { relation: pg_sys::Oid, entry: registry::Entry },
    /// A schema with whatever is registered in it.
    Schema { old: String, new: String },
}

/// # Safety
/// `statement` is a RenameStmt.
pub unsafe fn before_rename(statement: *mut pg_sys::RenameStmt) -> Option<Pending> {
    // SAFETY: relation is null or a RangeVar; RENAME of a schema has both names.
    unsafe {
        if (*statement).renameType == pg_sys::ObjectType::OBJECT_SCHEMA {
            return registry::exists().then(|| Pending::Schema {
                old: catalog::text((*statement).subname),
                new: catalog::text((*statement).newname),
            });
        }
        pending((*statement).relation)
    }
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
    Some(Pending::Relation { relation, entry })
}

/// Writes the new name into the registry.
pub fn follow(pending: &Pending) {
    let (statement, names) = match pending {
        Pending::Relation { relation, entry } => {
            let (schema, name) = catalog::schema_and_name(*relation);
            if (schema.as_str(), name.as_str()) == (entry.schema.as_str(), entry.table.as_str()) {
                return;
            }
            let names = vec![entry.schema.clone(), entry.table.clone(), schema, name];
            (include_str!("../../sql/query/registry_rename.sql"), names)
        }
        Pending::Schema { old, new } => {
            (include_str!("../../sql/query/registry_rename_schema.sql"), vec![old.clone(), new.clone()])
        }
    };
    let arguments: Vec<_> = names.into_iter().map(Into::into).collect();
    privilege::as_bootstrap_superuser(|| Spi::run_with_args(statement, &arguments))
        .map_err(|e| Error::value("XX000", format!("coldfront: the registry could not follow a rename: {e}")))
        .or_raise();
}
