//! Refuses what would lose a cold relation or part it from its Iceberg table.

#![allow(unsafe_code)]

use std::cell::Cell;

use coldfront_common::sqlstate;
use pgrx::{PgList, pg_guard, pg_sys};

use super::registry;
use crate::{
    error::Error,
    pg::{catalog, xact},
};

static mut PREVIOUS: pg_sys::object_access_hook_type = None;

thread_local! {
    /// The extension changes registered relations itself.
    static RESTS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the guards rest.
pub fn rests() -> bool {
    RESTS.get()
}

/// Ends the rest, also by unwinding.
struct Rest;

impl Drop for Rest {
    fn drop(&mut self) {
        RESTS.set(false);
    }
}

/// Runs `f`, which knows what it does to registered relations, without guards and followers.
pub fn at_rest<T>(f: impl FnOnce() -> T) -> T {
    RESTS.set(true);
    let _rest = Rest;
    f()
}

/// Called for every look at every object, functions in expressions included, so it decides before it does anything.
/// No Rust value lives across the call of the previous hook, which may leave by a long jump.
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub_object: i32,
    argument: *mut std::ffi::c_void,
) {
    // SAFETY: the arguments are those of this call.
    unsafe {
        if access == pg_sys::ObjectAccessType::OAT_DROP && class == pg_sys::RelationRelationId && sub_object == 0 {
            relation_dropped(object, argument);
        }
        if let Some(previous) = PREVIOUS {
            previous(access, class, object, sub_object, argument);
        }
    }
}

/// Raises for a drop of a registered relation, however it comes about (also CASCADE and DROP OWNED).
#[pg_guard]
unsafe extern "C-unwind" fn relation_dropped(relation: pg_sys::Oid, argument: *mut std::ffi::c_void) {
    if xact::may_work() && !rests() && !is_internal(argument) {
        refuse_drop(relation);
    }
}

/// Drops that are part of another operation, such as the end of a temporary table.
fn is_internal(argument: *mut std::ffi::c_void) -> bool {
    // SAFETY: for OAT_DROP the argument is null or an ObjectAccessDrop.
    unsafe {
        argument
            .cast::<pg_sys::ObjectAccessDrop>()
            .as_ref()
            .is_some_and(|drop| drop.dropflags & pg_sys::PERFORM_DELETION_INTERNAL as i32 != 0)
    }
}

fn refuse_drop(relation: pg_sys::Oid) {
    if let Some(entry) = registry::find(relation) {
        Error::refused(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("coldfront: cannot drop {}, because its rows live in Iceberg", entry.relation()),
            format!(
                "Use SELECT coldfront.drop_iceberg_table('{}', '{}', p_purge), with p_purge saying whether the stored objects go too.",
                entry.schema, entry.table
            ),
        )
        .raise();
    }
}

/// TRUNCATE of a registered relation.
///
/// # Safety
/// `statement` is a TruncateStmt.
pub unsafe fn refuse_truncate(statement: *mut pg_sys::TruncateStmt) {
    // SAFETY: relations is a list of RangeVars.
    unsafe {
        for range in PgList::<pg_sys::RangeVar>::from_pg((*statement).relations).iter_ptr() {
            if let Some(entry) = registry::find(catalog::resolve(range)) {
                Error::refused(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!("coldfront: cannot truncate {}, because its rows live in Iceberg", entry.relation()),
                    "Use DELETE to remove rows, or coldfront.drop_iceberg_table() to remove the table.",
                )
                .raise();
            }
        }
    }
}

/// Changes of columns of a cold foreign table, which the Iceberg table would not follow.
///
/// # Safety
/// `statement` is an AlterTableStmt.
pub unsafe fn refuse_alter(statement: *mut pg_sys::AlterTableStmt) {
    // SAFETY: cmds is a list of AlterTableCmds.
    unsafe {
        let relation = catalog::resolve((*statement).relation);
        if catalog::relation_kind(relation) != b'f' {
            return;
        }
        let changes_columns = PgList::<pg_sys::AlterTableCmd>::from_pg((*statement).cmds).iter_ptr().any(|command| {
            matches!(
                (*command).subtype,
                pg_sys::AlterTableType::AT_AddColumn
                    | pg_sys::AlterTableType::AT_DropColumn
                    | pg_sys::AlterTableType::AT_AlterColumnType
                    | pg_sys::AlterTableType::AT_AddInherit
                    | pg_sys::AlterTableType::AT_GenericOptions
            )
        });
        if changes_columns && let Some(entry) = registry::find(relation) {
            refuse_columns(&entry);
        }
    }
}

/// CREATE OR REPLACE VIEW over a registered view.
///
/// # Safety
/// `statement` is a ViewStmt.
pub unsafe fn refuse_replace(statement: *mut pg_sys::ViewStmt) {
    // SAFETY: view is a RangeVar.
    unsafe {
        if (*statement).replace
            && let Some(entry) = registry::find(catalog::resolve((*statement).view))
        {
            refuse_columns(&entry);
        }
    }
}

/// The error for a change of columns.
pub fn refuse_columns(entry: &registry::Entry) -> ! {
    Error::refused(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!(
            "coldfront: cannot change the columns of {}, because its Iceberg table would not follow",
            entry.relation()
        ),
        "Create a new table with the wanted columns and copy the rows with INSERT … SELECT.",
    )
    .raise()
}

pub fn init() {
    // SAFETY: runs once, while libraries are preloaded, before any statement.
    unsafe {
        PREVIOUS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
    }
}
