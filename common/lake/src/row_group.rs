//! Encodes a row group, each column in a task of its own: cores share the work, and the next rows are read meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow_array::{Array, RecordBatch};
use arrow_schema::Schema;
use coldfront_common::turns::Turns;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowLeafColumn, compute_leaves};
use parquet::errors::{ParquetError, Result};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Batches that wait for a column's task.
const WAITING_MAX: usize = 1;
/// Rows of a column that are encoded in one turn, and bytes of all columns.
const ROWS_AT_ONCE: usize = 4096;
const BYTES_AT_ONCE: usize = 1024 * 1024;

pub struct RowGroup {
    columns: Vec<Column>,
    pub rows: usize,
}

struct Column {
    batches: mpsc::Sender<Vec<ArrowLeafColumn>>,
    task: JoinHandle<Result<ArrowColumnChunk>>,
    sizes: Arc<Sizes>,
}

/// Of a column as far as it is encoded.
#[derive(Default)]
struct Sizes {
    memory: AtomicUsize,
    encoded: AtomicUsize,
}

impl RowGroup {
    pub fn begin(columns: Vec<ArrowColumnWriter>) -> Self {
        Self { columns: columns.into_iter().map(Column::begin).collect(), rows: 0 }
    }

    pub async fn write(&mut self, schema: &Schema, batch: &RecordBatch) -> Result<()> {
        let mut leaves: Vec<Vec<_>> = self.columns.iter().map(|_| Vec::new()).collect();
        let rows_at_once = rows_at_once(batch);
        for from in (0..batch.num_rows()).step_by(rows_at_once) {
            let rows = batch.slice(from, rows_at_once.min(batch.num_rows() - from));
            let mut columns = leaves.iter_mut();
            for (field, column) in schema.fields().iter().zip(rows.columns()) {
                for (leaf, column) in compute_leaves(field, column)?.into_iter().zip(&mut columns) {
                    column.push(leaf);
                }
            }
        }
        for (at, leaves) in leaves.into_iter().enumerate() {
            if self.columns[at].batches.send(leaves).await.is_err() {
                let ended = self.columns.swap_remove(at).end().await;
                return Err(ended.err().unwrap_or_else(|| ParquetError::General("a column ended early".to_owned())));
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Bytes of memory that the encoded rows take.
    pub fn memory(&self) -> usize {
        self.columns.iter().map(|column| column.sizes.memory.load(Relaxed)).sum()
    }

    /// Bytes that the encoded rows will take in the file, about.
    pub fn encoded(&self) -> usize {
        self.columns.iter().map(|column| column.sizes.encoded.load(Relaxed)).sum()
    }

    pub async fn end(self) -> Result<Vec<ArrowColumnChunk>> {
        let mut chunks = Vec::with_capacity(self.columns.len());
        // All tasks are told before any is waited for.
        let tasks: Vec<_> = self.columns.into_iter().map(|column| column.task).collect();
        for task in tasks {
            chunks.push(ended(task).await?);
        }
        Ok(chunks)
    }
}

fn rows_at_once(batch: &RecordBatch) -> usize {
    let bytes: usize = batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    let bytes_per_row = bytes / batch.num_rows().max(1);
    (BYTES_AT_ONCE / bytes_per_row.max(1)).clamp(1, ROWS_AT_ONCE)
}

impl Column {
    fn begin(mut writer: ArrowColumnWriter) -> Self {
        let (batches, mut waiting) = mpsc::channel(WAITING_MAX);
        let sizes = Arc::new(Sizes::default());
        let told = Arc::clone(&sizes);
        let task = tokio::spawn(async move {
            let mut turns = Turns::begin();
            while let Some(leaves) = waiting.recv().await {
                for leaf in &leaves {
                    writer.write(leaf)?;
                    turns.offer();
                }
                told.memory.store(writer.memory_size(), Relaxed);
                told.encoded.store(writer.get_estimated_total_bytes(), Relaxed);
            }
            writer.close()
        });
        Self { batches, task, sizes }
    }

    async fn end(self) -> Result<ArrowColumnChunk> {
        drop(self.batches);
        ended(self.task).await
    }
}

async fn ended(task: JoinHandle<Result<ArrowColumnChunk>>) -> Result<ArrowColumnChunk> {
    task.await.map_err(|error| ParquetError::External(Box::new(error)))?
}
