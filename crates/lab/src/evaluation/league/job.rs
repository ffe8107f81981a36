//! Draws a job: one to three sections that run together, and work in the background.
//!
//! The distributions are those of `docs/scale.md`. The first section always reads. Rates of
//! Poisson arrivals are drawn as a part of what the array serves to the section alone; they and the
//! length of the run are filled in when the job has been sized.

use super::array::DrawnArray;
use super::class::Classes;
use super::draw::Draw;
use mirrorball_core::units::Nanos;

#[derive(Clone, Debug)]
pub(super) struct DrawnJob {
    /// What it is, by dimension.
    pub(super) classes: Classes,
    /// The sections, in the order of the file.
    pub(super) sections: Vec<DrawnSection>,
    head: String,
}

#[derive(Clone, Debug)]
pub(super) struct DrawnSection {
    name: String,
    /// Its options, without times and rate.
    options: Vec<String>,
    /// Part of what the array serves to this section alone at which its requests arrive, if they
    /// arrive at a rate.
    pub(super) load: Option<f64>,
}

/// How long a job runs, and the rates of the sections that have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sizing {
    /// Time before anything is measured.
    pub(super) ramp: Nanos,
    /// Time that is measured.
    pub(super) runtime: Nanos,
    /// Requests per second, by section.
    pub(super) rates: Vec<Option<u64>>,
}

/// What a section does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Random,
    MixedSizes,
    Streams,
    Arrivals,
    ReadWrite,
    Log,
    BulkWriter,
}

const READERS: &[(u32, Role)] = &[
    (40, Role::Random),
    (6, Role::MixedSizes),
    (26, Role::Streams),
    (12, Role::Arrivals),
    (16, Role::ReadWrite),
];
const ALL_ROLES: &[(u32, Role)] = &[
    (34, Role::Random),
    (5, Role::MixedSizes),
    (22, Role::Streams),
    (10, Role::Arrivals),
    (15, Role::ReadWrite),
    (8, Role::Log),
    (6, Role::BulkWriter),
];

/// Sizes of random requests in KiB.
const SIZES_KIB: &[(u32, u32)] =
    &[(40, 4), (8, 8), (14, 16), (6, 32), (10, 64), (6, 128), (6, 256), (4, 512), (6, 1024)];

impl DrawnJob {
    /// The job of pairing `number`, for its array.
    pub(super) fn new(seed: u64, number: u32, array: &DrawnArray) -> DrawnJob {
        let mut draw = Draw::new(seed, number, "job");
        let count = draw.weighted(&[(50, 1), (30, 2), (20, 3)]);
        let mut classes = Classes::default();
        classes.add("sections", count.to_string());
        let mut head = format!("; Job of pairing {number} of the sample with seed {seed}.\n");
        let background = background(&mut draw, array, &mut head);
        // More than one Poisson section must not ask for more than there is.
        let load_max = if count == 1 { 0.9 } else { 0.7 / f64::from(count) };
        let mut sections = Vec::new();
        for place in 0..count {
            let role = draw.weighted(if place == 0 { READERS } else { ALL_ROLES });
            classes.add("contains", role.name());
            let mut options = options(&mut draw, role, array);
            let load = (role == Role::Arrivals).then(|| draw.uniform(0.1 * load_max..=load_max));
            if load.is_some() {
                options.push("rate_process=poisson".to_owned());
            }
            let name = format!("{}-{}", role.name().replace(' ', "-"), place + 1);
            sections.push(DrawnSection { name, options, load });
        }
        classes.add("background", background);
        DrawnJob { classes, sections, head }
    }

    pub(super) fn text(&self, sizing: &Sizing) -> String {
        let mut text = self.head.clone();
        text += &format!(
            "[global]\nramp_time={}us\nruntime={}us\ntime_based\ngroup_reporting\n",
            sizing.ramp.0 / 1000,
            sizing.runtime.0 / 1000
        );
        for (place, section) in self.sections.iter().enumerate() {
            let rate = sizing.rates.get(place).copied().flatten();
            text += &section.written(rate);
        }
        text
    }

    /// A job of one section alone, 32 requests in flight, from which the rate of its arrivals is
    /// taken.
    pub(super) fn alone(&self, place: usize, runtime: Nanos) -> String {
        let section = &self.sections[place];
        let is_kept = |option: &&String| !option.starts_with("rate") && !option.contains("iodepth");
        let mut options: Vec<String> = section.options.iter().filter(is_kept).cloned().collect();
        options.push("iodepth=32".to_owned());
        let runtime = runtime.0 / 1000;
        format!("[global]\nruntime={runtime}us\ntime_based\n")
            + &DrawnSection { options, ..section.clone() }.written(None)
    }
}

impl DrawnSection {
    fn written(&self, rate: Option<u64>) -> String {
        let mut text = format!("\n[{}]\n", self.name);
        for option in &self.options {
            text += &format!("{option}\n");
        }
        if let Some(rate) = rate {
            text += &format!("rate_iops={rate}\n");
        }
        text
    }
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Random => "random reads",
            Role::MixedSizes => "mixed sizes",
            Role::Streams => "streams",
            Role::Arrivals => "poisson arrivals",
            Role::ReadWrite => "reads and writes",
            Role::Log => "log writer",
            Role::BulkWriter => "bulk writer",
        }
    }
}

