//! The order of rows by their key. Keys without NULLs that are 64-bit integers, which most are, are compared as such.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_schema::{DataType, SortOptions, TimeUnit};
use coldfront_lake::InArrow;

use super::files::WHAT;
use crate::error::Result;

/// Where the smallest and the largest value of a column without NULLs are; of an empty one, 0.
pub fn extremes(column: &ArrayRef) -> Result<(u32, u32)> {
    let last = column.len().saturating_sub(1) as u32;
    if is_sorted(column)? {
        return Ok((0, last));
    }
    let compare = comparator(column, column)?;
    let (mut smallest, mut largest) = (0, 0);
    for row in 1..column.len() {
        if compare(row, smallest).is_lt() {
            smallest = row;
        }
        if compare(row, largest).is_gt() {
            largest = row;
        }
    }
    Ok((smallest as u32, largest as u32))
}

/// Whether rows are in the order of a column, within and across batches.
pub fn are_sorted(batches: &[RecordBatch], key: usize) -> Result<bool> {
    for (at, batch) in batches.iter().enumerate() {
        let column = batch.column(key);
        if !is_sorted(column)? {
            return Ok(false);
        }
        if let Some(next) = batches.get(at + 1).filter(|next| next.num_rows() > 0 && batch.num_rows() > 0) {
            let compare = comparator(column, next.column(key))?;
            if compare(batch.num_rows() - 1, 0).is_gt() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_sorted(column: &ArrayRef) -> Result<bool> {
    if let Some(values) = integers(column) {
        return Ok(values.is_sorted());
    }
    let compare = comparator(column, column)?;
    Ok((1..column.len()).all(|row| compare(row - 1, row).is_le()))
}

fn integers(column: &ArrayRef) -> Option<&[i64]> {
    match column.data_type() {
        _ if column.null_count() > 0 => None,
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().values()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Some(column.as_primitive::<TimestampMicrosecondType>().values())
        }
        _ => None,
    }
}

fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<DynComparator> {
    Ok(make_comparator(left, right, SortOptions::default()).in_arrow(WHAT)?)
}
