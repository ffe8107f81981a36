//! The facts about a disk that the kernel shows.

use super::block::BlockDevice;
use super::sysroot::Sysroot;
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
    /// What the kernel reports; loop devices and bridges often say true.
    pub rotational: Option<bool>,
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
        // In a disk of virtio this file has a number instead.
        let vendor = text("device/vendor").filter(|vendor| !vendor.starts_with("0x"));
        DetectedDisk {
            name: device.name.clone(),
            bus,
            vendor: vendor.filter(|vendor| vendor != "ATA"),
            model: text("device/model"),
            serial: text("device/serial").or_else(|| text("serial")),
            size_bytes: device.size_bytes(sysroot),
            rotational: sysroot.flag(&device.file("queue/rotational")),
            optimal_io_bytes: number("queue/optimal_io_size").filter(|bytes| *bytes > 0),
            scheduler: text("queue/scheduler").map(|list| bracketed(&list).unwrap_or(list)),
            nr_requests: number("queue/nr_requests"),
            read_ahead_kb: number("queue/read_ahead_kb"),
            zoned: text("queue/zoned"),
        }
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
    use super::bracketed;

    #[test]
    fn the_scheduler_in_use_is_in_brackets() {
        assert_eq!(bracketed("none [mq-deadline] kyber").as_deref(), Some("mq-deadline"));
        assert_eq!(bracketed("none"), None);
        assert_eq!(bracketed("][ a"), None);
        assert_eq!(bracketed("[]"), None);
    }
}
