//! One `bench` or `tune` per array: a lock on a file next to the array's journal.
//!
//! Lock and journal belong to what the knobs belong to. Those of ZFS are parameters of the module,
//! so that all pools have one. The kernel releases the lock when the process ends, however it ends.

use super::journal;
use crate::detect::{DetectedArray, Identifiers, StorageSystem, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A held lock.
#[derive(Debug)]
pub(crate) struct ArrayLock {
    file: File,
    journal: PathBuf,
}

/// A process that this one just started has the file until it executes its program, so that
/// closing the file here might release the lock later than the next one asks for it.
impl Drop for ArrayLock {
    fn drop(&mut self) {
        // If these fail, a file is left, and closing it releases the lock.
        let _ = fs::remove_file(self.journal.with_extension("lock"));
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl ArrayLock {
    /// Locks an array. Fails if another process holds the lock, or its folder cannot be written.
    pub(crate) fn take(
        sysroot: &Sysroot,
        array: &DetectedArray,
        identity: &Identifiers,
    ) -> Result<ArrayLock, Diagnostic> {
        let folder = journal::create_folder(sysroot).map_err(|error| {
            let folder = journal::folder(sysroot);
            let what = format!("cannot create the folder {}: {error}", folder.display());
            Diagnostic::new(what).with_help("run as root: this changes settings of the kernel")
        })?;
        let name = match array.system {
            StorageSystem::Zfs => "zfs-module".to_owned(),
            system => {
                let id = identity.surest().map_or(array.name.as_str(), |(_, value)| value);
                format!("{}-{id}", system.name())
            }
        };
        let keep = |it: char| if it.is_alphanumeric() || "-_.".contains(it) { it } else { '-' };
        let name: String = name.chars().map(keep).collect();
        ArrayLock::of_journal(&folder.join(format!("{name}.journal")), false)
    }

    /// Locks the array of a journal. If another process holds the lock, waits or fails. Fails if
    /// another process holds the lock, or the file cannot be opened.
    pub(crate) fn of_journal(journal: &Path, waits: bool) -> Result<ArrayLock, Diagnostic> {
        let path = journal.with_extension("lock");
        let failed = |error: io::Error| {
            Diagnostic::new(format!("cannot lock {}: {error}", path.display()))
                .with_help("run as root: this changes settings of the kernel")
        };
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path);
        let file = file.map_err(failed)?;
        let operation = match waits {
            true => FlockOperation::LockExclusive,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&file, operation) {
            // The one that held it may have removed the file meanwhile.
            Ok(()) if !is_at(&file, &path) => ArrayLock::of_journal(journal, waits),
            Ok(()) => Ok(ArrayLock { file, journal: journal.to_owned() }),
            Err(Errno::WOULDBLOCK) => {
                let what = "another `mirrorball bench` or `tune` runs on this array, or one with \
                            the same settings";
                Err(Diagnostic::new(what).with_help("wait until it ends, or stop it with Ctrl-C"))
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    pub(crate) fn journal(&self) -> &Path {
        &self.journal
    }

    /// The same lock, with the path of the array's journal of this ending.
    pub(crate) fn with_ending(mut self, ending: &str) -> ArrayLock {
        self.journal.set_extension(ending);
        self
    }
}

/// True if an open file is still the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: io::Result<fs::Metadata>| found.ok().map(|it| (it.dev(), it.ino()));
    place(file.metadata()) == place(path.symlink_metadata())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{array_identifiers, detect_at};

    fn recorded(tree: &str, target: &str) -> (DetectedArray, Identifiers) {
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
        let sysroot = Sysroot::recorded(&trees.join(tree));
        let array = detect_at(&sysroot, target).unwrap();
        let identity = array_identifiers(&sysroot, &array);
        (array, identity)
    }

    /// The parameters of the module of ZFS are those of all pools.
    #[test]
    fn two_pools_have_one_lock_and_two_arrays_of_md_have_two() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let take = |(array, identity): &(DetectedArray, Identifiers)| {
            ArrayLock::take(&sysroot, array, identity)
        };
        let tank = recorded("zfs-mirror", "tank");
        let mut other = tank.clone();
        other.0.name = "other".to_owned();
        other.0.id = Some("17".to_owned());
        other.1 = array_identifiers(&sysroot, &other.0);
        let held = take(&tank).unwrap();
        assert!(take(&other).is_err());
        drop(held);
        let held = take(&other).unwrap();
        assert!(held.journal().ends_with("zfs-module.journal"));
        let one = take(&recorded("md-raid1-hdd-ssd", "md0")).unwrap();
        let name = "md-6a7b1cf305836719a38e9f19423ff1af.journal";
        assert!(one.journal().ends_with(name), "{:?}", one.journal());
        take(&recorded("md-raid10", "md0")).unwrap();
    }

    /// As a process that was just started has them.
    #[test]
    fn a_copy_of_the_file_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("md-md0.journal");
        let lock = ArrayLock::of_journal(&journal, false).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        drop(lock);
        ArrayLock::of_journal(&journal, false).unwrap();
    }

    #[test]
    fn an_array_is_locked_once() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("md-md0.journal");
        let lock = ArrayLock::of_journal(&journal, false).unwrap();
        assert_eq!(lock.journal(), journal);
        let error = ArrayLock::of_journal(&journal, false).unwrap_err().to_string();
        assert!(error.contains("another `mirrorball bench` or `tune` runs"), "{error}");
        ArrayLock::of_journal(&folder.path().join("md-md1.journal"), false).unwrap();
        drop(lock);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
        let lock = ArrayLock::of_journal(&journal, true).unwrap();
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ArrayLock::of_journal(&journal, true).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(lock);
            waiting.join().unwrap()
        });
        let taken = ArrayLock::of_journal(&journal, false).is_err();
        assert!(taken && is_at(&waiting.file, &journal.with_extension("lock")));
    }
}
