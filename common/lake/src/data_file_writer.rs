//! Writes one data file: row groups of decoded rows and row groups copied as they are, in any order.
//! Nothing but the row group in the making and a part of an upload is in memory.

use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use iceberg::spec::TableMetadata;
use object_store::buffered::BufWriter;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use tokio::io::AsyncWriteExt;

use crate::error::{InParquet, LakeError, Result};
use crate::store::Stores;

/// A row group of decoded rows ends at either.
pub const ROW_GROUP_ROWS: usize = 245_760;
const ROW_GROUP_BYTES: usize = 64 * 1024 * 1024;
/// A column of a row group gives its dictionary up when it is larger.
const DICTIONARY_BYTES: usize = 256 * 1024;

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

/// How an output is written.
#[derive(Clone)]
pub struct Shape {
    pub arrow: SchemaRef,
    /// Schema of the file; none to derive it from the Arrow schema.
    pub parquet: Option<SchemaDescriptor>,
    pub compression: Compression,
}

pub struct Output {
    pub url: String,
    shape: Shape,
    buffer: Buffer,
    writer: SerializedFileWriter<Buffer>,
    factory: ArrowRowGroupWriterFactory,
    upload: BufWriter,
    row_group: Option<Vec<ArrowColumnWriter>>,
    row_group_rows: usize,
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
    pub fn create(stores: &Stores, url: String, shape: Shape) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(shape.compression)
            .set_created_by(concat!("coldfront ", env!("CARGO_PKG_VERSION")).to_owned())
            // Page indexes are read by few and cost a request each; chunk statistics are what everybody prunes by.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            // A dictionary that large saves little, and costs much to find out.
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .set_offset_index_disabled(true)
            .build();
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
            shape,
            buffer,
            writer,
            factory,
            upload,
            row_group: None,
            row_group_rows: 0,
            row_groups: 0,
            written: 0,
            rows: 0,
        })
    }

    /// Bytes of the file so far, about.
    pub fn bytes(&self) -> u64 {
        let open = self.row_group.iter().flatten().map(ArrowColumnWriter::get_estimated_total_bytes).sum::<usize>();
        self.written + open as u64
    }

    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let length = (ROW_GROUP_ROWS - self.row_group_rows).min(batch.num_rows() - from);
            self.encode(&batch.slice(from, length)).in_parquet(&format!("cannot write {}", self.url))?;
            from += length;
            let open = self.row_group.iter().flatten().map(ArrowColumnWriter::memory_size).sum::<usize>();
            if self.row_group_rows >= ROW_GROUP_ROWS || open >= ROW_GROUP_BYTES {
                self.end_row_group().await?;
            }
        }
        Ok(())
    }

    fn encode(&mut self, batch: &RecordBatch) -> parquet::errors::Result<()> {
        let columns = match &mut self.row_group {
            Some(columns) => columns,
            None => self.row_group.insert(self.factory.create_column_writers(self.row_groups)?),
        };
        let mut columns = columns.iter_mut();
        for (field, column) in self.shape.arrow.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, column)? {
                if let Some(writer) = columns.next() {
                    writer.write(&leaf)?;
                }
            }
        }
        self.row_group_rows += batch.num_rows();
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    async fn end_row_group(&mut self) -> Result<()> {
        let Some(columns) = self.row_group.take() else { return Ok(()) };
        let what = format!("cannot write {}", self.url);
        let mut group = self.writer.next_row_group().in_parquet(&what)?;
        for column in columns {
            column.close().and_then(|chunk| chunk.append_to_row_group(&mut group)).in_parquet(&what)?;
        }
        group.close().in_parquet(&what)?;
        (self.row_group_rows, self.row_groups) = (0, self.row_groups + 1);
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
            Ok(written) => Ok(written),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    async fn complete(&mut self) -> Result<Written> {
        self.end_row_group().await?;
        let metadata = self.writer.finish().in_parquet(&format!("cannot write {}", self.url))?;
        self.send().await?;
        self.upload.shutdown().await.map_err(|source| LakeError::Upload { what: self.url.clone(), source })?;
        Ok(Written { url: self.url.clone(), metadata, bytes: self.written })
    }

    /// Gives up; what was uploaded of it is removed.
    pub async fn abort(mut self) {
        // A short file was not sent yet, and has nothing to abort.
        if let Err(error) = self.upload.abort().await {
            tracing::debug!(%error, url = %self.url, "cannot abort an upload");
        }
    }
}
