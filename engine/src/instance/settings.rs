//! Limits of DuckDB instances and how they are expressed in DuckDB's settings.

use std::path::PathBuf;

use crate::duckdb::PROFILE_SQL;

/// What DuckDB collects of a streamed result before it hands out the first row. Its default of 1 MB keeps the rows of a
/// selective scan back for long; much less than this costs throughput, and next to nothing makes it hang.
const STREAM_BUFFER: &str = "256KB";

/// Largest object that can be uploaded. DuckDB divides it by 10,000 to get the size of an upload part, which it allocates
/// in full for every open file: its default makes that 80 MB, this makes it 5 MB, the smallest that S3 takes.
const UPLOAD_MAX: &str = "50GB";

/// SQL that every new connection runs.
pub fn connection_sql() -> String {
    format!("SET streaming_buffer_size = '{STREAM_BUFFER}'; {PROFILE_SQL}")
}

/// SQL that an instance runs once, after its extensions are loaded.
pub fn instance_sql() -> String {
    format!("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL s3_uploader_max_filesize = '{UPLOAD_MAX}'")
}

/// What every instance of this process is given.
#[derive(Debug, Clone)]
pub struct Limits {
    pub extension_dir: PathBuf,
    /// Directory under which each instance gets a spill directory of its own.
    pub spill_dir: PathBuf,
    pub memory_limit_mb: u64,
    pub threads: u32,
    pub spill_limit_mb: u64,
}

impl Limits {
    /// Settings for opening instance `number`.
    pub fn open_settings(&self, number: u64) -> Vec<(&'static str, String)> {
        vec![
            // A warehouse whose name looks like an URL would be attached read-only otherwise.
            ("access_mode", "READ_WRITE".into()),
            ("extension_directory", self.extension_dir.display().to_string()),
            ("autoinstall_known_extensions", "false".into()),
            ("autoload_known_extensions", "false".into()),
            ("allow_persistent_secrets", "false".into()),
            ("memory_limit", format!("{}MiB", self.memory_limit_mb)),
            ("threads", self.threads.to_string()),
            ("temp_directory", self.instance_spill_dir(number).display().to_string()),
            ("max_temp_directory_size", format!("{}MiB", self.spill_limit_mb)),
        ]
    }

    /// The spill directory of instance `number`.
    pub fn instance_spill_dir(&self, number: u64) -> PathBuf {
        self.spill_dir.join(format!("duckdb-{number}"))
    }
}
