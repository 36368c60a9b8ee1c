//! Work on the parts of a query tree: its target, its conditions, its references to a WITH clause.

#![allow(unsafe_code)]

use pgrx::pg_sys;

use super::view::Side;
use crate::pg::{catalog, node};

/// Bitmaps of columns begin at this attribute.
const FIRST: i32 = pg_sys::FirstLowInvalidHeapAttributeNumber;

/// A range table entry; indexes count from one.
///
/// # Safety
/// `query` is a Query and `index` is in its range table.
pub unsafe fn entry(query: *mut pg_sys::Query, index: i32) -> *mut pg_sys::RangeTblEntry {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::list_nth((*query).rtable, index - 1).cast() }
}

/// Makes `side` the target instead of a relation whose attributes `from` stand for the same columns. The target's old
/// permission entry stays in the list, for whoever still refers to it; the new one asks for nothing.
///
/// # Safety
/// `query` changes data.
pub unsafe fn retarget(query: *mut pg_sys::Query, from: &[i16], side: &Side) {
    // SAFETY: valid nodes; the map has an entry for each attribute of the old target.
    unsafe {
        let varno = (*query).resultRelation;
        let size = from.iter().copied().max().unwrap_or(0);
        let map = pg_sys::make_attrmap(i32::from(size));
        for (old, new) in from.iter().zip(&side.attributes) {
            *(*map).attnums.add(*old as usize - 1) = *new;
        }
        let target = entry(query, varno);
        let permissions = *pg_sys::getRTEPermissionInfo((*query).rteperminfos, target);
        let mut whole_row = false;
        let row_type = pg_sys::get_rel_type_id(side.relation);
        // The target list's own numbers are attributes too.
        let mapped: *mut pg_sys::Query =
            pg_sys::map_variable_attnos(query.cast(), varno, 0, map, row_type, &raw mut whole_row).cast();
        *query = *mapped;
        let number = |old: i16| *(*map).attnums.add(old as usize - 1);
        if (*query).commandType != pg_sys::CmdType::CMD_DELETE {
            for assigned in node::members::<pg_sys::TargetEntry>((*query).targetList) {
                if !(*assigned).resjunk {
                    (*assigned).resno = number((*assigned).resno);
                }
            }
        }
        let columns = |old: *mut pg_sys::Bitmapset| {
            let mut out = std::ptr::null_mut();
            let mut member = pg_sys::bms_next_member(old, -1);
            while member >= 0 {
                let attribute = (member + FIRST) as i16;
                let new = if attribute > 0 { number(attribute) } else { attribute };
                out = pg_sys::bms_add_member(out, i32::from(new) - FIRST);
                member = pg_sys::bms_next_member(old, member);
            }
            out
        };
        let target = entry(query, varno);
        (*target).relid = side.relation;
        (*target).relkind = catalog::relation_kind(side.relation) as std::ffi::c_char;
        (*target).inh = (*target).relkind as u8 == b'p';
        (*target).perminfoindex = 0;
        (*(*target).eref).colnames = attribute_names(side.relation);
        let info = pg_sys::addRTEPermissionInfo(&raw mut (*query).rteperminfos, target);
        (*info).checkAsUser = catalog::owner(side.relation);
        (*info).insertedCols = columns(permissions.insertedCols);
        (*info).updatedCols = columns(permissions.updatedCols);
    }
}

/// Names of all attributes, empty for dropped ones, as a range table entry lists them.
unsafe fn attribute_names(relation: pg_sys::Oid) -> *mut pg_sys::List {
    // SAFETY: the relation is open while its descriptor is read.
    unsafe {
        let opened = pg_sys::RelationIdGetRelation(relation);
        let descriptor = (*opened).rd_att;
        let names = (0..(*descriptor).natts).map(|i| {
            let attribute = crate::pg::compat::attribute(descriptor, i);
            let name = if (*attribute).attisdropped {
                String::new()
            } else {
                catalog::text((*attribute).attname.data.as_ptr())
            };
            pg_sys::makeString(node::c_string(&name))
        });
        let list = node::list(names);
        pg_sys::RelationClose(opened);
        list
    }
}

/// Adds a condition to the WHERE clause.
///
/// # Safety
/// `query` has a jointree.
pub unsafe fn restrict(query: *mut pg_sys::Query, condition: *mut pg_sys::Node) {
    // SAFETY: the caller's promise.
    unsafe {
        (*(*query).jointree).quals = pg_sys::make_and_qual((*(*query).jointree).quals, condition);
    }
}

/// The side's condition about `key`, any expression of the key's type.
pub fn condition_on(side: &Side, key: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the condition has two operands.
    unsafe {
        let out: *mut pg_sys::OpExpr = node::copy(side.condition);
        let cutoff = node::members::<pg_sys::Node>((*out).args)[1];
        (*out).args = node::list([key, cutoff]);
        out.cast()
    }
}

/// The side's condition about the key column of range table entry `varno`.
pub fn condition_on_column(side: &Side, varno: i32) -> *mut pg_sys::Node {
    // SAFETY: the condition's first operand is a column.
    unsafe {
        let key: *mut pg_sys::Var = node::copy(node::members::<pg_sys::Var>((*side.condition).args)[0]);
        (*key).varno = varno;
        (*key).varattno = side.key;
        (*key).varnosyn = varno as pg_sys::Index;
        (*key).varattnosyn = side.key;
        condition_on(side, key.cast())
    }
}

/// `condition IS NOT TRUE`
pub fn is_not_true(condition: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: a fresh node.
    unsafe {
        let test: *mut pg_sys::BooleanTest = node::make(pg_sys::NodeTag::T_BooleanTest);
        (*test).arg = condition.cast();
        (*test).booltesttype = pg_sys::BoolTestType::IS_NOT_TRUE;
        (*test).location = -1;
        test.cast()
    }
}

struct Lift {
    depth: pg_sys::Index,
}

/// The WITH clause of `query` moves one level up: its references follow.
///
/// # Safety
/// `query` is a Query.
pub unsafe fn lift_cte_references(query: *mut pg_sys::Query) {
    let mut lift = Lift { depth: 0 };
    // SAFETY: the walker changes range table entries in place, which walking allows.
    unsafe {
        pg_sys::query_tree_walker_impl(
            query,
            Some(lift_walker),
            (&raw mut lift).cast(),
            pg_sys::QTW_EXAMINE_RTES_BEFORE as i32,
        );
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn lift_walker(found: *mut pg_sys::Node, context: *mut std::ffi::c_void) -> bool {
    // SAFETY: tags are checked before the casts; the context is the Lift of this walk.
    unsafe {
        if found.is_null() {
            return false;
        }
        let lift = context.cast::<Lift>();
        if let Some(entry) = node::cast::<pg_sys::RangeTblEntry, _>(found, pg_sys::NodeTag::T_RangeTblEntry) {
            if (*entry).rtekind == pg_sys::RTEKind::RTE_CTE && (*entry).ctelevelsup == (*lift).depth {
                (*entry).ctelevelsup += 1;
            }
            return false;
        }
        if let Some(query) = node::cast::<pg_sys::Query, _>(found, pg_sys::NodeTag::T_Query) {
            (*lift).depth += 1;
            pg_sys::query_tree_walker_impl(query, Some(lift_walker), context, pg_sys::QTW_EXAMINE_RTES_BEFORE as i32);
            (*lift).depth -= 1;
            return false;
        }
        pg_sys::expression_tree_walker_impl(found, Some(lift_walker), context)
    }
}
