//! Users of a block device as the kernel lists them, and the files behind loop devices.
//!
//! A loop device and the file behind it are two inodes with the same data, so a lock on one does
//! not hold for the other. Each is looked up from the other one in sysfs. The folder where sysfs is
//! mounted is an argument, so that tests can use a folder of their own.
//!
//! Non-goals: a file behind a loop device whose path means something else here, as in a container;
//! the mount points of a device, which the kernel refuses to open anyway.

use rustix::fs::{FileType, Stat, major, minor, stat};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub(super) struct BlockDevices<'a> {
    sysfs: &'a Path,
}

/// A loop device over a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LoopDevice {
    pub(super) path: PathBuf,
    /// True if it cannot be written to.
    pub(super) is_read_only: bool,
}

impl BlockDevices<'_> {
    /// Those of this machine.
    pub(super) fn of_system() -> BlockDevices<'static> {
        BlockDevices { sysfs: Path::new("/sys") }
    }

    /// The first loop device that is attached to this file or block device.
    pub(super) fn loop_over(&self, file: &Stat) -> Option<LoopDevice> {
        let entries = fs::read_dir(self.sysfs.join("block")).ok()?.flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        let folder = folders.into_iter().find(|folder| {
            let backing = backing_file(folder).and_then(|path| stat(path).ok());
            backing.is_some_and(|backing| is_same(&backing, file))
        })?;
        let ro = fs::read_to_string(folder.join("ro"));
        Some(LoopDevice {
            path: Path::new("/dev").join(folder.file_name()?),
            is_read_only: ro.is_ok_and(|ro| ro.trim() == "1"),
        })
    }

    /// The file behind a loop device, or behind the one that this is a partition of.
    pub(super) fn backing_of(&self, device: u64) -> Option<PathBuf> {
        let folder = self.folder(device);
        backing_file(&folder).or_else(|| backing_file(&folder.join("..")))
    }

    /// Names of the devices, such as `md127`, that use a block device or one of its partitions.
    pub(super) fn holders(&self, device: u64) -> Vec<String> {
        let folder = self.folder(device);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let parts = entries.map(|it| it.path()).filter(|part| part.join("partition").exists());
        let folders = parts.chain([folder.clone()]).map(|folder| folder.join("holders"));
        let holders = folders.flat_map(|holders| fs::read_dir(holders).into_iter().flatten());
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = holders.flatten().map(name).collect();
        names.sort();
        names.dedup();
        names
    }

    fn folder(&self, device: u64) -> PathBuf {
        self.sysfs.join(format!("dev/block/{}:{}", major(device), minor(device)))
    }
}

fn backing_file(folder: &Path) -> Option<PathBuf> {
    let mut path = fs::read(folder.join("loop/backing_file")).ok()?;
    path.pop_if(|last| *last == b'\n');
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    let kind = |stat: &Stat| FileType::from_raw_mode(stat.st_mode);
    match kind(one) == FileType::BlockDevice && kind(other) == FileType::BlockDevice {
        true => one.st_rdev == other.st_rdev,
        false => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A sysfs with two loop devices, of which the second has a partition, and a disk with one that
    /// an md array uses; and files behind the loop devices.
    fn sysfs() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        for name in ["one.img", "two two.img", "three.img"] {
            write(name, "");
        }
        write("devices/loop0/ro", "0\n");
        let backing = |name: &str| format!("{}\n", at(name).display());
        write("devices/loop0/loop/backing_file", &backing("one.img"));
        write("devices/loop1/ro", "1\n");
        write("devices/loop1/loop/backing_file", &backing("two two.img"));
        write("devices/loop1/loop1p1/partition", "1\n");
        write("devices/loop2/ro", "0\n");
        write("devices/sdb/sdb1/partition", "1\n");
        write("devices/sdb/sdb1/holders/md127", "");
        fs::create_dir_all(at("devices/sdb/holders")).unwrap();
        let names =
            [("loop0", "7:0"), ("loop1", "7:1"), ("loop1/loop1p1", "259:0"), ("loop2", "7:2")];
        fs::create_dir_all(at("dev/block")).unwrap();
        fs::create_dir_all(at("block")).unwrap();
        for (name, number) in names.into_iter().chain([("sdb", "8:16"), ("sdb/sdb1", "8:17")]) {
            symlink(at("devices").join(name), at("dev/block").join(number)).unwrap();
            if !name.contains('/') {
                symlink(at("devices").join(name), at("block").join(name)).unwrap();
            }
        }
        root
    }

    #[test]
    fn the_loop_device_of_a_file_is_found_under_each_name_of_it() {
        let root = sysfs();
        let devices = BlockDevices { sysfs: root.path() };
        let over = |name: &str| devices.loop_over(&stat(root.path().join(name)).unwrap());
        fs::hard_link(root.path().join("one.img"), root.path().join("link.img")).unwrap();
        let found =
            |path: &str, is_read_only| Some(LoopDevice { path: PathBuf::from(path), is_read_only });
        assert_eq!(over("one.img"), found("/dev/loop0", false));
        assert_eq!(over("link.img"), found("/dev/loop0", false));
        assert_eq!(over("two two.img"), found("/dev/loop1", true));
        assert_eq!(over("three.img"), None);
        fs::remove_file(root.path().join("one.img")).unwrap();
        assert_eq!(over("link.img"), None, "a path that is gone names no file");
    }

    #[test]
    fn the_file_behind_a_loop_device_and_its_partitions_is_found() {
        let root = sysfs();
        let devices = BlockDevices { sysfs: root.path() };
        let backing = |major, minor| devices.backing_of(makedev(major, minor));
        assert_eq!(backing(7, 0), Some(root.path().join("one.img")));
        assert_eq!(backing(7, 1), Some(root.path().join("two two.img")));
        assert_eq!(backing(259, 0), Some(root.path().join("two two.img")));
        assert_eq!((backing(7, 2), backing(8, 16), backing(9, 9)), (None, None, None));
    }

    #[test]
    fn the_users_of_a_device_and_of_its_partitions_are_named() {
        let root = sysfs();
        let devices = BlockDevices { sysfs: root.path() };
        let holders = |major, minor| devices.holders(makedev(major, minor));
        assert_eq!(holders(8, 16), ["md127"]);
        assert_eq!(holders(8, 17), ["md127"]);
        assert!(holders(7, 0).is_empty() && holders(9, 9).is_empty());
    }
}
