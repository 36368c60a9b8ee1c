//! Builds commits of the kinds that the `iceberg` crate lacks, and applies them: append, replace files, remove files,
//! rewrite manifests, expire snapshots.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{
    DataContentType, DataFile, Literal, MAIN_BRANCH, ManifestContentType, ManifestEntry, ManifestFile, Operation,
    PartitionSpec, PrimitiveLiteral, SchemaRef, Snapshot, SnapshotReference, SnapshotRetention, Struct, Summary,
    TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};

use crate::catalog::{Catalog, Loaded, TableId, Trace};
use crate::encode::{self, Entry};
use crate::error::{LakeError, Result};
use crate::place;
use crate::read::{ManifestContent, Reader};
use crate::summary::{self, Totals};
use crate::writable;

/// Property of a table that sets the size of its manifests, and the size without it, in bytes.
const MANIFEST_SIZE_PROPERTY: &str = "commit.manifest.target-size-bytes";
const MANIFEST_SIZE: u64 = 8 * 1024 * 1024;
/// Manifests read or written at a time.
const AT_ONCE: usize = 16;

/// A file to add, with the partition spec that it follows.
#[derive(Debug, Clone)]
pub struct NewFile {
    pub file: DataFile,
    pub spec_id: i32,
}

/// A change to a table's files.
pub struct Change {
    pub operation: Operation,
    pub added: Vec<NewFile>,
    /// Data sequence number of the added files; none for the commit's own.
    ///
    /// Spec, "Scan Planning": a delete applies to files with an older data sequence number (position deletes also to
    /// those of the same). A rewritten file therefore takes the number of the snapshot whose deletes were applied to it,
    /// so that newer equality deletes still apply and the applied ones do not.
    pub sequence: Option<i64>,
    /// Data and delete files to remove, by their paths in the manifests.
    pub removed: HashSet<String>,
    /// Of the head, if they are known; otherwise its summary is believed, or its manifests are counted.
    pub totals: Option<Totals>,
    /// Summary fields besides those that the specification names.
    pub notes: HashMap<String, String>,
}

/// A commit that was built, its files written and not yet part of the table.
pub struct Prepared {
    pub snapshot_id: i64,
    requirements: Vec<TableRequirement>,
    updates: Vec<TableUpdate>,
    trace: Trace,
    /// Metadata files that are garbage if the commit is refused.
    written: Vec<String>,
}

impl Prepared {
    /// Commits. Where the table has moved on, the files written for it are removed again.
    pub async fn apply(self, catalog: &Catalog, table: &TableId, reader: &Reader) -> Result<Loaded> {
        let outcome = catalog.commit(table, &self.requirements, &self.updates, &self.trace).await;
        if matches!(outcome, Err(LakeError::Conflict { .. })) {
            self.discard(reader).await;
        }
        outcome
    }

    /// Removes the files of a commit that is not going to be sent.
    pub async fn discard(self, reader: &Reader) {
        if let Err(error) = reader.stores().remove(&self.written).await {
            tracing::debug!(%error, "left metadata files of a refused commit to the orphan pass");
        }
    }
}

/// Builds a snapshot on top of the head.
///
/// Manifests for which `touched` holds are read and written anew; they have to include all that hold removed files. Others
/// stay as they are, except that one without a live file is left out, as nothing in it is of this snapshot.
pub async fn build(
    reader: &Reader,
    table: &TableId,
    head: &Loaded,
    manifests: &[ManifestFile],
    touched: impl Fn(&ManifestFile) -> bool,
    change: Change,
) -> Result<Prepared> {
    let metadata = &head.metadata;
    writable::check(&table.to_string(), metadata)?;
    let (touched, kept): (Vec<_>, Vec<_>) =
        manifests.iter().filter(|m| touched(m) || is_alive(m)).cloned().partition(|m| touched(m));
    let mut groups = Groups::new(metadata);
    let read = futures::stream::iter(&touched)
        .map(|file| async move { Ok::<_, LakeError>((file, reader.manifest(file).await?)) });
    let mut read = read.buffered(AT_ONCE);
    let (mut added, mut removed, mut not_found) = (Totals::default(), Totals::default(), change.removed);
    while let Some((file, content)) = read.try_next().await? {
        groups.take(file, content, |entry| {
            let gone = not_found.remove(entry.file_path());
            if gone {
                removed.count(&entry.data_file);
            }
            gone
        })?;
    }
    if let Some(path) = not_found.iter().next() {
        return Err(LakeError::Refused(format!("{path} is not a live file of {table}")));
    }
    for new in change.added {
        added.count(&new.file);
        groups.add(new, change.sequence)?;
    }
    let told = change.totals.or_else(|| Totals::from_summary(metadata.current_snapshot()?.summary()));
    let before = match told {
        Some(totals) => totals,
        None => count(reader, &touched, count(reader, &kept, Totals::default()).await?).await?,
    };
    let mut fields = summary::fields(before, added, removed);
    fields.extend(change.notes);
    let draft = Draft::new(metadata);
    draft
        .write(reader, groups.finish(), kept, Summary { operation: change.operation, additional_properties: fields })
        .await
}

