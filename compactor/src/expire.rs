//! `expire`: removes old snapshots, and then the files that only they needed.
//!
//! Every manifest of the expired snapshots that no retained snapshot has is read once; of the retained ones only those
//! are read that could still hold a candidate.

use coldfront_program::progress::Progress;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use coldfront_lake::LakeError;
use coldfront_lake::catalog::Loaded;
use coldfront_lake::commit::{self, now_ms};
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{MAIN_BRANCH, ManifestFile, Operation, Snapshot, SnapshotRetention, TableMetadata};

use crate::error::Result;
use crate::failpoint;
use crate::metrics;
use crate::policy::Policy;
use crate::work::{Outcome, Work};

/// Metadata files read at a time.
const AT_ONCE: usize = 32;
/// Commits that others may win before this run gives up.
const TRIES: usize = 20;
/// Snapshots of one commit, so that its body stays small.
const SNAPSHOTS_PER_COMMIT: usize = 10_000;

/// What a run removes from the metadata.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub snapshots: Vec<i64>,
    pub refs: Vec<String>,
}

pub async fn run(work: &mut Work<'_>, policy: &Policy, mut head: Loaded) -> Result<Outcome> {
    let mut chosen = plan(&head, policy, now_ms());
    if chosen.snapshots.is_empty() {
        return Ok(Outcome::nothing("nothing to do"));
    }
    if work.dry_run {
        let count = chosen.snapshots.len();
        return Ok(Outcome::nothing(format!("would expire {count} snapshots and {} references", chosen.refs.len())));
    }
    failpoint::reach(failpoint::PLANNED).await;
    let mut connection = work.claims().await?;
    let mut claim = work.claim(&mut connection).await?;
    failpoint::reach(failpoint::CLAIMED).await;
    let mut expired = None;
    for attempt in 0..TRIES {
        if attempt > 0 || !work.is_fresh(&head) {
            head = work.load().await?;
            chosen = plan(&head, policy, now_ms());
        }
        if chosen.snapshots.is_empty() {
            break;
        }
        let prepared = commit::expire(&head, &chosen.snapshots, &chosen.refs);
        claim.assert_held().await?;
        match prepared.apply(&work.catalog, &work.relation.id, &work.reader).await {
            Ok(after) => {
                expired = Some(after);
                break;
            }
            Err(LakeError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    failpoint::reach(failpoint::EXPIRED).await;
    claim.release().await?;
    let Some(after) = expired else { return Ok(Outcome::nothing("nothing to do")) };
    work.loaded(&after);
    let removed = remove_unreferenced(work, &head.metadata, &after.metadata, &chosen.snapshots).await?;
    let text = format!("{} snapshots expired, {removed} files removed", chosen.snapshots.len());
    Ok(Outcome::done(
        text,
        &[(metrics::SNAPSHOTS_EXPIRED_TOTAL, chosen.snapshots.len() as u64), (metrics::OBJECTS_REMOVED_TOTAL, removed)],
    ))
}

/// Spec, "Snapshot Retention Policy": branches keep their own number and age of snapshots, tags their snapshot, and both
/// may have an age after which they go themselves; the main branch never does.
pub fn plan(head: &Loaded, policy: &Policy, now_ms: i64) -> Plan {
    let metadata = &head.metadata;
    let age_ms = |snapshot: i64| metadata.snapshot_by_id(snapshot).map_or(0, |s| now_ms - s.timestamp_ms());
    let default_age_ms = i64::try_from(policy.snapshot_age.as_millis()).unwrap_or(i64::MAX);
    let ref_age_ms: Option<i64> =
        metadata.properties().get("history.expire.max-ref-age-ms").and_then(|value| value.parse().ok());
    let mut keep: HashSet<i64> = policy.pins.iter().copied().chain(metadata.current_snapshot_id()).collect();
    let mut plan = Plan::default();
    let main_missing = !head.refs.contains_key(MAIN_BRANCH);
    if let (true, Some(current)) = (main_missing, metadata.current_snapshot_id()) {
        keep_branch(metadata, current, policy.snapshots_min, default_age_ms, now_ms, &mut keep);
    }
    for (name, reference) in &head.refs {
        let max_ref_age = match &reference.retention {
            SnapshotRetention::Branch { max_ref_age_ms, .. } | SnapshotRetention::Tag { max_ref_age_ms } => {
                max_ref_age_ms.or(ref_age_ms)
            }
        };
        if name != MAIN_BRANCH && max_ref_age.is_some_and(|max| age_ms(reference.snapshot_id) > max) {
            plan.refs.push(name.clone());
            continue;
        }
        match &reference.retention {
            SnapshotRetention::Tag { .. } => {
                keep.insert(reference.snapshot_id);
            }
            SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, .. } => {
                let least = min_snapshots_to_keep.and_then(|n| usize::try_from(n).ok()).unwrap_or(policy.snapshots_min);
                let oldest = max_snapshot_age_ms.unwrap_or(default_age_ms);
                keep_branch(metadata, reference.snapshot_id, least, oldest, now_ms, &mut keep);
            }
        }
    }
    // Snapshots on no branch, of staged or rolled back changes, go by their age.
    let old = |snapshot: &Snapshot| now_ms - snapshot.timestamp_ms() > default_age_ms;
    let gone = metadata.snapshots().filter(|s| !keep.contains(&s.snapshot_id()) && old(s));
    let mut snapshots: Vec<&Arc<Snapshot>> = gone.collect();
    snapshots.sort_by_key(|snapshot| snapshot.sequence_number());
    plan.snapshots = snapshots.into_iter().map(|s| s.snapshot_id()).take(SNAPSHOTS_PER_COMMIT).collect();
    plan.refs.sort();
    plan
}

fn keep_branch(
    metadata: &TableMetadata,
    head: i64,
    least: usize,
    max_age_ms: i64,
    now_ms: i64,
    keep: &mut HashSet<i64>,
) {
    let mut at = metadata.snapshot_by_id(head);
    let mut count = 0;
    while let Some(snapshot) = at {
        if count >= least.max(1) && now_ms - snapshot.timestamp_ms() > max_age_ms {
            break;
        }
        keep.insert(snapshot.snapshot_id());
        count += 1;
        at = snapshot.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id));
    }
}

