//! The folder with the data to read: created by `bench`, and the only place that it writes to on
//! the array.
//!
//! Its name tells it from folders of the user and of every other `bench`, because part of it is
//! drawn by the kernel. Nothing else is ever removed.

use mirrorball_core::rng::Rng;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Beginning of the folder's name.
const PREFIX: &str = ".mirrorball-bench-";
/// Name of the file with the data.
pub(super) const DATA_FILE: &str = "data";
/// Names of a file in small pieces, and of its copy that is defragmented.
pub(super) const FRAGMENTED_FILE: &str = "fragmented";
pub(super) const DEFRAG_COPY: &str = "defragmented";
/// Most bytes of the fragmented file, and its part of the data.
const FRAGMENTED_BYTES_MAX: u64 = 256 << 20;
const FRAGMENTED_PART: u64 = 8;
/// Size of its pieces.
const PIECE: &str = "16k";
/// Bytes written at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// The path of a folder that this process would create below `mount`; another one with each call.
pub(super) fn path(mount: &Path) -> PathBuf {
    // A process number alone is not enough: each container counts its own.
    let drawn = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    mount.join(format!("{PREFIX}{}-{}", std::process::id(), drawn.trim()))
}

/// Creates the folder.
///
/// # Errors
/// If there is one, or it cannot be created.
pub(super) fn create(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Writes a file of `bytes` that does not compress, and flushes it. Returns false if `is_stopped`
/// said so.
///
/// # Errors
/// If the file exists, or cannot be written.
pub(super) fn write_data(
    path: &Path,
    bytes: u64,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let mut rng = Rng::stream(bytes, "bench data");
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        if is_stopped() {
            return Ok(false);
        }
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        let part = left.min(BLOCK_BYTES as u64) as usize;
        file.write_all(&block[..part])?;
        left -= part as u64;
    }
    file.sync_all()?;
    Ok(true)
}

/// Writes a file in pieces that lie apart, by fio: each direct write of btrfs is an extent.
///
/// # Errors
/// If fio cannot be started, or fails.
pub(super) fn write_fragmented(folder: &Path, data_bytes: u64) -> io::Result<()> {
    let bytes = (data_bytes / FRAGMENTED_PART).min(FRAGMENTED_BYTES_MAX);
    let status = Command::new("fio")
        .args(["--name=fragmented", "--ioengine=psync", "--direct=1", "--rw=randwrite"])
        .arg(format!("--bs={PIECE}"))
        .arg(format!("--size={bytes}"))
        .arg(format!("--filename={}", folder.join(FRAGMENTED_FILE).display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("fio failed ({status})"))),
    }
}

/// Removes a folder that `bench` created, with its files. A folder that is gone is no error.
///
/// # Errors
/// If its name is not one that `bench` gives, or it cannot be removed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    if !is_ours {
        return Err(io::Error::other("bench did not create it"));
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_of_bench_is_removed() {
        let mount = tempfile::tempdir().unwrap();
        let ours = path(mount.path());
        assert_ne!(ours, path(mount.path()), "the same process in another container");
        create(&ours).unwrap();
        assert!(create(&ours).is_err(), "a folder that is there is not taken over");
        assert!(write_data(&ours.join(DATA_FILE), 3_000_000, &|| false).unwrap());
        let length = fs::metadata(ours.join(DATA_FILE)).unwrap().len();
        assert_eq!(length, 3_000_000);
        let theirs = mount.path().join("photos");
        fs::create_dir(&theirs).unwrap();
        assert!(remove(&theirs).is_err() && theirs.is_dir());
        remove(&ours).unwrap();
        remove(&ours).unwrap();
        assert!(!ours.exists());
    }

    #[test]
    fn writing_ends_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!write_data(&folder.path().join("data"), 1 << 40, &|| true).unwrap());
    }
}
