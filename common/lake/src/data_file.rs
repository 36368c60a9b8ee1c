//! A data file's entry in a manifest, from the footer that was written. Spec, "Manifests", `data_file`.

use std::collections::HashMap;

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, PrimitiveType, Struct, TableMetadata, Type,
};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::data_type::AsBytes;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use crate::data_file_writer::Written;
use crate::error::{LakeError, Result};

/// What is known of a column over all row groups.
#[derive(Default)]
struct Column {
    size: u64,
    values: u64,
    nulls: Option<u64>,
    lower: Bound,
    upper: Bound,
}

/// A bound that may be unknown for good.
#[derive(Default)]
enum Bound {
    #[default]
    None,
    Known(Datum),
    Unknown,
}

/// A partition of one partition spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Partition {
    pub spec_id: i32,
    pub values: Struct,
}

/// The entry of a file that was written into `partition`.
pub fn describe(
    written: &Written,
    partition: &Partition,
    metadata: &TableMetadata,
    sort_order: Option<i32>,
) -> Result<DataFile> {
    let columns = columns(&written.metadata, metadata);
    let of = |get: &dyn Fn(&Column) -> Option<u64>| -> HashMap<i32, u64> {
        columns.iter().filter_map(|(id, column)| Some((*id, get(column)?))).collect()
    };
    let bounds = |get: &dyn Fn(&Column) -> &Bound| -> HashMap<i32, Datum> {
        (columns.iter())
            .filter_map(|(id, column)| match get(column) {
                Bound::Known(datum) => Some((*id, datum.clone())),
                _ => None,
            })
            .collect()
    };
    let groups = written.metadata.row_groups();
    let offsets = groups.iter().filter_map(|group| group.columns().first()).map(|c| c.byte_range().0 as i64).collect();
    let mut builder = DataFileBuilder::default();
    builder
        .content(DataContentType::Data)
        .file_path(written.url.clone())
        .file_format(DataFileFormat::Parquet)
        .partition(partition.values.clone())
        .partition_spec_id(partition.spec_id)
        .record_count(groups.iter().map(|group| group.num_rows() as u64).sum::<u64>())
        .file_size_in_bytes(written.bytes)
        .column_sizes(of(&|column| Some(column.size)))
        .value_counts(of(&|column| Some(column.values)))
        .null_value_counts(of(&|column| column.nulls))
        .lower_bounds(bounds(&|column| &column.lower))
        .upper_bounds(bounds(&|column| &column.upper))
        .split_offsets(Some(offsets));
    if let Some(id) = sort_order {
        builder.sort_order_id(id);
    }
    builder.build().map_err(|error| LakeError::Refused(format!("cannot describe {}: {error}", written.url)))
}

fn columns(footer: &ParquetMetaData, metadata: &TableMetadata) -> HashMap<i32, Column> {
    let mut out: HashMap<i32, Column> = HashMap::new();
    for group in footer.row_groups() {
        for chunk in group.columns() {
            let descriptor = chunk.column_descr();
            let info = descriptor.self_type().get_basic_info();
            if !info.has_id() {
                continue;
            }
            let known = out.entry(info.id()).or_insert_with(|| Column { nulls: Some(0), ..Column::default() });
            known.size += chunk.compressed_size().unsigned_abs();
            known.values += chunk.num_values().unsigned_abs();
            let nulls = chunk.statistics().and_then(Statistics::null_count_opt);
            known.nulls = known.nulls.zip(nulls).map(|(a, b)| a + b);
            // Repeated values have no bounds, as in the reference implementation.
            let kind = match descriptor.max_rep_level() {
                0 => primitive(metadata, info.id()),
                _ => None,
            };
            let (lower, upper) = match kind {
                Some(kind) => bounds_of(chunk, descriptor, &kind),
                None => (Bound::Unknown, Bound::Unknown),
            };
            known.lower.meet(lower, |new, old| new < old);
            known.upper.meet(upper, |new, old| new > old);
        }
    }
    out
}