/// Removes what only the expired snapshots reached: data first, then the metadata that leads to it, so that a run that is
/// cut short leaves nothing that the orphan pass would not find.
async fn remove_unreferenced(
    work: &Work<'_>,
    before: &TableMetadata,
    after: &TableMetadata,
    expired: &[i64],
) -> Result<u64> {
    let gone: HashSet<i64> = expired.iter().copied().collect();
    let (old, kept): (Vec<_>, Vec<_>) = before.snapshots().partition(|s| gone.contains(&s.snapshot_id()));
    let progress = Progress::start(format!("{} expire", work.relation), (old.len() + after.snapshots().len()) as u64);
    // Snapshots that others committed since are in `after` alone; they may reuse what the expired ones have.
    let newer = after.snapshots().filter(|s| before.snapshot_by_id(s.snapshot_id()).is_none());
    let live = manifests_of(work, after, kept.into_iter().chain(newer).collect(), &progress).await?;
    let dead = expired_manifests(work, before, old.clone(), &live, &progress).await?;
    let mut candidates: HashSet<String> = HashSet::new();
    each_file(work, dead.values(), true, |path| {
        candidates.insert(path.to_owned());
    })
    .await?;
    if !candidates.is_empty() {
        each_file(work, live.values(), false, |path| {
            candidates.remove(path);
        })
        .await?;
    }
    let live_statistics: HashSet<&str> = after
        .statistics_iter()
        .map(|s| s.statistics_path.as_str())
        .chain(after.partition_statistics_iter().map(|s| s.statistics_path.as_str()))
        .collect();
    let statistics = before
        .statistics_iter()
        .map(|s| s.statistics_path.as_str())
        .chain(before.partition_statistics_iter().map(|s| s.statistics_path.as_str()))
        .filter(|path| !live_statistics.contains(path));
    let live_lists: HashSet<&str> = after.snapshots().map(|s| s.manifest_list()).collect();
    let lists = old.iter().map(|s| s.manifest_list()).filter(|path| !live_lists.contains(path) && !path.is_empty());
    let files: Vec<String> = candidates.into_iter().collect();
    let metadata: Vec<String> =
        dead.into_keys().chain(statistics.map(str::to_owned)).chain(lists.map(str::to_owned)).collect();
    failpoint::reach(failpoint::REMOVING).await;
    let stores = work.reader.stores();
    Ok(stores.remove(&files).await?.objects + stores.remove(&metadata).await?.objects)
}

