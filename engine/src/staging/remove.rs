//! Removes staged objects. An object that is not there counts as removed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coldfront_common::frame::Storage;
use futures::{StreamExt, stream};
use metrics::counter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::attribution::is_below;
use super::journal::Entries;
use super::store::{self, Access, Place, StoreError};
use super::uploads::{self, UploadError};
use crate::gateway::client::{self, ClientError};
use crate::instance::Instance;
use crate::metrics as names;

/// Requests in flight at a time.
const AT_ONCE: usize = 16;

/// Removes what a journal names, with the lake's credentials or, where it has none, with those of each table.
pub fn remove_staged(instance: &Instance, entries: &Entries, limit: Duration) -> Result<(), RemoveError> {
    let lake = &instance.lake;
    let mut entries = entries.clone();
    entries.objects.retain(|object| !entries.shared.iter().any(|location| is_below(object, location)));
    let (Some(Storage::Vended { .. }), Some(registration)) = (&lake.storage, instance.registration()) else {
        let access = Access { lake, vended: HashMap::new() };
        return remove(&access, &entries.objects, &entries.opened, limit);
    };
    for table in &entries.tables {
        let below = |objects: &BTreeSet<String>| -> BTreeSet<String> {
            objects.iter().filter(|object| is_below(object, &table.location)).cloned().collect()
        };
        let (objects, opened) = (below(&entries.objects), below(&entries.opened));
        if objects.is_empty() && opened.is_empty() {
            continue;
        }
        let mut vended = HashMap::new();
        let mut credentials = client::table_credentials(registration, &[&table.namespace], &table.name)?;
        // The more exact a prefix is, the later its properties are added, and the later ones win.
        credentials.retain(|credential| table.location.starts_with(&credential.prefix));
        credentials.sort_by_key(|credential| credential.prefix.len());
        vended.extend(credentials.into_iter().flat_map(|credential| credential.config));
        remove(&Access { lake, vended }, &objects, &opened, limit)?;
    }
    Ok(())
}

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
    #[error(transparent)]
    Catalog(#[from] ClientError),
    #[error("cannot start the clean-up of staged objects")]
    Runtime(#[source] std::io::Error),
}

/// Removes all of `objects` and gives up the uploads of `opened`, in `limit` at most.
fn remove(
    access: &Access<'_>,
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
                let store = store::open(access, &place)?;
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
            // Every object that was written was opened before.
            uploads::give_up(access, opened.iter()).await?;
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
    use coldfront_common::frame::Lake;

    #[test]
    fn local_objects_go_and_missing_ones_do_not_matter() {
        let root = tempfile::tempdir().unwrap();
        let name = |n: u32| root.path().join(format!("a/{n}.parquet")).display().to_string();
        std::fs::create_dir(root.path().join("a")).unwrap();
        for n in 0..3 {
            std::fs::write(name(n), "x").unwrap();
        }
        let objects = BTreeSet::from([name(0), format!("file://{}", name(1)), name(77)]);
        let access = Access { lake: &Lake::default(), vended: HashMap::new() };
        remove(&access, &objects, &BTreeSet::new(), Duration::from_secs(5)).unwrap();
        assert_eq!(std::fs::read_dir(root.path().join("a")).unwrap().count(), 1);
    }
}
