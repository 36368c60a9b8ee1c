//! ALTER TABLE on a tiered relation: named by its view or by its hot table, it changes the hot table, and the cold tier
//! and the view follow in the same statement.

#![allow(unsafe_code)]

use coldfront_common::ident::TableRef;
use pgrx::{Spi, pg_sys};

use super::{guard, hook::Plan, registry};
use crate::{
    error::{Error, OrRaise, Result},
    pg::{catalog, node, privilege},
    txn,
};

/// What has to follow once the statement ran.
pub struct Mirror {
    entry: registry::Entry,
    /// Old and new name of a column.
    renamed: Option<(String, String)>,
}

/// The tiered relation that a name stands for, and whether the name is that of its view.
unsafe fn tiered(range: *mut pg_sys::RangeVar) -> Option<(registry::Entry, bool)> {
    // SAFETY: null or a RangeVar, by the callers.
    let relation = unsafe { catalog::resolve(range) };
    let kind = catalog::relation_kind(relation);
    let entry = registry::find(relation).filter(|entry| kind != b'f' && entry.hot_table.is_some())?;
    Some((entry, kind == b'v'))
}

/// # Safety
/// The plan's statement is a PlannedStmt with an AlterTableStmt.
pub unsafe fn before_alter(plan: &mut Plan) {
    // SAFETY: cmds is a list of AlterTableCmds; the tree is only changed in a copy, because the original may be cached.
    unsafe {
        let original = (*plan.statement).utilityStmt.cast::<pg_sys::AlterTableStmt>();
        let concerns = node::members::<pg_sys::AlterTableCmd>((*original).cmds).into_iter().any(|command| {
            matches!(
                (*command).subtype,
                pg_sys::AlterTableType::AT_AddColumn
                    | pg_sys::AlterTableType::AT_DropColumn
                    | pg_sys::AlterTableType::AT_AlterColumnType
                    | pg_sys::AlterTableType::AT_SetNotNull
                    | pg_sys::AlterTableType::AT_DropNotNull
                    | pg_sys::AlterTableType::AT_AddConstraint
                    | pg_sys::AlterTableType::AT_DropConstraint
            )
        });
        if !concerns {
            return;
        }
        let Some((entry, by_view)) = tiered((*original).relation) else { return };
        if by_view {
            let statement: *mut pg_sys::PlannedStmt = node::copy(plan.statement);
            let alter = (*statement).utilityStmt.cast::<pg_sys::AlterTableStmt>();
            (*alter).relation = hot_name(&entry);
            (*alter).objtype = pg_sys::ObjectType::OBJECT_TABLE;
            plan.statement = statement;
        }
        claim(&entry).or_raise();
        let needs_room = node::members::<pg_sys::AlterTableCmd>((*original).cmds).into_iter().any(|command| {
            matches!(
                (*command).subtype,
                pg_sys::AlterTableType::AT_DropColumn | pg_sys::AlterTableType::AT_AlterColumnType
            )
        });
        let mirror = Mirror { entry, renamed: None };
        if needs_room {
            mirror.set_view_aside();
        }
        plan.mirror = Some(mirror);
    }
}

/// RENAME COLUMN; false for every other rename.
///
/// # Safety
/// The plan's statement is a PlannedStmt with a RenameStmt.
pub unsafe fn before_rename(plan: &mut Plan) -> bool {
    // SAFETY: as in `before_alter`.
    unsafe {
        let original = (*plan.statement).utilityStmt.cast::<pg_sys::RenameStmt>();
        if (*original).renameType != pg_sys::ObjectType::OBJECT_COLUMN {
            return false;
        }
        let Some((entry, by_view)) = tiered((*original).relation) else { return false };
        if by_view {
            let statement: *mut pg_sys::PlannedStmt = node::copy(plan.statement);
            let rename = (*statement).utilityStmt.cast::<pg_sys::RenameStmt>();
            (*rename).relation = hot_name(&entry);
            (*rename).relationType = pg_sys::ObjectType::OBJECT_TABLE;
            plan.statement = statement;
        }
        claim(&entry).or_raise();
        let names = (catalog::text((*original).subname), catalog::text((*original).newname));
        plan.mirror = Some(Mirror { entry, renamed: Some(names) });
        true
    }
}

fn hot_name(entry: &registry::Entry) -> *mut pg_sys::RangeVar {
    let hot = entry.hot_table.as_deref().unwrap_or_default();
    // SAFETY: palloc'd C strings.
    unsafe { pg_sys::makeRangeVar(node::c_string(&entry.schema), node::c_string(hot), -1) }
}

/// The write claim comes before the locks of the statement, as for every writer of cold rows.
fn claim(entry: &registry::Entry) -> Result<()> {
    let table = TableRef::parse(&entry.iceberg_table).map_err(|e| Error::value("XX000", format!("coldfront: {e}")))?;
    txn::lock_table(&table);
    Ok(())
}

impl Mirror {
    /// PostgreSQL does not drop or retype a column that a view reads.
    fn set_view_aside(&self) {
        let names = [self.entry.schema.as_str().into(), self.entry.table.as_str().into()];
        let query = include_str!("../../sql/query/tier_view_aside.sql");
        guard::at_rest(|| privilege::as_bootstrap_superuser(|| Spi::run_with_args(query, &names)))
            .map_err(|e| self.failed(&e))
            .or_raise();
    }

    fn failed(&self, error: &pgrx::spi::Error) -> Error {
        Error::value(
            "XX000",
            format!("coldfront: the cold tier of {} could not follow: {error}", self.entry.relation()),
        )
    }

    /// Brings the cold tier and the view up to the hot table.
    pub fn follow(&self) {
        let Self { entry, renamed } = self;
        let (schema, table) = (entry.schema.as_str(), entry.table.as_str());
        let outcome = guard::at_rest(|| {
            if let Some((old, new)) = renamed {
                let arguments = [schema.into(), table.into(), old.as_str().into(), new.as_str().into()];
                return privilege::as_bootstrap_superuser(|| {
                    Spi::run_with_args(include_str!("../../sql/query/mirror_rename.sql"), &arguments)
                });
            }
            privilege::as_bootstrap_superuser(|| {
                Spi::run_with_args(include_str!("../../sql/query/mirror_columns.sql"), &[schema.into(), table.into()])
            })?;
            let hot = catalog::relation_oid(schema, entry.hot_table.as_deref().unwrap_or_default());
            let cold = catalog::relation_oid("coldfront_cold", &entry.foreign_table);
            let owner = catalog::owner(pg_sys::Oid::from(hot));
            let arguments = [pg_sys::Oid::from(hot).into(), pg_sys::Oid::from(cold).into(), entry.relation().into()];
            privilege::as_user(owner, || {
                Spi::run_with_args(include_str!("../../sql/query/mirror_constraints.sql"), &arguments)
            })
        });
        outcome.map_err(|e| self.failed(&e)).or_raise();
    }
}
