//! Removes staged objects. An object that is not there counts as removed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coldfront_common::frame::Lake;
use futures::{StreamExt, stream};
use metrics::counter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::store::{self, Place, StoreError};
use super::uploads::{self, UploadError};
use crate::metrics as names;

/// Requests in flight at a time.
const AT_ONCE: usize = 16;

/// Why objects are still there.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{count} staged objects could not be removed from the object store, the first of them {path}")]
    Objects { count: usize, path: String, source: object_store::Error },
    #[error("{count} staged objects could not be removed in time")]
    Time { count: usize },
    #[error("unfinished uploads could not be given up")]
    Uploads(#[from] UploadError),
    #[error("cannot start the clean-up of staged objects")]
    Runtime(#[source] std::io::Error),
}

/// Removes all of `objects` and gives up their uploads and those of `opened`, in `limit` at most.
pub fn remove(
    lake: &Lake,
    objects: &BTreeSet<String>,
    opened: &BTreeSet<String>,
    limit: Duration,
) -> Result<(), RemoveError> {
    if objects.is_empty() && opened.is_empty() {
        return Ok(());
    }
    let mut stores: HashMap<(&str, &str), Arc<dyn ObjectStore>> = HashMap::new();
    let mut work = Vec::new();
    for object in objects {
        let place = Place::parse(object);
        let store = match stores.get(&(place.scheme, place.bucket)) {
            Some(store) => store.clone(),
            None => {
                let store = store::open(lake, &place)?;
                stores.insert((place.scheme, place.bucket), store.clone());
                store
            }
        };
        work.push((store, place.path()?));
    }
    let count = work.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RemoveError::Runtime)?;
    runtime.block_on(async {
        let all = async {
            remove_all(work).await?;
            uploads::give_up(lake, objects.iter().chain(opened)).await?;
            Ok(())
        };
        tokio::time::timeout(limit, all).await.unwrap_or(Err(RemoveError::Time { count }))
    })?;
    counter!(names::STAGED_REMOVED_TOTAL).increment(count as u64);
    Ok(())
}

async fn remove_all(work: Vec<(Arc<dyn ObjectStore>, Path)>) -> Result<(), RemoveError> {
    let mut failures = stream::iter(work)
        .map(|(store, path)| async move {
            match store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => None,
                Err(error) => Some((path, error)),
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(async |failure| failure)
        .boxed()
        .collect::<Vec<_>>()
        .await;
    let count = failures.len();
    match failures.pop() {
        None => Ok(()),
        Some((path, source)) => Err(RemoveError::Objects { count, path: path.to_string(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_objects_go_and_missing_ones_do_not_matter() {
        let root = tempfile::tempdir().unwrap();
        let name = |n: u32| root.path().join(format!("a/{n}.parquet")).display().to_string();
        std::fs::create_dir(root.path().join("a")).unwrap();
        for n in 0..3 {
            std::fs::write(name(n), "x").unwrap();
        }
        let objects = BTreeSet::from([name(0), format!("file://{}", name(1)), name(77)]);
        remove(&Lake::default(), &objects, &BTreeSet::new(), Duration::from_secs(5)).unwrap();
        assert_eq!(std::fs::read_dir(root.path().join("a")).unwrap().count(), 1);
    }
}
