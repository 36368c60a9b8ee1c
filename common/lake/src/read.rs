//! Reads manifest lists and manifests. Files never change, so a bounded part of what was read is kept.

use std::collections::HashMap;
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

/// A manifest with the values that its entries inherit.
pub struct ManifestContent {
    pub schema: SchemaRef,
    pub spec: PartitionSpec,
    /// Type of the partition tuples in it.
    pub partition_type: StructType,
    pub entries: Vec<ManifestEntry>,
}

pub struct Reader {
    stores: Arc<Stores>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    files: HashMap<String, Bytes>,
    bytes: usize,
}

impl Reader {
    pub fn new(stores: Arc<Stores>) -> Self {
        Self { stores, kept: Mutex::default() }
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
        let kept = self.lock().files.remove(url);
        let bytes = match kept {
            Some(bytes) => bytes,
            None => self.stores.get(url).await?,
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
        let bytes = self.bytes(&file.manifest_path).await?;
        let what = || LakeError::metadata(format!("manifest {}", file.manifest_path));
        let (entries, metadata) = Manifest::parse_avro(&bytes).map_err(what())?.into_parts();
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

    /// A small file that is read more than once, such as one with deletes.
    pub async fn bytes(&self, url: &str) -> Result<Bytes> {
        if let Some(bytes) = self.lock().files.get(url) {
            return Ok(bytes.clone());
        }
        let bytes = self.stores.get(url).await?;
        self.keep(url, &bytes);
        Ok(bytes)
    }

    /// What was just written will be read soon.
    pub(crate) fn keep(&self, url: &str, bytes: &Bytes) {
        let mut kept = self.lock();
        if kept.bytes + bytes.len() <= KEPT_MAX_BYTES && !kept.files.contains_key(url) {
            kept.bytes += bytes.len();
            kept.files.insert(url.to_owned(), bytes.clone());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
