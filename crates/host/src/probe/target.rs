//! Opens what is probed, for reading only, and reads what the kernel says about it.
//!
//! Everything is refused that would not measure the device: folders and other files than regular
//! ones, files with holes, and file systems without direct reads. What the kernel says is recorded
//! and not relied on: users overwrite `rotational`, and bridges and virtual machines report what
//! they like.

use crate::detect::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, MIB, format_bytes};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, open, seek, stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const SIZE_MIN: u64 = 256 * MIB;
/// The smallest page of memory.
const PAGE_BYTES: u64 = 4 * KIB;
/// Folder with those file systems of btrfs that are mounted.
const BTRFS: &str = "/sys/fs/btrfs";

/// An open device or file.
#[derive(Debug)]
pub struct ProbeTarget {
    pub path: PathBuf,
    pub size_bytes: u64,
    pub facts: DeviceFacts,
    pub(super) fd: OwnedFd,
    folder: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    pub name: String,
    /// Model, as far as the kernel has it.
    pub model: Option<String>,
    /// Whether it is reported as rotational.
    pub rotational: Option<bool>,
    /// Commands that it takes at once.
    pub queue_depth: Option<u32>,
    /// I/O scheduler above it.
    pub scheduler: Option<String>,
    /// Whether it is a device behind a network.
    pub is_remote: bool,
    /// How it is in use: mount points, swap, holders.
    pub uses: Vec<String>,
    /// Whether the target is a part of it: a partition or a file.
    pub is_part: bool,
    /// Least size in bytes of the parts into which a longer read may be split.
    pub split_bytes: Option<u64>,
    /// Greatest size in bytes of a request: longer reads are split in any case.
    pub request_bytes: Option<u64>,
}

/// Counters of I/O of a device since it was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceCounters {
    /// Reads completed and merged into others.
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl ProbeTarget {
    /// Opens the device or file at `path` for reading. Fails if there is none, it cannot be opened
    /// for direct reads, or it cannot be measured.
    pub fn open(path: &Path, sysroot: &Sysroot) -> Result<ProbeTarget, Diagnostic> {
        let refuse = |message: &str, help: &str| {
            let error = Diagnostic::new(format!("cannot probe `{}`: {message}", path.display()));
            Err(if help.is_empty() { error } else { error.with_help(help) })
        };
        // To open some devices is to act on them: a watchdog starts to count, a tape moves, a FIFO
        // waits for a writer.
        if let Some((message, help)) = stat(path).ok().and_then(|it| unfit(it.st_mode)) {
            return refuse(message, help);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT | OFlags::NONBLOCK;
        let fd = match open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => {
                let help = "give a block device such as /dev/sdb, or a file";
                return refuse("no such file or device", help);
            }
            Err(Errno::ACCESS) => {
                return refuse("permission denied", "run as root, or as a user who may read it");
            }
            Err(Errno::PERM) => {
                let help = "run as root; in a container, allow it to use the device";
                return refuse("the system does not allow it", help);
            }
            Err(Errno::INVAL) => {
                let help = "probe the device below, or a file on ext4, XFS or btrfs";
                return refuse("its file system has no direct reads", help);
            }
            Err(error) => return refuse(&error.to_string(), ""),
        };
        let stat = match fstat(&fd) {
            Ok(stat) => stat,
            Err(error) => return refuse(&error.to_string(), ""),
        };
        if let Some((message, help)) = unfit(stat.st_mode) {
            return refuse(message, help);
        }
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let device = if is_file { stat.st_dev } else { stat.st_rdev };
        let size_bytes = seek(&fd, SeekFrom::End(0)).unwrap_or(0);
        if size_bytes < SIZE_MIN {
            let (size, least) = (format_bytes(size_bytes), format_bytes(SIZE_MIN));
            let message = format!("it has {size}, and a probe needs {least} at least");
            return refuse(&message, "give a larger file, or a block device");
        }
        // The end of a file counts as a hole.
        if is_file && seek(&fd, SeekFrom::Hole(0)).is_ok_and(|hole| hole < size_bytes) {
            let help =
                "holes are not read from the device; name a file that was written as a whole";
            return refuse("the file has holes", help);
        }
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let folder = sysroot.resolve(&format!("/sys/dev/block/{number}"));
        let mut facts = folder.as_deref().map_or_else(DeviceFacts::default, |folder| {
            DeviceFacts::read(sysroot, folder, &number)
        });
        facts.is_part |= is_file;
        Ok(ProbeTarget { path: path.to_owned(), size_bytes, facts, fd, folder })
    }

    pub(super) fn counters(&self) -> Option<DeviceCounters> {
        let text = Sysroot::live().text(&format!("{}/stat", self.folder.as_ref()?))?;
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let at = |index: usize| numbers.get(index).copied();
        Some(DeviceCounters { reads: at(0)? + at(1)?, writes: at(4)? })
    }
}

