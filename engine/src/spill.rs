//! Files that hold what does not fit in memory: parked result streams and spooled inputs.
//!
//! A spill file has no name once it is open, so a crash leaves none behind. All files of the process share one cap.
//! DuckDB's own spill directories are capped by DuckDB and not counted here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{counter, gauge};

use crate::metrics as names;

/// Why something could not be spilled.
#[derive(Debug, thiserror::Error)]
pub enum SpillError {
    #[error("the spill directory {directory} reached its limit of {limit_mb} MiB")]
    Full { directory: PathBuf, limit_mb: u64 },
    #[error("the disk that holds the spill directory {directory} is full")]
    Disk { directory: PathBuf, source: io::Error },
    #[error("cannot use the spill directory {directory}")]
    Io { directory: PathBuf, source: io::Error },
}

/// The spill directory and its cap.
#[derive(Debug)]
pub struct Spill {
    directory: PathBuf,
    limit_bytes: u64,
    used_bytes: AtomicU64,
    next: AtomicU64,
}

impl Spill {
    pub fn new(directory: PathBuf, limit_mb: u64) -> Arc<Self> {
        let limit_bytes = limit_mb.saturating_mul(1024 * 1024);
        Arc::new(Self { directory, limit_bytes, used_bytes: AtomicU64::new(0), next: AtomicU64::new(0) })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn limit_mb(&self) -> u64 {
        self.limit_bytes / (1024 * 1024)
    }

    /// Opens an empty file.
    pub fn file(self: &Arc<Self>) -> Result<SpillFile, SpillError> {
        let path = self.directory.join(format!("stream-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = open.map_err(|source| self.error(source))?;
        std::fs::remove_file(&path).map_err(|source| self.error(source))?;
        Ok(SpillFile { file, length: 0, spill: self.clone() })
    }

    fn error(&self, source: io::Error) -> SpillError {
        let directory = self.directory.clone();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SpillError::Disk { directory, source },
            _ => SpillError::Io { directory, source },
        }
    }

    fn reserve(&self, bytes: u64) -> Result<(), SpillError> {
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.limit_bytes {
            self.release(bytes);
            return Err(SpillError::Full { directory: self.directory.clone(), limit_mb: self.limit_mb() });
        }
        counter!(names::SPILLED_BYTES_TOTAL).increment(bytes);
        gauge!(names::SPILL_BYTES).increment(bytes as f64);
        Ok(())
    }

    fn release(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        gauge!(names::SPILL_BYTES).decrement(bytes as f64);
    }
}

/// A file of blocks; its space is given back when it is dropped.
#[derive(Debug)]
pub struct SpillFile {
    file: File,
    length: u64,
    spill: Arc<Spill>,
}

/// Where a block stands in its file.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    offset: u64,
    length: usize,
}

impl SpillFile {
    pub fn append(&mut self, bytes: &[u8]) -> Result<Block, SpillError> {
        self.spill.reserve(bytes.len() as u64)?;
        let block = Block { offset: self.length, length: bytes.len() };
        // Counted before it is written, so that a partial write is given back too.
        self.length += bytes.len() as u64;
        self.file.write_all_at(bytes, block.offset).map_err(|source| self.spill.error(source))?;
        Ok(block)
    }

    pub fn read(&self, block: Block) -> Result<Vec<u8>, SpillError> {
        let mut bytes = vec![0; block.length];
        self.file.read_exact_at(&mut bytes, block.offset).map_err(|source| self.spill.error(source))?;
        Ok(bytes)
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.spill.release(self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_space_is_shared() {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::new(directory.path().to_owned(), 1);
        let mut file = spill.file().unwrap();
        let (a, b) = (file.append(b"hello").unwrap(), file.append(&[7; 1000]).unwrap());
        assert_eq!((file.read(a).unwrap(), file.read(b).unwrap()), (b"hello".to_vec(), vec![7; 1000]));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has no name");

        let mut other = spill.file().unwrap();
        assert!(matches!(other.append(&vec![0; 1024 * 1024]), Err(SpillError::Full { limit_mb: 1, .. })));
        drop(file);
        other.append(&vec![0; 1024 * 1024]).unwrap();
    }
}
