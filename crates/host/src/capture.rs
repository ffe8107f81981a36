//! `mirrorball capture`: what a running array is asked, from the kernel's tracepoints, or without
//! root from the counters of its block devices.

mod tracefs;

use crate::detect::{Sysroot, btrfs_chunks, btrfs_devices};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{BLOCK_BYTES, Nanos};
use mirrorball_health::counters::DiskCounters;
use mirrorball_trace::{CapturedDevice, ChunkTable, CountedLoad, CountedOperations};
use rustix::fs::{FileType, Stat, major, minor, stat};
use std::fs;
use std::path::PathBuf;
pub use tracefs::TraceSession;

/// Block devices that take the requests of an array.
pub struct CaptureTarget {
    /// The devices: one, or the members of a btrfs.
    pub devices: Vec<CapturedDevice>,
    /// A folder of a btrfs, which has no block device of its own.
    btrfs: Option<PathBuf>,
    names: Vec<String>,
    /// Number of copies of a write that the devices get.
    copies: u64,
}

impl CaptureTarget {
    /// The block device of a path: a device, or what its file system is on.
    pub fn find(sysroot: &Sysroot, path: &str) -> Result<CaptureTarget, Diagnostic> {
        let wrong = |message: String, help: &str| Diagnostic::new(message).with_help(help);
        let found = stat(path).map_err(|error| {
            let help = "give a device, or a path on a mounted file system";
            wrong(format!("cannot read {path}: {error}"), help)
        })?;
        let is_device = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
        let number = |found: &Stat| match is_device {
            true => (major(found.st_rdev), minor(found.st_rdev)),
            false => (major(found.st_dev), minor(found.st_dev)),
        };
        let mut target =
            CaptureTarget { devices: Vec::new(), btrfs: None, names: Vec::new(), copies: 1 };
        let (major, minor) = number(&found);
        if is_device || major != 0 {
            target.add(sysroot, &format!("{major}:{minor}"), 0)?;
            return Ok(target);
        }
        let folder = folder_at(path);
        let members = btrfs_devices(&folder).map_err(|_| {
            let message = format!("the file system of {path} has no block device of its own");
            wrong(message, "give the path of a device; of ZFS no requests can be captured")
        })?;
        for member in members.iter().filter(|member| !member.path.is_empty()) {
            let found = stat(member.path.as_str()).map_err(|error| {
                wrong(format!("cannot read {}: {error}", member.path), "is the member missing?")
            })?;
            let number = format!(
                "{}:{}",
                rustix::fs::major(found.st_rdev),
                rustix::fs::minor(found.st_rdev)
            );
            target.add(sysroot, &number, member.devid)?;
        }
        target.copies = copies_of(sysroot, &target.names);
        target.btrfs = Some(folder);
        Ok(target)
    }

    fn add(&mut self, sysroot: &Sysroot, number: &str, devid: u64) -> Result<(), Diagnostic> {
        let folder = format!("/sys/dev/block/{number}");
        let blocks = |file: &str| sysroot.number(&format!("{folder}/{file}"));
        let Some(bytes) = blocks("size").map(|size| size * BLOCK_BYTES) else {
            let help = "a container shows /sys/dev/block only if it is given it";
            let message = format!("the kernel says nothing of the block device {number}");
            return Err(Diagnostic::new(message).with_help(help));
        };
        let mut numbers = vec![number.replace(':', ",")];
        // Older kernels trace the disk in the place of its partition.
        if sysroot.exists(&format!("{folder}/partition")) {
            let disk = sysroot.text(&format!("{folder}/../dev"));
            numbers.extend(disk.map(|disk| disk.replace(':', ",")));
        }
        let start_bytes = blocks("start").unwrap_or(0) * BLOCK_BYTES;
        self.devices.push(CapturedDevice { numbers, start_bytes, bytes, devid });
        let facts = sysroot.text(&format!("{folder}/uevent")).unwrap_or_default();
        let name = facts.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        self.names.push(name.unwrap_or("").to_owned());
        Ok(())
    }