impl DeviceFacts {
    fn read(sysroot: &Sysroot, folder: &str, number: &str) -> DeviceFacts {
        let is_partition = sysroot.exists(&format!("{folder}/partition"));
        let disk = match folder.rsplit_once('/') {
            Some((disk, _)) if is_partition => disk,
            _ => folder,
        };
        let text = |file: &str| sysroot.text(&format!("{disk}/{file}"));
        let count = |file: &str| sysroot.number(&format!("{disk}/{file}"));
        let name = disk.rsplit('/').next().unwrap_or(disk).to_owned();
        let scheduler = text("queue/scheduler").map(|all| {
            let chosen = all.split(['[', ']']).nth(1).unwrap_or(&all);
            chosen.to_owned()
        });
        DeviceFacts {
            model: text("device/model"),
            rotational: count("queue/rotational").map(|flag| flag != 0),
            queue_depth: count("device/queue_depth").map(|depth| depth as u32),
            scheduler,
            is_remote: ["nbd", "rbd", "drbd"].iter().any(|prefix| name.starts_with(prefix)),
            uses: uses(sysroot, folder, number),
            is_part: is_partition,
            request_bytes: count("queue/max_sectors_kb")
                .map(|kib| kib * KIB)
                .filter(|bytes| *bytes > 0),
            split_bytes: split_bytes(count("queue/max_sectors_kb"), count("queue/max_segments")),
            name,
        }
    }

    /// The number of reads that the kernel may count for one of `length` bytes.
    pub(super) fn most_parts(&self, length: u64) -> u64 {
        self.split_bytes.map_or(1, |bytes| length.div_ceil(bytes).max(1))
    }
}

/// Split of a read that exceeds the limits of a device: its size in KiB, and the
/// segments of memory, each of which is a page if no two pages happen to be neighbours.
fn split_bytes(max_sectors_kib: Option<u64>, max_segments: Option<u64>) -> Option<u64> {
    let by_size = max_sectors_kib.map(|kib| kib * KIB);
    let by_segments = max_segments.map(|segments| segments * PAGE_BYTES);
    by_size.into_iter().chain(by_segments).filter(|bytes| *bytes > 0).min()
}

/// Why a file of this mode cannot be probed, and what to give instead.
fn unfit(mode: u32) -> Option<(&'static str, &'static str)> {
    let help = "name a block device, or a file on it that was written long ago";
    match FileType::from_raw_mode(mode) {
        FileType::BlockDevice | FileType::RegularFile => None,
        FileType::Directory => Some(("it is a folder", help)),
        FileType::CharacterDevice => {
            Some(("it is a character device, neither a file nor a block device", help))
        }
        _ => Some(("it is neither a file nor a block device", help)),
    }
}

