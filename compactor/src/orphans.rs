//! `orphans`: removes objects below a table's location that nothing refers to.
//!
//! What is removed was listed as old and unreferenced, and then the table's claim was ours for a moment: no statement was
//! between staging files and committing them, so whatever one had staged before is either in the head that is read then,
//! and kept, or abandoned. Exports of the archiver stage files without the claim; none is under way from the listing to the
//! last removal. Writers that know nothing of either have the age guard.

use coldfront_program::progress::Progress;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::Utc;
use coldfront_lake::LakeError;
use coldfront_lake::catalog::{Loaded, TableId};
use coldfront_lake::place::Place;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::TableMetadata;

use crate::claim::keep_exports_off;
use crate::error::Result;
use crate::failpoint;
use crate::metrics;
use crate::policy::Policy;
use crate::work::{Outcome, Work};

/// Metadata files read at a time.
const AT_ONCE: usize = 32;
/// Objects removed between two looks at the progress bar.
const REMOVED_AT_ONCE: usize = 10_000;
/// Properties that put a table's files elsewhere than below its location.
const PATH_PROPERTIES: [&str; 4] =
    ["write.data.path", "write.metadata.path", "write.folder-storage.path", "write.object-storage.path"];

/// Names of objects as hashes: should two agree, an orphan is kept.
#[derive(Default)]
struct Names(HashSet<u64>);

impl Names {
    fn hash(url: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        Place::parse(url).identity().hash(&mut hasher);
        hasher.finish()
    }

    fn add(&mut self, url: &str) {
        self.0.insert(Self::hash(url));
    }

    fn has(&self, url: &str) -> bool {
        self.0.contains(&Self::hash(url))
    }
}

/// What retained metadata refers to.
#[derive(Default)]
struct Referenced {
    names: Names,
    /// Snapshots and manifests whose files are among them.
    snapshots: HashSet<i64>,
    manifests: Names,
}

struct Candidate {
    url: String,
    bytes: u64,
}

pub async fn run(work: &mut Work<'_>, policy: &Policy, head: Loaded) -> Result<Outcome> {
    let mut connection = work.claims().await?;
    if !keep_exports_off(&mut connection, work.relation).await? {
        return Ok(Outcome::nothing("left to the next pass, as an export of the archiver is under way"));
    }
    let others = other_locations(work, &head.metadata).await?;
    // Listed before it is known what is referred to: what is committed in between was referred to all the time.
    let candidates = list(work, policy, &head.metadata, &others).await?;
    let mut referenced = Referenced::default();
    referenced.read(work, &head).await?;
    let mut orphans: Vec<Candidate> = candidates.into_iter().filter(|c| !referenced.names.has(&c.url)).collect();
    let bytes = |orphans: &[Candidate]| orphans.iter().map(|c| c.bytes).sum::<u64>();
    if work.dry_run {
        for orphan in &orphans {
            println!("{}", orphan.url);
        }
        return Ok(Outcome::nothing(format!("would remove {} objects with {} bytes", orphans.len(), bytes(&orphans))));
    }
    failpoint::reach(failpoint::LISTED).await;
    if orphans.is_empty() {
        return Ok(Outcome::nothing("nothing to do"));
    }
    // Our turn among the writers, then the head as it is now.
    let claim = work.claim(&mut connection).await?;
    let now = work.load().await?;
    claim.release().await?;
    referenced.read(work, &now).await?;
    orphans.retain(|orphan| !referenced.names.has(&orphan.url));
    failpoint::reach(failpoint::REMOVING).await;
    let progress = Progress::start(format!("{} orphans", work.relation), orphans.len() as u64);
    let (mut objects, mut failed, total) = (0, 0, bytes(&orphans));
    let urls: Vec<String> = orphans.into_iter().map(|orphan| orphan.url).collect();
    for urls in urls.chunks(REMOVED_AT_ONCE) {
        let removed = work.reader.stores().remove(urls).await?;
        objects += removed.objects;
        failed += removed.failed;
        progress.advance(urls.len() as u64);
    }
    let text = match failed {
        0 => format!("{objects} objects with {total} bytes removed"),
        _ => format!("{objects} objects removed, {failed} could not be removed and are left to the next pass"),
    };
    Ok(Outcome::done(text, &[(metrics::OBJECTS_REMOVED_TOTAL, objects), (metrics::BYTES_REMOVED_TOTAL, total)]))
}

/// Old objects below the table's location that are in no other table's.
async fn list(work: &Work<'_>, policy: &Policy, metadata: &TableMetadata, others: &[String]) -> Result<Vec<Candidate>> {
    let root = metadata.location().trim_end_matches('/').to_owned();
    let (mut found, mut nested) = (Vec::new(), HashSet::new());
    let mut listed = work.reader.stores().list(&root)?;
    while let Some((url, object)) = listed.try_next().await? {
        if let Some(table) = nested_table(&root, &url) {
            nested.insert(table.to_owned());
        }
        let is_old = (Utc::now() - object.last_modified).to_std().is_ok_and(|age| age >= policy.orphan_age);
        if is_old && !is_marker(&url) && !others.iter().any(|other| is_below(&url, other)) {
            found.push(Candidate { url, bytes: object.size });
        }
    }
    // A table that the catalog does not tell us of, such as one of another catalog, shows by its metadata.
    found.retain(|candidate| !nested.iter().any(|table| is_below(&candidate.url, table)));
    Ok(found)
}