/// Counts the live files of manifests, where a writer did not put totals into its summary.
async fn count(reader: &Reader, manifests: &[ManifestFile], mut totals: Totals) -> Result<Totals> {
    let reads = futures::stream::iter(manifests).map(|file| reader.manifest(file));
    let mut reads = reads.buffer_unordered(AT_ONCE);
    while let Some(content) = reads.try_next().await? {
        for entry in content.entries.iter().filter(|entry| entry.is_alive()) {
            totals.count(&entry.data_file);
        }
    }
    Ok(totals)
}

/// Spec, "Manifest Lists": a null count is taken for more than none.
fn is_alive(manifest: &ManifestFile) -> bool {
    manifest.has_added_files() || manifest.has_existing_files()
}

/// Entries of new manifests by what one manifest can hold: spec, "Manifests": one partition spec, data or deletes.
struct Groups<'a> {
    metadata: &'a TableMetadata,
    groups: Vec<Group>,
    bytes_max: u64,
}

struct Group {
    content: ManifestContentType,
    schema: SchemaRef,
    spec: PartitionSpec,
    /// How partition values are typed; older manifests may have types that were promoted since.
    typed: String,
    entries: Vec<Entry>,
    bytes: u64,
}

impl<'a> Groups<'a> {
    fn new(metadata: &'a TableMetadata) -> Self {
        let size = metadata.properties().get(MANIFEST_SIZE_PROPERTY).and_then(|v| v.parse().ok());
        Self { metadata, groups: Vec::new(), bytes_max: size.unwrap_or(MANIFEST_SIZE).max(1) }
    }

    fn take(
        &mut self,
        file: &ManifestFile,
        content: ManifestContent,
        mut is_removed: impl FnMut(&ManifestEntry) -> bool,
    ) -> Result<()> {
        let bytes = file.manifest_length.unsigned_abs() / (content.entries.len() as u64).max(1);
        let group = self.group(file.content, &content.schema, &content.spec, format!("{:?}", content.partition_type));
        for entry in content.entries.into_iter().filter(ManifestEntry::is_alive) {
            group.bytes += bytes;
            group.entries.push(match is_removed(&entry) {
                true => Entry::Deleted(entry),
                false => Entry::Existing(entry),
            });
        }
        Ok(())
    }

    fn add(&mut self, new: NewFile, sequence: Option<i64>) -> Result<()> {
        let spec = self.metadata.partition_spec_by_id(new.spec_id).cloned().ok_or_else(|| {
            LakeError::Refused(format!(
                "{} has partition spec {}, which the table lacks",
                new.file.file_path(),
                new.spec_id
            ))
        })?;
        let content = match new.file.content_type() {
            DataContentType::Data => ManifestContentType::Data,
            _ => ManifestContentType::Deletes,
        };
        // A group of the same spec took the types of the manifests that the new file's sources are in.
        let at = self.groups.iter().position(|g| g.content == content && g.spec.spec_id() == new.spec_id);
        let group = match at {
            Some(at) => &mut self.groups[at],
            None => {
                let schema = self.metadata.current_schema();
                let typed = spec.partition_type(schema).map_err(LakeError::metadata("a partition spec"))?;
                self.group(content, &schema.clone(), &spec, format!("{typed:?}"))
            }
        };
        group.bytes += 1024;
        group.entries.push(Entry::Added { file: new.file, sequence });
        Ok(())
    }

