//! The command line. Precedence: command line, environment, configuration file, default.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

const EXAMPLES: &str = "\
Examples:
  coldfront-archiver register --table app.events --period monthly --hot-period '3 months' --retention-period '5 years'
  coldfront-archiver run --dry-run
  coldfront-archiver run --table app.events
  coldfront-archiver --config /etc/coldfront.toml serve
  coldfront-archiver restore --table app.events --from 2026-01-01

Exit codes:
  0  done; also when another archiver works on a table
  1  a table failed; the others were worked on
  2  wrong arguments or configuration
  3  the database cannot be reached, or the environment lacks something";

/// Moves old partitions to Iceberg, makes new ones, and deletes rows past retention.
#[derive(Debug, Parser)]
#[command(name = "coldfront-archiver", version, about, after_help = EXAMPLES)]
pub struct Cli {
    /// Configuration file (TOML, table [archiver])
    #[arg(long, global = true, env = "COLDFRONT_CONFIG")]
    pub config: Option<PathBuf>,
    /// Connection URL, for instance postgres://archiver@localhost/app [default: the PG* variables]
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_DSN", hide_env_values = true)]
    pub dsn: Option<String>,
    /// Tables that are worked on at a time [default: 1]
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_JOBS")]
    pub jobs: Option<usize>,
    /// Parts of a table that are exported at a time, each with a connection of its own [default: 2]
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_EXPORT_JOBS")]
    pub export_jobs: Option<usize>,
    /// Seconds for which a lock on a busy table is tried again and again [default: 600]
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_LOCK_WAIT_S")]
    pub lock_wait_s: Option<u64>,
    /// Cron expression with seconds, for `serve`
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_SCHEDULE")]
    pub schedule: Option<String>,
    /// Time zone of the schedule [default: UTC]
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_TIME_ZONE")]
    pub time_zone: Option<String>,
    /// Loopback address of /metrics, for `serve`
    #[arg(long, global = true, env = "COLDFRONT_ARCHIVER_METRICS_LISTEN")]
    pub metrics_listen: Option<String>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put a partitioned table under management
    Register(Register),
    /// Change the lifecycle of a table
    Set(Set),
    /// Forget a table's lifecycle; its rows stay where they are
    Remove(Remove),
    /// Show all lifecycles
    List,
    /// Read lifecycles from a YAML file
    Import(Import),
    /// Write lifecycles as YAML or SQL
    Export(Export),
    /// Work on all tables once
    Run(Run),
    /// Work on all tables whenever the schedule says
    Serve,
    /// Show cutoff, due partitions and lag of each table
    Status,
    /// Bring cold rows back to heap partitions
    Restore(Restore),
}

/// A table as schema.table; parts that need it in double quotes.
#[derive(Debug, Args)]
pub struct TableName {
    /// The table, as schema.table
    #[arg(long)]
    pub table: String,
}

#[derive(Debug, Args)]
pub struct PrintSql {
    /// Print the SQL instead of running it
    #[arg(long)]
    pub print_sql: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    Monthly,
    Weekly,
    Daily,
    Hourly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartMode {
    Time,
    Id,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdScheme {
    Snowflake,
    Uuidv7,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expiration {
    Drop,
    Detach,
}

/// What a lifecycle consists of; what is not given stays as it is, or has its default.
#[derive(Debug, Clone, Default, Args)]
pub struct Lifecycle {
    /// Length of a partition
    #[arg(long)]
    pub period: Option<Period>,
    /// Rows older than this go to Iceberg, for instance '3 months'; 'none' manages partitions only
    #[arg(long)]
    pub hot_period: Option<String>,
    /// Rows older than this are deleted; 'none' keeps them
    #[arg(long)]
    pub retention_period: Option<String>,
    /// Partitions made ahead of time
    #[arg(long)]
    pub premake: Option<i32>,
    /// What the partition column holds
    #[arg(long)]
    pub part_mode: Option<PartMode>,
    /// How the ids carry their time
    #[arg(long)]
    pub id_scheme: Option<IdScheme>,
    /// Moment that snowflake ids count from
    #[arg(long)]
    pub id_epoch: Option<String>,
    /// schema.table.column with the LIST values that need partitions; 'none' for none
    #[arg(long)]
    pub sub_partition_source: Option<String>,
    /// What becomes of expired partitions of a table without a hot period
    #[arg(long)]
    pub expiration: Option<Expiration>,
    /// Whether `run` and `serve` work on it
    #[arg(long)]
    pub enabled: Option<bool>,
}

#[derive(Debug, Args)]
pub struct Register {
    #[command(flatten)]
    pub table: TableName,
    #[command(flatten)]
    pub lifecycle: Lifecycle,
    #[command(flatten)]
    pub print: PrintSql,
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    pub table: TableName,
    #[command(flatten)]
    pub lifecycle: Lifecycle,
    #[command(flatten)]
    pub print: PrintSql,
}

#[derive(Debug, Args)]
pub struct Remove {
    #[command(flatten)]
    pub table: TableName,
    #[command(flatten)]
    pub print: PrintSql,
}

#[derive(Debug, Args)]
pub struct Import {
    /// File as written by `export`; - is standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub print: PrintSql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Yaml,
    Sql,
}

#[derive(Debug, Args)]
pub struct Export {
    #[arg(long, default_value = "yaml")]
    pub format: Format,
}

#[derive(Debug, Clone, Default, Args)]
pub struct Run {
    /// Work on this table only, also if it is disabled
    #[arg(long)]
    pub table: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the SQL of a pass instead of running it
    #[arg(long)]
    pub print_sql: bool,
}

#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    pub table: TableName,
    /// Beginning of what comes back; a whole period is taken
    #[arg(long)]
    pub from: String,
    /// End of what comes back; not before the cutoff, since hot rows have no gap [default: the cutoff]
    #[arg(long)]
    pub to: Option<String>,
    #[command(flatten)]
    pub print: PrintSql,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
