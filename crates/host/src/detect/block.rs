//! Block devices of the kernel: their folders in sysfs, and the stack below a device.

use super::sysroot::{Sysroot, base_name};

/// A block device: its name in the kernel and its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockDevice {
    pub(super) name: String,
    folder: String,
}

impl BlockDevice {
    /// The device that the kernel calls `name`, such as `sda1`.
    pub(super) fn by_name(sysroot: &Sysroot, name: &str) -> Option<BlockDevice> {
        // In folders of sysfs `!` stands for the slash of names such as `cciss/c0d0`.
        let name = name.replace('/', "!");
        let places = [format!("/sys/class/block/{name}"), format!("/sys/block/{name}")];
        let folder = places.iter().find_map(|place| sysroot.resolve(place))?;
        BlockDevice::at(sysroot, &folder)
    }

    /// The device of a number `major:minor`.
    pub(super) fn by_number(sysroot: &Sysroot, number: &str) -> Option<BlockDevice> {
        let folder = sysroot.resolve(&format!("/sys/dev/block/{number}"))?;
        BlockDevice::at(sysroot, &folder)
    }

    pub(super) fn at(sysroot: &Sysroot, folder: &str) -> Option<BlockDevice> {
        let folder = sysroot.resolve(folder)?;
        let name = base_name(&folder);
        (!name.is_empty()).then(|| BlockDevice { name: name.to_owned(), folder: folder.clone() })
    }

    /// The device of a path below `/dev`: by its link, its name of the device mapper, or its name.
    pub(super) fn by_path(sysroot: &Sysroot, path: &str) -> Option<BlockDevice> {
        let rest = path.strip_prefix("/dev/")?;
        if let Some(resolved) = sysroot.resolve(path)
            && let Some(name) = resolved.strip_prefix("/dev/")
            && let Some(device) = BlockDevice::by_name(sysroot, name)
        {
            return Some(device);
        }
        let mapped = match rest.split_once('/') {
            Some(("mapper", name)) => Some(name.to_owned()),
            Some((group, volume)) => Some(mapper_name(group, volume)),
            None => None,
        };
        let by_mapper = mapped.and_then(|wanted| {
            mapper_devices(sysroot).find(|device| device.mapper(sysroot).0 == wanted)
        });
        by_mapper.or_else(|| BlockDevice::by_name(sysroot, rest))
    }

    pub(super) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// `/dev/sda`, or the name in the device mapper.
    pub(super) fn device_path(&self, sysroot: &Sysroot) -> String {
        let (mapped, _) = self.mapper(sysroot);
        match mapped.as_str() {
            "" => format!("/dev/{}", self.name.replace('!', "/")),
            name => format!("/dev/mapper/{name}"),
        }
    }

    /// The name in the kernel; none of a mapping whose number a text does not say.
    pub(super) fn kernel_name(&self, sysroot: &Sysroot) -> Option<String> {
        let (mapped, _) = self.mapper(sysroot);
        let is_known = mapped.is_empty() || self.name.strip_prefix("dm-") != Some(&mapped);
        is_known.then(|| self.name.clone())
    }

    /// Size in bytes. Sizes in sysfs are in units of 512 bytes for every device.
    pub(super) fn size_bytes(&self, sysroot: &Sysroot) -> Option<u64> {
        sysroot.number(&self.file("size"))?.checked_mul(512)
    }

    /// First byte on the disk, for a partition.
    pub(super) fn begin_bytes(&self, sysroot: &Sysroot) -> u64 {
        sysroot.number(&self.file("start")).unwrap_or(0).saturating_mul(512)
    }

    pub(super) fn is_partition(&self, sysroot: &Sysroot) -> bool {
        sysroot.exists(&self.file("partition"))
    }

    /// The disk of a partition; itself for other devices.
    pub(super) fn disk(&self, sysroot: &Sysroot) -> BlockDevice {
        let parent = self.folder.rsplit_once('/').map(|(parent, _)| parent);
        let disk = parent
            .filter(|_| self.is_partition(sysroot))
            .and_then(|parent| BlockDevice::at(sysroot, parent));
        disk.unwrap_or_else(|| self.clone())
    }

    /// Name and UUID in the device mapper; empty for other devices.
    pub(super) fn mapper(&self, sysroot: &Sysroot) -> (String, String) {
        let text = |file| sysroot.text(&self.file(file)).unwrap_or_default();
        (text("dm/name"), text("dm/uuid"))
    }

    pub(super) fn md_level(&self, sysroot: &Sysroot) -> Option<String> {
        sysroot.text(&self.file("md/level"))
    }

    /// The devices right below a virtual device.
    pub(super) fn slaves(&self, sysroot: &Sysroot) -> Vec<BlockDevice> {
        let folder = self.file("slaves");
        let names = sysroot.names(&folder);
        let devices =
            names.iter().filter_map(|name| BlockDevice::at(sysroot, &format!("{folder}/{name}")));
        devices.collect()
    }

    /// Kind, for people: `md raid1`, `luks`, `lvm`, `partition`, `disk`, ….
    pub(super) fn kind(&self, sysroot: &Sysroot) -> String {
        let (_, uuid) = self.mapper(sysroot);
        if let Some(level) = self.md_level(sysroot) {
            return format!("md {level}");
        }
        let of_mapper = [("CRYPT-", "luks"), ("LVM-", "lvm"), ("mpath-", "dm multipath")];
        if let Some((_, kind)) = of_mapper.iter().find(|(prefix, _)| uuid.starts_with(prefix)) {
            return (*kind).to_owned();
        }
        match () {
            () if sysroot.exists(&self.file("dm")) => "device mapper",
            () if self.is_partition(sysroot) => "partition",
            () if sysroot.exists(&self.file("loop")) => "loop device",
            () if self.name.starts_with("bcache") => "bcache",
            () if self.name.starts_with("drbd") => "drbd",
            () => "disk",
        }
        .to_owned()
    }
}

pub(super) fn mapper_devices(sysroot: &Sysroot) -> impl Iterator<Item = BlockDevice> {
    let names = sysroot.names("/sys/block");
    let names = names.into_iter().filter(|name| name.starts_with("dm-"));
    names.filter_map(|name| BlockDevice::by_name(sysroot, &name))
}

/// Name in the device mapper of a logical volume: hyphens within a name are doubled.
fn mapper_name(group: &str, volume: &str) -> String {
    format!("{}-{}", group.replace('-', "--"), volume.replace('-', "--"))
}
