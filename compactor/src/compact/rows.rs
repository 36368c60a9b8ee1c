//! The rows of a data file that its deletes leave, batch by batch.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;

use super::equality::Equality;
use super::source::Opened;
use crate::error::Result;
use coldfront_lake::{InArrow, InParquet};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// `positions` are those of the whole file, so that the whole file has to be read when there are any; without them,
/// `row_groups` may name a part of it.
pub fn stream(
    opened: Opened,
    row_groups: Option<Vec<usize>>,
    positions: Vec<u64>,
    equality: Arc<Equality>,
    sequence: i64,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let what = format!("cannot read {}", opened.source.url);
    let mut builder =
        ParquetRecordBatchStreamBuilder::new_with_metadata(opened.source, opened.reading).with_batch_size(BATCH_ROWS);
    if let Some(row_groups) = row_groups {
        builder = builder.with_row_groups(row_groups);
    }
    let batches = builder.build().in_parquet(&what)?;
    let (mut first_row, mut deleted) = (0u64, 0usize);
    let kept = batches.map(move |batch| {
        let batch = batch.in_parquet(&what)?;
        let end = first_row + batch.num_rows() as u64;
        let mut mask = equality.keep(&batch, sequence, &what)?;
        let from = deleted;
        while positions.get(deleted).is_some_and(|position| *position < end) {
            deleted += 1;
        }
        if deleted > from {
            let mut keep: Vec<bool> = match &mask {
                Some(mask) => mask.values().iter().collect(),
                None => vec![true; batch.num_rows()],
            };
            for position in &positions[from..deleted] {
                keep[(position - first_row) as usize] = false;
            }
            mask = Some(BooleanArray::from(keep));
        }
        first_row = end;
        match mask {
            Some(mask) if mask.true_count() < batch.num_rows() => {
                Ok(filter_record_batch(&batch, &mask).in_arrow(&what)?)
            }
            _ => Ok(batch),
        }
    });
    Ok(kept.try_filter(|batch| futures::future::ready(batch.num_rows() > 0)).boxed())
}
