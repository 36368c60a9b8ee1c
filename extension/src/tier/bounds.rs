//! What a WHERE clause says about a tier: conditions without columns that must hold for the tier to have a row.
//!
//! A tier's rows have `key < C` (cold) or `key >= C` (hot). Together with `key >= X`, a cold row needs `X < C`. Such a
//! condition is a constant at planning, or is evaluated when the executor starts; a tier whose condition is not true
//! has no row for the statement. The conditions follow from the clauses, so a clause that is not understood only means
//! that nothing is known.

#![allow(unsafe_code)]

use pgrx::{is_a, pg_sys};

use crate::pg::node;

/// B-tree strategy numbers, as in `access/stratnum.h`.
const LESS: i16 = 1;
const LESS_EQUAL: i16 = 2;
const EQUAL: i16 = 3;
const GREATER_EQUAL: i16 = 4;
const GREATER: i16 = 5;

/// The part of a relation that lies on one side of a cutoff.
pub struct Bound {
    key: *mut pg_sys::Var,
    /// B-tree family of the key's comparison with the cutoff.
    family: pg_sys::Oid,
    cutoff: *mut pg_sys::Const,
    /// `key < C`; otherwise `key >= C`.
    below: bool,
}

impl Bound {
    /// Reads `key < C` or `key >= C`.
    ///
    /// # Safety
    /// `clause` is an expression.
    pub unsafe fn of_clause(clause: *mut pg_sys::Node) -> Option<Self> {
        // SAFETY: tags are checked before the casts.
        unsafe {
            let op: *mut pg_sys::OpExpr = node::cast(clause, pg_sys::NodeTag::T_OpExpr)?;
            let [key, cutoff] = node::members::<pg_sys::Node>((*op).args)[..] else { return None };
            let var: *mut pg_sys::Var = node::cast(key, pg_sys::NodeTag::T_Var)?;
            let cutoff: *mut pg_sys::Const = node::cast(cutoff, pg_sys::NodeTag::T_Const)?;
            if (*cutoff).constisnull || (*var).varlevelsup != 0 || (*op).inputcollid != pg_sys::InvalidOid {
                return None;
            }
            let family =
                (*pg_sys::lookup_type_cache((*var).vartype, pg_sys::TYPECACHE_BTREE_OPFAMILY as i32)).btree_opf;
            let below = match pg_sys::get_op_opfamily_strategy((*op).opno, family) as i16 {
                LESS => true,
                GREATER_EQUAL => false,
                _ => return None,
            };
            Some(Self { key: var, family, cutoff, below })
        }
    }

    pub fn is_cold(&self) -> bool {
        self.below
    }

    pub fn key(&self) -> *mut pg_sys::Var {
        self.key
    }

    /// The same side of the same cutoff.
    pub fn equals(&self, other: &Self) -> bool {
        // SAFETY: nodes of the statement, which are only read.
        unsafe {
            self.below == other.below
                && pg_sys::equal(self.key.cast(), other.key.cast())
                && pg_sys::equal(self.cutoff.cast(), other.cutoff.cast())
        }
    }

    /// `key >= C` of a cold bound.
    pub fn beyond(&self) -> Option<*mut pg_sys::Node> {
        // SAFETY: the operator is looked up for the types of both operands.
        unsafe { self.compare(node::copy(self.key).cast(), GREATER_EQUAL) }
    }

    /// What has to hold, apart from any row, for a row of this part to pass `clause`; `None` when that is unknown.
    ///
    /// # Safety
    /// `clause` is null or an expression.
    pub unsafe fn needs(&self, clause: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
        if clause.is_null() {
            return None;
        }
        // SAFETY: tags are checked before the casts; PostgreSQL's nodes are only read.
        unsafe {
            if let Some(bool_expr) = node::cast::<pg_sys::BoolExpr, _>(clause, pg_sys::NodeTag::T_BoolExpr) {
                let parts = node::members::<pg_sys::Node>((*bool_expr).args).into_iter().map(|part| self.needs(part));
                return match (*bool_expr).boolop {
                    pg_sys::BoolExprType::AND_EXPR => self.all(parts.flatten().collect()),
                    pg_sys::BoolExprType::OR_EXPR => {
                        let parts: Option<Vec<_>> = parts.collect();
                        parts.map(|parts| pg_sys::make_orclause(node::list(parts)).cast())
                    }
                    _ => None,
                };
            }
            if let Some(list) = node::cast::<pg_sys::List, _>(clause, pg_sys::NodeTag::T_List) {
                let parts =
                    node::members::<pg_sys::Node>(list).into_iter().filter_map(|part| self.needs(part)).collect();
                return self.all(parts);
            }
            if let Some(op) = node::cast::<pg_sys::OpExpr, _>(clause, pg_sys::NodeTag::T_OpExpr) {
                return self.needs_comparison(op);
            }
            if let Some(op) = node::cast::<pg_sys::ScalarArrayOpExpr, _>(clause, pg_sys::NodeTag::T_ScalarArrayOpExpr) {
                return self.needs_any(op);
            }
            is_a(clause, pg_sys::NodeTag::T_Const).then_some(clause)
        }
    }

