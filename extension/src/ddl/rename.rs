//! RENAME and SET SCHEMA of a registered view, and RENAME of its schema: the registry follows in the same transaction.

#![allow(unsafe_code)]

use coldfront_common::quote;
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
        if (*statement).renameType == pg_sys::ObjectType::OBJECT_TABCONSTRAINT {
            return None;
        }
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
            if catalog::relation_kind(*relation) == b'p' {
                follow_hot(entry, &schema, &name);
                return;
            }
            if (schema.as_str(), name.as_str()) == (entry.schema.as_str(), entry.table.as_str()) {
                return;
            }
            if let Some(hot) = entry.hot_table.as_ref().filter(|_| schema != entry.schema) {
                move_hot(entry, hot, &schema);
            }
            let names = vec![entry.schema.clone(), entry.table.clone(), schema, name];
            (include_str!("../../sql/query/registry_rename.sql"), names)
        }
        Pending::Schema { old, new } => {
            (include_str!("../../sql/query/registry_rename_schema.sql"), vec![old.clone(), new.clone()])
        }
    };
    let arguments: Vec<_> = names.into_iter().map(Into::into).collect();
    privilege::as_bootstrap_superuser(|| Spi::run_with_args(statement, &arguments)).map_err(unfollowed).or_raise();
}

/// The hot table got another name; it stays in the schema of its view.
fn follow_hot(entry: &registry::Entry, schema: &str, name: &str) {
    if schema != entry.schema {
        Error::refused(
            "0A000",
            format!("coldfront: the hot table of {} cannot be moved to another schema by itself", entry.relation()),
            format!("Move the view: ALTER VIEW {} SET SCHEMA …; its hot table goes with it.", entry.relation()),
        )
        .raise();
    }
    let names = [entry.schema.as_str().into(), entry.table.as_str().into(), name.into()];
    let query = include_str!("../../sql/query/registry_rename_hot.sql");
    privilege::as_bootstrap_superuser(|| Spi::run_with_args(query, &names)).map_err(unfollowed).or_raise();
}

/// The hot table goes where its view went.
fn move_hot(entry: &registry::Entry, hot: &str, schema: &str) {
    let statement = format!(
        "ALTER TABLE {}.{} SET SCHEMA {}",
        quote::ident(&entry.schema),
        quote::ident(hot),
        quote::ident(schema)
    );
    guard::at_rest(|| Spi::run(&statement)).map_err(unfollowed).or_raise();
}

fn unfollowed(error: pgrx::spi::Error) -> Error {
    Error::value("XX000", format!("coldfront: the registry could not follow a rename: {error}"))
}
