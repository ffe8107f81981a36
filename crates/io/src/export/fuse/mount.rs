//! Mounting, unmounting, and loop devices over mounted files.
//!
//! What has to be known of earlier runs the system itself tells, in `/proc/self/mountinfo` and
//! `/sys/block/loop*`, so a server that was killed leaves nothing that the next could not find.
//! Loop devices are made and taken down by `losetup` of util-linux.
//!
//! Source: proc_pid_mountinfo(5), losetup(8), and the behaviour of the kernel: whoever asks a FUSE
//! mount whose server is gone hears `ENOTCONN`, "Transport endpoint is not connected".

use super::files::Files;
use fuser::{BackgroundSession, Config, MountOption, Session};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The source of mounts of this program in `/proc/self/mountinfo`.
const MOUNT_SOURCE: &str = "mirrorball";
/// Threads that read from the kernel. The work is done elsewhere; two so that one can copy while
/// the other waits.
const THREADS: usize = 2;
/// How long a mount may be busy before it is left to whoever uses it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the kernel may take to see that a server is gone.
const DEATH_TIMEOUT: Duration = Duration::from_millis(500);
/// How often the system is asked whether something has changed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why files cannot be mounted, or made block devices.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Another server has it.
    #[error("another server is mounted on `{}`: stop it, or take another folder", .0.display())]
    Taken(PathBuf),
    /// Something else is in its place.
    #[error("`{}` is in use, mounted as {kind}: take another folder", folder.display())]
    OtherMount {
        /// The folder.
        folder: PathBuf,
        /// The kind of filesystem.
        kind: String,
    },
    /// It would hide what is in the folder.
    #[error("`{}` is not an empty folder, and mounting would hide what it holds", .0.display())]
    NotEmpty(PathBuf),
    /// The system refused.
    #[error("cannot mount on `{}`: {error}{hint}", folder.display())]
    System {
        /// The folder.
        folder: PathBuf,
        /// What it said.
        error: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// No loop device.
    #[error("cannot attach `{}` to a loop device: {reason}", file.display())]
    Loop {
        /// The file.
        file: PathBuf,
        /// What `losetup` said.
        reason: String,
    },
    /// The system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Files that are mounted. Dropped, it unmounts, unless somebody uses them.
pub(super) struct Mount {
    folder: PathBuf,
    session: BackgroundSession,
}

impl Mount {
    pub(super) fn new(folder: &Path, files: Files) -> Result<(Mount, Vec<String>), MountError> {
        let system = |error: io::Error| {
            let hint = match error.kind() {
                _ if !Path::new("/dev/fuse").exists() => " (this kernel has no /dev/fuse)",
                ErrorKind::PermissionDenied => " (only root may, unless fusermount3 is installed)",
                _ => "",
            };
            MountError::System { folder: folder.to_owned(), error, hint }
        };
        let folder = canonical_folder(folder).map_err(system)?;
        let notes = remove_stale_mounts(&folder)?;
        fs::create_dir_all(&folder).map_err(system)?;
        if fs::read_dir(&folder).map_err(system)?.next().is_some() {
            return Err(MountError::NotEmpty(folder));
        }
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(MOUNT_SOURCE.to_owned())];
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let session = Session::new(files, &folder, &config).map_err(system)?;
        Ok((Mount { session: session.spawn()?, folder }, notes))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Breaks the connection to the kernel: every call that waits, and every later one, fails.
    pub(super) fn abort(&self) {
        // Forcing FUSE to unmount aborts its connection first, even if the mount then stays busy
        // (`fuse_umount_begin` in the kernel's fs/fuse/inode.c).
        let _ = unmount(&self.folder, UnmountFlags::FORCE);
    }

    /// Detaches loop devices and unmounts. If somebody does not let go, the mount is left to them,
    /// and the note says so.
    pub(super) fn unmount_and_detach(self) -> Option<String> {
        for device in loop_devices(&self.folder) {
            let _ = detach(&device);
        }
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match unmount(&self.folder, UnmountFlags::empty()) {
                Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
                Err(Errno::BUSY) => break,
                // Who may not unmount may kind fusermount, which fuser does.
                Err(Errno::PERM) => {
                    let unmounted = self.session.umount_and_join();
                    return unmounted.err().map(|error| format!("cannot unmount: {error}"));
                }
                // Event, or somebody else did it.
                _ => return self.session.join().err().map(|error| error.to_string()),
            }
        }
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
        let folder = self.folder.display();
        Some(format!("`{folder}` was still in use: whoever uses it will see errors from now on"))
    }
}

