//! The disk under a member: follows the layers between, device by device.
//!
//! A layer over several devices is followed where one of them holds the data: the paths of
//! multipath, the backing disk of bcache, the data of a thin pool, the origin of a cache or of
//! dm-integrity. Of an array, the first member stands for all. What a simulation leaves out of a
//! layer is a remark.

use super::block::BlockDevice;
use super::stack::StackLayer;
use super::sysroot::Sysroot;
use std::collections::BTreeSet;

/// The disk under a member, and the layers between: LUKS, LVM, multipath, a partition.
#[derive(Default)]
pub(super) struct Leaf {
    pub(super) disk: Option<BlockDevice>,
    pub(super) layers: Vec<StackLayer>,
    /// First byte of the member on its disk, where no layer hides it.
    pub(super) begin_bytes: Option<u64>,
    /// True if the member lies on several devices, so that the disk is one of them.
    pub(super) is_one_of_several: bool,
    /// Number of devices that it is striped over, as by a raid0; 0 if it is not.
    pub(super) striped: usize,
    pub(super) cache: Option<BlockDevice>,
    /// Facts about layers, in words.
    pub(super) remarks: Vec<String>,
}

const INTEGRITY: &str = "dm-integrity checks what is read, and with a journal writes all data \
                         twice: such writes take about twice as long as simulated";

/// The part of a layer of LVM that holds its data, by the end of its name; the kind of the layer,
/// and a remark.
const PARTS: [(&str, &str, Option<&str>); 4] = [
    ("_corig", "lvm cache", None),
    ("_wcorig", "lvm writecache", None),
    ("_iorig", "dm integrity", Some(INTEGRITY)),
    (
        "_vdata",
        "lvm vdo",
        Some("VDO compresses and deduplicates, so data lie elsewhere than simulated"),
    ),
];

/// The device below a layer that holds its data.
pub(super) struct Below {
    pub(super) device: BlockDevice,
    /// Kind of the layer, if it is another than the device says.
    pub(super) kind: Option<&'static str>,
    /// True if other devices below hold other data.
    pub(super) is_one_of_several: bool,
    striped: usize,
    pub(super) cache: Option<BlockDevice>,
    remark: Option<String>,
}

/// The device below a layer that holds its data; none below a disk.
pub(super) fn below(sysroot: &Sysroot, device: &BlockDevice) -> Option<Below> {
    let slaves = device.slaves(sysroot);
    let first = slaves.first()?.clone();
    let plain = Below {
        device: first,
        kind: None,
        is_one_of_several: false,
        striped: 0,
        cache: None,
        remark: None,
    };
    let name = |slave: &BlockDevice| slave.mapper(sysroot).0;
    let part = PARTS.iter().find_map(|(end, kind, remark)| {
        let origin = slaves.iter().find(|slave| name(slave).ends_with(end))?;
        Some((origin.clone(), *kind, *remark))
    });
    if let Some((origin, kind, remark)) = part {
        let is_cache = |slave: &&BlockDevice| {
            let ends = ["_cdata", "_cvol", "_cvol-cdata"];
            kind.contains("cache") && ends.iter().any(|it| name(slave).ends_with(it))
        };
        let cache = slaves.iter().find(is_cache).cloned();
        let remark = remark.map(str::to_owned);
        return Some(Below { device: origin, kind: Some(kind), cache, remark, ..plain });
    }
    let (mapped, uuid) = device.mapper(sysroot);
    if slaves.len() == 1 {
        // By itself, or below the LUKS of the same name.
        let checks = uuid.starts_with("CRYPT-INTEGRITY-") || mapped.ends_with("_dif");
        let (kind, remark) = checks.then(|| ("dm integrity", INTEGRITY.to_owned())).unzip();
        return Some(Below { kind, remark, ..plain });
    }
    // The data of a thin pool, which systems of NAS name in other ways.
    let data: Vec<_> = slaves.iter().filter(|it| !name(it).ends_with("_tmeta")).collect();
    if let ([data], true) = (&data[..], data.len() < slaves.len()) {
        let kind = Some("lvm thin pool");
        return Some(Below { device: (*data).clone(), kind, ..plain });
    }
    if uuid.starts_with("mpath-") {
        let remark = Some(format!("over {} paths", slaves.len()));
        return Some(Below { remark, ..plain });
    }
    if device.name.starts_with("bcache") {
        // A cache serves several devices, or says so; a backing disk serves one.
        let is_cache = |slave: &&BlockDevice| {
            sysroot.exists(&slave.file("bcache/set"))
                || sysroot.flag(&slave.file("queue/rotational")) == Some(false)
        };
        let cache = slaves.iter().find(is_cache).cloned();
        let backing = slaves.iter().find(|slave| Some(*slave) != cache.as_ref()).cloned()?;
        return Some(Below { device: backing, cache, ..plain });
    }
    let count = slaves.len();
    let level = device.md_level(sysroot);
    let striped = if level.as_deref() == Some("raid0") { count } else { 0 };
    let remark = level.map_or_else(
        || format!("lies on {count} devices: described as on the first"),
        |level| {
            let names: Vec<&str> = slaves.iter().map(|slave| slave.name.as_str()).collect();
            let rates = match striped {
                0 => String::new(),
                count => format!(" with the rates of {count}"),
            };
            let (name, names) = (&device.name, names.join(", "));
            format!("{name} is md {level} of {names}: simulated as one disk{rates}, as the first")
        },
    );
    Some(Below { is_one_of_several: true, striped, remark: Some(remark), ..plain })
}

/// Follows a device down to its disk.
pub(super) fn leaf(sysroot: &Sysroot, device: &BlockDevice) -> Leaf {
    let mut leaf = Leaf { begin_bytes: Some(0), ..Leaf::default() };
    let mut seen = BTreeSet::new();
    let mut here = device.clone();
    while seen.insert(here.folder().to_owned()) {
        if here.is_partition(sysroot) {
            let own = here.begin_bytes(sysroot);
            leaf.begin_bytes = leaf.begin_bytes.map(|begin| own.saturating_add(begin));
            here = here.disk(sysroot);
        }
        let Some(below) = below(sysroot, &here) else {
            leaf.disk = Some(here);
            return leaf;
        };
        let kind = below.kind.map_or_else(|| here.kind(sysroot), str::to_owned);
        leaf.layers.push(StackLayer::plain(here.device_path(sysroot), kind));
        // A mapping may begin anywhere on the device below it.
        leaf.begin_bytes = None;
        leaf.is_one_of_several |= below.is_one_of_several;
        leaf.striped = leaf.striped.max(below.striped);
        leaf.cache = leaf.cache.or(below.cache);
        leaf.remarks.extend(below.remark);
        here = below.device;
    }
    Leaf { begin_bytes: None, ..leaf }
}

/// The physical volume under a logical one, in the name that LVM takes: the first device below that
/// is not LVM's own; and the last of LVM's devices above it.
pub(super) fn physical_volume(
    sysroot: &Sysroot,
    image: &BlockDevice,
) -> Option<(BlockDevice, BlockDevice)> {
    /// More layers than LVM has.
    const LAYERS_MAX: usize = 16;
    let mut here = image.clone();
    for _ in 0..LAYERS_MAX {
        let next = below(sysroot, &here)?.device;
        if !next.mapper(sysroot).1.starts_with("LVM-") {
            return Some((here, next));
        }
        here = next;
    }
    None
}
