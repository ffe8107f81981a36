//! Opening a file or block device as a member.
//!
//! It is opened with `O_DIRECT`, so that policies measure the device and not the host's page cache.
//! Files on filesystems without direct I/O are opened without it ([`RealMember::direct`]).
//!
//! The block size is found by reading 512 and then 4096 bytes at the start.
//!
//! A device in use is refused, whatever the user gives up: by an exclusive open, by a lock, and by
//! what sysfs says of loop devices (`block_devices`).

use super::block_devices::{BlockDevices, LoopDevice};
use super::guard;
use super::release::when_released;
use crate::driver::{Endpoint, Platform, read_aligned};
use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat, flock, fstat, open, seek,
};
use rustix::io::Errno;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Whether reads and writes bypass the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// They bypass it, if the filesystem supports it.
    Direct,
    /// They use it.
    Buffered,
}

/// Treatment of a block device that contains a known signature and is opened for writing. One that
/// is in use is refused in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occupied {
    Refuse,
    /// Open it, as the user requested.
    Allow,
}

/// Purpose of opening a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberAccess {
    ReadWrite,
    ReadOnly,
}

#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Whether it is written.
    pub access: MemberAccess,
    pub caching: Caching,
    /// Treatment of a device that contains something.
    pub occupied: Occupied,
    /// Called if a file is still held for a program that has ended, before it is waited for.
    pub report_wait: fn(&Path),
}

/// An open file or block device.
#[derive(Debug)]
pub struct RealMember {
    pub file: Endpoint,
    pub size_bytes: u64,
    /// Reads and writes are in multiples of this.
    pub block_bytes: u64,
    /// True if they bypass the page cache.
    pub direct: bool,
    /// True for a file; false for a device.
    pub is_file: bool,
    /// True if the kernel reports it as rotational.
    pub rotational: bool,
    /// Optimal I/O size that the kernel reports, or zero.
    pub optimal_io_bytes: u64,
    /// Queue depth that the kernel reports, if it does.
    pub queue_depth: Option<u32>,
}

/// Why a member could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// `open` failed.
    #[error("cannot open `{}`: {error}{}", path.display(), hint(*error))]
    System { path: PathBuf, error: Errno },
    /// There is no such file.
    #[error("cannot open `{}`: no such file", .0.display())]
    Missing(PathBuf),
    /// It is neither a file nor a block device.
    #[error("`{}` is {what}, neither a file nor a block device", path.display())]
    WrongKind { path: PathBuf, what: &'static str },
    /// The kernel uses the device, for example as a mounted filesystem.
    #[error(
        "`{}` is in use{users}: it or a part of it is mounted, used as swap, part of another \
         device, or open in another server\n  help: unmount it, or stop what uses it, first; \
         --occupied does not change this", path.display()
    )]
    InUse {
        path: PathBuf,
        /// ` by ` and the devices that use it, if there are any.
        users: String,
    },
    /// A loop device is attached to the file.
    #[error(
        "`{}` is in use by the loop device `{}`, which has the same data\n  help: give `{}` in \
         place of the file, or detach it first: `losetup --detach {}`",
        path.display(), device.display(), device.display(), device.display()
    )]
    BehindLoop { path: PathBuf, device: PathBuf },
    /// A server has locked the file behind a loop device.
    #[error(
        "`{}` is in use by a server, which has the file `{}` open, to which this loop device is \
         attached\n  help: stop that server, or give another file or device", path.display(),
        file.display()
    )]
    ServedBehindLoop {
        /// The loop device.
        path: PathBuf,
        file: PathBuf,
    },
    /// A server has locked it.
    #[error(
        "`{}` is in use by a server\n  help: stop that server, or give another file or device",
        .0.display()
    )]
    Served(PathBuf),
    /// The device contains a known signature.
    #[error(
        "`{}` contains {what}, which would be overwritten\n  help: wipe it with `wipefs`, or \
         use --occupied to overwrite it", path.display()
    )]
    Holds { path: PathBuf, what: &'static str },
}

impl OpenError {
    /// True for the trouble of a device, or of the filesystem with the file.
    pub(crate) fn is_of_device(&self) -> bool {
        let OpenError::System { error, .. } = self else { return false };
        matches!(
            *error,
            Errno::IO
                | Errno::NXIO
                | Errno::NODEV
                | Errno::NOMEDIUM
                | Errno::NOTCONN
                | Errno::REMOTEIO
                | Errno::ROFS
                | Errno::STALE
                | Errno::TIMEDOUT
        )
    }
}

