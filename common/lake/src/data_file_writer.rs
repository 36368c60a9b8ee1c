//! Writes one data file: row groups of decoded rows and row groups copied as they are, in any order.
//! Nothing but the row group in the making and a part of an upload is in memory.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use iceberg::spec::TableMetadata;
use object_store::buffered::BufWriter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, ArrowWriterOptions};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use tokio::io::AsyncWriteExt;

use crate::dictionary;
use crate::error::{InParquet, LakeError, Result};
use crate::row_group::RowGroup;
use crate::store::Stores;

/// A row group of decoded rows ends at either.
pub const ROW_GROUP_ROWS: usize = 245_760;
const ROW_GROUP_BYTES: usize = 64 * 1024 * 1024;
/// Largest dictionary of a column of numbers: most that have more values than this are keys or times, which it does not
/// make smaller, and the less so if they are delta encoded.
const NUMBERS_DICTIONARY_BYTES: usize = 256 * 1024;
const DELTA_DICTIONARY_BYTES: usize = 64 * 1024;
const BYTES_DICTIONARY_BYTES: usize = 1024 * 1024;
/// Size of a page, which is compressed in one go: about a millisecond's work.
const PAGE_BYTES: usize = 256 * 1024;
/// Table property: `false` has integers and times written PLAIN, for readers that know no other encoding (Iceberg for
/// Spark before 1.10).
const DELTA_PROPERTY: &str = "coldfront.parquet.delta-encoding";

/// What files are compressed with unless something says otherwise.
pub fn zstd() -> Compression {
    Compression::ZSTD(ZstdLevel::default())
}

/// Table property `write.parquet.compression-codec`, if it names a codec.
pub fn compression(metadata: &TableMetadata) -> Option<Compression> {
    let name = metadata.properties().get("write.parquet.compression-codec")?;
    match name.to_ascii_lowercase().as_str() {
        "zstd" => Some(zstd()),
        "snappy" => Some(Compression::SNAPPY),
        "gzip" => Some(Compression::GZIP(Default::default())),
        "lz4" => Some(Compression::LZ4_RAW),
        "uncompressed" | "none" => Some(Compression::UNCOMPRESSED),
        _ => None,
    }
}

/// Table property [`DELTA_PROPERTY`], if it says something.
pub fn delta_numbers(metadata: &TableMetadata) -> Option<bool> {
    metadata.properties().get(DELTA_PROPERTY)?.to_ascii_lowercase().parse().ok()
}

/// How an output is written.
#[derive(Clone)]
pub struct Shape {
    pub arrow: SchemaRef,
    /// Schema of the file; none to derive it from the Arrow schema.
    pub parquet: Option<SchemaDescriptor>,
    pub compression: Compression,
    /// Integers, times and short decimals without a dictionary are DELTA_BINARY_PACKED: keys and times in their order
    /// take next to nothing, and any are read faster than what is compressed byte by byte.
    pub delta_numbers: bool,
    /// Leaf columns that are written without a dictionary.
    pub without_dictionary: Vec<usize>,
}

impl Shape {
    /// The shape for a file that begins with these rows: without the dictionaries that these rows would fill.
    pub fn for_rows(mut self, rows: &[RecordBatch]) -> Result<Self> {
        let schema = self.parquet_schema().in_parquet("a schema has no Parquet form")?;
        let overflows = |leaf: &usize| {
            let column = schema.column(*leaf);
            dictionary::overflows(rows, schema.get_column_root_idx(*leaf), &column, self.dictionary_bytes(&column))
        };
        self.without_dictionary = (0..schema.num_columns()).filter(overflows).collect();
        Ok(self)
    }

    fn parquet_schema(&self) -> std::result::Result<Cow<'_, SchemaDescriptor>, ParquetError> {
        Ok(match &self.parquet {
            Some(schema) => Cow::Borrowed(schema),
            None => Cow::Owned(ArrowSchemaConverter::new().convert(&self.arrow)?),
        })
    }

    /// Size above which a column's dictionary is given up.
    fn dictionary_bytes(&self, column: &ColumnDescriptor) -> usize {
        match column.physical_type() {
            Type::BYTE_ARRAY => BYTES_DICTIONARY_BYTES,
            _ if self.delta_numbers => DELTA_DICTIONARY_BYTES,
            _ => NUMBERS_DICTIONARY_BYTES,
        }
    }

    fn properties(&self) -> std::result::Result<WriterProperties, ParquetError> {
        let schema = self.parquet_schema()?;
        let mut properties = WriterProperties::builder()
            .set_compression(self.compression)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_created_by(concat!("coldfront ", env!("CARGO_PKG_VERSION")).to_owned())
            // Page indexes are read by few and cost a request each; chunk statistics are what everybody prunes by.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        for (leaf, column) in schema.columns().iter().enumerate() {
            let path = column.path();
            properties = properties
                .set_column_dictionary_page_size_limit(path.clone(), self.dictionary_bytes(column))
                .set_column_dictionary_enabled(path.clone(), !self.without_dictionary.contains(&leaf));
            if self.delta_numbers && matches!(column.physical_type(), Type::INT32 | Type::INT64) {
                properties = properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
            }
        }
        Ok(properties.build())
    }
}

