//! The model profile that stands for a disk: by its model name, else by its class.
//!
//! The table is `known_models.toml`. Each choice says how certain it is.

use super::disk::{DetectedDisk, DiskBus, size_in_model};
use mirrorball_core::units::{GIB, TIB, parse_bytes};
use mirrorball_disk::array_file::ModelConfidence;
use serde::{Deserialize, Serialize, Serializer};
use std::sync::LazyLock;

/// A model profile for a disk, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelChoice {
    pub profile: String,
    #[serde(serialize_with = "by_name")]
    pub confidence: ModelConfidence,
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    virtual_disks: Vec<String>,
    volumes: Vec<String>,
    known: Vec<KnownModel>,
    class: Vec<MediaClass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownModel {
    profile: String,
    confidence: Option<String>,
    prefixes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaClass {
    bus: Option<String>,
    rotational: Option<bool>,
    size_min: Option<String>,
    /// Sizes in GB that only such disks have.
    sizes_gb: Option<Vec<u64>>,
    rpm_min: Option<u64>,
    rpm_max: Option<u64>,
    profile: String,
    confidence: Option<String>,
}

static TABLE: LazyLock<ModelTable> = LazyLock::new(|| {
    toml::from_str(include_str!("known_models.toml")).expect("a test reads the table")
});

fn by_name<S: Serializer>(value: &ModelConfidence, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.name())
}

/// Chooses the profile of a disk; `None` if the disk of a member is not known.
pub(super) fn choose_model(disk: Option<&DetectedDisk>) -> ModelChoice {
    let model = disk.and_then(|disk| disk.model.as_deref());
    // Some systems have the first word of the name as the vendor.
    let vendor = disk.and_then(|disk| disk.vendor.as_deref()).unwrap_or_default();
    let both = model.map(|model| format!("{vendor} {model}")).unwrap_or_default();
    let known = model.and_then(|model| {
        let has = |it: &String| model.starts_with(it) || both.starts_with(it);
        TABLE.known.iter().find(|known| known.prefixes.iter().any(has))
    });
    if let (Some(known), Some(model)) = (known, model) {
        // SCSI cuts names after 16 characters: the disk may be another one of the table.
        let is_cut = |it: &KnownModel| it.prefixes.iter().any(|prefix| prefix.starts_with(model));
        let is_ambiguous = TABLE.known.iter().any(|it| it.profile != known.profile && is_cut(it));
        let is_of_kind = known.confidence.as_deref() == Some(ModelConfidence::ClassDefault.name());
        let (confidence, or_other) = match (is_ambiguous, is_of_kind) {
            (true, _) => (ModelConfidence::ClassDefault, ", which several models share"),
            (false, true) => (ModelConfidence::ClassDefault, ", which names the kind of disk"),
            (false, false) => (ModelConfidence::KnownModel, ""),
        };
        let reason = format!("model name {model}{or_other}");
        return ModelChoice { profile: known.profile.clone(), confidence, reason };
    }
    let class = TABLE.class.iter().find(|class| class.fits(disk));
    let profile = class.map_or("delay", |class| &class.profile).to_owned();
    let is_guessed = class.is_none_or(|class| class.confidence.as_deref() == Some("guessed"))
        || disk.is_some_and(is_virtual);
    let confidence =
        if is_guessed { ModelConfidence::Guessed } else { ModelConfidence::ClassDefault };
    ModelChoice { profile, confidence, reason: class_name(disk) }
}

/// The profile that stands for disks of which no more is known than whether they rotate.
pub fn model_of_class(is_rotational: bool) -> &'static str {
    let is_any = |class: &&MediaClass| {
        class.bus.is_none() && class.sizes_gb.is_none() && class.size_min.is_none()
    };
    let mut any = TABLE.class.iter().filter(is_any);
    let found = any.find(|class| class.rotational.is_none_or(|it| it == is_rotational));
    found.map_or("delay", |class| &class.profile)
}

/// The profile that stands for disks of this product name, with the maker or without, and the bytes
/// that the name says.
pub fn model_of_product(name: &str) -> Option<(&'static str, Option<u64>)> {
    /// Fewer characters name a series of several profiles, as `SSD 870`.
    const NAME_MIN: usize = 8;
    let name = name.to_uppercase();
    let is_named_by = |prefix: &String| {
        let without_maker = prefix.split_once(' ').map(|(_, name)| name);
        let mut names = [Some(prefix.as_str()), without_maker].into_iter().flatten();
        names.any(|it| it.len() >= NAME_MIN && name.starts_with(&it.to_uppercase()))
    };
    let known = TABLE.known.iter().find(|known| known.prefixes.iter().any(is_named_by))?;
    Some((&known.profile, size_in_model(&name)))
}

/// True if a hypervisor or a storage target made the name of a model or vendor up.
pub(crate) fn is_made_up(name: &str) -> bool {
    TABLE.virtual_disks.iter().any(|it| name.starts_with(it))
}

