//! Aggregates in two steps: what a tier computes, and how the two results make the whole.

#![allow(unsafe_code)]

use pgrx::{pg_guard, pg_sys};

use super::reads::Descent;
use crate::pg::{catalog, node};

/// One GROUP BY expression over the view's columns.
pub struct Group {
    pub clause: *mut pg_sys::SortGroupClause,
    pub expression: *mut pg_sys::Node,
}

/// The aggregates of a query, and the columns that stand for them.
pub struct Aggregates {
    varno: i32,
    groups: Vec<Group>,
    /// Aggregates that each tier computes, in the order of their columns, which follow those of the groups.
    partial: Vec<*mut pg_sys::Aggref>,
    failed: bool,
}

/// How an aggregate is put together again.
enum Kind {
    Count,
    /// A sum of integers that PostgreSQL gives as bigint.
    BigintSum,
    NumericSum,
    /// An average of exact numbers: sum and count, with this aggregate for the sum.
    Average(u32),
    /// The aggregate of the aggregates: minimum, maximum, and, or.
    Same,
}

fn kind(function: pg_sys::Oid) -> Option<Kind> {
    Some(match function.to_u32() {
        pg_sys::F_COUNT_ | pg_sys::F_COUNT_ANY => Kind::Count,
        pg_sys::F_SUM_INT2 | pg_sys::F_SUM_INT4 => Kind::BigintSum,
        pg_sys::F_SUM_INT8 | pg_sys::F_SUM_NUMERIC => Kind::NumericSum,
        pg_sys::F_AVG_INT2 => Kind::Average(pg_sys::F_SUM_INT2),
        pg_sys::F_AVG_INT4 => Kind::Average(pg_sys::F_SUM_INT4),
        pg_sys::F_AVG_INT8 => Kind::Average(pg_sys::F_SUM_INT8),
        pg_sys::F_AVG_NUMERIC => Kind::Average(pg_sys::F_SUM_NUMERIC),
        pg_sys::F_BOOL_AND | pg_sys::F_BOOL_OR | pg_sys::F_EVERY => Kind::Same,
        _ => {
            // SAFETY: syscache look-ups.
            let (name, schema) =
                unsafe { (catalog::text(pg_sys::get_func_name(function)), pg_sys::get_func_namespace(function)) };
            let is_extreme =
                schema == pg_sys::Oid::from(pg_sys::PG_CATALOG_NAMESPACE) && matches!(name.as_str(), "min" | "max");
            return is_extreme.then_some(Kind::Same);
        }
    })
}

impl Aggregates {
    pub fn new(varno: i32, groups: Vec<Group>) -> Self {
        Self { varno, groups, partial: Vec::new(), failed: false }
    }

    pub fn has_any(&self) -> bool {
        !self.partial.is_empty()
    }

    /// An expression above GROUP BY as one over the tiers' results; `None` where that is not possible.
    ///
    /// # Safety
    /// An expression, or a list of them, of the query that reads the view.
    pub unsafe fn lift(&mut self, expression: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
        // SAFETY: the caller's promise.
        let out = unsafe { lift(expression, (&raw mut *self).cast()) };
        (!self.failed).then_some(out)
    }

    /// What a tier computes: its columns and its GROUP BY.
    ///
    /// # Safety
    /// The descent leads to that tier.
    pub unsafe fn below(&self, descent: &mut Descent) -> Option<(*mut pg_sys::List, *mut pg_sys::List)> {
        // SAFETY: copies and fresh nodes.
        unsafe {
            let (mut columns, mut clauses) = (Vec::new(), Vec::new());
            for (i, group) in self.groups.iter().enumerate() {
                let expression = descent.expression(group.expression)?;
                let column =
                    pg_sys::makeTargetEntry(expression.cast(), i as i16 + 1, node::c_string(&format!("g{i}")), false);
                (*column).ressortgroupref = i as pg_sys::Index + 1;
                columns.push(column);
                let clause: *mut pg_sys::SortGroupClause = node::copy(group.clause);
                (*clause).tleSortGroupRef = i as pg_sys::Index + 1;
                clauses.push(clause);
            }
            for (i, aggregate) in self.partial.iter().enumerate() {
                let below: *mut pg_sys::Aggref = node::copy(*aggregate);
                for argument in node::members::<pg_sys::TargetEntry>((*below).args) {
                    (*argument).expr = descent.expression((*argument).expr.cast())?.cast();
                }
                (*below).aggfilter = descent.expression((*below).aggfilter.cast())?.cast();
                let position = columns.len() as i16 + 1;
                columns.push(pg_sys::makeTargetEntry(below.cast(), position, node::c_string(&format!("a{i}")), false));
            }
            Some((node::list(columns), node::list(clauses)))
        }
    }

    /// The column of a tier's result that holds a partial aggregate.
    unsafe fn column_of(&mut self, aggregate: *mut pg_sys::Aggref) -> *mut pg_sys::Node {
        // SAFETY: valid nodes.
        unsafe {
            let known = self.partial.iter().position(|other| pg_sys::equal((*other).cast(), aggregate.cast()));
            let at = known.unwrap_or_else(|| {
                self.partial.push(aggregate);
                self.partial.len() - 1
            });
            self.column(self.groups.len() + at, (*aggregate).aggtype, (*aggregate).aggcollid)
        }
    }

