//! `mirrorball watch`: the counters of running disks, read and never written.
//!
//! Nothing here sends I/O to a disk, and nothing needs root.

use crate::detect::{
    DetectedArray, DetectedMember, DiskBus, StorageSystem, Sysroot, detect_all, disk_at,
};
use mirrorball_core::units::Nanos;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{DiskFacts, DiskWindow};
use mirrorball_health::service::DiskKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Disks that are judged together: those of an array, or one that belongs to none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedGroup {
    /// Name of the array in commands; none for a disk that belongs to no array.
    pub array: Option<String>,
    pub disks: Vec<WatchedDisk>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedDisk {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub devid: Option<u64>,
    pub class: DiskKind,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// World-wide name or serial number, and the size.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    identity: Option<String>,
    /// A link that it shares with other disks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<String>,
    /// Files of the kernel that count errors of the member.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    error_files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSample {
    /// On a clock that only goes forward.
    pub at_ns: u64,
    /// By the name of the kernel; without the disks that are not there.
    pub disks: BTreeMap<String, CountedDisk>,
}

/// The counters of a disk, and the errors that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedDisk {
    #[serde(flatten)]
    pub counters: DiskCounters,
    /// Errors of the driver and of the array.
    pub errors: u64,
}

impl WatchedDisk {
    pub fn facts(&self) -> DiskFacts {
        DiskFacts {
            name: self.name.clone(),
            class: self.class,
            model: self.model.clone(),
            link: self.link.clone(),
        }
    }

    /// The name of the disk in a history, which a disk that replaces it does not inherit; without
    /// an identity the name of the kernel and the model.
    pub fn history_key(&self) -> String {
        let place = || format!("{} {}", self.name, self.model.as_deref().unwrap_or("-"));
        self.identity.clone().unwrap_or_else(place)
    }

    fn of(
        sysroot: &Sysroot,
        array: &DetectedArray,
        member: &DetectedMember,
    ) -> Option<WatchedDisk> {
        let kernel_name = member.kernel_name.clone()?;
        let disk = member.disk.as_ref();
        let name = disk.map_or_else(|| kernel_name.clone(), |disk| disk.name.clone());
        let class = match disk {
            Some(disk) => class(disk.bus, disk.rotational),
            None => DiskKind::Nvme,
        };
        let mut error_files = vec![format!("/sys/block/{name}/device/ioerr_cnt")];
        let devid = member.devid;
        match (array.system, &array.id) {
            (StorageSystem::Btrfs, Some(id)) => {
                error_files.push(format!("/sys/fs/btrfs/{id}/devinfo/{devid}/error_stats"));
            }
            (StorageSystem::Md | StorageSystem::MdRaid10, _) => {
                let md = array.name.trim_start_matches("/dev/");
                error_files.push(format!("/sys/block/{md}/md/dev-{kernel_name}/errors"));
            }
            _ => {}
        }
        error_files.retain(|file| sysroot.exists(file));
        let link = member.link.as_ref().map(|link| link.name.clone());
        let model = disk.and_then(|disk| disk.model.clone());
        let identity = identity(sysroot, &name);
        Some(WatchedDisk { name, devid: Some(devid), class, model, identity, link, error_files })
    }
}

/// The identity of a disk, which one that replaces it does not have.
fn identity(sysroot: &Sysroot, name: &str) -> Option<String> {
    let disk = disk_at(sysroot, &format!("/dev/{name}")).and_then(|member| member.disk);
    let text = |file: &str| sysroot.text(&format!("/sys/block/{name}/{file}"));
    let id = text("device/wwid").or_else(|| text("wwid"));
    let id = id.or_else(|| disk?.serial)?;
    let sectors = sysroot.number(&format!("/sys/block/{name}/size")).unwrap_or(0);
    Some(format!("{id}, {sectors} sectors"))
}

fn class(bus: DiskBus, rotational: Option<bool>) -> DiskKind {
    match bus {
        DiskBus::Nvme | DiskBus::Virtio => DiskKind::Nvme,
        DiskBus::Sata | DiskBus::Usb if rotational == Some(true) => DiskKind::Hdd,
        DiskBus::Sata | DiskBus::Usb | DiskBus::Mmc | DiskBus::Virtual => DiskKind::Ssd,
    }
}

/// The disks of one array. Members that are missing are left out.
pub fn group_of(sysroot: &Sysroot, array: &DetectedArray) -> WatchedGroup {
    let in_service = array.members.iter().filter(|member| !member.is_failed);
    let mut disks: Vec<WatchedDisk> =
        in_service.filter_map(|member| WatchedDisk::of(sysroot, array, member)).collect();
    // Two partitions of one disk have the same counters.
    disks.sort_by(|a, b| (&a.name, a.devid).cmp(&(&b.name, b.devid)));
    disks.dedup_by(|a, b| a.name == b.name);
    disks.sort_by_key(|disk| disk.devid);
    WatchedGroup { array: Some(array.name.clone()), disks }
}