    fn group(
        &mut self,
        content: ManifestContentType,
        schema: &SchemaRef,
        spec: &PartitionSpec,
        typed: String,
    ) -> &mut Group {
        let same = |g: &Group| g.content == content && g.spec.spec_id() == spec.spec_id() && g.typed == typed;
        let at = self.groups.iter().position(same).unwrap_or_else(|| {
            // The current schema where it types the partition alike, so that old schemas fade out.
            let current = self.metadata.current_schema();
            let alike = spec.partition_type(current).is_ok_and(|t| format!("{t:?}") == typed);
            let schema = if alike { current.clone() } else { schema.clone() };
            self.groups.push(Group { content, schema, spec: spec.clone(), typed, entries: Vec::new(), bytes: 0 });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    /// Manifests to write, each near the target size, with neighbouring partitions together so that summaries prune.
    fn finish(self) -> Vec<Group> {
        let mut out = Vec::new();
        for mut group in self.groups {
            group.entries.sort_by_cached_key(|entry| PartitionKey::of(entry.file().partition()));
            let pieces = group.bytes.div_ceil(self.bytes_max).max(1) as usize;
            let length = group.entries.len().div_ceil(pieces).max(1);
            let mut rest = group.entries.into_iter().peekable();
            while rest.peek().is_some() {
                out.push(Group {
                    content: group.content,
                    schema: group.schema.clone(),
                    spec: group.spec.clone(),
                    typed: group.typed.clone(),
                    entries: rest.by_ref().take(length).collect(),
                    bytes: 0,
                });
            }
        }
        out
    }
}

impl Entry {
    fn file(&self) -> &DataFile {
        match self {
            Self::Added { file, .. } => file,
            Self::Existing(entry) | Self::Deleted(entry) => &entry.data_file,
        }
    }
}

/// Orders partition tuples.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PartitionValue {
    Null,
    Number(i128),
    Bytes(Vec<u8>),
}

struct PartitionKey;

impl PartitionKey {
    fn of(partition: &Struct) -> Vec<PartitionValue> {
        partition
            .iter()
            .map(|value| match value {
                None => PartitionValue::Null,
                Some(Literal::Primitive(primitive)) => match primitive {
                    PrimitiveLiteral::Boolean(v) => PartitionValue::Number(i128::from(*v)),
                    PrimitiveLiteral::Int(v) => PartitionValue::Number(i128::from(*v)),
                    PrimitiveLiteral::Long(v) => PartitionValue::Number(i128::from(*v)),
                    PrimitiveLiteral::Int128(v) => PartitionValue::Number(*v),
                    PrimitiveLiteral::String(v) => PartitionValue::Bytes(v.as_bytes().to_vec()),
                    other => PartitionValue::Bytes(format!("{other:?}").into_bytes()),
                },
                Some(other) => PartitionValue::Bytes(format!("{other:?}").into_bytes()),
            })
            .collect()
    }
}

/// A snapshot in the making.
struct Draft<'a> {
    metadata: &'a TableMetadata,
    directory: String,
    commit: uuid::Uuid,
    snapshot_id: i64,
}

impl<'a> Draft<'a> {
    fn new(metadata: &'a TableMetadata) -> Self {
        Self {
            metadata,
            directory: writable::metadata_dir(metadata),
            commit: uuid::Uuid::new_v4(),
            snapshot_id: new_snapshot_id(metadata),
        }
    }

