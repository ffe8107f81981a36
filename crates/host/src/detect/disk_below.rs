//! The disk below a device of a member: a model stands for the whole of it.

use super::array::DetectedMember;
use super::block::BlockDevice;
use super::leaf::leaf;
use super::members::read_member;
use super::sysroot::Sysroot;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskBelow {
    /// The path of the disk; `None` if the device lies on several.
    pub disk: Option<String>,
    /// First byte of the device on the disk; `None` where a layer between hides it.
    pub begin_bytes: Option<u64>,
    /// Size of the device in bytes, if it is known.
    pub size_bytes: Option<u64>,
}

/// The disk below the device at `path`; `None` if `path` is that of no block device.
pub fn disk_below(sysroot: &Sysroot, path: &str) -> Option<DiskBelow> {
    let device = BlockDevice::by_path(sysroot, path)?;
    let below = leaf(sysroot, &device);
    Some(DiskBelow {
        disk: below.disk.filter(|_| !below.is_one_of_several).map(|disk| disk.device_path(sysroot)),
        begin_bytes: below.begin_bytes,
        size_bytes: device.size_bytes(sysroot),
    })
}

/// The disk of a block device as a member of an array would have it; `None` if `path` is that of no
/// block device, or its disk is not known.
pub fn disk_at(sysroot: &Sysroot, path: &str) -> Option<DetectedMember> {
    let device = BlockDevice::by_path(sysroot, path)?;
    Some(read_member(sysroot, 1, Some(&device))).filter(|member| member.disk.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_disk_has_a_model_and_a_size() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
        let root = Sysroot::recorded(&root.join("md-raid1-hdd-ssd"));
        let disk = disk_at(&root, "/dev/sda").unwrap();
        assert_eq!(
            (disk.model.profile.as_str(), disk.size_bytes.is_some()),
            ("hdd-7k2-desktop", true)
        );
        assert!(disk_at(&root, "/dev/sdz").is_none());
    }

    #[test]
    fn partitions_and_layers_lead_to_their_disk() {
        let below = |machine: &str, path: &str| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
            disk_below(&Sysroot::recorded(&root.join(machine)), path)
        };
        let disk = |machine: &str, path: &str| below(machine, path).and_then(|it| it.disk);
        assert_eq!(disk("md-raid1-hdd-ssd", "/dev/sda").as_deref(), Some("/dev/sda"));
        let partition = below("luks-on-lvm-on-md", "/dev/sda2").unwrap();
        assert_eq!(partition.disk.as_deref(), Some("/dev/sda"));
        assert!(partition.begin_bytes > Some(0) && partition.size_bytes > Some(0));
        assert_eq!(disk("luks-on-lvm-on-md", "/dev/md0"), None, "it lies on several disks");
        assert_eq!(below("md-raid1-hdd-ssd", "/dev/sdz"), None);
        assert_eq!(below("md-raid1-hdd-ssd", "volume"), None);
    }
}
