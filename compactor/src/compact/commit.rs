//! Brings rewritten files into the table: validated against the head, under the claim.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use coldfront_lake::LakeError;
use coldfront_lake::commit::{self, Change, NewFile};
use iceberg::spec::Operation;

use super::view::File;
use super::{Done, Ready, State};
use crate::error::Result;
use crate::failpoint;
use crate::work::Work;

/// Writers that know nothing of the claim may come in between this often.
const TRIES: usize = 20;

/// Commits what is still valid of `ready`, and gives the rest up. Also removes delete files that apply to nothing.
pub async fn round(work: &mut Work<'_>, state: &mut State, mut ready: Vec<Ready>, done: &mut Done) -> Result<()> {
    let planned: HashSet<String> = state.view.deletes.iter().map(|file| file.path.clone()).collect();
    let mut connection = work.claims().await?;
    let mut claim = work.claim(&mut connection).await?;
    failpoint::reach(failpoint::CLAIMED).await;
    for attempt in 0..TRIES {
        // The catalog compares: if the head is still the one that was planned from, it need not be read again.
        if attempt > 0 || !work.is_fresh(&state.head) {
            let head = work.load().await?;
            state.follow(work, head).await?;
            let (valid, invalid) = split(state, &planned, ready);
            ready = valid;
            give_up(work, invalid, done).await;
        }
        let gone: HashSet<&str> =
            ready.iter().flat_map(|r| &r.bin.inputs).map(|input| input.file.path.as_str()).collect();
        let added: Vec<_> = ready.iter().map(|r| (Arc::clone(&r.bin.partition), r.sequence)).collect();
        let dangling = state.deletes.dangling(&state.view, &gone, &added);
        if gone.is_empty() && dangling.is_empty() {
            break;
        }
        let removed: HashSet<String> = gone.iter().map(|p| (*p).to_owned()).chain(dangling.iter().cloned()).collect();
        let prepared = {
            let touched = touched(state, &removed);
            let change = change(state, &ready, removed);
            let manifests = &state.view.manifests;
            commit::build(
                &work.reader,
                &work.relation.id,
                &state.head,
                manifests,
                |m| touched.contains(&m.manifest_path),
                change,
            )
            .await?
        };
        failpoint::reach(failpoint::PREPARED).await;
        if let Err(lost) = claim.assert_held().await {
            prepared.discard(&work.reader).await;
            give_up(work, ready, done).await;
            return Err(lost.into());
        }
        match prepared.apply(&work.catalog, &work.relation.id, &work.reader).await {
            Ok(head) => {
                failpoint::reach(failpoint::COMMITTED).await;
                claim.release().await?;
                count(&ready, dangling.len(), done);
                work.loaded(&head);
                return state.follow(work, head).await;
            }
            Err(LakeError::Conflict { .. }) => {
                tracing::info!(table = %work.relation, "the head moved; validating anew")
            }
            Err(error) => {
                // Where the catalog did not say no, the files may be part of the table.
                if error.is_refusal() {
                    give_up(work, ready, done).await;
                }
                return Err(error.into());
            }
        }
    }
    claim.release().await?;
    give_up(work, ready, done).await;
    Ok(())
}

/// A bin is valid while all its files are live and no position delete was added for one of them. Equality deletes that
/// came later have a higher sequence number than the rewritten file gets, and still apply to it.
fn split(state: &State, planned: &HashSet<String>, ready: Vec<Ready>) -> (Vec<Ready>, Vec<Ready>) {
    let live: HashSet<&str> = state.view.data.iter().map(|file| file.path.as_str()).collect();
    ready.into_iter().partition(|ready| {
        ready.bin.inputs.iter().all(|input| {
            let now = || state.deletes.applied_to(&input.file);
            live.contains(input.file.path.as_str()) && now().positions.iter().all(|d| planned.contains(&d.path))
        })
    })
}

/// Manifests that hold removed files.
fn touched(state: &State, removed: &HashSet<String>) -> HashSet<String> {
    let holds = |files: &[Arc<File>]| files.iter().any(|file| removed.contains(&file.path));
    state.view.by_manifest.iter().filter(|(_, files)| holds(files)).map(|(path, _)| path.clone()).collect()
}

fn change(state: &State, ready: &[Ready], removed: HashSet<String>) -> Change {
    let added = ready.iter().flat_map(|ready| {
        let spec_id = ready.bin.partition.spec_id;
        ready.files.iter().map(move |file| NewFile { file: file.clone(), spec_id })
    });
    Change {
        operation: Operation::Replace,
        added: added.collect(),
        sequence: ready.iter().map(|ready| ready.sequence).min(),
        removed,
        totals: Some(state.view.totals),
        notes: HashMap::from([("coldfront.task".to_owned(), "compact".to_owned())]),
    }
}

async fn give_up(work: &Work<'_>, ready: Vec<Ready>, done: &mut Done) {
    done.given_up += ready.len() as u64;
    let urls: Vec<String> =
        ready.iter().flat_map(|ready| &ready.files).map(|file| file.file_path().to_owned()).collect();
    if let Err(error) = work.reader.stores().remove(&urls).await {
        tracing::debug!(%error, "left given up files to the orphan pass");
    }
}

fn count(ready: &[Ready], dangling: usize, done: &mut Done) {
    done.commits += 1;
    done.deletes_removed += dangling as u64;
    for ready in ready {
        done.files_before += ready.bin.inputs.len() as u64;
        done.bytes_before += ready.bin.bytes();
        done.files_after += ready.files.len() as u64;
        done.bytes_after += ready.files.iter().map(|file| file.file_size_in_bytes()).sum::<u64>();
    }
}
