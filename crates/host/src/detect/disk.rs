//! The facts about a disk that the kernel shows.

use super::block::BlockDevice;
use super::mounts::{mount_of, mounts};
use super::sysroot::Sysroot;
use mirrorball_core::units::GIB;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskBus {
    /// SATA, or SAS and SCSI: disks with a model name.
    Sata,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DetectedDisk {
    /// The name of the kernel, such as `sda`.
    pub name: String,
    pub bus: DiskBus,
    /// Vendor, if it is more than `ATA`.
    pub vendor: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
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
        let model = udev.full_name(text("device/model")).or_else(|| emulated(sysroot, device));
        let named_size = model.as_deref().and_then(size_in_model);
        DetectedDisk {
            name: device.name.clone(),
            bus,
            vendor: vendor.filter(|vendor| vendor != "ATA"),
            size_bytes: device.size_bytes(sysroot).or(named_size),
            model,
            serial: text("device/serial").or_else(|| text("serial")).or(udev.serial),
            rpm: udev.rpm.filter(|rpm| *rpm > 0),
            rotational: sysroot.flag(&device.file("queue/rotational")),
            optimal_io_bytes: number("queue/optimal_io_size").filter(is_sensible_io_size),
            scheduler: text("queue/scheduler").map(|list| bracketed(&list).unwrap_or(list)),
            nr_requests: number("queue/nr_requests"),
            read_ahead_kb: number("queue/read_ahead_kb"),
            zoned: text("queue/zoned"),
        }
    }
}

impl DetectedDisk {
    /// Facts that the model name says differently, given the kind of disk that it names.
    pub(super) fn contradictions(&self, named_rotational: Option<bool>) -> Vec<String> {
        let Some(model) = &self.model else { return Vec::new() };
        let mut found = Vec::new();
        let gb = |bytes: u64| bytes as f64 / 1e9;
        if let (Some(named), Some(bytes)) = (size_in_model(model), self.size_bytes)
            && !(0.8..1.25).contains(&(gb(bytes) / gb(named)))
        {
            found.push(format!(
                "the model name {model} says {:.0} GB, but the size is {:.0} GB: the size is taken",
                gb(named),
                gb(bytes)
            ));
        }
        let kind = |rotates: bool| if rotates { "a disk that rotates" } else { "an SSD" };
        // A bridge often says that an SSD rotates.
        let is_bridged = self.bus == DiskBus::Usb;
        if let (Some(named), Some(said)) = (named_rotational, self.rotational)
            && named != said
            && !is_bridged
        {
            found.push(format!(
                "the model name {model} is that of {}, but ROTA says {}: the name is taken",
                kind(named),
                kind(said)
            ));
        }
        found
    }
}

/// The capacity in a model name: `870 EVO 4TB`, `ST4000VN008`, `WD40EFRX`, `CT1000MX500SSD1`.
pub(super) fn size_in_model(model: &str) -> Option<u64> {
    model.split([' ', '-', '_']).find_map(gigabytes_in_word).map(|size| size * 1_000_000_000)
}

fn gigabytes_in_word(word: &str) -> Option<u64> {
    /// Capacities that are written in GB, some behind another number.
    const USUAL: [u64; 18] = [
        120, 128, 240, 250, 256, 400, 480, 500, 512, 800, 960, 1000, 1024, 1600, 1920, 2000, 3840,
        7680,
    ];
    let of_unit = |unit: &str, size: f64| {
        let number: f64 = word.strip_suffix(unit)?.parse().ok()?;
        Some((number * size) as u64)
    };
    if let Some(size) = of_unit("TB", 1000.0).or_else(|| of_unit("GB", 1.0)) {
        return Some(size);
    }
    let is = |maker: &str| word.starts_with(maker);
    let digits_at = |at: usize| {
        let length = word[at..].bytes().take_while(u8::is_ascii_digit).count();
        (&word[at..at + length], word[at + length..].chars().next().unwrap_or(' '))
    };
    let begins_number = |at: &usize| {
        let before = at.checked_sub(1).map(|at| word.as_bytes()[at]);
        word.as_bytes()[*at].is_ascii_digit() && !before.is_some_and(|it| it.is_ascii_digit())
    };
    (0..word.len()).filter(begins_number).find_map(|at| {
        let (digits, next) = digits_at(at);
        let number: u64 = digits.parse().ok()?;
        let is_usual = |size: &&u64| digits.ends_with(&size.to_string());
        match (digits.len(), next) {
            (2..=5, 'A'..='Z') if at == 2 && (is("ST") || is("CT")) => Some(number),
            (2, 'A'..='Z') if at == 2 && is("WD") => Some(number * 100),
            // `WD101EFAX` has 10 TB, `WD800JD` has 80 GB.
            (3, 'A'..='Z') if at == 2 && is("WD") && number > 300 => Some(number / 10),
            (3, 'A'..='Z') if at == 2 && is("WD") => Some(number / 10 * 1000),
            (3, 'T') if is("WDS") => Some(number * 10),
            (3, 'T') if is("SSD") => Some(number * 100),
            (2, 'T') if is("MG") => Some(number * 1000),
            (length, 'T') if is("MZ") => {
                let tenths: u64 = digits_at(at + length + 1).0.parse().ok()?;
                Some(number % 10 * 1000 + tenths * 100)
            }
            (_, 'G') => USUAL.iter().rev().find(is_usual).copied(),
            _ => None,
        }
    })
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
    use super::{UdevFacts, bracketed, size_in_model};

    #[test]
    fn names_of_models_say_capacities() {
        for (model, gigabytes) in [
            ("Samsung SSD 870 EVO 4TB", Some(4000)),
            ("ST4000VN008-2DR166", Some(4000)),
            ("ST500DM002", Some(500)),
            ("WDC WD40EFRX-68N32N0", Some(4000)),
            ("WDC WD101EFBX-68B0AN0", Some(10_000)),
            ("WDC WD800JD-00MSA1", Some(80)),
            ("WDS100T1X0E", Some(1000)),
            ("CT1000MX500SSD1", Some(1000)),
            ("TOSHIBA MG08ACA16TE", Some(16_000)),
            ("KINGSTON SA400S37480G", Some(480)),
            ("INTEL SSDPE2KX040T8", Some(4000)),
            ("INTEL SSDSC2BB480G7", Some(480)),
            ("SAMSUNG MZQL23T8HCLS-00A07", Some(3800)),
            ("KINGSTON SKC3000D2048G", None),
            ("ST31000528AS", None),
            ("QEMU HARDDISK", None),
            ("Gerät 9", None),
        ] {
            let bytes = gigabytes.map(|size: u64| size * 1_000_000_000);
            assert_eq!(size_in_model(model), bytes, "{model}");
        }
    }

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
