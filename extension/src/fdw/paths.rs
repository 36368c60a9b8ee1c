//! Planning of a base scan: size, path, plan.

#![allow(unsafe_code)]

use coldfront_common::{frame::TableStats, ident::TableRef, quote, types::ColumnType};
use pgrx::{PgList, pg_guard, pg_sys};

use super::{
    deparse::Deparser,
    private::{self, Output, ScanPlan},
    template::Template,
};
use crate::{
    error::{Error, OrRaise, Result},
    lake,
    pg::{
        catalog::{self, ColdTable},
        node, xact,
    },
    session,
    tier::bounds::{self, Bound},
};

/// Rows assumed where the engine cannot tell.
const DEFAULT_ROWS: f64 = 1_000.0;
/// Cost of asking the lake at all: catalog, manifests, footers.
const STARTUP_COST: f64 = 1_000.0;
/// Cost of one row through the engine, in units of `seq_page_cost`.
const ROW_COST: f64 = 0.005;

/// What planning keeps in `RelOptInfo.fdw_private`.
pub struct RelState {
    pub cold: ColdTable,
    /// WHERE clauses the engine evaluates.
    pub remote: Vec<Template>,
    /// Expressions whose values the executor supplies to `remote`.
    pub values: Vec<*mut pg_sys::Expr>,
    /// RestrictInfos that PostgreSQL evaluates for each row.
    pub local: Vec<*mut pg_sys::RestrictInfo>,
    /// There is a condition without columns that is known when the statement runs; the planner puts it above a base scan,
    /// and above nothing else. If it does not hold, the engine is not asked.
    pub is_gated: bool,
    /// What has to be true for the relation to have a row for this statement, where that can be told without looking.
    pub condition: Option<*mut pg_sys::Node>,
    /// The condition does not hold at this moment.
    pub is_empty_now: bool,
}

impl RelState {
    /// `FROM … WHERE …`
    pub fn source(&self) -> Template {
        self.source_where(&self.remote)
    }

    /// The same with these conditions only.
    pub fn source_where<'a>(&self, clauses: impl IntoIterator<Item = &'a Template>) -> Template {
        let mut sql = Template::default();
        sql.push(&format!(" FROM {}", self.cold.table));
        for (i, clause) in clauses.into_iter().enumerate() {
            sql.push(if i == 0 { " WHERE " } else { " AND " });
            sql.append(clause.clone());
        }
        sql
    }
}

/// State of a planned relation.
///
/// # Safety
/// `rel` went through [`rel_size`] in this planning.
pub unsafe fn state<'a>(rel: *mut pg_sys::RelOptInfo) -> &'a RelState {
    // SAFETY: the caller's promise; the memory belongs to the planner's context.
    unsafe { &*(*rel).fdw_private.cast::<RelState>() }
}

/// Rows of a table as its current snapshot tells, or `None` where the engine cannot say.
fn table_rows(table: &TableRef) -> Option<f64> {
    if !xact::may_work() || lake::require_configured().is_err() || session::with(|s| s.txn.streaming.is_some()) {
        return None;
    }
    let ask = || -> Result<TableStats> {
        // An engine that restarts is waited for by the scan, not here.
        session::ensure_connected_within(0)?;
        session::with(|s| s.table_stats(table, false))
    };
    // Planning goes on without statistics; the scan itself will report what is wrong.
    ask().ok().map(|stats| stats.rows as f64)
}

#[pg_guard]
pub unsafe extern "C-unwind" fn rel_size(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    relation: pg_sys::Oid,
) {
    // SAFETY: the planner passes valid nodes; what is stored in fdw_private lives as long as they do.
    unsafe {
        let cold = catalog::cold_table(relation);
        let condition = condition(root, rel);
        if condition.is_some_and(|condition| bounds::is_not_true(condition)) {
            pg_sys::mark_dummy_rel(rel);
        }
        let mut deparser = Deparser { root, relid: (*rel).relid, relation, values: Vec::new() };
        let (mut remote, mut local, mut is_gated) = (Vec::new(), Vec::new(), false);
        for info in PgList::<pg_sys::RestrictInfo>::from_pg((*rel).baserestrictinfo).iter_ptr() {
            if (*info).pseudoconstant {
                is_gated = true;
                continue;
            }
            match deparser.clause((*info).clause.cast()) {
                Some(clause) => remote.push(clause),
                None => local.push(info),
            }
        }
        // A scan that would have no row now is not worth asking the engine.
        let is_empty_now =
            condition.is_some_and(|c| bounds::is_not_true(pg_sys::estimate_expression_value(root, node::copy(c))));
        let known = if is_empty_now || is_gated { None } else { table_rows(&cold.table) };
        let tuples = known.unwrap_or(DEFAULT_ROWS).max(1.0);
        (*rel).tuples = tuples;
        // Selectivity needs reltuples and pages in proportion; set_baserel_size_estimates reads rel->tuples.
        pg_sys::set_baserel_size_estimates(root, rel);
        let values = deparser.values;
        let state = RelState { cold, remote, values, local, is_gated, condition, is_empty_now };
        (*rel).fdw_private = pgrx::PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(state).cast();
    }
}

