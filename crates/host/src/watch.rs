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
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

const DISKSTATS: &str = "/proc/diskstats";
/// How far the kernel's time of a disk with I/O may exceed a short window: it counts ticks.
const BUSY_SLACK: Nanos = Nanos::from_millis(100);
/// Least free space for a read: what the kernel makes at a time.
const READ_BYTES: usize = 4096;

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
    /// By its model: a disk with shingled tracks that it manages itself.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    is_shingled: bool,
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
            is_shingled: self.is_shingled,
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
        let (devid, is_shingled) = (Some(devid), is_shingled(member));
        Some(WatchedDisk { name, devid, class, model, identity, link, is_shingled, error_files })
    }
}

fn is_shingled(member: &DetectedMember) -> bool {
    member.model.profile == "hdd-smr"
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
        DiskBus::Mmc => DiskKind::Ssd,
        DiskBus::Sata | DiskBus::Usb | DiskBus::Virtual => match rotational {
            Some(true) => DiskKind::Hdd,
            _ => DiskKind::Ssd,
        },
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
        let mut error_files = vec![format!("/sys/block/{name}/device/ioerr_cnt")];
        error_files.retain(|file| sysroot.exists(file));
        let identity = identity(sysroot, &name);
        let member = disk_at(sysroot, &format!("/dev/{name}"));
        let is_shingled = member.is_some_and(|it| is_shingled(&it));
        let (devid, model, link) = (None, None, None);
        let disk =
            WatchedDisk { name, devid, class, model, identity, link, is_shingled, error_files };
        groups.push(WatchedGroup { array: None, disks: vec![disk] });
    }
    groups
}

/// Reads the counters of disks again and again, from files that stay open.
#[derive(Debug)]
pub struct DiskSampler {
    sysroot: Sysroot,
    started: Instant,
    diskstats: KernelFile,
    /// Files that count errors, by the disk's name of the kernel.
    error_files: BTreeMap<String, Vec<KernelFile>>,
}

/// A file of the kernel, whose text is made at each read from its beginning.
#[derive(Debug)]
struct KernelFile {
    path: String,
    file: Option<File>,
    bytes: Vec<u8>,
}

impl DiskSampler {
    pub fn new(sysroot: Sysroot, groups: &[WatchedGroup]) -> DiskSampler {
        let file = |path: &str| KernelFile { path: path.to_owned(), file: None, bytes: Vec::new() };
        let mut error_files: BTreeMap<String, Vec<KernelFile>> = BTreeMap::new();
        for disk in groups.iter().flat_map(|group| &group.disks) {
            let files = error_files.entry(disk.name.clone()).or_default();
            files.extend(disk.error_files.iter().map(|path| file(path)));
        }
        let diskstats = file(DISKSTATS);
        DiskSampler { sysroot, started: Instant::now(), diskstats, error_files }
    }

    /// The counters now.
    pub fn sample(&mut self) -> DiskSample {
        let at_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let text = self.diskstats.read(&self.sysroot).unwrap_or_default();
        let disks = DiskCounters::all(text).filter_map(|(name, counters)| {
            let files = self.error_files.get_mut(name)?;
            let texts = files.iter_mut().filter_map(|file| file.read(&self.sysroot));
            let errors = texts.map(errors_in).fold(0, u64::saturating_add);
            Some((name.to_owned(), CountedDisk { counters, errors }))
        });
        DiskSample { at_ns, disks: disks.collect() }
    }
}

impl KernelFile {
    /// The text now; `None` if it cannot be read. A device that returns has another file.
    fn read(&mut self, sysroot: &Sysroot) -> Option<&str> {
        if self.file.is_none() {
            self.file = sysroot.open(&self.path);
        }
        let length = read_again(self.file.as_ref()?, &mut self.bytes);
        if length.is_err() {
            self.file = None;
        }
        std::str::from_utf8(&self.bytes[..length.ok()?]).ok()
    }
}

