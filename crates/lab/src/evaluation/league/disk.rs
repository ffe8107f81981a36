//! Draws the disks of an array: a built-in model with parameters of other products of its class.
//!
//! A model is a disk that was measured, so a product of the same class is near it. Seeks, media
//! rates, page times and the number of dies vary by factors; caches, queues, wear and interfaces
//! are drawn from the values that products have.

use super::draw::{Draw, microseconds, scaled_duration, scaled_rate};
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::profile::ModelProfile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskClass {
    Hdd,
    Sata,
    Nvme,
    /// Memory cards and USB sticks.
    Card,
    /// Volumes of a cloud: a fixed time for each request.
    Cloud,
}

/// A disk as it is written into an array file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DrawnDisk {
    pub(super) model: &'static str,
    pub(super) capacity_bytes: u64,
    /// Overridden parameters, as TOML.
    pub(super) set: Vec<String>,
}

/// The models of each class, with their weights.
const HDDS: &[(u32, &str)] = &[
    (4, "hdd-7k2-ent"),
    (4, "hdd-7k2-14tb"),
    (3, "hdd-7k2-18tb"),
    (4, "hdd-7k2-4tb"),
    (4, "hdd-7k2-desktop"),
    (4, "hdd-5k4-4tb"),
    (3, "hdd-5k4"),
    (2, "hdd-7k2-desktop-worn"),
    (2, "hdd-smr"),
    (2, "hdd-10k"),
    (2, "hdd-15k"),
];
const SATA_SSDS: &[(u32, &str)] =
    &[(4, "ssd-sata-plp"), (4, "ssd-sata-consumer"), (3, "ssd-sata-qlc"), (3, "ssd-sata-dramless")];
const NVME_SSDS: &[(u32, &str)] =
    &[(4, "nvme-tlc-ent"), (4, "nvme-tlc-real"), (3, "nvme-gen3"), (3, "nvme-gen4")];
const CARDS: &[(u32, &str)] = &[(1, "sd-a1"), (1, "usb-stick")];
const CLOUD_VOLUMES: &[(u32, &str)] = &[(1, "delay")];

/// Probability that a disk is not exactly its model.
const VARIED: f64 = 0.7;

impl DrawnDisk {
    pub(super) fn new(draw: &mut Draw, class: DiskClass) -> DrawnDisk {
        let model = draw.weighted(match class {
            DiskClass::Hdd => HDDS,
            DiskClass::Sata => SATA_SSDS,
            DiskClass::Nvme => NVME_SSDS,
            DiskClass::Card => CARDS,
            DiskClass::Cloud => CLOUD_VOLUMES,
        });
        let profile = ModelProfile::builtin(model).expect("the tables name built-in models");
        let base = profile.parameter_table();
        let is_varied = class == DiskClass::Cloud || draw.chance(VARIED);
        let set = match class {
            _ if !is_varied => Vec::new(),
            DiskClass::Hdd => hdd_parameters(draw, base),
            DiskClass::Cloud => cloud_parameters(draw),
            _ => ssd_parameters(draw, base, class),
        };
        DrawnDisk { model, capacity_bytes: profile.capacity_bytes, set }
    }
}

fn hdd_parameters(draw: &mut Draw, base: &toml::Table) -> Vec<String> {
    let rate = draw.uniform(0.8..=1.2);
    let seek = draw.uniform(0.85..=1.2);
    let mut set = Vec::new();
    for key in ["outer_rate", "inner_rate"] {
        set.push(format!("{key} = \"{}\"", scaled_rate(text(base, key), rate)));
    }
    for key in ["seek_average", "seek_full"] {
        if base.contains_key(key) {
            set.push(format!("{key} = \"{}\"", scaled_duration(text(base, key), seek)));
        }
    }
    if let Some(points) = base.get("seek_points").and_then(toml::Value::as_array) {
        let scaled = |point: &toml::Value| {
            let pair = point.as_array().expect("a point is a pair");
            let time = pair[1].as_str().expect("a time is a text");
            format!("[{}, \"{}\"]", pair[0], scaled_duration(time, seek))
        };
        let points: Vec<String> = points.iter().map(scaled).collect();
        set.push(format!("seek_points = [{}]", points.join(", ")));
    }
    set.push(format!("segments = {}", draw.one_of(&[8, 16, 32, 64])));
    let read_ahead = text(base, "read_ahead");
    set.push(format!("read_ahead = \"{}\"", draw.one_of(&["128KiB", "256KiB", read_ahead])));
    set.push(format!("queue_depth = {}", draw.weighted(&[(1, 1), (1, 8), (8, 32), (2, 128)])));
    set.push(format!("age_limit = \"{}ms\"", draw.one_of(&[500, 1000, 2000])));
    if draw.chance(0.1) {
        // A worn disk, which now and then reads a sector again.
        let probability = draw.log_uniform(0.001..=0.02);
        set.push(format!("recovery_probability = {probability:.4}"));
        set.push("recovery_min = \"30ms\"".to_owned());
        set.push(format!("recovery_max = \"{}ms\"", draw.whole(100..=500)));
    }
    set
}

fn ssd_parameters(draw: &mut Draw, base: &toml::Table, class: DiskClass) -> Vec<String> {
    let mut set = Vec::new();
    for key in ["read", "program"] {
        let factor = draw.uniform(0.75..=1.35);
        set.push(format!("{key} = \"{}\"", scaled_duration(text(base, key), factor)));
    }
    // From an almost empty drive to a full one under random writes.
    let amplification = draw.log_uniform(1.2..=10.0);
    set.push(format!("write_amplification = {amplification:.2}"));
    let dies = base["dies"].as_integer().expect("a number of dies");
    set.push(format!("dies = {}", draw.weighted(&[(1, dies / 2), (3, dies), (1, dies * 2)])));
    let flush = draw.log_uniform(0.3..=3.0);
    set.push(format!("flush = \"{}\"", scaled_duration(text(base, "flush"), flush)));
    if class == DiskClass::Sata && draw.chance(0.12) {
        set.push("link = \"280MB/s\"".to_owned());
    }
    if class == DiskClass::Nvme && draw.chance(0.15) {
        // A slot with fewer lanes.
        set.push(format!("link = \"{}\"", scaled_rate(text(base, "link"), 0.5)));
    }
    set
}

fn cloud_parameters(draw: &mut Draw) -> Vec<String> {
    let service = microseconds(draw.log_uniform(300e-6..=12e-3));
    vec![
        format!("service = \"{service}\""),
        format!("servers = {}", draw.log_whole(1..=64)),
        format!("bandwidth = \"{}MB/s\"", draw.log_whole(50..=1000)),
    ]
}

fn text<'a>(base: &'a toml::Table, key: &str) -> &'a str {
    let value = base.get(key).and_then(toml::Value::as_str);
    value.unwrap_or_else(|| panic!("a built-in profile has the quantity `{key}`"))
}

/// Sizes of disks on sale, the smallest first.
const SIZES: [&str; 9] = ["120GB", "240GB", "480GB", "500GB", "960GB", "1TB", "2TB", "4TB", "8TB"];

/// A size on sale of at most `bytes_max`; the whole disk if none is that small.
pub(super) fn common_size(draw: &mut Draw, bytes_max: u64) -> Option<&'static str> {
    let fits = |size: &&str| parse_bytes(size).is_ok_and(|bytes| bytes <= bytes_max);
    let fitting: Vec<&'static str> = SIZES.into_iter().filter(|size| fits(size)).collect();
    // The four largest that fit.
    let from = fitting.len().saturating_sub(4);
    (!fitting.is_empty()).then(|| draw.one_of(&fitting[from..]))
}
