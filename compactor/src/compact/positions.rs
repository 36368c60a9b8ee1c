//! Reads position delete files. Spec, "Position Delete Files".

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use coldfront_lake::InParquet;
use coldfront_lake::read::Reader;
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;

use super::source::Opened;
use super::view::File;
use crate::error::{Error, Result};

/// Delete files read at a time.
const AT_ONCE: usize = 8;

/// Data files that a delete file names, each with the number of rows.
pub async fn count_by_path(reader: &Reader, file: &File) -> Result<Vec<(String, u64)>> {
    let mut counts: Vec<(String, u64)> = Vec::new();
    let mut at: HashMap<String, usize> = HashMap::new();
    each(reader, file, |path, _| match at.get(path) {
        Some(at) => counts[*at].1 += 1,
        None => {
            at.insert(path.to_owned(), counts.len());
            counts.push((path.to_owned(), 1));
        }
    })
    .await?;
    Ok(counts)
}

/// Deleted positions of the wanted data files, ascending and without repetition.
pub async fn of_files(
    reader: &Reader,
    files: Vec<Arc<File>>,
    wanted: &HashSet<&str>,
) -> Result<HashMap<String, Vec<u64>>> {
    let mut reads = futures::stream::iter(files)
        .map(|file| async move {
            let mut found: HashMap<String, Vec<u64>> = HashMap::new();
            each(reader, &file, |path, position| {
                if !wanted.contains(path) {
                } else if let Some(positions) = found.get_mut(path) {
                    positions.push(position);
                } else {
                    found.insert(path.to_owned(), vec![position]);
                }
            })
            .await?;
            Ok::<_, Error>(found)
        })
        .buffer_unordered(AT_ONCE);
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    while let Some(found) = reads.try_next().await? {
        for (path, positions) in found {
            all.entry(path).or_default().extend(positions);
        }
    }
    for positions in all.values_mut() {
        positions.sort_unstable();
        positions.dedup();
    }
    Ok(all)
}

async fn each(reader: &Reader, file: &File, mut see: impl FnMut(&str, u64)) -> Result<()> {
    let opened = Opened::open_deletes(reader, file).await?;
    let what = format!("cannot read position deletes from {}", file.path);
    let mut batches =
        ParquetRecordBatchStreamBuilder::new_with_metadata(opened.source, opened.reading).build().in_parquet(&what)?;
    while let Some(batch) = batches.try_next().await.in_parquet(&what)? {
        let (paths, positions) = columns(&batch)
            .ok_or_else(|| Error::Refused(format!("{} lacks the columns of a position delete file", file.path)))?;
        for row in 0..batch.num_rows() {
            see(paths.value(row), positions.value(row).unsigned_abs());
        }
    }
    Ok(())
}

fn columns(batch: &RecordBatch) -> Option<(&arrow_array::StringArray, &arrow_array::Int64Array)> {
    let paths = batch.column_by_name("file_path")?.as_string_opt::<i32>()?;
    let positions = batch.column_by_name("pos")?.as_primitive_opt::<Int64Type>()?;
    (paths.null_count() == 0 && positions.null_count() == 0).then_some((paths, positions))
}