impl DiskSample {
    /// The windows of a group's disks since the sample `before`; `None` for a disk that was not
    /// there, or whose counters were reset.
    pub fn windows(&self, before: &DiskSample, group: &WatchedGroup) -> Vec<Option<DiskWindow>> {
        let time = Nanos(self.at_ns.saturating_sub(before.at_ns));
        let window = |disk: &WatchedDisk| {
            let (now, then) = (self.disks.get(&disk.name)?, before.disks.get(&disk.name)?);
            let counters = now.counters.since(&then.counters);
            let was_reset = now.counters.reads < then.counters.reads
                || now.counters.writes < then.counters.writes;
            // Another disk in its place has other counters: of more I/O, and of impossible times.
            let busy = Nanos::from_millis(counters.busy_ms);
            let is_possible = busy <= time.saturating_add(Nanos(time.0 / 2)).max(BUSY_SLACK);
            (time > Nanos::ZERO && !was_reset && is_possible).then(|| DiskWindow {
                time,
                counters,
                errors: now.errors.saturating_sub(then.errors),
            })
        };
        group.disks.iter().map(window).collect()
    }
}

/// Reads a file into `bytes` from its beginning; returns its length.
fn read_again(file: &File, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut length = 0;
    loop {
        if bytes.len() < length + READ_BYTES {
            bytes.resize(length + READ_BYTES, 0);
        }
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => return Ok(length),
            count => length += count,
        }
    }
}