    unsafe fn column(&self, at: usize, kind: pg_sys::Oid, collation: pg_sys::Oid) -> *mut pg_sys::Node {
        // SAFETY: a fresh node.
        unsafe { pg_sys::makeVar(self.varno, at as i16 + 1, kind, -1, collation, 0).cast() }
    }

    /// The whole aggregate over the tiers' results.
    unsafe fn combine(&mut self, aggregate: *mut pg_sys::Aggref) -> Option<*mut pg_sys::Node> {
        // SAFETY: fresh nodes.
        unsafe {
            let is_simple = (*aggregate).aggorder.is_null()
                && (*aggregate).aggdistinct.is_null()
                && (*aggregate).aggdirectargs.is_null()
                && (*aggregate).agglevelsup == 0
                && (*aggregate).aggkind as u8 == b'n'
                && !pg_sys::contain_volatile_functions((*aggregate).args.cast())
                && !pg_sys::contain_volatile_functions((*aggregate).aggfilter.cast());
            if !is_simple {
                return None;
            }
            Some(match kind((*aggregate).aggfnoid)? {
                Kind::Same => {
                    let column = self.column_of(aggregate);
                    call_aggregate((*aggregate).aggfnoid.to_u32(), (*aggregate).aggtype, column, aggregate)
                }
                Kind::NumericSum => {
                    let column = self.column_of(aggregate);
                    call_aggregate(pg_sys::F_SUM_NUMERIC, pg_sys::NUMERICOID, column, aggregate)
                }
                Kind::Count | Kind::BigintSum => {
                    let column = self.column_of(aggregate);
                    let sum = call_aggregate(pg_sys::F_SUM_INT8, pg_sys::NUMERICOID, column, aggregate);
                    call(pg_sys::F_INT8_NUMERIC, pg_sys::INT8OID, vec![sum])
                }
                Kind::Average(sum_function) => {
                    let total: *mut pg_sys::Aggref = node::copy(aggregate);
                    (*total).aggfnoid = pg_sys::Oid::from(sum_function);
                    let is_bigint = matches!(sum_function, pg_sys::F_SUM_INT2 | pg_sys::F_SUM_INT4);
                    (*total).aggtype = if is_bigint { pg_sys::INT8OID } else { pg_sys::NUMERICOID };
                    let count: *mut pg_sys::Aggref = node::copy(aggregate);
                    (*count).aggfnoid = pg_sys::Oid::from(pg_sys::F_COUNT_ANY);
                    (*count).aggtype = pg_sys::INT8OID;
                    let function = if is_bigint { pg_sys::F_SUM_INT8 } else { pg_sys::F_SUM_NUMERIC };
                    let (total, count) = (self.column_of(total), self.column_of(count));
                    let total = call_aggregate(function, pg_sys::NUMERICOID, total, aggregate);
                    let count = call_aggregate(pg_sys::F_SUM_INT8, pg_sys::NUMERICOID, count, aggregate);
                    // No rows: the sum is NULL, and so is the quotient.
                    call(pg_sys::F_NUMERIC_DIV, pg_sys::NUMERICOID, vec![total, count])
                }
            })
        }
    }
}

unsafe fn call(function: u32, result: pg_sys::Oid, arguments: Vec<*mut pg_sys::Node>) -> *mut pg_sys::Node {
    // SAFETY: built-in functions with arguments of their types.
    unsafe {
        pg_sys::makeFuncExpr(
            pg_sys::Oid::from(function),
            result,
            node::list(arguments),
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        )
        .cast()
    }
}

/// An aggregate of one column, with the collations of another.
unsafe fn call_aggregate(
    function: u32,
    result: pg_sys::Oid,
    argument: *mut pg_sys::Node,
    like: *mut pg_sys::Aggref,
) -> *mut pg_sys::Node {
    // SAFETY: copies and fresh nodes.
    unsafe {
        let out: *mut pg_sys::Aggref = node::copy(like);
        (*out).aggfnoid = pg_sys::Oid::from(function);
        (*out).aggtype = result;
        (*out).aggargtypes = node::oid_list([pg_sys::exprType(argument)]);
        (*out).args = node::list([pg_sys::makeTargetEntry(argument.cast(), 1, std::ptr::null_mut(), false)]);
        (*out).aggfilter = std::ptr::null_mut();
        (*out).aggstar = false;
        out.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn lift(found: *mut pg_sys::Node, context: *mut std::ffi::c_void) -> *mut pg_sys::Node {
    // SAFETY: tags are checked before the casts; the context is the Aggregates of this walk.
    unsafe {
        if found.is_null() {
            return found;
        }
        let state = &mut *context.cast::<Aggregates>();
        let group = state.groups.iter().position(|group| pg_sys::equal(group.expression.cast(), found.cast()));
        if let Some(at) = group {
            return state.column(at, pg_sys::exprType(found), pg_sys::exprCollation(found));
        }
        if let Some(aggregate) = node::cast(found, pg_sys::NodeTag::T_Aggref) {
            return state.combine(aggregate).unwrap_or_else(|| {
                state.failed = true;
                found
            });
        }
        if let Some(var) = node::cast::<pg_sys::Var, _>(found, pg_sys::NodeTag::T_Var)
            && (*var).varlevelsup == 0
        {
            state.failed = true;
            return found;
        }
        pg_sys::expression_tree_mutator_impl(found, Some(lift), context)
    }
}
