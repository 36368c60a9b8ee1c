//! `rewrite-manifests`: merges small manifests, their entries sorted by partition so that readers can pass over most.

use std::collections::{HashMap, HashSet};

use coldfront_lake::catalog::Loaded;
use coldfront_lake::commit::{self, Change, head_manifests};
use coldfront_lake::{LakeError, writable};
use iceberg::spec::{ManifestFile, Operation, TableMetadata};

use crate::error::Result;
use crate::failpoint;
use crate::policy::Policy;
use crate::work::{Outcome, Work};

const SIZE_PROPERTY: &str = "commit.manifest.target-size-bytes";
const SIZE: i64 = 8 * 1024 * 1024;
const TRIES: usize = 20;

pub async fn run(work: &mut Work<'_>, policy: &Policy, mut head: Loaded) -> Result<Outcome> {
    if head.metadata.current_snapshot().is_none() {
        return Ok(Outcome::nothing("the table is empty"));
    }
    writable::check(&work.relation.to_string(), &head.metadata)?;
    let mut manifests = head_manifests(&work.reader, &head.metadata).await?;
    let mut small = choose(&head.metadata, &manifests, policy);
    if small.is_empty() {
        return Ok(Outcome::nothing("nothing to do"));
    }
    if work.dry_run {
        return Ok(Outcome::nothing(format!("would rewrite {} of {} manifests", small.len(), manifests.len())));
    }
    // Read before the claim; the reader keeps them for the commit.
    commit::warm(&work.reader, manifests.iter().filter(|m| small.contains(&m.manifest_path))).await?;
    failpoint::reach(failpoint::PLANNED).await;
    let mut connection = work.claims().await?;
    let mut claim = work.claim(&mut connection).await?;
    failpoint::reach(failpoint::CLAIMED).await;
    for attempt in 0..TRIES {
        if attempt > 0 || !work.is_fresh(&head) {
            head = work.load().await?;
            manifests = head_manifests(&work.reader, &head.metadata).await?;
            small = choose(&head.metadata, &manifests, policy);
        }
        if small.is_empty() {
            break;
        }
        let change = Change {
            operation: Operation::Replace,
            added: Vec::new(),
            sequence: None,
            removed: HashSet::new(),
            totals: None,
            notes: HashMap::from([("coldfront.task".to_owned(), "rewrite-manifests".to_owned())]),
        };
        let is_small = |manifest: &ManifestFile| small.contains(&manifest.manifest_path);
        let prepared = commit::build(&work.reader, &work.relation.id, &head, &manifests, is_small, change).await?;
        failpoint::reach(failpoint::PREPARED).await;
        if let Err(lost) = claim.assert_held().await {
            prepared.discard(&work.reader).await;
            return Err(lost.into());
        }
        match prepared.apply(&work.catalog, &work.relation.id, &work.reader).await {
            Ok(after) => {
                failpoint::reach(failpoint::COMMITTED).await;
                claim.release().await?;
                let now = head_manifests(&work.reader, &after.metadata).await?;
                return Ok(Outcome::nothing(format!("{} manifests became {}", manifests.len(), now.len())));
            }
            Err(LakeError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    claim.release().await?;
    Ok(Outcome::nothing("nothing to do"))
}

/// Manifests below half the target size, when there are more of them than the policy bears.
fn choose(metadata: &TableMetadata, manifests: &[ManifestFile], policy: &Policy) -> HashSet<String> {
    let target = metadata.properties().get(SIZE_PROPERTY).and_then(|v| v.parse().ok()).unwrap_or(SIZE);
    let mut by_kind: HashMap<_, Vec<&ManifestFile>> = HashMap::new();
    for manifest in manifests.iter().filter(|m| m.manifest_length < target / 2) {
        by_kind.entry((manifest.partition_spec_id, manifest.content)).or_default().push(manifest);
    }
    let enough = by_kind.into_values().filter(|small| small.len() > policy.manifests_max);
    enough.flatten().map(|manifest| manifest.manifest_path.clone()).collect()
}
