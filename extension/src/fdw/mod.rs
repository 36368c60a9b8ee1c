//! The foreign data wrapper `coldfront`: the access path to cold tables.
//!
//! Planning may ask the engine for a table's size and nothing else; the catalog and the store are touched when a scan
//! delivers its first row or a write its first batch.

mod deparse;
mod explain;
mod literal;
mod modify;
mod paths;
mod private;
pub mod rowid;
mod scan;
mod ship;
mod shortcut;
mod template;
mod upper;

use pgrx::{PgBox, pg_guard, pg_sys};

use crate::error::Error;

/// Every kind of change works.
#[pg_guard]
unsafe extern "C-unwind" fn updatable(_relation: pg_sys::Relation) -> i32 {
    1 << pg_sys::CmdType::CMD_INSERT | 1 << pg_sys::CmdType::CMD_UPDATE | 1 << pg_sys::CmdType::CMD_DELETE
}

/// The table of callbacks that PostgreSQL calls the wrapper through.
#[allow(unsafe_code)]
pub fn routine() -> PgBox<pg_sys::FdwRoutine, pgrx::AllocatedByRust> {
    // SAFETY: the node is zeroed by its allocation, and every callback has the signature its field asks for.
    let mut routine = unsafe { PgBox::<pg_sys::FdwRoutine>::alloc_node(pg_sys::NodeTag::T_FdwRoutine) };
    routine.GetForeignRelSize = Some(paths::rel_size);
    routine.GetForeignPaths = Some(paths::paths);
    routine.GetForeignPlan = Some(paths::plan);
    routine.GetForeignUpperPaths = Some(upper::upper_paths);
    routine.BeginForeignScan = Some(scan::begin);
    routine.IterateForeignScan = Some(scan::iterate);
    routine.ReScanForeignScan = Some(scan::rescan);
    routine.EndForeignScan = Some(scan::end);
    routine.AddForeignUpdateTargets = Some(modify::add_update_targets);
    routine.PlanForeignModify = Some(modify::plan);
    routine.BeginForeignModify = Some(modify::begin);
    routine.ExecForeignInsert = Some(modify::exec_insert);
    routine.ExecForeignUpdate = Some(modify::exec_update);
    routine.ExecForeignDelete = Some(modify::exec_delete);
    routine.EndForeignModify = Some(modify::end);
    routine.BeginForeignInsert = Some(modify::begin_insert);
    routine.EndForeignInsert = Some(modify::end);
    routine.IsForeignRelUpdatable = Some(updatable);
    routine.ExplainForeignScan = Some(explain::scan_node);
    routine.ExplainForeignModify = Some(explain::modify_node);
    routine
}

/// Options the wrapper knows: on a foreign table `namespace`, `table_name` and `relation`, on a column `widened`, elsewhere
/// none. `catalog` is where they stand.
pub fn check_options(options: &[String], catalog: pg_sys::Oid) -> Result<(), Error> {
    for option in options {
        let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
        let is_known = match catalog {
            pg_sys::ForeignTableRelationId => matches!(name, "namespace" | "table_name" | "relation"),
            pg_sys::AttributeRelationId => name == "widened",
            _ => false,
        };
        if !is_known {
            return Err(Error::refused(
                "HV00D",
                format!("coldfront: option \"{name}\" is not known here"),
                "Create cold tables with coldfront.create_iceberg_table().",
            ));
        }
    }
    Ok(())
}
