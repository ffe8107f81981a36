//! The facts about a disk that the kernel shows.

use super::block::BlockDevice;
use super::mounts::{mount_of, mounts};
use super::sysroot::Sysroot;
use mirrorball_core::units::GIB;
use serde::Serialize;

/// How a disk is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskBus {
    /// SATA, or SAS and SCSI: disks with a model name.
    Sata,
    /// NVMe.
    Nvme,
    /// A bridge of USB, which may hide what the disk is.
    Usb,
    /// An SD card or eMMC.
    Mmc,
    /// A disk of a virtual machine, without a model name.
    Virtio,
    /// A loop device, RAM disk or the like.
    Virtual,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DetectedDisk {
    /// The name of the kernel, such as `sda`.
    pub name: String,
    /// How it is attached.
    pub bus: DiskBus,
    /// Vendor, if it is more than `ATA`.
    pub vendor: Option<String>,
    /// Model name.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Flag of the kernel; loop devices and bridges often say true.
    pub rotational: Option<bool>,
    /// Revolutions a minute, if udev knows them.
    pub rpm: Option<u64>,
    /// Optimal I/O size in bytes.
    pub optimal_io_bytes: Option<u64>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Requests that the scheduler queues.
    pub nr_requests: Option<u64>,
    /// Read-ahead in KiB.
    pub read_ahead_kb: Option<u64>,
    /// Kind of zones: `none`, `host-aware` or `host-managed`.
    pub zoned: Option<String>,
}

impl DetectedDisk {
    /// Reads the facts about a disk.
    pub(super) fn read(sysroot: &Sysroot, device: &BlockDevice) -> DetectedDisk {
        let text = |file: &str| sysroot.text(&device.file(file));
        let number = |file: &str| sysroot.number(&device.file(file));
        let bus = bus(sysroot, device);
        let udev = UdevFacts::read(sysroot, device);
        // In a disk of virtio this file has a number instead.
        let vendor = text("device/vendor").filter(|vendor| !vendor.starts_with("0x"));
        DetectedDisk {
            name: device.name.clone(),
            bus,
            vendor: vendor.filter(|vendor| vendor != "ATA"),
            model: udev.full_name(text("device/model")).or_else(|| emulated(sysroot, device)),
            serial: text("device/serial").or_else(|| text("serial")).or(udev.serial),
            rpm: udev.rpm.filter(|rpm| *rpm > 0),
            size_bytes: device.size_bytes(sysroot),
            rotational: sysroot.flag(&device.file("queue/rotational")),
            optimal_io_bytes: number("queue/optimal_io_size").filter(is_sensible_io_size),
            scheduler: text("queue/scheduler").map(|list| bracketed(&list).unwrap_or(list)),
            nr_requests: number("queue/nr_requests"),
            read_ahead_kb: number("queue/read_ahead_kb"),
            zoned: text("queue/zoned"),
        }
    }
}

/// A model name for a loop device over a file of `mirrorball emulate`.
fn emulated(sysroot: &Sysroot, device: &BlockDevice) -> Option<String> {
    let file = sysroot.text(&device.file("loop/backing_file"))?;
    let mounts = mounts(sysroot);
    let mount = mount_of(&mounts, &file)?;
    let is_ours = mount.kind == "fuse" && mount.source == "mirrorball";
    is_ours.then(|| "Mirrorball emulated disk".to_owned())
}

/// True for an optimal I/O size that is one: some bridges report none, or 4 GiB less a sector.
fn is_sensible_io_size(bytes: &u64) -> bool {
    (1..=GIB).contains(bytes)
}

/// Facts of udev about a disk that sysfs does not show.
#[derive(Debug, Default)]
struct UdevFacts {
    /// The model name, with underscores for spaces.
    model: Option<String>,
    serial: Option<String>,
    rpm: Option<u64>,
}

impl UdevFacts {
    /// Reads the entry of a device in the database of udev, which all may read.
    fn read(sysroot: &Sysroot, device: &BlockDevice) -> UdevFacts {
        let number = sysroot.text(&device.file("dev")).unwrap_or_default();
        let text = sysroot.raw_text(&format!("/run/udev/data/b{number}")).unwrap_or_default();
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix("E:")?.strip_prefix(name)?.strip_prefix('='))
        };
        UdevFacts {
            model: value("ID_MODEL").map(str::to_owned),
            serial: value("ID_SERIAL_SHORT").map(str::to_owned),
            rpm: value("ID_ATA_ROTATION_RATE_RPM").and_then(|rpm| rpm.parse().ok()),
        }
    }

    /// The model name of sysfs, where SCSI cuts it after 16 characters, completed by that of udev.
    fn full_name(&self, name: Option<String>) -> Option<String> {
        let name = name?;
        let rest =
            self.model.as_ref().and_then(|model| model.strip_prefix(&name.replace(' ', "_")));
        Some(format!("{name}{}", rest.unwrap_or_default().replace('_', " ")))
    }
}

/// The word in brackets of a list such as `none [mq-deadline] bfq`.
pub(super) fn bracketed(list: &str) -> Option<String> {
    let (_, rest) = list.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    (!word.is_empty()).then(|| word.to_owned())
}

/// By the name and the place of the device: a disk of a controller lies below its bus.
fn bus(sysroot: &Sysroot, device: &BlockDevice) -> DiskBus {
    let (name, folder) = (device.name.as_str(), device.folder());
    match () {
        () if name.starts_with("nvme") => DiskBus::Nvme,
        () if name.starts_with("mmcblk") => DiskBus::Mmc,
        () if folder.contains("/usb") => DiskBus::Usb,
        () if name.starts_with("vd") => DiskBus::Virtio,
        () if sysroot.exists(&device.file("device/model")) => DiskBus::Sata,
        () => DiskBus::Virtual,
    }
}

#[cfg(test)]
mod tests {
    use super::{UdevFacts, bracketed};

    #[test]
    fn udev_completes_a_model_name_that_scsi_has_cut() {
        let facts = |model: &str| UdevFacts { model: Some(model.to_owned()), ..Default::default() };
        let name = || Some("Samsung SSD 870".to_owned());
        let full = facts("Samsung_SSD_870_QVO_4TB").full_name(name());
        assert_eq!(full.as_deref(), Some("Samsung SSD 870 QVO 4TB"));
        assert_eq!(facts("other").full_name(name()), name());
        assert_eq!(facts("other").full_name(None), None);
    }

    #[test]
    fn the_scheduler_in_use_is_in_brackets() {
        assert_eq!(bracketed("none [mq-deadline] kyber").as_deref(), Some("mq-deadline"));
        assert_eq!(bracketed("none"), None);
        assert_eq!(bracketed("][ a"), None);
        assert_eq!(bracketed("[]"), None);
    }
}