/// Attaches a file to a free loop device, past the page cache, and returns the device. The service
/// that answers for the file must be running.
///
/// # Errors
/// If there is no loop device, or no `losetup`.
pub fn attach(file: &Path, block_bytes: u32) -> Result<PathBuf, MountError> {
    let failed = |reason| MountError::Loop { file: file.to_owned(), reason };
    let mut command = Command::new("losetup");
    command.args(["--find", "--show", "--direct-io=on", "--sector-size"]);
    let output = command.arg(block_bytes.to_string()).arg(file).output();
    let output = output
        .map_err(|error| failed(format!("losetup does not run: {error} (install util-linux)")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn detach(device: &Path) -> io::Result<()> {
    let output = Command::new("losetup").arg("--detach").arg(device).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The loop devices over files in a folder.
fn loop_devices(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let over = entries.filter(|entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(folder))
    });
    let mut devices: Vec<PathBuf> =
        over.map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    devices.sort();
    devices
}

/// The folder's one true path, even if the server that is mounted there is gone, which makes the
/// folder itself unreadable.
fn canonical_folder(folder: &Path) -> io::Result<PathBuf> {
    if let Ok(path) = fs::canonicalize(folder) {
        return Ok(path);
    }
    let name = folder.file_name().ok_or(ErrorKind::InvalidInput)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(fs::canonicalize(parent.unwrap_or(Path::new(".")))?.join(name))
}

/// Takes away what servers that were killed left on a folder, and says so.
fn remove_stale_mounts(folder: &Path) -> Result<Vec<String>, MountError> {
    let mut notes = Vec::new();
    let left = "which a server that was killed left behind";
    while let Some(kind) = mounted_kind(&fs::read_to_string("/proc/self/mountinfo")?, folder) {
        if kind != format!("fuse {MOUNT_SOURCE}") {
            return Err(MountError::OtherMount { folder: folder.to_owned(), kind });
        }
        if is_alive(folder) {
            return Err(MountError::Taken(folder.to_owned()));
        }
        for device in loop_devices(folder) {
            if detach(&device).is_ok() {
                notes.push(format!("detached {}, {left}", device.display()));
            }
        }
        if unmount(folder, UnmountFlags::DETACH).is_err() {
            let command = &mut Command::new("fusermount3");
            if !command.arg("-uz").arg(folder).status().is_ok_and(|status| status.success()) {
                return Err(MountError::Taken(folder.to_owned()));
            }
        }
        notes.push(format!("unmounted `{}`, {left}", folder.display()));
    }
    Ok(notes)
}

/// Whether somebody answers for a mounted folder. One who is being killed may seem to for a
/// moment.
fn is_alive(folder: &Path) -> bool {
    let deadline = Instant::now() + DEATH_TIMEOUT;
    while !matches!(rustix::fs::stat(folder), Err(Errno::NOTCONN | Errno::CONNABORTED)) {
        if Instant::now() > deadline {
            return true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Kind and source of the filesystem on top of those mounted on a folder, by the text of a
/// mountinfo.
fn mounted_kind(mountinfo: &str, folder: &Path) -> Option<String> {
    let kind = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let place = unescape(before.split(' ').nth(4)?);
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?, after.next()?);
        // fusermount writes a kind as `fuse.KIND`, the kernel itself as `fuse`.
        let kind = kind.split('.').next()?;
        (Path::new(&place) == folder).then(|| format!("{kind} {source}"))
    };
    mountinfo.lines().rev().find_map(kind)
}

/// A path without the octal escapes that mountinfo has for blanks.
fn unescape(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, meant)| text.replace(escape, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_on_top_of_a_folder_is_found() {
        let mountinfo = "\
            22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            36 22 0:30 / /mnt/a\\040b rw - tmpfs none rw\n\
            37 36 0:31 / /mnt/a\\040b rw shared:2 - fuse mirrorball rw,user_id=0\n";
        let kind = |folder| mounted_kind(mountinfo, Path::new(folder));
        assert_eq!(kind("/").as_deref(), Some("ext4 /dev/vda"));
        assert_eq!(kind("/mnt/a b").as_deref(), Some("fuse mirrorball"));
        assert_eq!(kind("/mnt/a"), None);
    }

    #[test]
    fn a_folder_is_resolved_even_if_it_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let truth = fs::canonicalize(folder.path()).unwrap();
        assert_eq!(canonical_folder(&folder.path().join("new")).unwrap(), truth.join("new"));
        assert_eq!(
            canonical_folder(&folder.path().join("../").join(".")).unwrap(),
            truth.parent().unwrap()
        );
        assert!(canonical_folder(Path::new("/no/such/place")).is_err());
    }
}
