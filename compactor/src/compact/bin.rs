//! Rewrites the files of one bin. Nothing of it is part of the table before its commit.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{Schema as ArrowSchema, SchemaRef, SortOptions};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use coldfront_lake::data_file_writer::{self, Output, Shape, Written, zstd};
use coldfront_lake::read::Reader;
use coldfront_lake::{InArrow, LakeError, adapt, data_file, place, writable};
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{DataFile, TableMetadata, Transform};
use parquet::basic::{Compression, ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::SchemaDescriptor;

use super::equality::Equality;
use super::plan::{Bin, Input};
use super::source::Opened;
use super::{positions, rows};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::policy::Policy;

/// Files opened ahead of the one that is read.
const OPENED_AHEAD: usize = 8;
/// A row group is copied as it is when it has this many rows or bytes; smaller ones are merged into proper ones.
const COPY_MIN_ROWS: i64 = 8192;
const COPY_MIN_BYTES: i64 = 1024 * 1024;
/// An output ends when it exceeds the target by this factor, so that a bin makes one file.
const OVERSHOOT: u64 = 2;

/// What became of a bin.
pub struct Rewritten {
    pub files: Vec<DataFile>,
    pub rows: u64,
    pub copied_row_groups: u64,
}

enum Failure {
    /// The files have different schemas.
    Differs,
    Error(Error),
}

impl From<LakeError> for Failure {
    fn from(error: LakeError) -> Self {
        Self::Error(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub struct Rewriter<'a> {
    pub reader: &'a Reader,
    pub metadata: &'a TableMetadata,
    pub policy: &'a Policy,
}

impl Rewriter<'_> {
    pub async fn rewrite(&self, bin: &Bin) -> Result<Rewritten> {
        let deletes = Deletes::read(self.reader, self.metadata, bin).await?;
        // Files with one schema keep it, also if it is an older one of the table. Others are brought to the current one.
        match self.attempt(bin, &deletes, None).await {
            Err(Failure::Differs) => {
                let current = adapt::arrow_schema(self.metadata.current_schema())?;
                match self.attempt(bin, &deletes, Some(current)).await {
                    Ok(rewritten) => Ok(rewritten),
                    Err(Failure::Error(error)) => Err(error),
                    Err(Failure::Differs) => {
                        Err(Error::Refused("the files of a partition have no common schema".into()))
                    }
                }
            }
            Ok(rewritten) => Ok(rewritten),
            Err(Failure::Error(error)) => Err(error),
        }
    }

    async fn attempt(&self, bin: &Bin, deletes: &Deletes, current: Option<SchemaRef>) -> Result<Rewritten, Failure> {
        let mut sink = Sink { rewriter: self, bin, output: None, done: Vec::new(), copied: 0 };
        match self.feed(bin, deletes, current, &mut sink).await {
            Ok(()) => Ok(sink.finish().await?),
            Err(failure) => {
                sink.abort().await;
                Err(failure)
            }
        }
    }

    async fn feed(
        &self,
        bin: &Bin,
        deletes: &Deletes,
        current: Option<SchemaRef>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let files: Vec<_> = bin.inputs.iter().map(|input| Arc::clone(&input.file)).collect();
        let stores = self.reader.stores();
        let mut opened = futures::stream::iter(files)
            .map(move |file| {
                let stores = Arc::clone(stores);
                // A task of its own, so that files arrive while others are written.
                let opens = tokio::spawn(async move { Opened::open(&stores, &file).await });
                async move { opens.await.map_err(Error::Task)? }
            })
            .buffered(OPENED_AHEAD)
            .enumerate();
        let (mut shape, mut to_sort): (Option<Shape>, Vec<RecordBatch>) = (None, Vec::new());
        while let Some((at, opened)) = opened.next().await {
            let (input, opened) = (&bin.inputs[at], opened?);
            self.check(&opened)?;
            if current.is_some() {
                self.check_partition(&opened, bin)?;
            }
            let shape = match &shape {
                Some(shape) => shape,
                None => shape.insert(self.shape(&opened, current.as_ref())?),
            };
            if current.is_none() && !is_same(shape, &opened) {
                return Err(Failure::Differs);
            }
            failpoint::reach(failpoint::REWRITING).await;
            let copies = current.is_none() && input.deletes.is_empty() && self.policy.sort_by.is_empty();
            if copies {
                sink.copy_or_merge(shape, &opened, deletes, input).await?;
                continue;
            }
            let what = opened.source.url.clone();
            let positions = deletes.positions.get(&input.file.path).cloned().unwrap_or_default();
            let mut batches = rows::stream(opened, None, positions, deletes.equality_for(input), input.file.sequence)?;
            while let Some(batch) = batches.try_next().await? {
                let batch = match &current {
                    Some(schema) => adapt::batch(&batch, schema, &what)?,
                    None => batch,
                };
                match self.policy.sort_by.is_empty() {
                    true => sink.write(shape, &batch).await?,
                    false => to_sort.push(batch),
                }
            }
        }
        if let (Some(shape), false) = (&shape, to_sort.is_empty()) {
            let sorted = self.sorted(shape, to_sort)?;
            sink.write(shape, &sorted).await?;
        }
        Ok(())
    }

    /// What would be misread without its field ids or its partition is refused by name.
    fn check(&self, opened: &Opened) -> Result<()> {
        let schema = opened.metadata().file_metadata().schema_descr();
        let fields = schema.root_schema().get_fields();
        if let Some(field) = fields.iter().find(|field| !field.get_basic_info().has_id()) {
            return Err(Error::Refused(format!(
                "column \"{}\" of {} has no field id, as in files that were added by a name mapping: \
                 compact with the engine that wrote it",
                field.name(),
                opened.source.url
            )));
        }
        Ok(())
    }

    /// Spec, "Column Projection": a column that is missing may have its value in the partition; writing NULLs would lose it.
    fn check_partition(&self, opened: &Opened, bin: &Bin) -> Result<()> {
        let Some(spec) = self.metadata.partition_spec_by_id(bin.partition.spec_id) else { return Ok(()) };
        let present = opened.reading.schema();
        let identity = spec.fields().iter().filter(|field| field.transform == Transform::Identity);
        for field in identity {
            if !present.fields().iter().any(|column| adapt::field_id(column) == Some(field.source_id)) {
                return Err(Error::Refused(format!(
                    "{} has its partition column \"{}\" in the metadata only, which is not supported: \
                     compact with the engine that wrote it",
                    opened.source.url, field.name
                )));
            }
        }
        Ok(())
    }

    fn shape(&self, first: &Opened, current: Option<&SchemaRef>) -> Result<Shape, Failure> {
        let file = first.metadata().file_metadata();
        let compression = self.compression(first);
        let delta_numbers = self.delta_numbers(first);
        let without_dictionary = Vec::new();
        if let Some(arrow) = current {
            return Ok(Shape {
                arrow: Arc::clone(arrow),
                parquet: None,
                compression,
                delta_numbers,
                without_dictionary,
            });
        }
        if !file.schema_descr().columns().iter().all(|column| is_writable(column)) {
            return Err(Failure::Differs);
        }
        let arrow: ArrowSchema = first.reading.schema().as_ref().clone();
        let arrow = Arc::new(arrow.with_metadata(Default::default()));
        Ok(Shape { arrow, parquet: Some(file.schema_descr().clone()), compression, delta_numbers, without_dictionary })
    }

    /// What the table's properties say; else not in the files of other writers, whose readers may not know it.
    fn delta_numbers(&self, first: &Opened) -> bool {
        let by_us = || {
            let writer = first.metadata().file_metadata().created_by().unwrap_or_default();
            ["coldfront", "DuckDB"].iter().any(|ours| writer.starts_with(ours))
        };
        data_file_writer::delta_numbers(self.metadata).unwrap_or_else(by_us)
    }

    /// Table property `write.parquet.compression-codec`, or what the table's files have.
    fn compression(&self, first: &Opened) -> Compression {
        let of_file = || {
            let chunk = first.metadata().row_groups().first()?.columns().first()?.compression();
            Some(match chunk {
                Compression::ZSTD(_) => zstd(),
                Compression::SNAPPY => Compression::SNAPPY,
                Compression::UNCOMPRESSED => Compression::UNCOMPRESSED,
                Compression::LZ4_RAW | Compression::LZ4 => Compression::LZ4_RAW,
                Compression::GZIP(level) => Compression::GZIP(level),
                _ => zstd(),
            })
        };
        data_file_writer::compression(self.metadata).or_else(of_file).unwrap_or_else(zstd)
    }

    fn sorted(&self, shape: &Shape, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        let what = "cannot sort rows";
        let all = concat_batches(&shape.arrow, &batches).in_arrow(what)?;
        drop(batches);
        let mut columns = Vec::new();
        for name in &self.policy.sort_by {
            let id = self.metadata.current_schema().field_id_by_name(name);
            let column = id.and_then(|id| adapt::column(&all, id));
            columns.push(column.ok_or_else(|| Error::Refused(format!("there is no column \"{name}\" to sort by")))?.0);
        }
        let order = SortOptions { descending: false, nulls_first: true };
        let fields = columns.iter().map(|c| SortField::new_with_options(c.data_type().clone(), order)).collect();
        let converter = RowConverter::new(fields).in_arrow(what)?;
        let keys = columns.into_iter().cloned().collect::<Vec<_>>();
        let keys = converter.convert_columns(&keys).in_arrow(what)?;
        let mut by_key: Vec<u32> = (0..all.num_rows() as u32).collect();
        by_key.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        Ok(take_record_batch(&all, &arrow_array::UInt32Array::from(by_key)).in_arrow(what)?)
    }

    fn new_file_url(&self) -> String {
        place::join(&writable::data_dir(self.metadata), &format!("{}.parquet", uuid::Uuid::new_v4()))
    }
}

fn is_same(shape: &Shape, opened: &Opened) -> bool {
    let fields = |descriptor: &SchemaDescriptor| descriptor.root_schema().get_fields().to_vec();
    (shape.parquet.as_ref())
        .is_some_and(|parquet| fields(parquet) == fields(opened.metadata().file_metadata().schema_descr()))
}

/// Types that are read and written as they are.
fn is_writable(column: &parquet::schema::types::ColumnDescriptor) -> bool {
    let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
        || column.converted_type() == ConvertedType::DECIMAL;
    match column.physical_type() {
        Physical::INT96 => false,
        Physical::BYTE_ARRAY => !is_decimal,
        _ => true,
    }
}

/// The deletes of a bin, read.
struct Deletes {
    positions: std::collections::HashMap<String, Vec<u64>>,
    equality: Arc<Equality>,
    none: Arc<Equality>,
}

impl Deletes {
    async fn read(reader: &Reader, metadata: &TableMetadata, bin: &Bin) -> Result<Self> {
        let (mut positions, mut equality, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for input in &bin.inputs {
            positions.extend(input.deletes.positions.iter().filter(|f| seen.insert(f.path.as_str())).cloned());
            equality.extend(input.deletes.equality.iter().filter(|f| seen.insert(f.path.as_str())).cloned());
        }
        let wanted: HashSet<&str> = bin
            .inputs
            .iter()
            .filter(|input| !input.deletes.positions.is_empty())
            .map(|input| input.file.path.as_str())
            .collect();
        Ok(Self {
            positions: positions::of_files(reader, positions, &wanted).await?,
            equality: Arc::new(Equality::read(reader, metadata, &equality).await?),
            none: Arc::default(),
        })
    }

    fn equality_for(&self, input: &Input) -> Arc<Equality> {
        Arc::clone(if input.deletes.equality.is_empty() { &self.none } else { &self.equality })
    }
}

/// The files that a bin becomes.
struct Sink<'a> {
    rewriter: &'a Rewriter<'a>,
    bin: &'a Bin,
    output: Option<Output>,
    done: Vec<Written>,
    copied: u64,
}

impl Sink<'_> {
    fn output(&mut self, shape: &Shape) -> Result<&mut Output> {
        match self.output {
            Some(ref mut output) => Ok(output),
            None => {
                let url = self.rewriter.new_file_url();
                Ok(self.output.insert(Output::create(self.rewriter.reader.stores(), url, shape.clone())?))
            }
        }
    }

    async fn write(&mut self, shape: &Shape, batch: &RecordBatch) -> Result<()> {
        self.output(shape)?.write(batch).await?;
        self.roll().await
    }

    /// Copies the row groups that are worth it and merges the others.
    async fn copy_or_merge(&mut self, shape: &Shape, from: &Opened, deletes: &Deletes, input: &Input) -> Result<()> {
        let mut small = Vec::new();
        for (at, group) in from.metadata().row_groups().iter().enumerate() {
            if group.num_rows() < COPY_MIN_ROWS && group.compressed_size() < COPY_MIN_BYTES {
                small.push(at);
                continue;
            }
            let (chunks, blooms) = from.row_group(at).await?;
            self.output(shape)?.copy(group, &chunks, blooms).await?;
            self.copied += 1;
            self.roll().await?;
        }
        if small.is_empty() {
            return Ok(());
        }
        let none = Arc::clone(&deletes.none);
        let mut batches = rows::stream(from.clone(), Some(small), Vec::new(), none, input.file.sequence)?;
        while let Some(batch) = batches.try_next().await? {
            self.write(shape, &batch).await?;
        }
        Ok(())
    }

    async fn roll(&mut self) -> Result<()> {
        let limit = self.rewriter.policy.target_file_bytes.saturating_mul(OVERSHOOT).max(self.bin_share());
        if self.output.as_ref().is_some_and(|output| output.bytes() >= limit) {
            self.close().await?;
        }
        Ok(())
    }

    /// Never more files out than came in, whatever their encoding was.
    fn bin_share(&self) -> u64 {
        match self.bin.bytes() > self.rewriter.policy.target_file_bytes.saturating_mul(OVERSHOOT) {
            true => 0,
            false => u64::MAX,
        }
    }

    async fn close(&mut self) -> Result<()> {
        if let Some(output) = self.output.take() {
            self.done.push(output.finish().await?);
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Rewritten> {
        self.close().await?;
        let metadata = self.rewriter.metadata;
        let files = self.done.iter().map(|written| data_file::describe(written, &self.bin.partition, metadata, None));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let rows = files.iter().map(DataFile::record_count).sum();
        Ok(Rewritten { files, rows, copied_row_groups: self.copied })
    }

    async fn abort(self) {
        if let Some(output) = self.output {
            output.abort().await;
        }
        let urls: Vec<String> = self.done.into_iter().map(|written| written.url).collect();
        if let Err(error) = self.rewriter.reader.stores().remove(&urls).await {
            tracing::debug!(%error, "left unfinished files to the orphan pass");
        }
    }
}