fn hint(error: Errno) -> &'static str {
    match error {
        Errno::PERM | Errno::ACCESS => {
            "\n  help: check that this process may open it: its owner and mode, and, in a \
             container, the devices that this may use"
        }
        Errno::ROFS => "\n  help: it is read-only; give another, or serve with --read-only",
        _ => "",
    }
}

/// The kind of a file that is no member, in words.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a special file",
    }
}

impl MemberAccess {
    fn flags(self) -> OFlags {
        match self {
            MemberAccess::ReadWrite => OFlags::RDWR,
            MemberAccess::ReadOnly => OFlags::RDONLY,
        }
    }
}

impl RealMember {
    /// Opens the file or block device at `path` of a platform. Fails if it does not exist, cannot
    /// be opened, or is in use or with contents.
    pub fn open_on(
        platform: &Platform,
        path: &Path,
        options: OpenOptions,
    ) -> Result<RealMember, OpenError> {
        let Platform::Simulated(world) = platform else {
            return RealMember::open(path, options);
        };
        let (file, size_bytes) = world.open(path).map_err(|error| match error {
            Errno::NOENT => OpenError::Missing(path.to_owned()),
            error => in_use_by_another(path)(error),
        })?;
        Ok(RealMember {
            file,
            size_bytes,
            block_bytes: mirrorball_core::units::BLOCK_BYTES,
            direct: true,
            is_file: true,
            rotational: false,
            optimal_io_bytes: 0,
            queue_depth: None,
        })
    }

    /// Opens the file or block device at `path`. Fails if it does not exist, cannot be opened, or
    /// is a block device in use or with contents.
    pub fn open(path: &Path, options: OpenOptions) -> Result<RealMember, OpenError> {
        let system = |error| OpenError::System { path: path.to_owned(), error };
        let kind = rustix::fs::stat(path).map_err(|error| match error {
            Errno::NOENT => OpenError::Missing(path.to_owned()),
            error => system(error),
        })?;
        let device = match FileType::from_raw_mode(kind.st_mode) {
            FileType::RegularFile => None,
            FileType::BlockDevice => Some(kind.st_rdev),
            kind => {
                let what = kind_name(kind);
                return Err(OpenError::WrongKind { path: path.to_owned(), what });
            }
        };
        let access = options.access.flags();
        let mut flags = access | OFlags::CLOEXEC;
        if device.is_some() {
            // Linux refuses an exclusive open of a block device that it uses in whole or in part.
            flags |= OFlags::EXCL;
        }
        let in_use = |error| match error {
            Errno::BUSY => in_use_by(path, device),
            error => system(error),
        };
        let place = (path, options.report_wait);
        let plain = when_released(Errno::BUSY, place, || open(path, flags, Mode::empty()));
        let plain = plain.map_err(in_use)?;
        let attribute = |name| device.and_then(|device| attribute(device, name));
        // Linux opens a read-only block device for writing, and refuses the writes.
        if options.access == MemberAccess::ReadWrite && attribute("ro") == Some(1) {
            return Err(system(Errno::ROFS));
        }
        if device.is_some()
            && options.access == MemberAccess::ReadWrite
            && options.occupied == Occupied::Refuse
            && let Some(what) = guard::contents_before_data(&plain).map_err(system)?
        {
            return Err(OpenError::Holds { path: path.to_owned(), what });
        }
        let size_bytes = match device {
            None => fstat(&plain).map_err(system)?.st_size as u64,
            Some(_) => seek(&plain, SeekFrom::End(0)).map_err(system)?,
        };
        let direct = match options.caching {
            Caching::Direct => open_direct(path, &plain, access),
            Caching::Buffered => None,
        };
        let (fd, block_bytes, direct) = match direct {
            Some((fd, block_bytes)) => (fd, block_bytes, true),
            None => (plain, mirrorball_core::units::BLOCK_BYTES, false),
        };
        lock(&fd, place).map_err(in_use_by_another(path))?;
        check_loop_devices(place, &kind, options.access)?;
        Ok(RealMember {
            file: Endpoint::Fd(fd),
            size_bytes,
            block_bytes,
            direct,
            is_file: device.is_none(),
            rotational: attribute("queue/rotational") == Some(1),
            optimal_io_bytes: attribute("queue/optimal_io_size").unwrap_or(0),
            queue_depth: attribute("device/queue_depth").map(|depth| depth as u32),
        })
    }
}

/// Locks a member against other servers while it is open.
fn lock(fd: &OwnedFd, place: (&Path, fn(&Path))) -> Result<(), Errno> {
    when_released(Errno::AGAIN, place, || flock(fd, FlockOperation::NonBlockingLockExclusive))
}

