//! The row that an UPDATE makes, as expressions over the old one.

#![allow(unsafe_code)]

use pgrx::{is_a, pg_guard, pg_sys};

use super::view::Side;
use crate::pg::{compat, node};

/// The new row of an UPDATE of one tier.
pub struct NewRow {
    /// Range table index of the target.
    varno: i32,
    /// For each column of the view: its attribute in the tier and its new value; none for generated columns.
    values: Vec<(i16, Option<*mut pg_sys::Node>)>,
    relation: pg_sys::Oid,
}

impl NewRow {
    /// # Safety
    /// `query` is an UPDATE whose target is the tier.
    pub unsafe fn of(query: *mut pg_sys::Query, side: &Side) -> Self {
        // SAFETY: the relation is open while its descriptor is read.
        unsafe {
            let assigned = node::members::<pg_sys::TargetEntry>((*query).targetList);
            let varno = (*query).resultRelation;
            let relation = pg_sys::RelationIdGetRelation(side.relation);
            let values = side.attributes.iter().map(|attribute| {
                let column = crate::pg::compat::attribute((*relation).rd_att, i32::from(*attribute) - 1);
                if (*column).attgenerated != 0 {
                    return (*attribute, None);
                }
                let new = assigned.iter().find(|target| !(***target).resjunk && (***target).resno == *attribute);
                let value: *mut pg_sys::Node = match new {
                    Some(target) => (**target).expr.cast(),
                    None => pg_sys::makeVar(
                        varno,
                        *attribute,
                        (*column).atttypid,
                        (*column).atttypmod,
                        (*column).attcollation,
                        0,
                    )
                    .cast(),
                };
                (*attribute, Some(value))
            });
            let values = values.collect();
            pg_sys::RelationClose(relation);
            Self { varno, values, relation: side.relation }
        }
    }

    /// Position in the view and new value of every column that is stored as given.
    pub fn columns(&self) -> Vec<(usize, *mut pg_sys::Node)> {
        // SAFETY: copies of expressions.
        self.values
            .iter()
            .enumerate()
            .filter_map(|(at, (_, value))| value.map(|value| (at, unsafe { node::copy(value) })))
            .collect()
    }

    /// Whether several columns get their values from one sub-select.
    pub fn has_multi_assignment(&self) -> bool {
        // SAFETY: the walker only reads.
        self.values
            .iter()
            .filter_map(|(_, value)| *value)
            .any(|value| unsafe { multi_assignment_walker(value, std::ptr::null_mut()) })
    }

    /// Replaces the target's columns in `expression` by their new values; `None` where it names the whole row.
    ///
    /// # Safety
    /// `expression` is one of the UPDATE, and `NewRow` was made for its target.
    pub unsafe fn substitute(&self, expression: *mut pg_sys::Node) -> Option<*mut pg_sys::Node> {
        let mut context = Substitution { row: self, depth: 0, names_whole_row: false };
        // SAFETY: the caller's promise.
        let out = unsafe { substitute(expression, (&raw mut context).cast()) };
        (!context.names_whole_row).then_some(out)
    }

    /// The new value of an attribute.
    unsafe fn value(&self, attribute: i16) -> Option<*mut pg_sys::Node> {
        // SAFETY: the relation is open while its expression is built.
        unsafe {
            let (_, value) = self.values.iter().find(|(known, _)| *known == attribute)?;
            if let Some(value) = value {
                return Some(node::copy(*value));
            }
            let relation = pg_sys::RelationIdGetRelation(self.relation);
            let generated = pg_sys::build_column_default(relation, i32::from(attribute));
            pg_sys::RelationClose(relation);
            pg_sys::ChangeVarNodes(generated, 1, self.varno, 0);
            self.substitute(generated)
        }
    }
}

struct Substitution<'a> {
    row: &'a NewRow,
    depth: u32,
    names_whole_row: bool,
}

#[pg_guard]
unsafe extern "C-unwind" fn substitute(found: *mut pg_sys::Node, context: *mut std::ffi::c_void) -> *mut pg_sys::Node {
    // SAFETY: tags are checked before the casts; the context is the Substitution of this walk.
    unsafe {
        if found.is_null() {
            return found;
        }
        let state = &mut *context.cast::<Substitution>();
        if let Some(var) = node::cast::<pg_sys::Var, _>(found, pg_sys::NodeTag::T_Var)
            && (*var).varno == state.row.varno
            && (*var).varlevelsup == state.depth
            && !compat::is_old(var)
        {
            let Some(value) = state.row.value((*var).varattno) else {
                state.names_whole_row = true;
                return found;
            };
            if state.depth > 0 {
                pg_sys::IncrementVarSublevelsUp(value, state.depth as i32, 0);
            }
            return value;
        }
        if let Some(query) = node::cast::<pg_sys::Query, _>(found, pg_sys::NodeTag::T_Query) {
            state.depth += 1;
            let out = pg_sys::query_tree_mutator_impl(query, Some(substitute), context, 0);
            (*context.cast::<Substitution>()).depth -= 1;
            return out.cast();
        }
        pg_sys::expression_tree_mutator_impl(found, Some(substitute), context)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn multi_assignment_walker(found: *mut pg_sys::Node, context: *mut std::ffi::c_void) -> bool {
    // SAFETY: the tag is checked before the cast.
    unsafe {
        if found.is_null() {
            return false;
        }
        if is_a(found, pg_sys::NodeTag::T_Param) {
            return (*found.cast::<pg_sys::Param>()).paramkind == pg_sys::ParamKind::PARAM_MULTIEXPR;
        }
        pg_sys::expression_tree_walker_impl(found, Some(multi_assignment_walker), context)
    }
}
