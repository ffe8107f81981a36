//! Mounting, unmounting, and loop devices over mounted files.
//!
//! Mounts and loop devices that a killed server left are found in `/proc/self/mountinfo` and
//! `/sys/block/loop*`. Loop devices are attached and detached by `losetup` of util-linux.
//!
//! Source: proc_pid_mountinfo(5), losetup(8), and the behaviour of the kernel: calls to a FUSE
//! mount whose server is gone fail with `ENOTCONN`, "Transport endpoint is not connected".

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
/// Number of threads that read from the kernel: two, so that one can copy while the other waits.
const THREADS: usize = 2;
/// How long a mount may be busy before it is left to its users.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the kernel may take to notice that a server is gone.
const DEATH_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a condition is checked while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why files cannot be mounted or attached to loop devices.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Another server is mounted there.
    #[error(
        "another server is mounted on `{}`\n  help: stop it, or give another folder", .0.display()
    )]
    Taken(PathBuf),
    /// Another filesystem is mounted there.
    #[error("`{}` is in use, mounted as {kind}\n  help: give another folder", folder.display())]
    OtherMount { folder: PathBuf, kind: String },
    /// The folder is not empty.
    #[error(
        "`{}` is not empty, and mounting would hide its contents\n  help: give another folder",
        .0.display()
    )]
    NotEmpty(PathBuf),
    #[error("cannot mount on `{}`: {error}{hint}", folder.display())]
    System { folder: PathBuf, error: io::Error, hint: &'static str },
    /// There is no loop device.
    #[error("cannot attach `{}` to a loop device: {reason}", file.display())]
    Loop {
        file: PathBuf,
        /// The message of `losetup`.
        reason: String,
    },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Mounted files. Dropped, they are unmounted, unless they are in use.
pub(super) struct Mount {
    folder: PathBuf,
    session: BackgroundSession,
}

impl Mount {
    pub(super) fn new(folder: &Path, files: Files) -> Result<(Mount, Vec<String>), MountError> {
        let system = |error: io::Error| {
            let hint = match error.kind() {
                _ if !Path::new("/dev/fuse").exists() => {
                    "\n  help: load the module `fuse`; this kernel has no /dev/fuse"
                }
                ErrorKind::PermissionDenied => "\n  help: run as root, or install fusermount3",
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    "\n  help: fuse:DIR needs a folder, but there is a file"
                }
                ErrorKind::NotFound => "\n  help: give a folder that can be created",
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

    /// Closes the connection to the kernel: all pending and later calls fail.
    pub(super) fn abort(&self) {
        // Forcing FUSE to unmount aborts its connection first, even if the mount then stays busy
        // (`fuse_umount_begin` in the kernel's fs/fuse/inode.c).
        let _ = unmount(&self.folder, UnmountFlags::FORCE);
    }

    /// Detaches loop devices and unmounts. A mount that stays in use is left to its users, and the
    /// note says so.
    pub(super) fn unmount_and_detach(self) -> Option<String> {
        for device in loop_devices(&self.folder) {
            let _ = detach(&device);
        }
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match unmount(&self.folder, UnmountFlags::empty()) {
                Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
                Err(Errno::BUSY) => break,
                // Users without the permission to unmount use fusermount, which fuser calls.
                Err(Errno::PERM) => {
                    let unmounted = self.session.umount_and_join();
                    return unmounted.err().map(|error| format!("cannot unmount: {error}"));
                }
                // Unmounted, by this call or another program.
                _ => return self.session.join().err().map(|error| error.to_string()),
            }
        }
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
        let folder = self.folder.display();
        Some(format!("`{folder}` was still in use; programs that use it will get errors"))
    }
}

/// Attaches a file to a free loop device with direct I/O, and returns the device, which the kernel
/// shows as rotational or not. The service that answers for the file must be running. Fails if
/// there is no loop device, or no `losetup`.
pub fn attach(file: &Path, block_bytes: u32, is_rotational: bool) -> Result<PathBuf, MountError> {
    let failed = |reason| MountError::Loop { file: file.to_owned(), reason };
    let mut command = Command::new("losetup");
    command.args(["--find", "--show", "--direct-io=on", "--sector-size"]);
    let output = command.arg(block_bytes.to_string()).arg(file).output();
    let output = output
        .map_err(|error| failed(format!("cannot run losetup: {error} (install util-linux)")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let name = device.file_name().unwrap_or_default();
    let flag = Path::new("/sys/block").join(name).join("queue/rotational");
    // A kernel without the file shows all loop devices alike.
    let _ = fs::write(flag, if is_rotational { "1" } else { "0" });
    Ok(device)
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

/// Canonical path of a folder, even if it cannot be read because the server mounted there is gone.
fn canonical_folder(folder: &Path) -> io::Result<PathBuf> {
    if let Ok(path) = fs::canonicalize(folder) {
        return Ok(path);
    }
    let name = folder.file_name().ok_or(ErrorKind::InvalidInput)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(fs::canonicalize(parent.unwrap_or(Path::new(".")))?.join(name))
}

/// Removes mounts and loop devices that killed servers left on a folder; returns a note for each.
fn remove_stale_mounts(folder: &Path) -> Result<Vec<String>, MountError> {
    let mut notes = Vec::new();
    let left = "left behind by a server that was killed";
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

/// Returns true if a server answers for a mounted folder. One that is being killed may still seem
/// to for a moment.
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

/// Type and source of the topmost filesystem mounted on a folder, from the text of a mountinfo.
fn mounted_kind(mountinfo: &str, folder: &Path) -> Option<String> {
    let kind = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let place = unescape(before.split(' ').nth(4)?);
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?, after.next()?);
        // fusermount writes the type as `fuse.TYPE`, the kernel as `fuse`.
        let kind = kind.split('.').next()?;
        (Path::new(&place) == folder).then(|| format!("{kind} {source}"))
    };
    mountinfo.lines().rev().find_map(kind)
}

/// Replaces the octal escapes of mountinfo.
fn unescape(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, meant)| text.replace(escape, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topmost_mount_of_a_folder_is_found() {
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
    fn missing_folders_have_a_canonical_path() {
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