fn uses(sysroot: &Sysroot, folder: &str, number: &str) -> Vec<String> {
    let mut uses = uses_of_one(sysroot, folder, number);
    for name in sysroot.names(folder) {
        let partition = format!("{folder}/{name}");
        if sysroot.exists(&format!("{partition}/partition")) {
            let number = sysroot.text(&format!("{partition}/dev")).unwrap_or_default();
            let of_partition = uses_of_one(sysroot, &partition, &number).into_iter();
            uses.extend(of_partition.map(|it| format!("{name} is {it}")));
        }
    }
    uses
}

fn uses_of_one(sysroot: &Sysroot, folder: &str, number: &str) -> Vec<String> {
    let holders = sysroot.names(&format!("{folder}/holders")).into_iter();
    let mut uses: Vec<String> = holders.map(|holder| format!("part of {holder}")).collect();
    let mounts = sysroot.text("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split_whitespace();
        if fields.nth(2) == Some(number)
            && let Some(place) = fields.nth(1)
        {
            uses.push(format!("mounted at {place}"));
        }
    }
    let name = folder.rsplit('/').next().unwrap_or(folder);
    // The mounts of btrfs have numbers of their own.
    let file_systems = sysroot.names(BTRFS).into_iter();
    let of_btrfs =
        file_systems.filter(|it| sysroot.exists(&format!("{BTRFS}/{it}/devices/{name}")));
    uses.extend(of_btrfs.map(|fsid| format!("part of the mounted btrfs {fsid}")));
    let swaps = sysroot.text("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.starts_with(&format!("/dev/{name} "))) {
        uses.push("swap".to_owned());
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_of_a_mounted_btrfs_is_in_use() {
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
        let sysroot = Sysroot::recorded(&trees.join("btrfs-raid1-three"));
        for disk in ["sdg", "sdh", "sdi"] {
            let folder = sysroot.resolve(&format!("/sys/block/{disk}")).unwrap();
            let uses = uses(&sysroot, &folder, "8:0");
            let is_part = |it: &String| it.starts_with("part of the mounted btrfs e67170fd-");
            assert!(uses.len() == 1 && uses.iter().all(is_part), "{uses:?}");
        }
    }

    #[test]
    fn a_disk_is_in_use_if_a_partition_is() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        for (path, text) in [
            ("/sys/block/sda/sda1/partition", "1"),
            ("/sys/block/sda/sda1/dev", "8:1"),
            ("/sys/block/sda/sda1/holders/md0", ""),
            ("/sys/block/sda/sda2/partition", "2"),
            ("/sys/block/sda/sda2/dev", "8:2"),
            ("/sys/block/sda/queue/scheduler", "[none]"),
            ("/proc/self/mountinfo", "36 35 8:2 / /boot rw,noatime - ext4 /dev/sda2 rw"),
            ("/proc/swaps", "Filename Type\n/dev/sda2 partition 1 0 -2"),
        ] {
            let path = sysroot.host_path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let all = ["sda1 is part of md0", "sda2 is mounted at /boot", "sda2 is swap"];
        assert_eq!(uses(&sysroot, "/sys/block/sda", "8:0"), all);
        let of_partition = uses(&sysroot, "/sys/block/sda/sda1", "8:1");
        assert_eq!(of_partition, ["part of md0"]);
    }

    /// A loop device has 1280 KiB and 128 segments: a read of 1 MiB is counted once or twice.
    #[test]
    fn a_long_read_may_be_counted_as_several() {
        let facts = |size, segments| DeviceFacts {
            split_bytes: split_bytes(size, segments),
            ..DeviceFacts::default()
        };
        let parts = |facts: DeviceFacts| [4 * KIB, 512 * KIB, MIB].map(|it| facts.most_parts(it));
        assert_eq!(parts(facts(Some(1280), Some(128))), [1, 1, 2]);
        assert_eq!(parts(facts(Some(256), Some(65535))), [1, 2, 4]);
        assert_eq!(parts(facts(Some(0), None)), [1, 1, 1]);
        assert_eq!(parts(facts(None, None)), [1, 1, 1]);
    }
}
