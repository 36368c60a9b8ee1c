//! Writes batches as data files: each of one partition of the table, with sorted row groups.
//! Only what the next row group needs is in memory, and no more than a few files are open.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatch, UInt32Array};
use arrow_ord::partition::partition;
use arrow_ord::sort::{SortColumn, lexsort_to_indices, sort_to_indices};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use coldfront_lake::commit::NewFile;
use coldfront_lake::data_file::{self, Partition};
use coldfront_lake::data_file_writer::{self, Output, Shape};
use coldfront_lake::{InArrow, InIceberg, adapt, place, writable};
use iceberg::arrow::{PartitionValueCalculator, arrow_struct_to_literal};
use iceberg::spec::{Literal, PartitionSpec, Struct, Transform};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::Export;
use super::order::{are_sorted, extremes};
use super::rows::{self, Read};
use crate::error::{Error, Result};

/// A data file ends when it is at least so large, in bytes.
const FILE_BYTES: u64 = 256 * 1024 * 1024;
/// Rows are sorted and written when there are so many, or so many bytes of them, for one file.
const SORT_ROWS: usize = data_file_writer::ROW_GROUP_ROWS;
const SORT_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that may wait for all files of a worker.
const WAITING_BYTES: usize = 128 * 1024 * 1024;
/// Files that one worker has open; of the one that was used longest ago the rest goes to another file.
const OPEN_MAX: usize = 8;
/// Stretches of rows of one partition in a batch, above which its rows are brought together first.
const STRETCHES_MAX: usize = 64;
/// Rows that are fewer than this part of their batch are copied out of it.
const SMALL_PART: usize = 4;
pub const WHAT: &str = "cannot prepare rows for Parquet";

/// Writes pieces until there is none left. Returns the files; none stays where it fails.
pub async fn write_pieces(export: &Arc<Export>) -> Result<Vec<NewFile>> {
    let mut files = Files::new(export)?;
    match files.write_all().await {
        Ok(()) => Ok(files.done),
        Err(error) => {
            for output in files.open.into_iter().filter_map(|file| file.output) {
                output.abort().await;
            }
            export.remove(&files.done).await;
            Err(error)
        }
    }
}

struct Files<'a> {
    export: &'a Arc<Export>,
    schema: SchemaRef,
    spec: &'a PartitionSpec,
    /// None for a table without partitions.
    partitioning: Option<PartitionValueCalculator>,
    key: usize,
    shape: Shape,
    /// The most recently used is the last.
    open: Vec<OpenFile>,
    done: Vec<NewFile>,
}

struct OpenFile {
    partition: Partition,
    /// None before its first row group, whose rows decide how it is written.
    output: Option<Output>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
}

impl<'a> Files<'a> {
    fn new(export: &'a Arc<Export>) -> Result<Self> {
        let metadata = &export.cold.head.metadata;
        let iceberg = metadata.current_schema();
        let schema = adapt::arrow_schema(iceberg)?;
        let spec = metadata.default_partition_spec();
        let partitioning = match spec.is_unpartitioned() {
            true => None,
            false => Some(PartitionValueCalculator::try_new(spec, iceberg).in_iceberg("the partition spec")?),
        };
        let key = schema.index_of(&export.cold.key_column).in_arrow("the Iceberg table lacks the partition column")?;
        let compression = data_file_writer::compression(metadata).unwrap_or_else(data_file_writer::zstd);
        let delta_numbers = data_file_writer::delta_numbers(metadata).unwrap_or(true);
        let shape = Shape {
            arrow: Arc::clone(&schema),
            parquet: None,
            compression,
            delta_numbers,
            without_dictionary: Vec::new(),
        };
        Ok(Self { export, schema, spec, partitioning, key, shape, open: Vec::new(), done: Vec::new() })
    }

    async fn write_all(&mut self) -> Result<()> {
        let mut pieces = rows::pieces(self.export);
        loop {
            match pieces.next().await? {
                Read::Batch { rows, bytes } => self.write(&rows, bytes).await?,
                Read::EndOfPiece => self.close_all().await?,
                Read::End => return Ok(()),
            }
            if self.export.stop.load(Relaxed) {
                return Err(Error::Stopped);
            }
        }
    }

