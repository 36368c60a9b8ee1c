//! What a snapshot holds, as far as planning needs it: about 300 bytes for each live file.

use std::collections::HashMap;
use std::sync::Arc;

use coldfront_lake::LakeError;
use coldfront_lake::catalog::Loaded;
use coldfront_lake::commit::head_manifests;
pub use coldfront_lake::data_file::Partition;
use coldfront_lake::read::Reader;
use coldfront_lake::summary::Totals;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{DataContentType, DataFile, DataFileFormat, ManifestEntry, ManifestFile, PrimitiveLiteral};

use crate::error::Result;

/// Manifests read at a time.
const AT_ONCE: usize = 24;
/// Field id of `file_path` in position delete files. Spec, "Position Delete Files".
const DELETE_PATH_ID: i32 = 2_147_483_546;

/// A live file.
#[derive(Debug)]
pub struct File {
    pub path: String,
    pub partition: Arc<Partition>,
    pub content: DataContentType,
    pub format: DataFileFormat,
    /// Data sequence number.
    pub sequence: i64,
    pub records: u64,
    pub bytes: u64,
    pub equality_ids: Vec<i32>,
    /// For position deletes: the only data file they are for, where the manifest tells.
    pub only_for: Option<String>,
    pub lower_bounds: Vec<(i32, iceberg::spec::Datum)>,
}

#[derive(Default)]
pub struct View {
    /// Sequence number of the snapshot: every delete with it or an older one is in here.
    pub sequence: i64,
    pub data: Vec<Arc<File>>,
    pub deletes: Vec<Arc<File>>,
    pub totals: Totals,
    pub manifests: Vec<ManifestFile>,
    /// Live files of each manifest, by its path.
    pub by_manifest: HashMap<String, Arc<Vec<Arc<File>>>>,
}

/// Makes views of one table's snapshots; what they share is read once.
#[derive(Default)]
pub struct Viewer {
    manifests: HashMap<String, Arc<Vec<Arc<File>>>>,
    partitions: HashMap<Arc<Partition>, ()>,
    /// Columns whose lower bounds are kept.
    bounds_of: Vec<i32>,
}

impl Viewer {
    pub fn new(bounds_of: Vec<i32>) -> Self {
        Self { bounds_of, ..Self::default() }
    }

    pub async fn view(&mut self, reader: &Reader, head: &Loaded) -> Result<View> {
        let manifests = head_manifests(reader, &head.metadata).await?;
        let known = std::mem::take(&mut self.manifests);
        let missing = manifests.iter().filter(|m| !known.contains_key(&m.manifest_path));
        let mut reads = futures::stream::iter(missing)
            .map(|manifest| async move { Ok::<_, LakeError>((manifest, reader.manifest(manifest).await?)) })
            .buffer_unordered(AT_ONCE);
        let mut found = HashMap::new();
        while let Some((manifest, content)) = reads.try_next().await? {
            let live = content.entries.iter().filter(|entry| entry.is_alive());
            let files: Vec<_> = live.map(|entry| Arc::new(self.file(entry, content.spec.spec_id()))).collect();
            found.insert(manifest.manifest_path.clone(), Arc::new(files));
            reader.put_back(manifest, content);
        }
        drop(reads);
        found.extend(known);
        // What this snapshot no longer has is not kept.
        for manifest in &manifests {
            if let Some(files) = found.remove(&manifest.manifest_path) {
                self.manifests.insert(manifest.manifest_path.clone(), files);
            }
        }
        Ok(self.assemble(head, manifests))
    }

    fn assemble(&self, head: &Loaded, manifests: Vec<ManifestFile>) -> View {
        let sequence = head.metadata.current_snapshot().map_or(0, |snapshot| snapshot.sequence_number());
        let mut view = View { sequence, by_manifest: self.manifests.clone(), ..View::default() };
        for file in manifests.iter().filter_map(|m| self.manifests.get(&m.manifest_path)).flat_map(|f| f.iter()) {
            view.totals.add(file.content, file.records, file.bytes);
            match file.content {
                DataContentType::Data => view.data.push(Arc::clone(file)),
                _ => view.deletes.push(Arc::clone(file)),
            }
        }
        view.manifests = manifests;
        view
    }

    fn file(&mut self, entry: &ManifestEntry, spec_id: i32) -> File {
        let file = &entry.data_file;
        let partition = Arc::new(Partition { spec_id, values: file.partition().clone() });
        let partition = match self.partitions.get_key_value(&partition) {
            Some((known, ())) => Arc::clone(known),
            None => {
                self.partitions.insert(Arc::clone(&partition), ());
                partition
            }
        };
        let bounds = self.bounds_of.iter().filter_map(|id| Some((*id, file.lower_bounds().get(id)?.clone())));
        File {
            path: file.file_path().to_owned(),
            partition,
            content: file.content_type(),
            format: file.file_format(),
            sequence: entry.sequence_number.unwrap_or_default(),
            records: file.record_count(),
            bytes: file.file_size_in_bytes(),
            equality_ids: file.equality_ids().unwrap_or_default(),
            only_for: only_for(file),
            lower_bounds: bounds.collect(),
        }
    }
}

/// Spec, "Manifests", `referenced_data_file`; or equal bounds of the path, which are then the path itself.
fn only_for(file: &DataFile) -> Option<String> {
    if file.content_type() != DataContentType::PositionDeletes {
        return None;
    }
    let path = |bounds: &HashMap<i32, iceberg::spec::Datum>| match bounds.get(&DELETE_PATH_ID)?.literal() {
        PrimitiveLiteral::String(path) => Some(path.clone()),
        _ => None,
    };
    file.referenced_data_file().or_else(|| {
        let (lower, upper) = (path(file.lower_bounds())?, path(file.upper_bounds())?);
        (lower == upper).then_some(lower)
    })
}