/// True for a volume of a RAID controller.
pub(super) fn is_volume(disk: &DetectedDisk) -> bool {
    let model = disk.model.as_deref().unwrap_or_default();
    TABLE.volumes.iter().any(|it| model.starts_with(it))
}

fn is_virtual(disk: &DetectedDisk) -> bool {
    let is_made_up = |name: &String| is_made_up(name);
    disk.model.as_ref().is_some_and(is_made_up) || disk.vendor.as_ref().is_some_and(is_made_up)
}

impl MediaClass {
    fn fits(&self, disk: Option<&DetectedDisk>) -> bool {
        let bus = disk.map(|disk| bus_name(disk.bus));
        let rotational = disk.and_then(|disk| disk.rotational);
        let rpm = disk.and_then(|disk| disk.rpm);
        let size_bytes = disk.and_then(|disk| disk.size_bytes).unwrap_or(0);
        let size_min = self.size_min.as_deref().map_or(0, |text| parse_bytes(text).unwrap_or(0));
        (self.bus.is_none() || self.bus.as_deref() == bus)
            && (self.rotational.is_none() || self.rotational == rotational)
            && size_bytes >= size_min
            && self.sizes_gb.as_ref().is_none_or(|sizes| {
                rotational.is_none() && sizes.iter().any(|gb| is_size(size_bytes, *gb))
            })
            && self.rpm_min.is_none_or(|rpm_min| rpm.is_some_and(|rpm| rpm >= rpm_min))
            && self.rpm_max.is_none_or(|rpm_max| rpm.is_some_and(|rpm| rpm <= rpm_max))
    }
}

/// True for the bytes of a disk of so many GB, as `lsblk` rounds them: to tenths of a GiB or TiB.
fn is_size(bytes: u64, gb: u64) -> bool {
    // All makers of disks count sectors by this rule.
    let exact = (97_696_368 + 1_953_504 * gb.saturating_sub(50)) * 512;
    let unit = if exact < TIB { GIB } else { TIB };
    bytes.abs_diff(exact) <= unit / 20
}

fn bus_name(bus: DiskBus) -> &'static str {
    match bus {
        DiskBus::Sata => "sata",
        DiskBus::Nvme => "nvme",
        DiskBus::Usb => "usb",
        DiskBus::Mmc => "mmc",
        DiskBus::Virtio => "virtio",
        DiskBus::Virtual => "virtual",
    }
}

