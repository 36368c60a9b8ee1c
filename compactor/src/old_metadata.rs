//! `metadata`: removes metadata.json files that the table's log of them no longer has, as the table's properties say.
//! Table properties `write.metadata.previous-versions-max` and `write.metadata.delete-after-commit.enabled`.

use std::collections::HashSet;
use std::time::Duration;

use chrono::Utc;
use coldfront_lake::catalog::Loaded;
use coldfront_lake::{place::Place, writable};
use futures::TryStreamExt;

use crate::error::Result;
use crate::failpoint;
use crate::metrics;
use crate::policy::Policy;
use crate::work::{Outcome, Work};

const DELETE_PROPERTY: &str = "write.metadata.delete-after-commit.enabled";
const VERSIONS_PROPERTY: &str = "write.metadata.previous-versions-max";
const VERSIONS: usize = 100;
/// A metadata file that is younger may be of a commit under way, here or in the catalog.
const AGE_MIN: Duration = Duration::from_secs(3600);

pub async fn run(work: &mut Work<'_>, policy: &Policy, head: Loaded) -> Result<Outcome> {
    let metadata = &head.metadata;
    let Some(current) = &head.metadata_location else {
        return Ok(Outcome::nothing("the catalog does not tell where the metadata is"));
    };
    if metadata.properties().get(DELETE_PROPERTY).is_none_or(|value| value != "true") {
        return Ok(Outcome::nothing(format!("left alone: the table property {DELETE_PROPERTY} is not true")));
    }
    let versions = metadata.properties().get(VERSIONS_PROPERTY).and_then(|v| v.parse().ok()).unwrap_or(VERSIONS);
    let log = metadata.metadata_log();
    let kept = log.iter().rev().take(versions).map(|entry| entry.metadata_file.as_str());
    let kept: HashSet<_> = kept.chain([current.as_str()]).map(|url| Place::parse(url).identity()).collect();
    // Only what is beside the current one: elsewhere may be other tables.
    let directory = writable::metadata_dir(metadata);
    let mut listed = work.reader.stores().list(&directory)?;
    let (mut old, mut bytes) = (Vec::new(), 0);
    let age = policy.orphan_age.min(AGE_MIN);
    while let Some((url, object)) = listed.try_next().await? {
        let name = url.rsplit('/').next().unwrap_or_default();
        let is_here = url.len() == directory.len() + 1 + name.len();
        let is_old = (Utc::now() - object.last_modified).to_std().is_ok_and(|a| a >= age);
        let is_metadata = name.ends_with(".metadata.json") || name.ends_with(".gz.metadata.json");
        if is_here && is_metadata && is_old && !kept.contains(&Place::parse(&url).identity()) {
            bytes += object.size;
            old.push(url);
        }
    }
    if work.dry_run {
        return Ok(Outcome::nothing(format!("would remove {} metadata files with {bytes} bytes", old.len())));
    }
    failpoint::reach(failpoint::REMOVING).await;
    let removed = work.reader.stores().remove(&old).await?;
    Ok(Outcome::done(
        format!("{} of {} old metadata files removed", removed.objects, old.len()),
        &[(metrics::OBJECTS_REMOVED_TOTAL, removed.objects)],
    ))
}