/// `<root>/x/metadata/….metadata.json` says that `<root>/x` is a table.
fn nested_table<'a>(root: &str, url: &'a str) -> Option<&'a str> {
    let (directory, name) = url.rsplit_once('/')?;
    let table = directory.strip_suffix("/metadata").filter(|_| name.ends_with(".metadata.json"))?;
    (table.len() > root.len()).then_some(table)
}

fn is_below(url: &str, location: &str) -> bool {
    let ((scheme, bucket, key), of) = (Place::parse(url).identity(), Place::parse(location).identity());
    (scheme, bucket) == (of.0, of.1) && key.strip_prefix(of.2).is_some_and(|rest| rest.starts_with('/'))
}

/// Stores keep empty objects as directories.
fn is_marker(url: &str) -> bool {
    url.ends_with('/') || url.ends_with("/version-hint.text")
}

/// Where other tables keep files below this one's location.
async fn other_locations(work: &Work<'_>, metadata: &TableMetadata) -> Result<Vec<String>> {
    let all = work.locations.get_or_try_init(|| locations(work)).await?;
    let others = all.iter().filter(|(table, place)| *table != work.relation.id && is_below(place, metadata.location()));
    Ok(others.map(|(_, place)| place.clone()).collect())
}

/// Where all tables of the catalog keep files.
async fn locations(work: &Work<'_>) -> Result<Vec<(TableId, String)>> {
    let catalog = &work.catalog;
    let mut loads = futures::stream::iter(catalog.list_tables().await?)
        .map(|table: TableId| async move {
            match catalog.load(&table, false).await {
                // Dropped since it was listed.
                Err(LakeError::NotFound { .. }) => Ok(None),
                other => other.map(|loaded| Some((table, loaded))),
            }
        })
        .buffer_unordered(AT_ONCE);
    let mut out = Vec::new();
    while let Some(loaded) = loads.try_next().await? {
        let Some((table, loaded)) = loaded else { continue };
        let properties = PATH_PROPERTIES.iter().filter_map(|name| loaded.metadata.properties().get(*name));
        let places = std::iter::once(loaded.metadata.location()).chain(properties.map(String::as_str));
        out.extend(places.map(|place| (table.clone(), place.to_owned())));
    }
    Ok(out)
}

impl Referenced {
    /// Adds what a state of the table refers to. Each manifest is read once, however many snapshots have it.
    async fn read(&mut self, work: &Work<'_>, head: &Loaded) -> Result<()> {
        let metadata = &head.metadata;
        for url in head.metadata_location.iter().chain(metadata.metadata_log().iter().map(|entry| &entry.metadata_file))
        {
            self.names.add(url);
        }
        let statistics = metadata.statistics_iter().map(|s| &s.statistics_path);
        for url in statistics.chain(metadata.partition_statistics_iter().map(|s| &s.statistics_path)) {
            self.names.add(url);
        }
        let new = metadata.snapshots().filter(|snapshot| self.snapshots.insert(snapshot.snapshot_id()));
        let new: Vec<_> = new.cloned().collect();
        let reader = &work.reader;
        let progress = Progress::start(format!("{} snapshots", work.relation), new.len() as u64);
        let mut lists = futures::stream::iter(&new)
            .map(|snapshot| async move { Ok::<_, LakeError>((snapshot, reader.manifests(metadata, snapshot).await?)) })
            .buffer_unordered(AT_ONCE);
        let mut manifests = Vec::new();
        while let Some((snapshot, list)) = lists.try_next().await? {
            self.names.add(snapshot.manifest_list());
            for mut manifest in list {
                if !self.manifests.has(&manifest.manifest_path) {
                    self.manifests.add(&manifest.manifest_path);
                    self.names.add(&manifest.manifest_path);
                    manifest.partitions = None;
                    manifests.push(manifest);
                }
            }
            progress.advance(1);
        }
        let mut reads = futures::stream::iter(&manifests)
            .map(|manifest| async move { reader.manifest(manifest).await })
            .buffer_unordered(AT_ONCE);
        while let Some(content) = reads.try_next().await? {
            for entry in content.entries.iter().filter(|entry| entry.is_alive()) {
                self.names.add(entry.file_path());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_below_are_recognised() {
        let nested = |url| nested_table("s3://b/n/t", url);
        assert_eq!(nested("s3://b/n/t/u/metadata/v1.metadata.json"), Some("s3://b/n/t/u"));
        assert_eq!(nested("s3://b/n/t/metadata/v1.metadata.json"), None);
        assert_eq!(nested("s3://b/n/t/u/metadata/snap-1.avro"), None);
        assert!(is_below("s3://b/n/t/u/data/x", "s3a://b/n/t/u/"));
        assert!(!is_below("s3://b/n/t/uv/data/x", "s3://b/n/t/u"));
    }
}
