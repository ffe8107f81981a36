//! One `bench` per array: a lock on a file next to the array's journal.
//!
//! The kernel releases the lock when the process ends, however it ends.

use super::journal;
use crate::detect::{DetectedArray, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A held lock.
#[derive(Debug)]
pub(super) struct ArrayLock {
    _file: File,
    journal: PathBuf,
}

impl ArrayLock {
    /// Locks an array.
    ///
    /// # Errors
    /// If another process holds the lock, or its folder cannot be written.
    pub(super) fn take(sysroot: &Sysroot, array: &DetectedArray) -> Result<ArrayLock, Diagnostic> {
        let folder = journal::folder(sysroot);
        fs::create_dir_all(&folder).map_err(|error| {
            let what = format!("cannot create the folder {}: {error}", folder.display());
            Diagnostic::new(what).with_help("run as root: bench changes settings of the kernel")
        })?;
        let name = format!("{}-{}", array.system.name(), array.id.as_ref().unwrap_or(&array.name));
        let keep = |it: char| if it.is_alphanumeric() || "-_.".contains(it) { it } else { '-' };
        let name: String = name.chars().map(keep).collect();
        ArrayLock::of_journal(&folder.join(format!("{name}.journal")), false)
    }

    /// Locks the array of a journal. If another process holds the lock, waits or fails.
    ///
    /// # Errors
    /// If another process holds the lock, or the file cannot be opened.
    pub(super) fn of_journal(journal: &Path, waits: bool) -> Result<ArrayLock, Diagnostic> {
        let path = journal.with_extension("lock");
        let failed = |error: io::Error| {
            Diagnostic::new(format!("cannot lock {}: {error}", path.display()))
                .with_help("run as root: bench changes settings of the kernel")
        };
        let options = File::options().write(true).create(true).truncate(false).open(&path);
        let file = options.map_err(failed)?;
        let operation = match waits {
            true => FlockOperation::LockExclusive,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&file, operation) {
            Ok(()) => Ok(ArrayLock { _file: file, journal: journal.to_owned() }),
            Err(Errno::WOULDBLOCK) => {
                let what = "another `mirrorball bench` runs on this array";
                Err(Diagnostic::new(what).with_help("wait until it ends, or stop it with Ctrl-C"))
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// The path of the array's journal.
    pub(super) fn journal(&self) -> &Path {
        &self.journal
    }
}

#[cfg(test)]
mod tests {
    use super::ArrayLock;

    #[test]
    fn an_array_is_locked_once() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("md-md0.journal");
        let lock = ArrayLock::of_journal(&journal, false).unwrap();
        assert_eq!(lock.journal(), journal);
        let error = ArrayLock::of_journal(&journal, false).unwrap_err().to_string();
        assert!(error.contains("another `mirrorball bench` runs"), "{error}");
        ArrayLock::of_journal(&folder.path().join("md-md1.journal"), false).unwrap();
        drop(lock);
        ArrayLock::of_journal(&journal, true).unwrap();
    }
}