/// The class in words: `rotational SATA disk`.
fn class_name(disk: Option<&DetectedDisk>) -> String {
    let Some(disk) = disk else { return "the disk of the member is not known".to_owned() };
    let rotational = match disk.rotational {
        Some(true) => "rotational",
        Some(false) => "non-rotational",
        None => "unknown",
    };
    let kind = match disk.bus {
        _ if is_virtual(disk) => "disk of a virtual machine or a storage target",
        DiskBus::Sata => "SATA or SCSI disk",
        DiskBus::Nvme => "NVMe disk",
        DiskBus::Usb => "disk behind a USB bridge",
        DiskBus::Mmc => "memory card",
        DiskBus::Virtio => "disk of a virtual machine",
        DiskBus::Virtual if disk.rotational.is_none() => "disk",
        DiskBus::Virtual => "virtual device",
    };
    let model = disk.model.as_deref().map(|model| format!(", model name {model} not in the table"));
    let is_of_size = TABLE.class.iter().any(|it| it.sizes_gb.is_some() && it.fits(Some(disk)));
    let size = if is_of_size { ", of a size of SSDs" } else { "" };
    format!("{rotational} {kind}{}{size}", model.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_disk::profile::ModelProfile;

    #[test]
    fn the_class_of_a_disk_is_that_of_its_kind_whatever_its_size() {
        assert_eq!(model_of_class(true), "hdd-7k2-desktop");
        assert_eq!(model_of_class(false), "ssd-sata-consumer");
    }

    fn disk(bus: DiskBus, rotational: bool, model: Option<&str>, tb: u64) -> DetectedDisk {
        DetectedDisk {
            name: "sda".to_owned(),
            bus,
            vendor: None,
            model: model.map(str::to_owned),
            serial: None,
            size_bytes: Some(tb * 1_000_000_000_000),
            rotational: Some(rotational),
            rpm: None,
            optimal_io_bytes: None,
            scheduler: None,
            nr_requests: None,
            read_ahead_kb: None,
            zoned: None,
        }
    }

    #[test]
    fn every_profile_of_the_table_exists_and_its_sizes_can_be_read() {
        let names: Vec<&str> = ModelProfile::builtin_names().collect();
        let classes = TABLE.class.iter().map(|class| &class.profile);
        for profile in TABLE.known.iter().map(|known| &known.profile).chain(classes) {
            assert!(names.contains(&profile.as_str()), "{profile}");
        }
        for size in TABLE.class.iter().filter_map(|class| class.size_min.as_deref()) {
            assert!(parse_bytes(size).is_ok(), "{size}");
        }
    }

    #[test]
    fn a_product_is_found_without_its_maker_and_its_name_says_its_size() {
        let tb = |tb: u64| Some(tb * 1_000_000_000_000);
        assert_eq!(model_of_product("WD40EFRX"), Some(("hdd-5k4-4tb", tb(4))));
        assert_eq!(model_of_product("wdc wd40efrx-68n32n0"), Some(("hdd-5k4-4tb", tb(4))));
        assert_eq!(model_of_product("ST8000DM004"), Some(("hdd-smr", tb(8))));
        assert_eq!(model_of_product("Samsung SSD 870 EVO 4TB").map(|it| it.1), Some(tb(4)));
        assert_eq!(model_of_product("hdd-7k2"), None);
    }

    #[test]
    fn no_prefix_is_hidden_by_an_earlier_one() {
        let all: Vec<&String> = TABLE.known.iter().flat_map(|known| &known.prefixes).collect();
        for (index, prefix) in all.iter().enumerate() {
            let earlier = all[..index].iter().find(|earlier| prefix.starts_with(**earlier));
            assert_eq!(earlier, None, "{prefix}");
        }
    }

    #[test]
    fn a_known_model_is_certain_a_class_less_and_an_unknown_class_is_guessed() {
        for (disk, profile, confidence) in [
            (
                disk(DiskBus::Sata, true, Some("ST2000DM001-1ER1"), 2),
                "hdd-7k2-desktop",
                "known model",
            ),
            (
                disk(DiskBus::Sata, false, Some("Samsung SSD 870"), 1),
                "ssd-sata-consumer",
                "class default",
            ),
            (
                disk(DiskBus::Sata, false, Some("Samsung SSD 870 QVO"), 1),
                "ssd-sata-qlc",
                "known model",
            ),
            (disk(DiskBus::Sata, true, Some("NoName"), 2), "hdd-7k2-desktop", "class default"),
            (disk(DiskBus::Sata, false, Some("NoName"), 2), "ssd-sata-consumer", "class default"),
            (disk(DiskBus::Sata, true, Some("ST8000DM004-2CX1"), 8), "hdd-smr", "known model"),
            (disk(DiskBus::Sata, true, Some("WDC WD80EFZX-68U"), 8), "hdd-5k4-8tb", "known model"),
            (disk(DiskBus::Nvme, false, Some("QEMU NVMe Ctrl"), 2), "nvme-gen3", "guessed"),
            (disk(DiskBus::Sata, true, Some("VIRTUAL-DISK"), 2), "hdd-7k2-desktop", "guessed"),
            (disk(DiskBus::Sata, true, Some("VBOX HARDDISK"), 2), "hdd-7k2-desktop", "guessed"),
            (disk(DiskBus::Virtual, true, None, 2), "hdd-7k2-desktop", "guessed"),
            (disk(DiskBus::Virtio, false, None, 2), "ssd-sata-consumer", "guessed"),
        ] {
            let choice = choose_model(Some(&disk));
            assert_eq!((choice.profile.as_str(), choice.confidence.name()), (profile, confidence));
        }
        // The kernel takes many sticks for rotational disks.
        let stick = choose_model(Some(&disk(DiskBus::Usb, true, Some("DataTraveler 3.0"), 0)));
        assert_eq!(stick.profile, "usb-stick");
        assert_eq!(stick.confidence, ModelConfidence::ClassDefault);
        let large = choose_model(Some(&disk(DiskBus::Sata, true, Some("NoName"), 20)));
        assert_eq!(large.profile, "hdd-7k2-18tb");
        let server = DetectedDisk { rpm: Some(10_500), ..disk(DiskBus::Sata, true, None, 2) };
        assert_eq!(choose_model(Some(&server)).profile, "hdd-10k");
        let slow = DetectedDisk { rpm: Some(5400), ..disk(DiskBus::Sata, true, None, 4) };
        assert_eq!(choose_model(Some(&slow)).profile, "hdd-5k4-4tb");
        let slow = DetectedDisk { rpm: Some(5400), ..disk(DiskBus::Sata, true, None, 8) };
        assert_eq!(choose_model(Some(&slow)).profile, "hdd-5k4-8tb");
        let fast = DetectedDisk { rpm: Some(7200), ..disk(DiskBus::Sata, true, None, 4) };
        assert_eq!(choose_model(Some(&fast)).profile, "hdd-7k2-4tb");
        let vendor = Some("VMware".to_owned());
        let guest = DetectedDisk { vendor, ..disk(DiskBus::Sata, false, Some("Disk"), 2) };
        assert_eq!(choose_model(Some(&guest)).confidence, ModelConfidence::Guessed);
        let none = choose_model(None);
        assert_eq!(none.confidence, ModelConfidence::Guessed);
    }
}