/// Manifests of all retained snapshots, each once. Nothing may be missing: what is in none of them is removed.
async fn manifests_of(
    work: &Work<'_>,
    metadata: &TableMetadata,
    snapshots: Vec<&Arc<Snapshot>>,
    progress: &Progress,
) -> Result<HashMap<String, ManifestFile>> {
    let reader = &work.reader;
    let mut lists = futures::stream::iter(snapshots)
        .map(|snapshot| async move { reader.manifests(metadata, snapshot).await })
        .buffer_unordered(AT_ONCE);
    let mut out = HashMap::new();
    while let Some(manifests) = lists.try_next().await? {
        out.extend(manifests.into_iter().map(slim));
        progress.advance(1);
    }
    Ok(out)
}

/// Manifests of the expired snapshots.
///
/// Lists of a table that is only appended to hold each other, so that reading all of them would cost the square of their
/// number. From the newest on, an append is passed over when a list that was read has a manifest of it. (Should it have
/// added another one, that was rewritten since, then that one is left to the orphan pass.)
async fn expired_manifests(
    work: &Work<'_>,
    metadata: &TableMetadata,
    mut snapshots: Vec<&Arc<Snapshot>>,
    live: &HashMap<String, ManifestFile>,
    progress: &Progress,
) -> Result<HashMap<String, ManifestFile>> {
    snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.sequence_number()));
    let mut covered: HashSet<i64> = live.values().map(|manifest| manifest.added_snapshot_id).collect();
    let mut out = HashMap::new();
    let mut rest = snapshots.into_iter().peekable();
    while rest.peek().is_some() {
        let is_new =
            |s: &&Arc<Snapshot>| s.summary().operation != Operation::Append || !covered.contains(&s.snapshot_id());
        // The first tells which of its ancestors can be passed over; lists that are needed in any case come with it.
        let mut batch: Vec<&Arc<Snapshot>> = Vec::new();
        while batch.len() < AT_ONCE && batch.iter().all(|s| s.summary().operation != Operation::Append) {
            let Some(next) = rest.next() else { break };
            progress.advance(1);
            batch.extend(Some(next).filter(is_new));
        }
        let reader = &work.reader;
        let mut lists = futures::stream::iter(batch)
            .map(|snapshot| async move {
                match reader.manifests(metadata, snapshot).await {
                    Err(error) if error.is_missing() => Ok(Vec::new()),
                    other => other,
                }
            })
            .buffer_unordered(AT_ONCE);
        while let Some(manifests) = lists.try_next().await? {
            covered.extend(manifests.iter().map(|manifest| manifest.added_snapshot_id));
            out.extend(manifests.into_iter().map(slim).filter(|(path, _)| !live.contains_key(path)));
        }
    }
    Ok(out)
}

/// Summaries take most of the room and are not needed here.
fn slim(mut manifest: ManifestFile) -> (String, ManifestFile) {
    manifest.partitions = None;
    (manifest.manifest_path.clone(), manifest)
}

/// Of expired manifests every file is a candidate; of retained ones only the live files are needed. Spec, "Snapshots": a
/// file with a DELETED entry may be removed once no snapshot is left in which it is live.
async fn each_file(
    work: &Work<'_>,
    manifests: impl Iterator<Item = &ManifestFile>,
    expired: bool,
    mut see: impl FnMut(&str),
) -> Result<()> {
    let reader = &work.reader;
    let mut reads = futures::stream::iter(manifests)
        .map(|manifest| async move {
            match reader.manifest(manifest).await {
                Err(error) if expired && error.is_missing() => Ok(None),
                other => other.map(Some),
            }
        })
        .buffer_unordered(AT_ONCE);
    while let Some(content) = reads.try_next().await? {
        let entries = content.iter().flat_map(|content| &content.entries);
        for entry in entries.filter(|entry| expired || entry.is_alive()) {
            see(entry.file_path());
        }
    }
    Ok(())
}