    /// Where a btrfs has its data; `None` for other arrays. Fails if the kernel does not say.
    pub fn chunks(&self) -> Result<Option<ChunkTable>, Diagnostic> {
        let Some(folder) = &self.btrfs else { return Ok(None) };
        let chunks = btrfs_chunks(folder).map_err(|error| {
            let message = format!("cannot read where {} has its data: {error}", folder.display());
            Diagnostic::new(message).with_help("run it as root")
        })?;
        Ok(Some(ChunkTable::new(chunks, &self.devices)))
    }

    pub fn counters(&self, sysroot: &Sysroot) -> DiskCounters {
        let text = sysroot.raw_text("/proc/diskstats").unwrap_or_default();
        let all = self.names.iter().filter_map(|name| DiskCounters::of(&text, name));
        all.fold(DiskCounters::default(), |sum, it| DiskCounters {
            reads: sum.reads + it.reads,
            read_sectors: sum.read_sectors + it.read_sectors,
            read_ms: sum.read_ms + it.read_ms,
            writes: sum.writes + it.writes / self.copies,
            written_sectors: sum.written_sectors + it.written_sectors / self.copies,
            write_ms: sum.write_ms + it.write_ms / self.copies,
            ..sum
        })
    }

    /// Adds the numbers of reads and writes in flight to those of earlier looks.
    pub fn look(&self, sysroot: &Sysroot, looks: &mut [Vec<u64>; 2]) {
        let mut sum = [0, 0];
        for name in &self.names {
            let text = sysroot.text(&format!("/sys/class/block/{name}/inflight"));
            let text = text.unwrap_or_default();
            let numbers = text.split_whitespace().map(|it| it.parse::<usize>().unwrap_or(0));
            for (sum, number) in sum.iter_mut().zip(numbers) {
                *sum += number;
            }
        }
        sum[1] /= self.copies as usize;
        for (looks, depth) in looks.iter_mut().zip(sum) {
            looks.resize(looks.len().max(depth + 1), 0);
            looks[depth] += 1;
        }
    }

    /// The load between two states of the counters.
    pub fn load(
        &self,
        (before, after): (DiskCounters, DiskCounters),
        time: Nanos,
        looks: [Vec<u64>; 2],
    ) -> CountedLoad {
        let it = after.since(&before);
        let operations =
            [(it.reads, it.read_sectors, it.read_ms), (it.writes, it.written_sectors, it.write_ms)];
        let [reads, writes] = operations.map(|(requests, sectors, ms)| CountedOperations {
            requests,
            bytes: sectors * BLOCK_BYTES,
            waits: Nanos::from_millis(ms),
            in_flight: Vec::new(),
        });
        let [read_looks, write_looks] = looks;
        let reads = CountedOperations { in_flight: read_looks, ..reads };
        let writes = CountedOperations { in_flight: write_looks, ..writes };
        CountedLoad { time, operations: [reads, writes] }
    }
}

/// The folder at a path, or that a file is in.
fn folder_at(path: &str) -> PathBuf {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let folder = whole.ancestors().find(|it| it.is_dir());
    folder.unwrap_or(&whole).to_owned()
}

/// Number of copies that the btrfs on these devices keeps of its data.
fn copies_of(sysroot: &Sysroot, names: &[String]) -> u64 {
    let Some(name) = names.first() else { return 1 };
    let has_device = |id: &String| sysroot.exists(&format!("/sys/fs/btrfs/{id}/devices/{name}"));
    let Some(id) = sysroot.names("/sys/fs/btrfs").into_iter().find(has_device) else { return 1 };
    let profiles = sysroot.names(&format!("/sys/fs/btrfs/{id}/allocation/data"));
    let copies = profiles.iter().map(|profile| match profile.as_str() {
        "raid1" | "raid10" | "dup" => 2,
        "raid1c3" => 3,
        "raid1c4" => 4,
        _ => 1,
    });
    copies.max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_for_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().canonicalize().unwrap();
        fs::write(whole.join("file"), "").unwrap();
        for name in ["", "file"] {
            assert_eq!(folder_at(whole.join(name).to_str().unwrap()), whole);
        }
    }
}
