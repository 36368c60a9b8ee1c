//! A Parquet file in the store: small ones are fetched whole, of large ones only what is read.

use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coldfront_lake::InParquet;
use coldfront_lake::read::Reader;
use coldfront_lake::store::Stores;
use futures::FutureExt;
use futures::future::BoxFuture;
use iceberg::spec::DataFileFormat;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::bloom_filter::Sbbf;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use super::view::File;
use crate::error::{Error, Result};

/// Files up to this size take one request.
const WHOLE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Delete files up to this size are kept.
const KEPT_MAX_BYTES: u64 = 256 * 1024;
/// Bytes at the end of a larger file that are read at first: its footer is among them.
const FOOTER_HINT_BYTES: usize = 256 * 1024;

#[derive(Clone)]
pub struct Source {
    stores: Arc<Stores>,
    pub url: String,
    size: u64,
    whole: Option<Bytes>,
}

/// A source with its footer.
#[derive(Clone)]
pub struct Opened {
    pub source: Source,
    pub reading: ArrowReaderMetadata,
}

impl Opened {
    pub async fn open(stores: &Arc<Stores>, file: &File) -> Result<Self> {
        let whole = match file.bytes <= WHOLE_MAX_BYTES {
            true => Some(stores.get(&file.path).await?),
            false => None,
        };
        Self::with(stores, file, whole).await
    }

    /// A delete file: planning and rewriting both read it, so a small one is kept in between.
    pub async fn open_deletes(reader: &Reader, file: &File) -> Result<Self> {
        match file.bytes <= KEPT_MAX_BYTES {
            true => Self::with(reader.stores(), file, Some(reader.bytes(&file.path).await?)).await,
            false => Self::open(reader.stores(), file).await,
        }
    }

    async fn with(stores: &Arc<Stores>, file: &File, whole: Option<Bytes>) -> Result<Self> {
        if file.format != DataFileFormat::Parquet {
            return Err(Error::Refused(format!(
                "{} has format {}, and only Parquet files are rewritten: compact with the engine that wrote it",
                file.path, file.format
            )));
        }
        let size = whole.as_ref().map_or(file.bytes, |bytes| bytes.len() as u64);
        let mut source = Source { stores: Arc::clone(stores), url: file.path.clone(), size, whole };
        let what = format!("cannot read the footer of {}", file.path);
        let metadata = source.footer().await.in_parquet(&what)?;
        // Embedded Arrow schemas tell of the writer's in-memory types, which are not the table's.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reading = ArrowReaderMetadata::try_new(metadata, options).in_parquet(&what)?;
        Ok(Self { source, reading })
    }

    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.reading.metadata()
    }

    /// What a copy of a row group needs: its column chunks and their Bloom filters.
    pub async fn row_group(&self, at: usize) -> Result<(Piece, Vec<Option<Sbbf>>)> {
        let columns = self.metadata().row_group(at).columns();
        let ranges = columns.iter().map(ColumnChunkMetaData::byte_range);
        let start = ranges.clone().map(|(start, _)| start).min().unwrap_or_default();
        let end = ranges.map(|(start, length)| start + length).max().unwrap_or_default();
        let chunks = self.source.piece(start..end).await?;
        let mut blooms = Vec::with_capacity(columns.len());
        for column in columns {
            blooms.push(self.bloom_filter(column).await?);
        }
        Ok((chunks, blooms))
    }

    /// A copied chunk keeps its filter, which lookups of single values rely on.
    async fn bloom_filter(&self, column: &ColumnChunkMetaData) -> Result<Option<Sbbf>> {
        let (Some(offset), Some(length)) = (column.bloom_filter_offset(), column.bloom_filter_length()) else {
            return Ok(None);
        };
        let (offset, length) = (offset.unsigned_abs(), u64::from(length.unsigned_abs()));
        let piece = self.source.piece(offset..offset + length).await?;
        let what = format!("cannot read a Bloom filter of {}", self.source.url);
        Ok(Sbbf::read_from_column_chunk(column, &piece).in_parquet(&what)?)
    }
}

impl Source {
    async fn footer(&mut self) -> ParquetResult<Arc<ParquetMetaData>> {
        let reader = ParquetMetaDataReader::new();
        match &self.whole {
            Some(bytes) => reader.parse_and_finish(bytes).map(Arc::new),
            None => {
                let size = self.size;
                let reader = reader.with_prefetch_hint(Some(FOOTER_HINT_BYTES));
                reader.load_and_finish(self, size).await.map(Arc::new)
            }
        }
    }

    pub async fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        match &self.whole {
            Some(whole) if range.end <= whole.len() as u64 => Ok(whole.slice(range.start as usize..range.end as usize)),
            Some(_) => Err(Error::Refused(format!("{} is shorter than its footer says", self.url))),
            None => Ok(self.stores.get_range(&self.url, range).await?),
        }
    }

    /// A part of the file, addressed as in the file.
    pub async fn piece(&self, range: Range<u64>) -> Result<Piece> {
        Ok(Piece { start: range.start, bytes: self.bytes(range).await? })
    }
}

impl AsyncFileReader for Source {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move { self.bytes(range).await.map_err(|error| ParquetError::External(Box::new(error))) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        self.footer().boxed()
    }
}

/// Bytes of a file from `start` on.
pub struct Piece {
    start: u64,
    bytes: Bytes,
}

impl Piece {
    fn from(&self, at: u64) -> ParquetResult<Bytes> {
        let from = at.checked_sub(self.start).filter(|from| *from <= self.bytes.len() as u64);
        let from = from.ok_or_else(|| ParquetError::General(format!("byte {at} was not read")))?;
        Ok(self.bytes.slice(from as usize..))
    }
}

impl Length for Piece {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Piece {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(Box::new(Cursor::new(self.from(start)?)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!("{length} bytes at {start} were not read"))),
        }
    }
}
