//! What the bounds of a hot table's partitions say about its rows.

#![allow(unsafe_code)]

use pgrx::pg_sys;

use super::view::Side;

/// Columns of `pg_partitioned_table`, as in its catalogue header.
const COLUMN_COUNT: i16 = 3;
const KEY_COLUMNS: i16 = 5;

/// Whether no partition takes a row with `key < C`: then the view's condition on hot rows holds anyway, and need not be
/// evaluated for each. A new cutoff waits for the statement's lock on the view; attaching and detaching invalidate the plan.
pub fn are_all_hot(hot: &Side) -> bool {
    // SAFETY: the planner holds a lock on the table; the descriptor is read before the relation is closed.
    unsafe {
        let Some(cutoff) = hot.cutoff() else { return false };
        if !is_partitioned_by(hot.relation, hot.key)
            || (*cutoff).consttype != pg_sys::get_atttype(hot.relation, hot.key)
        {
            return false;
        }
        let relation = pg_sys::RelationIdGetRelation(hot.relation);
        if relation.is_null() {
            return false;
        }
        let bounds = (*pg_sys::RelationGetPartitionDesc(relation, false)).boundinfo;
        let are_hot = bounds.is_null() || start_at_or_above(&*bounds, &*cutoff);
        pg_sys::RelationClose(relation);
        are_hot
    }
}

/// The lowest bound of range partitions is at or above a value, and there is no default partition.
unsafe fn start_at_or_above(bounds: &pg_sys::PartitionBoundInfoData, cutoff: &pg_sys::Const) -> bool {
    // SAFETY: a range bound has one datum and one kind for each column; there is one column, of the value's type.
    unsafe {
        if bounds.strategy != pg_sys::PartitionStrategy::PARTITION_STRATEGY_RANGE || bounds.default_index >= 0 {
            return false;
        }
        if bounds.ndatums == 0 {
            return true;
        }
        let compare = (*pg_sys::lookup_type_cache(cutoff.consttype, pg_sys::TYPECACHE_CMP_PROC as i32)).cmp_proc;
        **bounds.kind == pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_VALUE
            && compare != pg_sys::InvalidOid
            && pg_sys::OidFunctionCall2Coll(compare, pg_sys::InvalidOid, **bounds.datums, cutoff.constvalue).value()
                as i32
                >= 0
    }
}

/// Whether this column is the whole partition key.
unsafe fn is_partitioned_by(relation: pg_sys::Oid, attribute: i16) -> bool {
    // SAFETY: a syscache entry is held while its columns are read; the key columns are an int2vector.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PARTRELID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(relation));
        if tuple.is_null() {
            return false;
        }
        let mut is_null = false;
        let count = pg_sys::SysCacheGetAttr(cache, tuple, COLUMN_COUNT, &raw mut is_null).value() as i16;
        let columns = pg_sys::SysCacheGetAttr(cache, tuple, KEY_COLUMNS, &raw mut is_null);
        let is_key = !is_null && count == 1 && {
            let columns = columns.cast_mut_ptr::<pg_sys::int2vector>();
            *(*columns).values.as_ptr() == attribute
        };
        pg_sys::ReleaseSysCache(tuple);
        is_key
    }
}
