//! Brings columns of an older or foreign schema into the table's current one, by field id.
//! Spec, "Column Projection" and "Schema Evolution".

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array};
use arrow_schema::extension::{EXTENSION_TYPE_NAME_KEY, ExtensionType, Uuid};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef, TimeUnit};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{PrimitiveType, Schema, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::{InArrow, InIceberg, LakeError, Result};

/// The Arrow schema of a table's files, with field ids. Iceberg's uuid is marked, as it would otherwise be written as bytes.
pub fn arrow_schema(schema: &Schema) -> Result<SchemaRef> {
    let arrow = schema_to_arrow_schema(schema).in_iceberg("the table's schema")?;
    let fields: Fields = arrow.fields().iter().map(|field| marked(field, schema)).collect();
    Ok(Arc::new(arrow_schema::Schema::new(fields)))
}

fn marked(field: &FieldRef, schema: &Schema) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|child| marked(child, schema)).collect()),
        DataType::List(item) => DataType::List(marked(item, schema)),
        other => other.clone(),
    };
    let mut out = field.as_ref().clone().with_data_type(kind);
    let iceberg = field_id(field).and_then(|id| schema.field_by_id(id));
    if iceberg.is_some_and(|iceberg| *iceberg.field_type == Type::Primitive(PrimitiveType::Uuid)) {
        let mut metadata = out.metadata().clone();
        metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), Uuid::NAME.to_owned());
        out.set_metadata(metadata);
    }
    Arc::new(out)
}

/// Field id of an Arrow field, if it has one.
pub fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// Column of a batch with a field id.
pub fn column(batch: &RecordBatch, id: i32) -> Option<(&ArrayRef, FieldRef)> {
    let schema = batch.schema_ref();
    let at = schema.fields().iter().position(|field| field_id(field) == Some(id))?;
    Some((batch.column(at), Arc::clone(&schema.fields()[at])))
}

/// The columns of `target`, from a batch of file `what`.
pub fn batch(batch: &RecordBatch, target: &SchemaRef, what: &str) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = target
        .fields()
        .iter()
        .map(|field| child(field, batch.schema_ref().fields(), batch.columns(), batch.num_rows(), what))
        .collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(target), columns, &options).in_arrow(what)
}

/// The column for `to` among those of a struct; NULLs where it was added later.
fn child(to: &Field, from: &Fields, columns: &[ArrayRef], rows: usize, what: &str) -> Result<ArrayRef> {
    let id = field_id(to);
    match from.iter().position(|field| id.is_some() && field_id(field) == id) {
        Some(at) => array(&columns[at], &from[at], to, what),
        None if to.is_nullable() => Ok(new_null_array(to.data_type(), rows)),
        None => Err(LakeError::Refused(format!("{what} lacks the required column \"{}\"", to.name()))),
    }
}

pub fn array(from: &ArrayRef, from_field: &Field, to: &Field, what: &str) -> Result<ArrayRef> {
    if from.data_type() == to.data_type() {
        return Ok(Arc::clone(from));
    }
    match (from.data_type(), to.data_type()) {
        (DataType::Struct(from_fields), DataType::Struct(to_fields)) => {
            let from = from.as_struct();
            let columns = to_fields
                .iter()
                .map(|field| child(field, from_fields, from.columns(), from.len(), what))
                .collect::<Result<Vec<_>>>()?;
            let made = StructArray::try_new_with_length(to_fields.clone(), columns, from.nulls().cloned(), from.len());
            Ok(Arc::new(made.in_arrow(what)?))
        }
        (DataType::List(from_item), DataType::List(to_item)) => {
            let from = from.as_list::<i32>();
            let values = array(from.values(), from_item, to_item, what)?;
            let made = ListArray::try_new(Arc::clone(to_item), from.offsets().clone(), values, from.nulls().cloned());
            Ok(Arc::new(made.in_arrow(what)?))
        }
        (DataType::Map(_, _), DataType::Map(to_entries, sorted)) => map(from, to_entries, *sorted, what),
        (a, b) if is_promotion(a, b) => arrow_cast::cast(from, b).in_arrow(what),
        (a, b) => Err(LakeError::Refused(format!(
            "{what} has column \"{}\" as {a}, which is not brought to {b}: compact with the engine that wrote it",
            from_field.name()
        ))),
    }
}

/// Keys and values in their order, as they have no names to go by.
fn map(from: &ArrayRef, to_entries: &FieldRef, sorted: bool, what: &str) -> Result<ArrayRef> {
    let from = from.as_map();
    let (DataType::Struct(to_fields), DataType::Struct(from_fields)) =
        (to_entries.data_type(), from.entries().data_type())
    else {
        return Err(LakeError::Refused(format!("{what} has a map without entries")));
    };
    let columns = (0..2)
        .map(|at| array(from.entries().column(at), &from_fields[at], &to_fields[at], what))
        .collect::<Result<Vec<_>>>()?;
    let entries = StructArray::try_new(to_fields.clone(), columns, None).in_arrow(what)?;
    let made =
        MapArray::try_new(Arc::clone(to_entries), from.offsets().clone(), entries, from.nulls().cloned(), sorted);
    Ok(Arc::new(made.in_arrow(what)?))
}

/// Spec, "Schema Evolution": type promotion; and the same type in another Arrow or Parquet spelling.
fn is_promotion(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (Int32, Int64) | (Float32, Float64) | (Utf8, LargeUtf8) | (Binary, LargeBinary) => true,
        (Decimal128(p, s), Decimal128(q, t)) => p <= q && s == t,
        (Timestamp(unit, _), Timestamp(to_unit, _)) => {
            unit == to_unit || *to_unit == TimeUnit::Microsecond && *unit != TimeUnit::Second
        }
        (Time32(TimeUnit::Millisecond), Time64(TimeUnit::Microsecond)) => true,
        (Int8 | Int16, Int32) => true,
        (FixedSizeBinary(_), Binary | LargeBinary) => false,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::{Int32Array, Int64Array};
    use arrow_schema::Schema;

    use super::*;

    fn field(name: &str, kind: DataType, id: i32) -> Field {
        let metadata = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
        Field::new(name, kind, true).with_metadata(metadata)
    }

    #[test]
    fn columns_are_renamed_widened_added_and_dropped_by_id() {
        let old = Schema::new(vec![field("a", DataType::Int32, 1), field("gone", DataType::Int32, 2)]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int32Array::from(vec![1, 2])), Arc::new(Int32Array::from(vec![3, 4]))];
        let source = RecordBatch::try_new(Arc::new(old), columns).unwrap();
        let new = Arc::new(Schema::new(vec![field("new", DataType::Utf8, 3), field("b", DataType::Int64, 1)]));
        let out = batch(&source, &new, "f").unwrap();
        assert_eq!(out.column(0).null_count(), 2);
        assert_eq!(out.column(1).as_ref(), &Int64Array::from(vec![1, 2]) as &dyn Array);
        let narrow = Arc::new(Schema::new(vec![field("a", DataType::Utf8, 1)]));
        assert!(batch(&source, &narrow, "f").unwrap_err().to_string().contains("\"a\""));
    }
}
