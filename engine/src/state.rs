//! The state directory: at most one engine uses it, and what a crashed one left in it is removed.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("another engine uses the state directory {path}")]
    InUse { path: PathBuf },
    #[error("cannot use {path} in the state directory")]
    Io { path: PathBuf, source: io::Error },
}

/// The directory, locked for as long as this lives.
#[derive(Debug)]
pub struct StateDir {
    root: PathBuf,
    /// The lock goes with the file.
    _lock: File,
}

impl StateDir {
    /// Creates the directory if need be, locks it, and empties the spill directory.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        make_directory(root).map_err(failed(root))?;
        let path = root.join("lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = open.map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateError::InUse { path: root.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed(&path)(source)),
        }
        let state = Self { root: root.to_owned(), _lock: lock };
        let spill = state.spill_dir();
        match fs::remove_dir_all(&spill) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&spill)(error)),
            _ => {}
        }
        for path in [spill, state.journal_dir()] {
            make_directory(&path).map_err(failed(&path))?;
        }
        Ok(state)
    }

    pub fn spill_dir(&self) -> PathBuf {
        self.root.join("spill")
    }

    pub fn journal_dir(&self) -> PathBuf {
        self.root.join("journal")
    }
}

/// For the owner only: spilled rows are user data.
fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_engine_gets_the_directory_and_old_spill_files_go() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("spill")).unwrap();
        fs::write(root.path().join("spill/left-over"), "x").unwrap();
        let state = StateDir::open(root.path()).unwrap();
        assert_eq!(fs::read_dir(state.spill_dir()).unwrap().count(), 0);
        assert!(matches!(StateDir::open(root.path()), Err(StateError::InUse { .. })));
        drop(state);
        StateDir::open(root.path()).unwrap();
    }
}
