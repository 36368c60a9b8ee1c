//! Equality deletes in memory, and the rows that they delete. Spec, "Equality Delete Files".

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow_row::{OwnedRow, RowConverter, SortField};
use arrow_schema::{DataType, Field};
use coldfront_lake::read::Reader;
use coldfront_lake::{InArrow, InParquet, LakeError, adapt};
use futures::TryStreamExt;
use iceberg::arrow::type_to_arrow_type;
use iceberg::spec::{TableMetadata, Type};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;

use super::source::Opened;
use super::view::File;
use crate::error::{Error, Result};

/// Delete files with the same columns, as a set of keys.
struct Keys {
    columns: Vec<(i32, DataType)>,
    converter: RowConverter,
    /// Sequence number of the latest delete of each key: rows of older files are deleted.
    latest: HashMap<OwnedRow, i64>,
}

/// The equality deletes of a bin.
#[derive(Default)]
pub struct Equality {
    keys: Vec<Keys>,
}

impl Equality {
    pub async fn read(reader: &Reader, metadata: &TableMetadata, files: &[Arc<File>]) -> Result<Self> {
        let mut by_columns: HashMap<Vec<i32>, Vec<&Arc<File>>> = HashMap::new();
        for file in files {
            let mut ids = file.equality_ids.clone();
            ids.sort_unstable();
            by_columns.entry(ids).or_default().push(file);
        }
        let mut out = Self::default();
        for (ids, files) in by_columns {
            let mut keys = Keys::new(metadata, &ids)?;
            for file in files {
                keys.read(reader, file).await?;
            }
            out.keys.push(keys);
        }
        Ok(out)
    }

    /// Rows that stay, of a batch of a file with the data sequence number; none if all do.
    pub fn keep(&self, batch: &RecordBatch, sequence: i64, what: &str) -> Result<Option<BooleanArray>> {
        let mut keep: Option<Vec<bool>> = None;
        for keys in &self.keys {
            let rows = keys.rows(batch, what)?;
            let keep = keep.get_or_insert_with(|| vec![true; batch.num_rows()]);
            for (row, keep) in rows.iter().zip(keep) {
                *keep &= keys.latest.get(&row.owned()).is_none_or(|deleted| *deleted <= sequence);
            }
        }
        Ok(keep.map(BooleanArray::from))
    }
}

impl Keys {
    fn new(metadata: &TableMetadata, ids: &[i32]) -> Result<Self> {
        let columns = ids.iter().map(|id| Ok((*id, column_type(metadata, *id)?))).collect::<Result<Vec<_>>>()?;
        let fields = columns.iter().map(|(_, kind)| SortField::new(kind.clone())).collect();
        let converter = RowConverter::new(fields).in_arrow("cannot compare the columns of an equality delete")?;
        Ok(Self { columns, converter, latest: HashMap::new() })
    }

    async fn read(&mut self, reader: &Reader, file: &File) -> Result<()> {
        let opened = Opened::open_deletes(reader, file).await?;
        let what = format!("cannot read equality deletes from {}", file.path);
        let mut batches = ParquetRecordBatchStreamBuilder::new_with_metadata(opened.source, opened.reading)
            .build()
            .in_parquet(&what)?;
        while let Some(batch) = batches.try_next().await.in_parquet(&what)? {
            if self.columns.iter().any(|(id, _)| adapt::column(&batch, *id).is_none()) {
                return Err(Error::Refused(format!("{} lacks a column that it deletes by", file.path)));
            }
            for row in self.rows(&batch, &what)?.iter() {
                let latest = self.latest.entry(row.owned()).or_insert(file.sequence);
                *latest = file.sequence.max(*latest);
            }
        }
        Ok(())
    }

    /// A NULL equals a NULL; a column that the file lacks is NULL.
    fn rows(&self, batch: &RecordBatch, what: &str) -> Result<arrow_row::Rows> {
        let columns = self.columns.iter().map(|(id, kind)| match adapt::column(batch, *id) {
            Some((column, field)) => adapt::array(column, &field, &Field::new("key", kind.clone(), true), what),
            None => Ok::<ArrayRef, LakeError>(new_null_array(kind, batch.num_rows())),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Ok(self.converter.convert_columns(&columns).in_arrow(what)?)
    }
}

/// Type of a top-level column, also of one that was dropped since.
fn column_type(metadata: &TableMetadata, id: i32) -> Result<DataType> {
    let schemas = std::iter::once(metadata.current_schema()).chain(metadata.schemas_iter());
    let field = schemas.filter_map(|schema| schema.as_struct().field_by_id(id)).next();
    match field.map(|field| field.field_type.as_ref()) {
        Some(kind @ Type::Primitive(_)) => type_to_arrow_type(kind).map_err(|source| {
            Error::Lake(coldfront_lake::LakeError::Metadata { what: format!("column {id}"), source: Box::new(source) })
        }),
        _ => Err(Error::Refused(format!(
            "an equality delete is by field {id}, which is not a top-level column of a simple type: \
             compact with the engine that wrote it"
        ))),
    }
}
