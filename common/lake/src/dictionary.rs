//! Which columns a dictionary is lost on: keys, times, measurements, notes. A writer that finds out by itself has hashed a
//! dictionary's worth of values in vain, in each row group.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parquet::basic::Type;
use parquet::schema::types::ColumnDescriptor;

/// Rows that are looked at: twice as many as the largest dictionary of numbers has entries.
const SAMPLE_ROWS: usize = 131_072;

/// Whether the values of a column in the first of these rows fill a dictionary of `limit` bytes, at which it is given up.
/// Never for nested columns, and for those of booleans.
pub fn overflows(rows: &[RecordBatch], at: usize, column: &ColumnDescriptor, limit: usize) -> bool {
    let width = match column.physical_type() {
        Type::BOOLEAN => return false,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).unwrap_or(0),
        // A length stands before each value.
        Type::BYTE_ARRAY => 4,
    };
    let (mut left, mut entries) = (SAMPLE_ROWS, Entries { seen: HashSet::new(), bytes: 0, width, limit });
    for batch in rows {
        let column = batch.column(at);
        let column = column.slice(0, left.min(column.len()));
        left -= column.len();
        if entries.add(&column) {
            return true;
        }
        if left == 0 {
            break;
        }
    }
    false
}

struct Entries {
    seen: HashSet<Vec<u8>>,
    bytes: usize,
    /// Bytes that each entry takes besides those of a value of variable length.
    width: usize,
    limit: usize,
}

impl Entries {
    /// True once there are too many.
    fn add(&mut self, column: &ArrayRef) -> bool {
        match column.data_type() {
            DataType::Utf8 => column.as_string::<i32>().iter().flatten().any(|v| self.insert(v.as_bytes(), v.len())),
            DataType::Binary => column.as_binary::<i32>().iter().flatten().any(|v| self.insert(v, v.len())),
            ty => match ty.primitive_width() {
                Some(width) => {
                    let data = column.to_data();
                    let Some(values) = data.buffers().first() else { return false };
                    let values = values.as_slice().chunks_exact(width).skip(data.offset()).take(data.len());
                    values.enumerate().any(|(row, value)| column.is_valid(row) && self.insert(value, 0))
                }
                None => false,
            },
        }
    }

    fn insert(&mut self, value: &[u8], length: usize) -> bool {
        if !self.seen.contains(value) {
            self.seen.insert(value.to_vec());
            self.bytes += self.width + length;
        }
        self.bytes >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::{Field, Schema};
    use parquet::arrow::ArrowSchemaConverter;

    use super::*;

    const LIMIT: usize = 8 * 1024;

    fn overflow(column: ArrayRef) -> bool {
        let schema = Schema::new(vec![Field::new("c", column.data_type().clone(), true)]);
        let parquet = ArrowSchemaConverter::new().convert(&schema).unwrap();
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        // In two batches, the second of which does not begin at its buffer's beginning.
        let half = batch.num_rows() / 2;
        let rows = [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)];
        overflows(&rows, 0, &parquet.column(0), LIMIT)
    }

    #[test]
    fn a_dictionary_is_given_up_when_it_is_full() {
        let numbers = |different: i64| Arc::new(Int64Array::from_iter((0..10_000).map(|i| Some(i % different))));
        assert!(!overflow(numbers(1023)));
        assert!(overflow(numbers(1024)));
        let texts = |different: i32| {
            let texts = (0..10_000).map(|i| Some(format!("{:028}", i % different)));
            Arc::new(StringArray::from_iter(texts))
        };
        assert!(!overflow(texts(255)));
        assert!(overflow(texts(256)));
    }

    #[test]
    fn nulls_are_no_entries() {
        assert!(!overflow(Arc::new(Int64Array::from_iter((0..10_000).map(|i| (i < 1023).then_some(i))))));
        assert!(!overflow(Arc::new(StringArray::from(vec![None::<&str>; 10_000]))));
    }
}