/// What the relation's clauses together need to be true, where one of them bounds a column from above by a constant, as
/// the view of a tiered relation does. Folded as far as it is constant.
unsafe fn condition(root: *mut pg_sys::PlannerInfo, rel: *mut pg_sys::RelOptInfo) -> Option<*mut pg_sys::Node> {
    // SAFETY: the planner's clauses are only read.
    unsafe {
        let clauses: Vec<*mut pg_sys::Node> = node::members::<pg_sys::RestrictInfo>((*rel).baserestrictinfo)
            .iter()
            .map(|i| (**i).clause.cast())
            .collect();
        let bound = clauses.iter().find_map(|clause| Bound::of_clause(*clause))?;
        let needed: Vec<_> = clauses.iter().filter_map(|clause| bound.needs(*clause)).collect();
        if needed.is_empty() {
            return None;
        }
        let folded = pg_sys::eval_const_expressions(root, pg_sys::make_andclause(node::list(needed)).cast());
        let is_true =
            node::cast::<pg_sys::Const, _>(folded, pg_sys::NodeTag::T_Const).is_some() && !bounds::is_not_true(folded);
        (!is_true).then_some(folded)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn paths(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    _relation: pg_sys::Oid,
) {
    // SAFETY: valid planner nodes; rel_size ran before.
    unsafe {
        let state = state(rel);
        let remote_rows = if state.local.is_empty() { (*rel).rows } else { (*rel).tuples.max((*rel).rows) };
        let total = STARTUP_COST + remote_rows * ROW_COST + (*rel).rows * pg_sys::cpu_tuple_cost;
        let path = crate::pg::compat::create_foreignscan_path(
            root,
            rel,
            std::ptr::null_mut(),
            (*rel).rows,
            STARTUP_COST,
            total,
            std::ptr::null_mut(),
        );
        pg_sys::add_path(rel, path.cast());
    }
}

/// Makes the plan node of a base or of an upper scan.
#[pg_guard]
pub unsafe extern "C-unwind" fn plan(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    relation: pg_sys::Oid,
    best_path: *mut pg_sys::ForeignPath,
    tlist: *mut pg_sys::List,
    scan_clauses: *mut pg_sys::List,
    outer_plan: *mut pg_sys::Plan,
) -> *mut pg_sys::ForeignScan {
    // SAFETY: valid planner nodes; rel_size ran before.
    unsafe {
        if (*rel).reloptkind == pg_sys::RelOptKind::RELOPT_UPPER_REL {
            return super::upper::plan(best_path, tlist, outer_plan);
        }
        let state = state(rel);
        let locals: PgList<pg_sys::RestrictInfo> = {
            let mut kept = PgList::new();
            for info in PgList::<pg_sys::RestrictInfo>::from_pg(scan_clauses).iter_ptr() {
                if state.local.contains(&info) {
                    kept.push(info);
                }
            }
            kept
        };
        let local = pg_sys::extract_actual_clauses(locals.into_pg(), false);
        let locks = locks_rows(root, (*rel).relid, &state.cold.relation).or_raise();
        let is_target = locks || is_target(root, (*rel).relid);
        let (outputs, with_row_ids) = outputs(rel, relation, local, is_target).or_raise();
        let mut sql = Template::default();
        sql.push(&select_list(&outputs, with_row_ids));
        sql.append(state.source());
        let mut values = state.values.clone();
        let limit = super::upper::limit_clause(root, rel, relation, &mut values);
        if let Some(limit) = limit {
            sql.append(limit);
        }
        let condition = state.condition.map(|condition| {
            values.push(condition.cast());
            values.len() - 1
        });
        let plan = ScanPlan {
            table: state.cold.table.clone(),
            relation: state.cold.relation.clone(),
            sql,
            shortcut: None,
            outputs,
            with_row_ids,
            is_target,
            locks,
            condition,
        };
        pg_sys::make_foreignscan(
            tlist,
            local,
            (*rel).relid,
            value_list(&values),
            private::pack(&plan),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            outer_plan,
        )
    }
}

/// The executor's expressions as a list.
pub unsafe fn value_list(values: &[*mut pg_sys::Expr]) -> *mut pg_sys::List {
    let mut list = PgList::<pg_sys::Expr>::new();
    for value in values {
        list.push(*value);
    }
    list.into_pg()
}

/// Whether the statement writes to this relation.
unsafe fn is_target(root: *mut pg_sys::PlannerInfo, relid: pg_sys::Index) -> bool {
    // SAFETY: valid planner nodes.
    unsafe {
        (*(*root).parse).resultRelation as pg_sys::Index == relid
            || pg_sys::bms_is_member(relid as i32, (*root).all_result_relids)
    }
}

/// Whether the query locks the relation's rows. A cold table has no row locks: the table's write lock stands for them,
/// which can be waited for but not passed over.
unsafe fn locks_rows(root: *mut pg_sys::PlannerInfo, relid: pg_sys::Index, relation: &str) -> Result<bool> {
    // SAFETY: rowMarks is a list of PlanRowMarks.
    unsafe {
        let marks = PgList::<pg_sys::PlanRowMark>::from_pg((*root).rowMarks);
        let Some(mark) = marks.iter_ptr().find(|mark| (**mark).rti == relid) else { return Ok(false) };
        if (*mark).strength == pg_sys::LockClauseStrength::LCS_NONE {
            return Ok(false);
        }
        if (*mark).waitPolicy != pg_sys::LockWaitPolicy::LockWaitBlock {
            return Err(Error::refused(
                coldfront_common::sqlstate::FEATURE_NOT_SUPPORTED,
                format!(
                    "coldfront: NOWAIT and SKIP LOCKED do not work on {relation}, whose rows have no locks of their own"
                ),
                "Use FOR UPDATE without them; it takes the table's write lock. See also lock_timeout.",
            ));
        }
        Ok(true)
    }
}

/// The columns that upper nodes and local clauses need. The plan's own target list may name more (a physical one names
/// all), which nobody reads.
unsafe fn outputs(
    rel: *mut pg_sys::RelOptInfo,
    relation: pg_sys::Oid,
    local: *mut pg_sys::List,
    is_target: bool,
) -> Result<(Vec<Output>, bool)> {
    // SAFETY: valid nodes; the relation is locked by the planner, and closed again without releasing that lock.
    unsafe {
        let mut used: *mut pg_sys::Bitmapset = std::ptr::null_mut();
        pg_sys::pull_varattnos((*(*rel).reltarget).exprs.cast(), (*rel).relid, &raw mut used);
        pg_sys::pull_varattnos(local.cast(), (*rel).relid, &raw mut used);
        let opened = pg_sys::RelationIdGetRelation(relation);
        let descriptor = (*opened).rd_att;
        let offset = pg_sys::FirstLowInvalidHeapAttributeNumber;
        let whole_row = pg_sys::bms_is_member(-offset, used);
        let mut out = Ok(Vec::new());
        for i in 0..(*descriptor).natts {
            let attribute = crate::pg::compat::attribute(descriptor, i);
            if (*attribute).attisdropped || !(whole_row || pg_sys::bms_is_member(i + 1 - offset, used)) {
                continue;
            }
            let name = catalog::text((*attribute).attname.data.as_ptr());
            match column_type((*attribute).atttypid, (*attribute).atttypmod, relation, &name) {
                Ok(ty) => {
                    if let Ok(outputs) = &mut out {
                        outputs.push(Output::Column {
                            attribute: (i + 1) as i16,
                            ty,
                            typmod: (*attribute).atttypmod,
                            name,
                        });
                    }
                }
                Err(error) => out = Err(error),
            }
        }
        pg_sys::RelationClose(opened);
        let ctid = pg_sys::bms_is_member(i32::from(pg_sys::SelfItemPointerAttributeNumber as i16) - offset, used);
        out.map(|outputs| (outputs, is_target || ctid))
    }
}

/// The lake's type for a column, or an error that names it.
pub fn column_type(type_oid: pg_sys::Oid, typmod: i32, relation: pg_sys::Oid, name: &str) -> Result<ColumnType> {
    ColumnType::from_postgres(type_oid.to_u32(), typmod).map_err(|why| {
        Error::refused(
            coldfront_common::sqlstate::FEATURE_NOT_SUPPORTED,
            format!(
                "coldfront: column \"{name}\" of {} has a type the lake cannot hold: {why}",
                catalog::qualified_name(relation)
            ),
            why.hint(),
        )
    })
}

/// `SELECT …` for the outputs of a base scan.
fn select_list(outputs: &[Output], with_row_ids: bool) -> String {
    let mut items: Vec<String> = outputs
        .iter()
        .map(|output| match output {
            Output::Column { ty, name, .. } => ty.to_wire(&quote::ident(name)),
            Output::Average { .. } => unreachable!("averages come from upper scans"),
        })
        .collect();
    if with_row_ids {
        items.extend(["filename".to_owned(), "file_row_number".to_owned()]);
    }
    if items.is_empty() {
        // The engine wants a column; PostgreSQL only counts the rows.
        items.push("TRUE".to_owned());
    }
    format!("SELECT {}", items.join(", "))
}