/// Every array of the machine, and every disk that belongs to none.
pub fn all_groups(sysroot: &Sysroot) -> Vec<WatchedGroup> {
    let arrays = detect_all(sysroot).into_iter().flatten();
    let mut groups: Vec<WatchedGroup> =
        arrays.map(|array| group_of(sysroot, &array)).filter(|it| !it.disks.is_empty()).collect();
    for name in sysroot.names("/sys/block") {
        let is_known = groups.iter().flat_map(|it| &it.disks).any(|disk| disk.name == name);
        let has_device = sysroot.exists(&format!("/sys/block/{name}/device"));
        let is_empty = sysroot.number(&format!("/sys/block/{name}/size")).unwrap_or(0) == 0;
        if is_known || !has_device || is_empty || name.starts_with("sr") {
            continue;
        }
        let rotational = sysroot.number(&format!("/sys/block/{name}/queue/rotational"));
        let class = match (name.starts_with("sd"), rotational) {
            (true, Some(1)) => DiskKind::Hdd,
            (true, _) => DiskKind::Ssd,
            (false, _) => DiskKind::Nvme,
        };
        let error_files = vec![format!("/sys/block/{name}/device/ioerr_cnt")];
        let identity = identity(sysroot, &name);
        let (devid, model, link) = (None, None, None);
        let disk = WatchedDisk { name, devid, class, model, identity, link, error_files };
        groups.push(WatchedGroup { array: None, disks: vec![disk] });
    }
    groups
}

impl DiskSample {
    pub fn read(sysroot: &Sysroot, groups: &[WatchedGroup], at: Nanos) -> DiskSample {
        let text = sysroot.raw_text("/proc/diskstats").unwrap_or_default();
        let disks = groups.iter().flat_map(|group| &group.disks).filter_map(|disk| {
            let counters = DiskCounters::of(&text, &disk.name)?;
            let errors = disk.error_files.iter().map(|file| errors_in(sysroot, file)).sum();
            Some((disk.name.clone(), CountedDisk { counters, errors }))
        });
        DiskSample { at_ns: at.0, disks: disks.collect() }
    }

    /// The windows of a group's disks since the sample `before`; `None` for a disk that was not
    /// there, or whose counters were reset.
    pub fn windows(&self, before: &DiskSample, group: &WatchedGroup) -> Vec<Option<DiskWindow>> {
        let time = Nanos(self.at_ns.saturating_sub(before.at_ns));
        let window = |disk: &WatchedDisk| {
            let (now, then) = (self.disks.get(&disk.name)?, before.disks.get(&disk.name)?);
            let was_reset = now.counters.reads < then.counters.reads
                || now.counters.writes < then.counters.writes;
            (time > Nanos::ZERO && !was_reset).then(|| DiskWindow {
                time,
                counters: now.counters.since(&then.counters),
                errors: now.errors.saturating_sub(then.errors),
            })
        };
        group.disks.iter().map(window).collect()
    }
}

/// The sum of the numbers in a file that counts errors: `0x1f`, or lines such as `read_errs 3`.
fn errors_in(sysroot: &Sysroot, file: &str) -> u64 {
    let text = sysroot.raw_text(file).unwrap_or_default();
    let numbers = text.split_whitespace().filter_map(|word| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse::<u64>().ok(),
    });
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: u64, disks: &[(&str, u64, u64)]) -> DiskSample {
        let counted = |&(name, reads, errors): &(&str, u64, u64)| {
            let counters = DiskCounters { reads, ..Default::default() };
            (name.to_owned(), CountedDisk { counters, errors })
        };
        let at_ns = Nanos::from_secs(at_s).0;
        DiskSample { at_ns, disks: disks.iter().map(counted).collect() }
    }

    #[test]
    fn a_disk_in_the_place_of_another_has_a_history_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let key = |serial: &str, sectors: &str| {
            let device = sysroot.host_path("/sys/block/sda/device");
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("wwid"), serial).unwrap();
            std::fs::write(sysroot.host_path("/sys/block/sda/size"), sectors).unwrap();
            let group = all_groups(&sysroot).remove(0);
            group.disks[0].history_key()
        };
        let first = key("naa.1\n", "100\n");
        assert_eq!(first, "naa.1, 100 sectors");
        assert!(first != key("naa.2\n", "100\n") && first != key("naa.1\n", "200\n"));
        assert_eq!(key("\n", "100\n"), "sda -");
    }

    #[test]
    fn a_disk_that_went_or_was_reset_has_no_window() {
        let disk = |name: &str| WatchedDisk {
            name: name.to_owned(),
            devid: None,
            class: DiskKind::Ssd,
            model: None,
            identity: None,
            link: None,
            error_files: Vec::new(),
        };
        let group = WatchedGroup { array: None, disks: ["sda", "sdb", "sdc"].map(disk).to_vec() };
        let before = sample(1, &[("sda", 10, 2), ("sdb", 10, 0)]);
        let now = sample(3, &[("sda", 15, 5), ("sdb", 4, 0), ("sdc", 1, 0)]);
        let windows = now.windows(&before, &group);
        let [Some(first), None, None] = windows[..] else { panic!("{windows:?}") };
        assert_eq!((first.time, first.counters.reads, first.errors), (Nanos::from_secs(2), 5, 3));
        assert_eq!(before.windows(&before, &group), [None; 3], "no time passed");
    }
}