    async fn write(&mut self, batch: &RecordBatch, bytes: usize) -> Result<()> {
        let batch = self.adapted(batch)?;
        for (values, rows) in self.by_partition(&batch)? {
            let share = bytes * rows.num_rows() / batch.num_rows().max(1);
            let file = self.file(values).await?;
            file.waiting_rows += rows.num_rows();
            file.waiting_bytes += share;
            file.waiting.push(rows);
            let is_full = file.waiting_rows >= SORT_ROWS || file.waiting_bytes >= SORT_BYTES;
            let is_enough = self.open.iter().map(|file| file.waiting_bytes).sum::<usize>() >= WAITING_BYTES;
            let fullest = (0..self.open.len()).max_by_key(|at| self.open[*at].waiting_bytes);
            if let Some(at) = fullest.filter(|_| is_full || is_enough) {
                let at = if is_full { self.open.len() - 1 } else { at };
                self.flush(at).await?;
                if self.open[at].output.as_ref().is_some_and(|output| output.bytes() >= FILE_BYTES) {
                    self.close(at).await?;
                }
            }
        }
        Ok(())
    }

    /// Gives the server's columns the table's types and field ids, and its order.
    fn adapted(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let Ok(target) = self.schema.field_with_name(field.name()) else {
                return Err(Error::Protocol(format!("the Iceberg table has no column \"{}\"", field.name())));
            };
            let column = match (column.data_type(), target.data_type()) {
                (DataType::Utf8, DataType::FixedSizeBinary(16)) => uuids(column)?,
                _ => Arc::clone(column),
            };
            let id = adapt::field_id(target).map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
            let named = Field::new(field.name(), column.data_type().clone(), true);
            fields.push(named.with_metadata(id.into_iter().collect()));
            columns.push(column);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).in_arrow(WHAT)?;
        Ok(adapt::batch(&batch, &self.schema, "a heap partition")?)
    }

    /// Splits a batch by partitions of the table.
    fn by_partition(&self, batch: &RecordBatch) -> Result<Vec<(Struct, RecordBatch)>> {
        let Some(partitioning) = &self.partitioning else {
            return Ok(vec![(Struct::from_iter(std::iter::empty::<Option<Literal>>()), batch.clone())]);
        };
        let what = "cannot compute partitions";
        let mut batch = batch.clone();
        if let Some(tuple) = self.only_partition(partitioning, &batch)? {
            return Ok(vec![(tuple, batch)]);
        }
        let mut values = partitioning.calculate(&batch).in_iceberg(what)?;
        let mut stretches = partition(values.as_struct().columns()).in_arrow(what)?.ranges();
        if stretches.len() > STRETCHES_MAX {
            let columns = values.as_struct().columns().iter();
            let columns: Vec<_> = columns.map(|c| SortColumn { values: Arc::clone(c), options: None }).collect();
            let order = lexsort_to_indices(&columns, None).in_arrow(what)?;
            batch = take_record_batch(&batch, &order).in_arrow(what)?;
            values = partitioning.calculate(&batch).in_iceberg(what)?;
            stretches = partition(values.as_struct().columns()).in_arrow(what)?.ranges();
        }
        let mut out = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            let tuple = tuple(partitioning, &values.slice(stretch.start, 1))?;
            let rows = batch.slice(stretch.start, stretch.len());
            // A few rows that wait must not keep the whole batch in memory.
            let is_small = rows.num_rows() * SMALL_PART < batch.num_rows();
            out.push((tuple, if is_small { copied(&rows)? } else { rows }));
        }
        Ok(out)
    }

    /// The partition of a whole batch, where that is seen from its smallest and its largest key: for a table that is
    /// partitioned by nothing but a part of its time.
    fn only_partition(&self, partitioning: &PartitionValueCalculator, batch: &RecordBatch) -> Result<Option<Struct>> {
        let [field] = self.spec.fields() else { return Ok(None) };
        let is_key = adapt::field_id(self.schema.field(self.key)) == Some(field.source_id);
        let keeps_order =
            matches!(field.transform, Transform::Year | Transform::Month | Transform::Day | Transform::Hour);
        let key = batch.column(self.key);
        if !is_key || !keeps_order || key.is_empty() || key.null_count() > 0 {
            return Ok(None);
        }
        let (smallest, largest) = extremes(key)?;
        let ends = take_record_batch(batch, &UInt32Array::from(vec![smallest, largest])).in_arrow(WHAT)?;
        let ends = partitioning.calculate(&ends).in_iceberg("cannot compute partitions")?;
        let (first, last) = (tuple(partitioning, &ends.slice(0, 1))?, tuple(partitioning, &ends.slice(1, 1))?);
        Ok((first == last).then_some(first))
    }

    /// The open file of a partition, put last.
    async fn file(&mut self, values: Struct) -> Result<&mut OpenFile> {
        let open = self.open.iter().position(|file| file.partition.values == values);
        match open {
            Some(at) => {
                let file = self.open.remove(at);
                self.open.push(file);
            }
            None => {
                if self.open.len() >= OPEN_MAX {
                    self.close(0).await?;
                }
                let partition = Partition { spec_id: self.spec.spec_id(), values };
                let waiting = Vec::new();
                self.open.push(OpenFile { partition, output: None, waiting, waiting_rows: 0, waiting_bytes: 0 });
            }
        }
        self.open.last_mut().ok_or_else(|| Error::Protocol("no file is open".to_owned()))
    }

    async fn close_all(&mut self) -> Result<()> {
        while !self.open.is_empty() {
            self.close(0).await?;
        }
        Ok(())
    }

    async fn close(&mut self, at: usize) -> Result<()> {
        self.flush(at).await?;
        let file = self.open.remove(at);
        let Some(output) = file.output else { return Ok(()) };
        let written = output.finish().await?;
        match data_file::describe(&written, &file.partition, &self.export.cold.head.metadata, None) {
            Ok(file_entry) => self.done.push(NewFile { file: file_entry, spec_id: file.partition.spec_id }),
            Err(error) => {
                let _ = self.export.cold.reader.stores().remove(&[written.url]).await;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Writes what waits for a file, in the order of the key.
    async fn flush(&mut self, at: usize) -> Result<()> {
        let batches = self.open[at].take_waiting(self.key)?;
        if batches.is_empty() {
            return Ok(());
        }
        let output = match &mut self.open[at].output {
            Some(output) => output,
            none => {
                let name = format!("{}.parquet", uuid::Uuid::new_v4());
                let url = place::join(&writable::data_dir(&self.export.cold.head.metadata), &name);
                let shape = self.shape.clone().for_rows(&batches)?;
                none.insert(Output::create(self.export.cold.reader.stores(), url, shape)?)
            }
        };
        for batch in &batches {
            output.write(batch).await?;
        }
        Ok(())
    }
}

impl OpenFile {
    /// Takes what waits, in the order of the key.
    fn take_waiting(&mut self, key: usize) -> Result<Vec<RecordBatch>> {
        let batches = std::mem::take(&mut self.waiting);
        (self.waiting_rows, self.waiting_bytes) = (0, 0);
        let Some(first) = batches.first() else { return Ok(batches) };
        if are_sorted(&batches, key)? {
            return Ok(batches);
        }
        let all = concat_batches(first.schema_ref(), &batches).in_arrow(WHAT)?;
        drop(batches);
        let order = sort_to_indices(all.column(key), None, None).in_arrow(WHAT)?;
        Ok(vec![take_record_batch(&all, &order).in_arrow(WHAT)?])
    }
}

fn copied(rows: &RecordBatch) -> Result<RecordBatch> {
    let all = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    Ok(take_record_batch(rows, &all).in_arrow(WHAT)?)
}

/// A partition tuple of one row.
fn tuple(partitioning: &PartitionValueCalculator, row: &ArrayRef) -> Result<Struct> {
    let literals =
        arrow_struct_to_literal(row, partitioning.partition_type()).in_iceberg("cannot compute partitions")?;
    match literals.into_iter().next() {
        Some(Some(Literal::Struct(tuple))) => Ok(tuple),
        _ => Err(Error::Protocol("a partition has no values".to_owned())),
    }
}

fn uuids(column: &ArrayRef) -> Result<ArrayRef> {
    let parsed = column.as_string::<i32>().iter().map(|text| text.map(uuid::Uuid::parse_str).transpose());
    let parsed = parsed
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| Error::Protocol(format!("the server sent a uuid that is none: {error}")))?;
    let bytes = parsed.into_iter().map(|id| id.map(uuid::Uuid::into_bytes));
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 16).in_arrow(WHAT)?))
}