    async fn write(
        self,
        reader: &Reader,
        groups: Vec<Group>,
        kept: Vec<ManifestFile>,
        summary: Summary,
    ) -> Result<Prepared> {
        let stores = reader.stores();
        let numbered = groups.into_iter().enumerate();
        let writes = futures::stream::iter(numbered).map(|(number, group)| {
            let path = place::join(&self.directory, &format!("{}-m{number}.avro", self.commit));
            async move {
                let (bytes, file) =
                    encode::manifest(&path, self.snapshot_id, group.content, group.schema, group.spec, group.entries)
                        .await?;
                reader.keep(&path, &bytes);
                stores.put(&path, bytes).await?;
                Ok::<_, LakeError>(file)
            }
        });
        let new: Vec<ManifestFile> = writes.buffered(AT_ONCE).try_collect().await?;
        let mut written: Vec<String> = new.iter().map(|m| m.manifest_path.clone()).collect();
        // Data before deletes, new before old, as the reference implementation lists them.
        let mut manifests: Vec<ManifestFile> = new.into_iter().chain(kept).collect();
        manifests.sort_by_key(|manifest| manifest.content == ManifestContentType::Deletes);
        let path = place::join(&self.directory, &format!("snap-{}-0-{}.avro", self.snapshot_id, self.commit));
        let parent = self.metadata.current_snapshot_id();
        // Spec, "Sequence Numbers": the table's last one plus one, whatever branch the parent is on.
        let sequence = self.metadata.last_sequence_number() + 1;
        let bytes = encode::manifest_list(&path, self.snapshot_id, parent, sequence, manifests).await?;
        reader.keep(&path, &bytes);
        stores.put(&path, bytes).await?;
        written.push(path.clone());
        let snapshot = Snapshot::builder()
            .with_snapshot_id(self.snapshot_id)
            .with_parent_snapshot_id(parent)
            .with_sequence_number(sequence)
            .with_timestamp_ms(now_ms().max(self.metadata.last_updated_ms()))
            .with_manifest_list(path)
            .with_summary(summary)
            .with_schema_id(self.metadata.current_schema_id())
            .build();
        let retention = SnapshotRetention::branch(None, None, None);
        let reference = SnapshotReference::new(self.snapshot_id, retention);
        Ok(Prepared {
            snapshot_id: self.snapshot_id,
            requirements: vec![
                TableRequirement::UuidMatch { uuid: self.metadata.uuid() },
                TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: parent },
            ],
            updates: vec![
                TableUpdate::AddSnapshot { snapshot },
                TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference },
            ],
            trace: Trace::Added(self.snapshot_id),
            written,
        })
    }
}

/// Removes snapshots, and references that are too old, from a table's metadata.
///
/// Spec, "Snapshot Retention Policy": the head of a branch or a tag cannot be removed while the reference is there, so
/// references are removed first. Statistics files go with their snapshot.
pub fn expire(head: &Loaded, snapshots: &[i64], refs: &[String]) -> Prepared {
    let metadata = &head.metadata;
    let mut updates: Vec<TableUpdate> =
        refs.iter().map(|name| TableUpdate::RemoveSnapshotRef { ref_name: name.clone() }).collect();
    let gone: HashSet<i64> = snapshots.iter().copied().collect();
    updates.extend(
        (metadata.statistics_iter().map(|s| s.snapshot_id).filter(|id| gone.contains(id)))
            .map(|snapshot_id| TableUpdate::RemoveStatistics { snapshot_id }),
    );
    updates.extend(
        (metadata.partition_statistics_iter().map(|s| s.snapshot_id).filter(|id| gone.contains(id)))
            .map(|snapshot_id| TableUpdate::RemovePartitionStatistics { snapshot_id }),
    );
    updates.push(TableUpdate::RemoveSnapshots { snapshot_ids: snapshots.to_vec() });
    // Neither the head nor a branch or tag may have moved: what they reach was decided from this state.
    let mut requirements = vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::RefSnapshotIdMatch {
            r#ref: MAIN_BRANCH.to_owned(),
            snapshot_id: metadata.current_snapshot_id(),
        },
    ];
    requirements.extend(head.refs.iter().filter(|(name, _)| *name != MAIN_BRANCH).map(|(name, reference)| {
        TableRequirement::RefSnapshotIdMatch { r#ref: name.clone(), snapshot_id: Some(reference.snapshot_id) }
    }));
    Prepared {
        snapshot_id: metadata.current_snapshot_id().unwrap_or(-1),
        requirements,
        updates,
        trace: Trace::Gone(snapshots.to_vec()),
        written: Vec::new(),
    }
}

/// Spec, "Snapshots": unique in the table. Positive, since some readers take -1 for none.
fn new_snapshot_id(metadata: &TableMetadata) -> i64 {
    loop {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        let id = ((high ^ low) >> 1) as i64;
        if id > 0 && metadata.snapshot_by_id(id).is_none() {
            return id;
        }
    }
}

pub fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

/// The head's manifests; none for a table without a snapshot.
pub async fn head_manifests(reader: &Reader, metadata: &Arc<TableMetadata>) -> Result<Vec<ManifestFile>> {
    match metadata.current_snapshot() {
        Some(snapshot) => reader.manifests(metadata, snapshot).await,
        None => Ok(Vec::new()),
    }
}

/// Reads manifests ahead of a commit that needs them again; the reader keeps what it has room for.
pub async fn warm(reader: &Reader, manifests: impl Iterator<Item = &ManifestFile>) -> Result<()> {
    let reads = futures::stream::iter(manifests).map(|file| async move { reader.manifest(file).await.map(drop) });
    reads.buffer_unordered(AT_ONCE).try_collect().await
}
