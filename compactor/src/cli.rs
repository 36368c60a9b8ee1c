//! The command line. Precedence: command line, environment, configuration file, default.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  coldfront-compactor run --all
  coldfront-compactor run --table app.events --task compact --dry-run
  coldfront-compactor run --all --task expire --older-than-hours 24 --retain-last 10
  coldfront-compactor run --table app.events --task orphans --orphan-age-hours 96
  coldfront-compactor --config /etc/coldfront.toml serve
  coldfront-compactor status

Exit codes:
  0  done; also when another compactor works on a table
  1  a table failed; the others were worked on
  2  wrong arguments or configuration
  3  the database cannot be reached, or the environment lacks something";

/// Keeps Iceberg tables healthy: merges small files, applies deletes, expires snapshots, removes what nothing refers to.
#[derive(Debug, Parser)]
#[command(name = "coldfront-compactor", version, about, after_help = EXAMPLES)]
pub struct Cli {
    /// Configuration file (TOML, table [compactor])
    #[arg(long, global = true, env = "COLDFRONT_CONFIG")]
    pub config: Option<PathBuf>,
    /// Connection URL, for instance postgres://compactor@localhost/app [default: the PG* variables]
    #[arg(long, global = true, env = "COLDFRONT_COMPACTOR_DSN", hide_env_values = true)]
    pub dsn: Option<String>,
    /// Files that are written at a time [default: 2]
    #[arg(long, global = true, env = "COLDFRONT_COMPACTOR_JOBS")]
    pub jobs: Option<usize>,
    /// Time zone of the schedules [default: UTC]
    #[arg(long, global = true, env = "COLDFRONT_COMPACTOR_TIME_ZONE")]
    pub time_zone: Option<String>,
    /// Loopback address of /metrics, for `serve`
    #[arg(long, global = true, env = "COLDFRONT_COMPACTOR_METRICS_LISTEN")]
    pub metrics_listen: Option<String>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Work on one table or on all of them, once
    Run(Box<Run>),
    /// Run each task whenever its schedule says
    Serve,
    /// Measure all tables and show how they are
    Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Task {
    /// Merge small files, apply deletes
    Compact,
    /// Merge small manifests, sort their entries by partition
    RewriteManifests,
    /// Remove old snapshots and the files that only they need
    Expire,
    /// Remove old metadata.json files
    Metadata,
    /// Remove objects below the table's location that nothing refers to
    Orphans,
}

impl Task {
    /// In the order in which a run performs them: each leaves work for those that follow.
    pub const ALL: [Self; 5] = [Self::Compact, Self::RewriteManifests, Self::Expire, Self::Metadata, Self::Orphans];

    pub fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::RewriteManifests => "rewrite-manifests",
            Self::Expire => "expire",
            Self::Metadata => "metadata",
            Self::Orphans => "orphans",
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
pub struct Run {
    /// Work on this table (schema.table), also if its maintenance is disabled
    #[arg(long, conflicts_with = "all", required_unless_present = "all")]
    pub table: Option<String>,
    /// Work on all tables whose maintenance is not disabled
    #[arg(long)]
    pub all: bool,
    /// Only this task; may be given more than once [default: all]
    #[arg(long = "task")]
    pub tasks: Vec<Task>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// Settings of the tables for this run; they take precedence over coldfront.maintenance_config.
#[derive(Debug, Clone, Default, Args)]
pub struct PolicyArgs {
    /// Size that compaction aims at, in bytes [default: 128 MiB]
    #[arg(long)]
    pub target_file_bytes: Option<u64>,
    /// Files below this size are small [default: three quarters of the target]
    #[arg(long)]
    pub small_file_bytes: Option<u64>,
    /// Leave small files alone while a partition has fewer [default: 5]
    #[arg(long)]
    pub min_input_files: Option<usize>,
    /// Rewrite a file when this share of its rows is deleted [default: 0.1]
    #[arg(long)]
    pub delete_ratio: Option<f64>,
    /// Rewrite a file when it has this many delete files [default: 5]
    #[arg(long)]
    pub delete_files: Option<usize>,
    /// Sort rewritten files by this column; may be given more than once
    #[arg(long = "sort-by")]
    pub sort_by: Vec<String>,
    /// Rewrite manifests when more than this many are small [default: 20]
    #[arg(long)]
    pub manifests_max: Option<usize>,
    /// Expire snapshots older than this [default: 120]
    #[arg(long)]
    pub older_than_hours: Option<f64>,
    /// Keep at least this many snapshots [default: 1]
    #[arg(long)]
    pub retain_last: Option<usize>,
    /// Remove unreferenced objects older than this; below 1 only with --i-know [default: 72]
    #[arg(long)]
    pub orphan_age_hours: Option<f64>,
    /// Allow an age below one hour for the orphan task: other engines may be writing younger files right now
    #[arg(long)]
    pub i_know: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