    unsafe fn all(&self, parts: Vec<*mut pg_sys::Node>) -> Option<*mut pg_sys::Node> {
        // SAFETY: the parts are expressions.
        unsafe { (!parts.is_empty()).then(|| pg_sys::make_andclause(node::list(parts)).cast()) }
    }

    unsafe fn needs_comparison(&self, op: *mut pg_sys::OpExpr) -> Option<*mut pg_sys::Node> {
        // SAFETY: an OpExpr of the statement.
        unsafe {
            let [left, right] = node::members::<pg_sys::Node>((*op).args)[..] else { return None };
            let (value, operator) = if self.is_key(left) {
                (right, (*op).opno)
            } else if self.is_key(right) {
                (left, pg_sys::get_commutator((*op).opno))
            } else {
                return None;
            };
            if !is_free_of_rows(value) {
                return None;
            }
            let strategy = pg_sys::get_op_opfamily_strategy(operator, self.family) as i16;
            // What the value has to be, seen from the cutoff.
            let needed = match (self.below, strategy) {
                (true, EQUAL | GREATER_EQUAL | GREATER) => LESS,
                (false, EQUAL | LESS_EQUAL) => GREATER_EQUAL,
                (false, LESS) => GREATER,
                _ => return None,
            };
            self.compare(value, needed)
        }
    }

    /// `value needed C`.
    unsafe fn compare(&self, value: *mut pg_sys::Node, needed: i16) -> Option<*mut pg_sys::Node> {
        // SAFETY: both operands have the types the operator was looked up for.
        unsafe {
            let (kind, cutoff_kind) = (pg_sys::exprType(value), (*self.cutoff).consttype);
            let operator = pg_sys::get_opfamily_member(self.family, kind, cutoff_kind, needed);
            (operator != pg_sys::InvalidOid).then(|| comparison(operator, value, node::copy(self.cutoff).cast()))
        }
    }

    /// `key = ANY (array)`: some element lies on this side.
    unsafe fn needs_any(&self, op: *mut pg_sys::ScalarArrayOpExpr) -> Option<*mut pg_sys::Node> {
        // SAFETY: a ScalarArrayOpExpr of the statement.
        unsafe {
            let [key, array] = node::members::<pg_sys::Node>((*op).args)[..] else { return None };
            let strategy = pg_sys::get_op_opfamily_strategy((*op).opno, self.family) as i16;
            if !(*op).useOr || strategy != EQUAL || !self.is_key(key) || !is_free_of_rows(array) {
                return None;
            }
            let element = pg_sys::get_element_type(pg_sys::exprType(array));
            let seen_from_cutoff = if self.below { GREATER } else { LESS_EQUAL };
            let operator =
                pg_sys::get_opfamily_member(self.family, (*self.cutoff).consttype, element, seen_from_cutoff);
            if operator == pg_sys::InvalidOid {
                return None;
            }
            let out: *mut pg_sys::ScalarArrayOpExpr = node::copy(op);
            (*out).opno = operator;
            (*out).opfuncid = pg_sys::get_opcode(operator);
            (*out).hashfuncid = pg_sys::InvalidOid;
            (*out).negfuncid = pg_sys::InvalidOid;
            (*out).args = node::list([node::copy(self.cutoff).cast(), node::copy(array)]);
            Some(out.cast())
        }
    }

    unsafe fn is_key(&self, expression: *mut pg_sys::Node) -> bool {
        // SAFETY: the tag is checked before the cast.
        unsafe {
            node::cast::<pg_sys::Var, _>(expression, pg_sys::NodeTag::T_Var).is_some_and(|var| {
                (*var).varno == (*self.key).varno && (*var).varattno == (*self.key).varattno && (*var).varlevelsup == 0
            })
        }
    }
}

/// `left op right`, a comparison without collation.
///
/// # Safety
/// The operands have the operator's types.
unsafe fn comparison(operator: pg_sys::Oid, left: *mut pg_sys::Node, right: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the caller's promise.
    unsafe {
        let clause = pg_sys::make_opclause(
            operator,
            pg_sys::BOOLOID,
            false,
            left.cast(),
            right.cast(),
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
        );
        pg_sys::set_opfuncid(clause.cast());
        clause.cast()
    }
}

/// No columns, no sub-selects, and the same value for the whole statement.
unsafe fn is_free_of_rows(expression: *mut pg_sys::Node) -> bool {
    // SAFETY: an expression of the statement.
    unsafe {
        !pg_sys::contain_var_clause(expression)
            && !pg_sys::contain_subplans(expression)
            && !pg_sys::contain_volatile_functions(expression)
    }
}

/// Whether a folded condition is known not to hold.
///
/// # Safety
/// `condition` is an expression.
pub unsafe fn is_not_true(condition: *mut pg_sys::Node) -> bool {
    // SAFETY: the tag is checked before the cast.
    unsafe {
        node::cast::<pg_sys::Const, _>(condition, pg_sys::NodeTag::T_Const)
            .is_some_and(|c| (*c).constisnull || (*c).constvalue.value() == 0)
    }
}