impl Bound {
    fn meet(&mut self, other: Self, replaces: impl Fn(&Datum, &Datum) -> bool) {
        let take = match (&*self, &other) {
            (_, Self::None) | (Self::Unknown, _) => false,
            (Self::None, _) | (_, Self::Unknown) => true,
            (Self::Known(old), Self::Known(new)) => replaces(new, old),
        };
        if take {
            *self = other;
        }
    }
}

/// Type of a column in the current schema, or in the latest that had it.
fn primitive(metadata: &TableMetadata, id: i32) -> Option<PrimitiveType> {
    let schemas = std::iter::once(metadata.current_schema()).chain(metadata.schemas_iter());
    match schemas.filter_map(|schema| schema.field_by_id(id)).next()?.field_type.as_ref() {
        Type::Primitive(kind) => Some(kind.clone()),
        _ => None,
    }
}

fn bounds_of(chunk: &ColumnChunkMetaData, descriptor: &ColumnDescriptor, kind: &PrimitiveType) -> (Bound, Bound) {
    let Some(statistics) = chunk.statistics() else { return (Bound::Unknown, Bound::Unknown) };
    if statistics.null_count_opt() == Some(chunk.num_values().unsigned_abs()) {
        return (Bound::None, Bound::None);
    }
    let is_bytes = matches!(statistics, Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_));
    // Old writers compared bytes as signed.
    if (is_bytes && statistics.is_min_max_deprecated()) || !is_in_micros(descriptor) {
        return (Bound::Unknown, Bound::Unknown);
    }
    let bound = |bytes: Option<&[u8]>| match bytes.and_then(|bytes| datum(statistics, bytes, kind)) {
        Some(datum) if !datum.is_nan() => Bound::Known(datum),
        _ => Bound::Unknown,
    };
    (bound(statistics.min_bytes_opt()), bound(statistics.max_bytes_opt()))
}

/// Times in other units than the table's are left without bounds.
fn is_in_micros(descriptor: &ColumnDescriptor) -> bool {
    match descriptor.logical_type_ref() {
        Some(LogicalType::Time { unit, .. } | LogicalType::Timestamp { unit, .. }) => matches!(unit, TimeUnit::MICROS),
        _ => !matches!(
            descriptor.converted_type(),
            parquet::basic::ConvertedType::TIME_MILLIS | parquet::basic::ConvertedType::TIMESTAMP_MILLIS
        ),
    }
}

/// Spec, "Binary single-value serialization", from Parquet's plain encoding.
fn datum(statistics: &Statistics, bytes: &[u8], kind: &PrimitiveType) -> Option<Datum> {
    use PrimitiveType as P;
    let make = |bytes: &[u8]| Datum::try_from_bytes(bytes, kind.clone()).ok();
    let int = || Some(i32::from_le_bytes(bytes.try_into().ok()?));
    let long = || Some(i64::from_le_bytes(bytes.try_into().ok()?));
    match (statistics, kind) {
        (Statistics::Boolean(_), P::Boolean)
        | (Statistics::Float(_), P::Float)
        | (Statistics::Double(_), P::Double) => make(bytes),
        (Statistics::Float(_), P::Double) => make(f64::from(f32::from_le_bytes(bytes.try_into().ok()?)).as_bytes()),
        (Statistics::Int32(_), P::Int | P::Date) => make(bytes),
        (Statistics::Int32(_), P::Long) => make(&i64::from(int()?).to_le_bytes()),
        (Statistics::Int32(_), P::Decimal { .. }) => make(&int()?.to_be_bytes()),
        (Statistics::Int64(_), P::Long | P::Time | P::Timestamp | P::Timestamptz) => make(bytes),
        (Statistics::Int64(_), P::Decimal { .. }) => make(&long()?.to_be_bytes()),
        (Statistics::ByteArray(_), P::String | P::Binary | P::Decimal { .. }) => make(bytes),
        (Statistics::FixedLenByteArray(_), P::Uuid | P::Fixed(_) | P::Decimal { .. }) => make(bytes),
        _ => None,
    }
}