/// Refuses a file that a loop device is attached to, and a loop device whose file is locked. The
/// member itself must be locked: then of two servers that open both, at least one is refused.
fn check_loop_devices(
    (path, report_wait): (&Path, fn(&Path)),
    kind: &Stat,
    access: MemberAccess,
) -> Result<(), OpenError> {
    let devices = BlockDevices::of_system();
    match devices.loop_over(kind) {
        Some(LoopDevice { is_read_only: true, .. }) if access == MemberAccess::ReadOnly => {}
        Some(LoopDevice { path: device, .. }) => {
            return Err(OpenError::BehindLoop { path: path.to_owned(), device });
        }
        None => {}
    }
    let is_device = FileType::from_raw_mode(kind.st_mode) == FileType::BlockDevice;
    let Some(file) = devices.backing_of(kind.st_rdev).filter(|_| is_device) else {
        return Ok(());
    };
    // Not blocking: the path may lead to a pipe by now.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(opened) = open(&file, flags, Mode::empty()) else { return Ok(()) };
    // Released at once: a server that opens the file from now on finds the loop device.
    let attempt = || flock(&opened, FlockOperation::NonBlockingLockShared);
    match when_released(Errno::AGAIN, (&file, report_wait), attempt) {
        Err(Errno::AGAIN) => Err(OpenError::ServedBehindLoop { path: path.to_owned(), file }),
        _ => Ok(()),
    }
}

fn in_use_by(path: &Path, device: Option<u64>) -> OpenError {
    let holders = device.map(|it| BlockDevices::of_system().holders(it)).unwrap_or_default();
    let users = match &holders[..] {
        [] => String::new(),
        names => format!(" by {}", names.join(" and ")),
    };
    OpenError::InUse { path: path.to_owned(), users }
}

fn in_use_by_another(path: &Path) -> impl Fn(Errno) -> OpenError {
    move |error| match error {
        Errno::AGAIN => OpenError::Served(path.to_owned()),
        error => OpenError::System { path: path.to_owned(), error },
    }
}

/// The same file with direct I/O, and its block size; `None` if direct I/O is not supported.
fn open_direct(path: &Path, plain: &OwnedFd, access: OFlags) -> Option<(OwnedFd, u64)> {
    // The exclusive open belongs to `plain`, so the flag is set on it if possible.
    let flags = rustix::fs::fcntl_getfl(plain).ok()?;
    let fd = match rustix::fs::fcntl_setfl(plain, flags | OFlags::DIRECT) {
        Ok(()) => plain.try_clone().ok()?,
        Err(_) => open(path, access | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty()).ok()?,
    };
    let unit = [512, 4096].into_iter().find(|&bytes| read_aligned(&fd, 0, bytes).is_ok());
    if unit.is_none() {
        let _ = rustix::fs::fcntl_setfl(plain, flags);
    }
    Some((fd, unit? as u64))
}

/// Attribute in `/sys` of a block device, or of the disk that it is a partition of.
fn attribute(device: u64, name: &str) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: String| fs::read_to_string(path).ok()?.trim().parse().ok();
    read(format!("{folder}/{name}")).or_else(|| read(format!("{folder}/../{name}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of a file that is read and written past the cache of the kernel.
    pub(crate) const OPTIONS: OpenOptions = OpenOptions {
        access: MemberAccess::ReadWrite,
        caching: Caching::Direct,
        occupied: Occupied::Refuse,
        report_wait: |_| {},
    };

    #[test]
    fn a_file_is_opened_with_its_size() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let member = RealMember::open(file.path(), OPTIONS).unwrap();
        assert_eq!((member.size_bytes, member.rotational), (1 << 20, false));
        assert!([512, 4096].contains(&member.block_bytes));
        let again = RealMember::open(file.path(), OPTIONS).unwrap_err().to_string();
        assert!(again.contains("in use by a server"), "{again}");
        drop(member);
        let buffered = OpenOptions { caching: Caching::Buffered, ..OPTIONS };
        assert!(!RealMember::open(file.path(), buffered).unwrap().direct);
    }

    #[test]
    fn missing_files_and_folders_are_refused_by_name() {
        let missing = RealMember::open(Path::new("no-such-disk"), OPTIONS).unwrap_err();
        assert!(missing.to_string().contains("`no-such-disk`: no such file"), "{missing}");
        let folder = RealMember::open(Path::new("."), OPTIONS).unwrap_err();
        assert!(folder.to_string().contains("`.` is a folder, neither a file nor"), "{folder}");
        let null = RealMember::open(Path::new("/dev/null"), OPTIONS).unwrap_err();
        assert!(null.to_string().contains("is a character device"), "{null}");
    }
}
