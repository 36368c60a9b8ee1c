//! `compact`: merges small files and applies deletes, without ever holding writers up while it reads and writes rows.
//!
//! Files are chosen and rewritten from one snapshot. Then, under the table's claim, what was rewritten is validated
//! against the head and committed: groups of files that somebody changed meanwhile are given up and planned anew.

mod bin;
mod commit;
mod deletes;
mod equality;
pub mod plan;
mod positions;
mod rows;
mod source;
pub mod view;

use coldfront_program::progress::Progress;
use std::sync::Arc;

use coldfront_lake::catalog::Loaded;
use coldfront_lake::writable;
pub use deletes::Deletes;
use futures::StreamExt;
use iceberg::spec::DataFile;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::policy::Policy;
use crate::work::{Outcome, Work};
use bin::Rewriter;
use plan::Bin;
use view::{View, Viewer};

/// Plans of one run: those after the first are for what was given up.
const PLANS_MAX: usize = 5;
/// Bins of one commit for each file that is written at a time.
const BINS_PER_COMMIT: usize = 8;

/// A snapshot, with all that planning needs of it.
pub struct State {
    pub head: Loaded,
    pub viewer: Viewer,
    pub view: View,
    pub deletes: Deletes,
}

impl State {
    pub async fn load(work: &Work<'_>, policy: &Policy, head: Loaded) -> Result<Self> {
        let schema = head.metadata.current_schema();
        let sorted_by: Vec<i32> = policy.sort_by.iter().filter_map(|name| schema.field_id_by_name(name)).collect();
        let mut viewer = Viewer::new(sorted_by);
        let view = viewer.view(&work.reader, &head).await?;
        let deletes = Deletes::of(&work.reader, &head.metadata, &view, Deletes::default()).await?;
        Ok(Self { head, viewer, view, deletes })
    }

    /// The same of a later head; what has not changed is not read again.
    async fn follow(&mut self, work: &Work<'_>, head: Loaded) -> Result<()> {
        self.view = self.viewer.view(&work.reader, &head).await?;
        let before = std::mem::take(&mut self.deletes);
        self.deletes = Deletes::of(&work.reader, &head.metadata, &self.view, before).await?;
        self.head = head;
        Ok(())
    }
}

/// Rewritten files that are not part of the table yet.
pub struct Ready {
    bin: Bin,
    files: Vec<DataFile>,
    /// Sequence number of the snapshot that was planned from.
    sequence: i64,
}

pub async fn run(work: &mut Work<'_>, policy: &Policy, head: Loaded) -> Result<Outcome> {
    let what = work.relation.to_string();
    if head.metadata.current_snapshot().is_none() {
        return Ok(Outcome::nothing("the table is empty"));
    }
    writable::check(&what, &head.metadata)?;
    let mut state = State::load(work, policy, head).await?;
    let mut done = Done::default();
    for _ in 0..PLANS_MAX {
        let bins = plan::bins(&state.view, &state.deletes, policy);
        if work.dry_run {
            return Ok(planned(&bins, &state));
        }
        failpoint::reach(failpoint::PLANNED).await;
        let given_up = done.given_up;
        if bins.is_empty() {
            if done.commits == 0 && !state.deletes.dangling(&state.view, &Default::default(), &[]).is_empty() {
                commit::round(work, &mut state, Vec::new(), &mut done).await?;
            }
            break;
        }
        rewrite_all(work, policy, &mut state, bins, &mut done).await?;
        if done.given_up == given_up {
            break;
        }
        let head = work.load().await?;
        state.follow(work, head).await?;
    }
    work.measured = Some(state);
    Ok(done.outcome())
}

/// What a run did.
#[derive(Default)]
pub struct Done {
    files_before: u64,
    files_after: u64,
    deletes_removed: u64,
    rows: u64,
    bytes_before: u64,
    bytes_after: u64,
    copied_row_groups: u64,
    commits: u64,
    /// Bins that somebody changed while they were rewritten.
    given_up: u64,
}

impl Done {
    fn outcome(&self) -> Outcome {
        let text = match self.commits {
            0 => "nothing to do".to_owned(),
            _ => format!(
                "{} files became {}, {} delete files removed, {} rows, {} bytes became {}, {} row groups copied, {} groups given up, {} commits",
                self.files_before,
                self.files_after,
                self.deletes_removed,
                self.rows,
                self.bytes_before,
                self.bytes_after,
                self.copied_row_groups,
                self.given_up,
                self.commits
            ),
        };
        Outcome::done(
            text,
            &[
                (crate::metrics::FILES_REWRITTEN_TOTAL, self.files_before),
                (crate::metrics::FILES_WRITTEN_TOTAL, self.files_after),
                (crate::metrics::ROWS_TOTAL, self.rows),
                (crate::metrics::BYTES_READ_TOTAL, self.bytes_before),
                (crate::metrics::BYTES_WRITTEN_TOTAL, self.bytes_after),
                (crate::metrics::CONFLICTS_TOTAL, self.given_up),
            ],
        )
    }
}

fn planned(bins: &[Bin], state: &State) -> Outcome {
    let gone = bins.iter().flat_map(|bin| &bin.inputs).map(|input| input.file.path.as_str()).collect();
    let files: usize = bins.iter().map(|bin| bin.inputs.len()).sum();
    let rows: u64 = bins.iter().map(Bin::records).sum();
    let bytes: u64 = bins.iter().map(Bin::bytes).sum();
    let dangling = state.deletes.dangling(&state.view, &gone, &[]).len();
    Outcome::nothing(format!(
        "would rewrite {files} files with {rows} rows and {bytes} bytes into {} and remove {dangling} delete files",
        bins.len()
    ))
}

async fn rewrite_all(
    work: &mut Work<'_>,
    policy: &Policy,
    state: &mut State,
    bins: Vec<Bin>,
    done: &mut Done,
) -> Result<()> {
    let progress = Progress::start(format!("{} compact", work.relation), bins.len() as u64);
    let (metadata, sequence) = (Arc::clone(&state.head.metadata), state.view.sequence);
    let (mut bins, mut failure) = (bins.into_iter().peekable(), None);
    while bins.peek().is_some() {
        let chunk: Vec<Bin> = bins.by_ref().take(work.jobs * BINS_PER_COMMIT).collect();
        let mut rewrites = futures::stream::iter(chunk)
            .map(|bin| {
                let (reader, metadata, policy) = (Arc::clone(&work.reader), Arc::clone(&metadata), policy.clone());
                // A task of its own, so that bins are encoded on several cores.
                tokio::spawn(async move {
                    let rewriter = Rewriter { reader: &reader, metadata: &metadata, policy: &policy };
                    (rewriter.rewrite(&bin).await, bin)
                })
            })
            .buffer_unordered(work.jobs);
        let mut ready = Vec::new();
        while let Some(ended) = rewrites.next().await {
            match ended {
                Ok((Ok(rewritten), bin)) => {
                    done.rows += rewritten.rows;
                    done.copied_row_groups += rewritten.copied_row_groups;
                    ready.push(Ready { bin, files: rewritten.files, sequence });
                    progress.advance(1);
                }
                Ok((Err(error), _)) => failure = failure.or(Some(error)),
                Err(error) => failure = failure.or(Some(Error::Task(error))),
            }
        }
        drop(rewrites);
        failpoint::reach(failpoint::REWRITTEN).await;
        // What succeeded is kept, also if something else failed, such as a partition with files that are refused.
        if !ready.is_empty() {
            commit::round(work, state, ready, done).await?;
        }
    }
    failure.map_or(Ok(()), Err)
}
