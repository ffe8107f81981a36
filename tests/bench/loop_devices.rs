//! A btrfs RAID1 on two loop devices of this machine, with a real fio.

use crate::common::external::{run, skip_unless, try_run};
use crate::common::{Folder, stderr, stdout};
use std::fs::{self, File};
use std::path::PathBuf;

/// Size of a device, and of the file that `bench` reads.
const DEVICE_BYTES: u64 = 3 << 30;
const FILE_SIZE: &str = "64MiB";
const JOB: &str = "[few]\nrw=randread\nbs=4k\ndirect=1\nrate_iops=50\n";

/// A mounted file system. Dropping it unmounts it, and removes what was recorded of it.
struct LoopBtrfs {
    folder: Folder,
    devices: Vec<String>,
    mount: PathBuf,
    fsid: String,
}

impl LoopBtrfs {
    /// Makes it; `None` where there is no btrfs, no loop device, or no right to use them.
    fn mounted() -> Option<LoopBtrfs> {
        let has_btrfs =
            fs::read_to_string("/proc/filesystems").is_ok_and(|it| it.contains("btrfs"));
        let has_loop = File::options().write(true).open("/dev/loop-control").is_ok();
        if !skip_unless(has_btrfs && has_loop, "no btrfs, or no right to make loop devices") {
            return None;
        }
        let folder = Folder::new();
        let here = folder.path(".");
        for program in ["fio", "mkfs.btrfs", "btrfs"] {
            try_run(&here, program, &["--version"])?;
        }
        let mount = folder.path("pool");
        fs::create_dir(&mount).unwrap();
        let mut pool = LoopBtrfs { folder, devices: Vec::new(), mount, fsid: String::new() };
        for name in ["one.img", "two.img"] {
            File::create(pool.folder.path(name)).unwrap().set_len(DEVICE_BYTES).unwrap();
            let device = run(&here, "losetup", &["--find", "--show", name])?;
            pool.devices.push(device.trim().to_owned());
        }
        let [one, two] = [0, 1].map(|index| pool.devices[index].clone());
        let profiles = ["--quiet", "--data", "raid1", "--metadata", "raid1", &one, &two];
        run(&here, "mkfs.btrfs", &profiles)?;
        run(&here, "mount", &[&one, "pool"])?;
        let probed = run(&here, "blkid", &["-s", "UUID", "-o", "value", &one])?;
        pool.fsid = probed.trim().to_owned();
        Some(pool)
    }
}

impl Drop for LoopBtrfs {
    fn drop(&mut self) {
        let here = self.folder.path(".");
        try_run(&here, "umount", &["pool"]);
        for device in &self.devices {
            try_run(&here, "losetup", &["--detach", device]);
        }
        if !self.fsid.is_empty() {
            let _ = fs::remove_file(format!("/var/lib/mirrorball/bench/btrfs-{}.lock", self.fsid));
        }
    }
}

#[test]
fn a_btrfs_is_measured_and_left_as_it_was() {
    let Some(pool) = LoopBtrfs::mounted() else { return };
    fs::write(pool.folder.path("few.fio"), JOB).unwrap();
    let bench = ["bench", "pool", "few.fio", "--rounds", "1", "--size", FILE_SIZE];
    let times = ["--settle", "0s", "--measure", "1s", "--lateness-max", "1h", "-o", "measured"];
    let output = pool.folder.run(&[&bench[..], &times].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("members during few"), "{}", stdout(&output));
    assert_eq!(fs::read_dir(&pool.mount).unwrap().count(), 0, "the folder is removed");
}
