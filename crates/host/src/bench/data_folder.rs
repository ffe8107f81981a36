//! The folder with the data to read: created by `bench`, and the only place that it writes to on
//! the array.
//!
//! The name tells it from folders of the user and of every other `bench`, because part of it is
//! drawn by the kernel. The folder above may belong to another user, who may rename this one and
//! put a link in its place. So `bench` keeps it open, and reaches its files through the open
//! folder, which only its own user can write to. It is removed if it is the folder that was
//! created, and only with the file that `bench` creates in it.

use mirrorball_core::rng::Rng;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, mkdir, open, rmdir, syncfs, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Beginning of the folder's name.
const PREFIX: &str = ".mirrorball-bench-";
pub(super) const DATA_FILE: &str = "data";
const BLOCK_BYTES: usize = 1 << 20;

/// The path of a folder that this process would create below `mount`; another one with each call.
pub(super) fn path(mount: &Path) -> PathBuf {
    // A process number alone is not enough: each container counts its own.
    let drawn = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    mount.join(format!("{PREFIX}{}-{}", std::process::id(), drawn.trim()))
}

/// The folder, created and open.
#[derive(Debug)]
pub(super) struct DataFolder {
    open: OwnedFd,
    inode: u64,
}

impl DataFolder {
    /// Creates the folder. Fails if there is one, or it cannot be created.
    pub(super) fn create(path: &Path) -> io::Result<DataFolder> {
        mkdir(path, Mode::RWXU)?;
        let (open, stat) = open_own(path)?;
        Ok(DataFolder { open, inode: stat.st_ino })
    }

    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    /// A path that leads to the folder while this value exists, wherever it is then. Processes of
    /// the same user can use it.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.open.as_raw_fd()).into()
    }
}

/// Dropping it removes its file, wherever the folder is then; [`remove`] removes the folder.
impl Drop for DataFolder {
    fn drop(&mut self) {
        // `remove` says what it cannot remove.
        let _ = remove_file(&self.open);
    }
}

/// Removes the file that `bench` creates in the folder.
fn remove_file(folder: &OwnedFd) -> io::Result<()> {
    match unlinkat(folder, DATA_FILE, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder of this user, and no link to one.
fn open_own(path: &Path) -> io::Result<(OwnedFd, Stat)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty())?;
    let stat = fstat(&folder)?;
    match stat.st_uid == geteuid().as_raw() {
        true => Ok((folder, stat)),
        false => Err(io::Error::other("it belongs to another user")),
    }
}

/// Writes a file of `bytes` that does not compress, and flushes its file system. Calls `on_written`
/// with the bytes so far. Returns false if `is_stopped` said so. Fails if the file exists, or
/// cannot be written.
pub(super) fn write_data(
    path: &Path,
    bytes: u64,
    is_stopped: &dyn Fn() -> bool,
    on_written: &mut dyn FnMut(u64),
) -> io::Result<bool> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let mut rng = Rng::stream(bytes, "bench data");
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        if is_stopped() {
            return Ok(false);
        }
        on_written(bytes - left);
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        let part = left.min(BLOCK_BYTES as u64) as usize;
        file.write_all(&block[..part])?;
        left -= part as u64;
    }
    file.sync_all()?;
    syncfs(&file)?;
    Ok(true)
}

/// Removes a folder that `bench` created, with the file that `bench` creates in it. A folder that
/// is gone is no error. `inode` is its number, if that is known. Fails if it is another folder, has
/// other files, or cannot be removed.
pub(super) fn remove(path: &Path, inode: Option<u64>) -> io::Result<()> {
    let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    if !is_ours {
        return Err(io::Error::other("bench did not create it"));
    }
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(found) if found.is_dir() => {}
        other => return other.and(Err(io::Error::other("it is no folder any more"))),
    }
    let (folder, stat) = open_own(path)?;
    if inode.is_some_and(|inode| inode != stat.st_ino) {
        return Err(io::Error::other("it is not the folder that bench created"));
    }
    remove_file(&folder)?;
    match rmdir(path) {
        Err(Errno::NOTEMPTY) => Err(io::Error::other("it has files that bench did not create")),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_a_folder_of_bench_is_removed() {
        let mount = tempfile::tempdir().unwrap();
        let ours = path(mount.path());
        assert_ne!(ours, path(mount.path()), "the same process in another container");
        let folder = DataFolder::create(&ours).unwrap();
        assert!(DataFolder::create(&ours).is_err(), "a folder that is there is not taken over");
        let mode = fs::metadata(&ours).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "other users cannot put links into it");
        let file = folder.path().join(DATA_FILE);
        assert!(write_data(&file, 3_000_000, &|| false, &mut |_| ()).unwrap());
        let length = fs::metadata(ours.join(DATA_FILE)).unwrap().len();
        assert_eq!(length, 3_000_000);
        let theirs = mount.path().join("photos");
        fs::create_dir(&theirs).unwrap();
        assert!(remove(&theirs, None).is_err() && theirs.is_dir());
        remove(&ours, Some(folder.inode())).unwrap();
        remove(&ours, Some(folder.inode())).unwrap();
        assert!(!ours.exists());
    }

    /// The folder above may belong to another user.
    #[test]
    fn another_folder_or_a_link_in_the_place_of_ours_is_neither_used_nor_removed() {
        let mount = tempfile::tempdir().unwrap();
        let ours = path(mount.path());
        let folder = DataFolder::create(&ours).unwrap();
        let (moved, theirs) = (mount.path().join("moved"), mount.path().join("theirs"));
        fs::rename(&ours, &moved).unwrap();
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join(DATA_FILE), "kept").unwrap();
        let is_kept = || fs::read_to_string(theirs.join(DATA_FILE)).unwrap() == "kept";

        symlink(&theirs, &ours).unwrap();
        assert!(write_data(&folder.path().join(DATA_FILE), 1000, &|| false, &mut |_| ()).unwrap());
        assert!(moved.join(DATA_FILE).exists() && is_kept(), "written where the folder is now");
        let error = remove(&ours, Some(folder.inode())).unwrap_err().to_string();
        assert!(error.contains("no folder any more") && is_kept(), "{error}");

        fs::remove_file(&ours).unwrap();
        fs::rename(&theirs, &ours).unwrap();
        let error = remove(&ours, Some(folder.inode())).unwrap_err().to_string();
        assert!(error.contains("not the folder that bench created"), "{error}");
        fs::write(ours.join("photo"), "").unwrap();
        let error = remove(&ours, None).unwrap_err().to_string();
        assert!(error.contains("files that bench did not create"), "{error}");
        assert!(ours.join("photo").exists());
        drop(folder);
        assert_eq!(fs::read_dir(&moved).unwrap().count(), 0, "no large file is left where it is");
    }

    #[test]
    fn writing_ends_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!write_data(&folder.path().join("data"), 1 << 40, &|| true, &mut |_| ()).unwrap());
    }
}
