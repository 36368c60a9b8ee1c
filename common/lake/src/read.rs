//! Reads manifest lists and manifests. Files never change, so a bounded part of what was read is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use iceberg::spec::{
    Manifest, ManifestEntry, ManifestFile, ManifestList, ManifestStatus, PartitionSpec, SchemaRef, Snapshot,
    StructType, TableMetadata,
};

use crate::error::{LakeError, Result};
use crate::store::Stores;

/// Bytes that are kept for reading them again.
const KEPT_MAX_BYTES: usize = 24 * 1024 * 1024;
/// Bytes of manifests that are kept parsed, which takes about ten times as much memory.
const PARSED_MAX_BYTES: usize = 1024 * 1024;

/// A manifest with the values that its entries inherit.
pub struct ManifestContent {
    pub schema: SchemaRef,
    pub spec: PartitionSpec,
    /// Type of the partition tuples in it.
    pub partition_type: StructType,
    pub entries: Vec<ManifestEntry>,
}

/// Small files that were read or written, which readers may share. The oldest go first.
#[derive(Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    files: HashMap<String, Bytes>,
    by_age: VecDeque<String>,
    bytes: usize,
}

impl Cache {
    fn get(&self, url: &str) -> Option<Bytes> {
        self.lock().files.get(url).cloned()
    }

    fn keep(&self, url: &str, bytes: &Bytes) {
        let mut kept = self.lock();
        if bytes.len() > KEPT_MAX_BYTES || kept.files.insert(url.to_owned(), bytes.clone()).is_some() {
            return;
        }
        kept.by_age.push_back(url.to_owned());
        kept.bytes += bytes.len();
        while kept.bytes > KEPT_MAX_BYTES {
            let Some(oldest) = kept.by_age.pop_front() else { break };
            kept.bytes -= kept.files.remove(&oldest).map_or(0, |bytes| bytes.len());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub struct Reader {
    stores: Arc<Stores>,
    cache: Arc<Cache>,
    parsed: Mutex<Parsed>,
}

#[derive(Default)]
struct Parsed {
    /// With the bytes that each counts for.
    contents: HashMap<String, (ManifestContent, usize)>,
    bytes: usize,
}

impl Reader {
    pub fn new(stores: Arc<Stores>, cache: Arc<Cache>) -> Self {
        Self { stores, cache, parsed: Mutex::default() }
    }

    pub fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    /// Manifests of a snapshot.
    pub async fn manifests(&self, metadata: &TableMetadata, snapshot: &Snapshot) -> Result<Vec<ManifestFile>> {
        let url = snapshot.manifest_list();
        if url.is_empty() {
            return Err(LakeError::Refused(format!(
                "snapshot {} of format version 1 lists its manifests in the metadata file, which is not supported: \
                 let an engine that writes it upgrade the table to format version 2",
                snapshot.snapshot_id()
            )));
        }
        // The head's list is read by every task; those of a long history would only drive out what is needed again.
        let bytes = match metadata.current_snapshot_id() == Some(snapshot.snapshot_id()) {
            true => self.bytes(url).await?,
            false => self.stores.get(url).await?,
        };
        let list = ManifestList::parse_with_version(&bytes, metadata.format_version())
            .map_err(LakeError::metadata(format!("manifest list {url}")))?;
        Ok(list.consume_entries().into_iter().collect())
    }

    /// A manifest's entries, also those of removed files.
    ///
    /// Spec, "Manifest Entry Fields" and "Sequence Number Inheritance": an added entry takes what it lacks from the
    /// manifest list, and so does every entry of a manifest from format version 1.
    pub async fn manifest(&self, file: &ManifestFile) -> Result<ManifestContent> {
        if file.key_metadata.is_some() {
            return Err(LakeError::Refused(format!(
                "manifest {} is encrypted, which is not supported",
                file.manifest_path
            )));
        }
        if let Some(content) = self.take(file) {
            return Ok(content);
        }
        let bytes = self.bytes(&file.manifest_path).await?;
        let what = || LakeError::metadata(format!("manifest {}", file.manifest_path));
        // A task of its own, so that several are parsed at a time.
        let parsed = tokio::spawn(async move { Manifest::parse_avro(&bytes) }).await;
        let (entries, metadata) = parsed.map_err(LakeError::Task)?.map_err(what())?.into_parts();
        let mut entries: Vec<ManifestEntry> = entries.into_iter().map(Arc::unwrap_or_clone).collect();
        for entry in &mut entries {
            entry.snapshot_id.get_or_insert(file.added_snapshot_id);
            if entry.status == ManifestStatus::Added || file.sequence_number == 0 {
                entry.sequence_number.get_or_insert(file.sequence_number);
                entry.file_sequence_number.get_or_insert(file.sequence_number);
            }
        }
        let partition_type = metadata.partition_spec().partition_type(metadata.schema()).map_err(what())?;
        Ok(ManifestContent {
            schema: metadata.schema().clone(),
            spec: metadata.partition_spec().clone(),
            partition_type,
            entries,
        })
    }

    /// Keeps a manifest's content for whoever asks next, such as the commit that follows a plan; not if it takes much.
    pub fn put_back(&self, file: &ManifestFile, content: ManifestContent) {
        let (mut parsed, length) = (self.parsed(), file.manifest_length.unsigned_abs() as usize);
        if parsed.bytes + length <= PARSED_MAX_BYTES && !parsed.contents.contains_key(&file.manifest_path) {
            parsed.bytes += length;
            parsed.contents.insert(file.manifest_path.clone(), (content, length));
        }
    }

    fn take(&self, file: &ManifestFile) -> Option<ManifestContent> {
        let mut parsed = self.parsed();
        let (content, length) = parsed.contents.remove(&file.manifest_path)?;
        parsed.bytes -= length;
        Some(content)
    }

    fn parsed(&self) -> std::sync::MutexGuard<'_, Parsed> {
        self.parsed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A small file that is read more than once, such as one with deletes.
    pub async fn bytes(&self, url: &str) -> Result<Bytes> {
        if let Some(bytes) = self.cache.get(url) {
            return Ok(bytes);
        }
        let bytes = self.stores.get(url).await?;
        self.cache.keep(url, &bytes);
        Ok(bytes)
    }

    /// What was just written will be read soon.
    pub(crate) fn keep(&self, url: &str, bytes: &Bytes) {
        self.cache.keep(url, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let (cache, half) = (Cache::default(), Bytes::from(vec![0; KEPT_MAX_BYTES / 2]));
        for name in ["a", "b", "b", "c"] {
            cache.keep(name, &half);
        }
        cache.keep("too large", &Bytes::from(vec![0; KEPT_MAX_BYTES + 1]));
        let kept = ["a", "b", "c", "too large"].map(|name| cache.get(name).is_some());
        assert_eq!(kept, [false, true, true, false]);
        assert_eq!(cache.lock().bytes, KEPT_MAX_BYTES);
    }
}