/// Writes the pragma of the background work. Returns its class.
fn background(draw: &mut Draw, array: &DrawnArray, head: &mut String) -> &'static str {
    let rate =
        if array.is_slow { draw.log_uniform(2.0..=40.0) } else { draw.log_uniform(10.0..=300.0) };
    let kind = match draw.chance(0.15) {
        _ if array.is_rebuilding => "rebuild",
        true => draw.one_of(&["scrub", "defrag"]),
        false => return "none",
    };
    *head += &format!("; mirrorball: background={kind} rate={rate:.0}MB/s\n");
    kind
}

fn options(draw: &mut Draw, role: Role, array: &DrawnArray) -> Vec<String> {
    match role {
        Role::Random => random(draw, array),
        Role::MixedSizes => {
            let mut options = direct("randread", depth(draw, array));
            options.push("norandommap".to_owned());
            let split = ["4k/50:16k/20:64k/20:256k/10", "4k/70:128k/30", "8k/60:1m/40"];
            options.push(format!("bssplit={}", draw.one_of(&split)));
            options.extend(region(draw, 1));
            options
        }
        Role::Streams => streams(draw),
        Role::Arrivals => {
            let mut options = direct("randread", 1024);
            options.push("norandommap".to_owned());
            options.push(format!("bs={}k", draw.weighted(SIZES_KIB)));
            options.extend(region(draw, 1));
            options
        }
        Role::ReadWrite => {
            let mut options = direct("randrw", depth(draw, array));
            options.push("norandommap".to_owned());
            options.push(format!("bs={}k", draw.weighted(SIZES_KIB)));
            options.push(format!("rwmixread={}", draw.whole(30..=95)));
            options.extend(region(draw, 1));
            options
        }
        Role::Log => {
            let pattern = draw.one_of(&["write", "randwrite"]);
            let mut options = direct(pattern, 1);
            options.push(format!("bs={}k", draw.one_of(&[4, 8, 16, 64])));
            options.push(format!("fsync={}", draw.one_of(&[1, 1, 4, 32])));
            if draw.chance(0.5) {
                options.push(format!("thinktime={}", draw.log_whole(200..=50_000)));
            }
            options.extend(region(draw, 1));
            options
        }
        Role::BulkWriter => {
            let mut options = direct("write", draw.log_whole(1..=8));
            options.push(format!("bs={}k", draw.one_of(&[128, 256, 1024])));
            if draw.chance(0.6) {
                options.push(format!("rate={}m", draw.log_whole(5..=100)));
            }
            options.extend(region(draw, 1));
            options
        }
    }
}

fn direct(pattern: &str, depth: u64) -> Vec<String> {
    ["ioengine=libaio", "direct=1"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("rw={pattern}"), format!("iodepth={depth}")])
        .collect()
}

/// Requests in flight: often one, seldom more than a disk queues.
fn depth(draw: &mut Draw, array: &DrawnArray) -> u64 {
    match draw.weighted(&[(25, 0), (70, 1), (5, 2)]) {
        0 => 1,
        2 if !array.is_slow => draw.one_of(&[128, 256]),
        _ => draw.log_whole(1..=64),
    }
}

fn random(draw: &mut Draw, array: &DrawnArray) -> Vec<String> {
    let mut options = direct("randread", depth(draw, array));
    options.push(format!("bs={}k", draw.weighted(SIZES_KIB)));
    options.push("norandommap".to_owned());
    let clones = if draw.chance(0.2) { draw.whole(2..=8) } else { 1 };
    options.push(format!("numjobs={clones}"));
    match draw.weighted(&[(70, 0), (18, 1), (12, 2)]) {
        1 => {
            let theta = draw.one_of(&[0.6, 0.8, 0.9, 0.99, 1.1, 1.2, 1.3]);
            options.push(format!("random_distribution=zipf:{theta}"));
        }
        2 => options.push(format!("percentage_random={}", draw.whole(20..=90))),
        _ => {}
    }
    if draw.chance(0.1) {
        options.push(format!("thinktime={}", draw.log_whole(100..=20_000)));
    }
    options.extend(region(draw, 1));
    options
}

fn streams(draw: &mut Draw) -> Vec<String> {
    let clones = draw.weighted(&[
        (30, 1),
        (15, 2),
        (8, 3),
        (15, 4),
        (6, 6),
        (10, 8),
        (4, 12),
        (8, 16),
        (4, 32),
    ]);
    let mut options = if draw.chance(0.5) {
        let size = draw.one_of(&[4, 16, 64, 128]);
        vec!["ioengine=psync".to_owned(), "rw=read".to_owned(), format!("bs={size}k")]
    } else {
        let depth = draw.weighted(&[(5, 1), (2, 2), (3, 4), (1, 8)]);
        let mut options = direct("read", depth);
        options.push(format!("bs={}k", draw.one_of(&[64, 128, 256, 512, 1024])));
        if draw.chance(0.12) {
            // Players: each stream has a rate.
            options.push(format!("rate={}m", draw.log_whole(1..=16)));
        }
        options
    };
    options.push(format!("numjobs={clones}"));
    options.extend(region(draw, clones));
    options
}

/// The part of the volume that a section works on, cut evenly among its clones that stream.
fn region(draw: &mut Draw, parts: u64) -> Vec<String> {
    let whole = if draw.chance(0.55) { 100 } else { draw.log_whole(2..=100) };
    let part = (whole / parts).max(1);
    let first = draw.whole(0..=100 - part * parts);
    let mut options = vec![format!("size={part}%"), format!("offset={first}%")];
    if parts > 1 {
        options.push(format!("offset_increment={part}%"));
    }
    options
}