/// The sum of the numbers in a file that counts errors: `0x1f`, or lines such as `read_errs 3`.
fn errors_in(text: &str) -> u64 {
    let numbers = text.split_whitespace().filter_map(|word| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse::<u64>().ok(),
    });
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_health::judge::{DiskHistory, DiskState, Judge};
    use proptest::prelude::*;

    fn sample(at_s: u64, disks: &[(&str, u64, u64)]) -> DiskSample {
        let counted = |&(name, reads, errors): &(&str, u64, u64)| {
            let counters = DiskCounters { reads, ..Default::default() };
            (name.to_owned(), CountedDisk { counters, errors })
        };
        let at_ns = Nanos::from_secs(at_s).0;
        DiskSample { at_ns, disks: disks.iter().map(counted).collect() }
    }

    #[test]
    fn a_loop_device_is_of_the_class_that_it_shows() {
        // Such as those of `emulate --loop`. Virtio disks rotate whatever is behind them.
        let of = |bus| (class(bus, Some(true)), class(bus, Some(false)));
        assert_eq!(of(DiskBus::Virtual), (DiskKind::Hdd, DiskKind::Ssd));
        assert_eq!(of(DiskBus::Sata), of(DiskBus::Virtual));
        assert_eq!(of(DiskBus::Virtio), (DiskKind::Nvme, DiskKind::Nvme));
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
    fn files_are_read_again_from_their_beginning_and_may_come_later() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let write = |path: &str, text: &str| {
            let path = sysroot.host_path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let errors = "/sys/block/sda/device/ioerr_cnt";
        write("/sys/block/sda/size", "100\n");
        write(errors, "0x1\n");
        let groups = all_groups(&sysroot);
        let mut sampler = DiskSampler::new(sysroot.clone(), &groups);
        assert!(sampler.sample().disks.is_empty(), "no /proc yet");
        let line = |name: &str, reads: u64| format!("8 0 {name} {reads} 0 0 0 0 0 0 0 0 0 0\n");
        let many: String = (0..300).map(|other| line(&format!("sdb{other}"), 1)).collect();
        write(DISKSTATS, &(many + &line("sda", 5)));
        let first = sampler.sample();
        write(DISKSTATS, &line("sda", 7));
        write(errors, "0x1f\n");
        let second = sampler.sample();
        let counts = |it: &DiskSample| (it.disks["sda"].counters.reads, it.disks["sda"].errors);
        assert_eq!((first.disks.len(), counts(&first), counts(&second)), (1, (5, 1), (7, 31)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Two healthy SSDs, with all that may happen to counters and clocks.
        #[test]
        fn odd_counters_are_no_slow_disk(
            events in prop::collection::vec((0..6_u8, 0..2_usize, 0..600_u64, 1..20_u64), 0..12),
            begin_ms in prop_oneof![Just(0), (1_u64 << 32) - 60_000..(1 << 32)],
        ) {
            let disks = ["sda", "sdb"].map(watched);
            let group = WatchedGroup { array: None, disks: disks.to_vec() };
            let history = || DiskHistory::default();
            let mut judge = Judge::new(group.disks.iter().map(|disk| (disk.facts(), history())));
            let busy = DiskCounters { read_ms: begin_ms, busy_ms: begin_ms, ..Default::default() };
            let (mut counters, mut at_ns, mut before) = ([busy; 2], 1, None);
            for second in 0..600_u64 {
                let now = events.iter().filter(|it| (it.2..it.2 + it.3).contains(&second));
                let mut is_gone = [false; 2];
                at_ns += 1_000_000_000;
                for counters in &mut counters {
                    counters.reads += 1000;
                    counters.read_sectors += 8000;
                    counters.read_ms = (counters.read_ms + 190 + second % 20) % (1 << 32);
                    counters.busy_ms = (counters.busy_ms + 190 + second % 20) % (1 << 32);
                }
                for &(event, disk, from, length) in now {
                    let other = DiskCounters { reads: 1 << (2 * length), ..Default::default() };
                    match event {
                        0 if from == second => counters[disk] = DiskCounters::default(),
                        // Another disk in its place.
                        1 if from == second => counters[disk] = other,
                        2 => is_gone[disk] = true,
                        // The machine is suspended, or the clock is set.
                        3 if from == second => at_ns += length * 3600 * 1_000_000_000,
                        4 => at_ns = at_ns.saturating_sub(1_000_000_000 * (length % 2 + 1)),
                        // A wrap of a counter that the kernel keeps in 32 bits.
                        5 if from == second => counters[disk].read_sectors %= 1 << 10,
                        _ => {}
                    }
                }
                let there = disks.iter().zip(counters).zip(is_gone).filter(|it| !it.1);
                let counted = there.map(|((disk, counters), _)| {
                    (disk.name.clone(), CountedDisk { counters, errors: 0 })
                });
                let sample = DiskSample { at_ns, disks: counted.collect() };
                if let Some(before) = before.replace(sample.clone()) {
                    let windows = sample.windows(&before, &group);
                    judge.observe(Nanos(at_ns), Nanos::from_secs(1), &windows);
                }
                let is_slow = judge.disks().any(|it| matches!(it.1, DiskState::Slow { .. }));
                prop_assert!(!is_slow, "at {second}");
            }
        }
    }

    fn watched(name: &str) -> WatchedDisk {
        WatchedDisk {
            name: name.to_owned(),
            devid: None,
            class: DiskKind::Ssd,
            model: Some("one".to_owned()),
            identity: None,
            link: None,
            is_shingled: false,
            error_files: Vec::new(),
        }
    }

    #[test]
    fn a_disk_that_went_or_was_reset_has_no_window() {
        let disks = ["sda", "sdb", "sdc"].map(watched).to_vec();
        let group = WatchedGroup { array: None, disks };
        let before = sample(1, &[("sda", 10, 2), ("sdb", 10, 0)]);
        let now = sample(3, &[("sda", 15, 5), ("sdb", 4, 0), ("sdc", 1, 0)]);
        let windows = now.windows(&before, &group);
        let [Some(first), None, None] = windows[..] else { panic!("{windows:?}") };
        assert_eq!((first.time, first.counters.reads, first.errors), (Nanos::from_secs(2), 5, 3));
        assert_eq!(before.windows(&before, &group), [None; 3], "no time passed");
    }
}