pub struct Output {
    pub url: String,
    stores: Arc<Stores>,
    shape: Shape,
    buffer: Buffer,
    writer: SerializedFileWriter<Buffer>,
    factory: ArrowRowGroupWriterFactory,
    upload: BufWriter,
    /// Nothing can be sent or aborted any more.
    is_shut: bool,
    row_group: Option<RowGroup>,
    row_groups: usize,
    /// Bytes of finished row groups.
    written: u64,
    pub rows: u64,
}

/// A finished file.
pub struct Written {
    pub url: String,
    pub metadata: ParquetMetaData,
    pub bytes: u64,
}

/// What the Parquet writer wrote and nobody has taken yet.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)).into()
    }
}

impl Output {
    pub fn create(stores: &Arc<Stores>, url: String, shape: Shape) -> Result<Self> {
        let properties = shape.properties().in_parquet(&format!("cannot write {url}"))?;
        let mut options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        if let Some(parquet) = &shape.parquet {
            options = options.with_parquet_schema(parquet.clone());
        }
        let buffer = Buffer::default();
        let (writer, factory) = ArrowWriter::try_new_with_options(buffer.clone(), Arc::clone(&shape.arrow), options)
            .and_then(ArrowWriter::into_serialized_writer)
            .in_parquet(&format!("cannot write {url}"))?;
        let upload = stores.writer(&url)?;
        Ok(Self {
            url,
            stores: Arc::clone(stores),
            shape,
            buffer,
            writer,
            factory,
            upload,
            is_shut: false,
            row_group: None,
            row_groups: 0,
            written: 0,
            rows: 0,
        })
    }

    /// Bytes of the file so far, about.
    pub fn bytes(&self) -> u64 {
        self.written + self.row_group.as_ref().map_or(0, RowGroup::encoded) as u64
    }

    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let what = format!("cannot write {}", self.url);
            let group = match &mut self.row_group {
                Some(group) => group,
                None => {
                    let columns = self.factory.create_column_writers(self.row_groups).in_parquet(&what)?;
                    self.row_group.insert(RowGroup::begin(columns))
                }
            };
            let length = (ROW_GROUP_ROWS - group.rows).min(batch.num_rows() - from);
            group.write(&self.shape.arrow, &batch.slice(from, length)).await.in_parquet(&what)?;
            from += length;
            self.rows += length as u64;
            if group.rows >= ROW_GROUP_ROWS || group.memory() >= ROW_GROUP_BYTES {
                self.end_row_group().await?;
            }
        }
        Ok(())
    }

    async fn end_row_group(&mut self) -> Result<()> {
        let Some(group) = self.row_group.take() else { return Ok(()) };
        let what = format!("cannot write {}", self.url);
        let columns = group.end().await.in_parquet(&what)?;
        let mut out = self.writer.next_row_group().in_parquet(&what)?;
        for column in columns {
            column.append_to_row_group(&mut out).in_parquet(&what)?;
        }
        out.close().in_parquet(&what)?;
        self.row_groups += 1;
        self.send().await
    }

    /// Copies a row group of a file with the same schema, without decoding it. `chunks` holds its column chunks, addressed
    /// as in that file; `blooms` has an entry for each.
    pub async fn copy(
        &mut self,
        group: &RowGroupMetaData,
        chunks: &impl ChunkReader,
        blooms: Vec<Option<Sbbf>>,
    ) -> Result<()> {
        self.end_row_group().await?;
        let what = format!("cannot copy a row group to {}", self.url);
        let mut out = self.writer.next_row_group().in_parquet(&what)?;
        for (column, bloom_filter) in group.columns().iter().zip(blooms) {
            let close = ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter,
                column_index: None,
                offset_index: None,
            };
            out.append_column(chunks, close).in_parquet(&what)?;
        }
        out.close().in_parquet(&what)?;
        self.rows += group.num_rows() as u64;
        self.row_groups += 1;
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        let bytes = self.buffer.take();
        self.written += bytes.len() as u64;
        let failed = |source| LakeError::Upload { what: self.url.clone(), source };
        self.upload.put(bytes).await.map_err(|error| failed(error.into()))
    }

    /// Ends the file. Where that fails, nothing of it stays.
    pub async fn finish(mut self) -> Result<Written> {
        match self.complete().await {
            Ok(metadata) => Ok(Written { url: self.url, metadata, bytes: self.written }),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    async fn complete(&mut self) -> Result<ParquetMetaData> {
        self.end_row_group().await?;
        let metadata = self.writer.finish().in_parquet(&format!("cannot write {}", self.url))?;
        self.send().await?;
        self.is_shut = true;
        self.upload.shutdown().await.map_err(|source| LakeError::Upload { what: self.url.clone(), source })?;
        Ok(metadata)
    }

    /// Gives up; what was uploaded of it is removed.
    pub async fn abort(mut self) {
        let outcome = match self.is_shut {
            // The store may have the object although it did not say so.
            true => self.stores.remove(std::slice::from_ref(&self.url)).await.map(drop).map_err(|e| e.to_string()),
            // A short file was not sent yet, and has nothing to abort.
            false => self.upload.abort().await.map_err(|e| e.to_string()),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, url = %self.url, "cannot remove what was uploaded");
        }
    }
}
