//! Draws an array: members, layout, links, faults and the state of members.
//!
//! The distributions are those of `docs/scale.md`. A fault that begins within the run is placed
//! in parts of the run, because the length of the run is known only after the jobs were sized.

use super::class::Classes;
use super::disk::{DiskClass, DrawnDisk, common_size};
use super::draw::{Draw, microseconds};
use mirrorball_core::units::Nanos;

/// Bytes of all members together that keep the chunk maps of long runs small.
const ARRAY_BYTES_MAX: u64 = 40_000_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct DrawnArray {
    /// What it is, by dimension.
    pub(super) classes: Classes,
    /// True if every member is a hard disk.
    pub(super) is_slow: bool,
    /// True if one member is being rebuilt.
    pub(super) is_rebuilding: bool,
    /// The file, with no fault that begins within the run.
    text: String,
    /// Faults that begin within the run.
    timed_faults: Vec<TimedFault>,
}

/// A fault that begins within the run; `from`, `until` and `at` are parts of the run.
#[derive(Clone, Copy, Debug)]
enum TimedFault {
    Slow { factor: f64, from: f64, until: f64 },
    Stall { seconds: f64, at: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Equal(DiskClass),
    Unlike(DiskClass),
    Mixed(DiskClass, DiskClass),
}

const MEDIA: &[(u32, (&str, Media))] = &[
    (16, ("equal HDDs", Media::Equal(DiskClass::Hdd))),
    (18, ("unlike HDDs", Media::Unlike(DiskClass::Hdd))),
    (10, ("equal SATA SSDs", Media::Equal(DiskClass::Sata))),
    (12, ("unlike SATA SSDs", Media::Unlike(DiskClass::Sata))),
    (10, ("equal NVMe SSDs", Media::Equal(DiskClass::Nvme))),
    (8, ("unlike NVMe SSDs", Media::Unlike(DiskClass::Nvme))),
    (9, ("HDDs and SATA SSDs", Media::Mixed(DiskClass::Hdd, DiskClass::Sata))),
    (3, ("HDDs and NVMe SSDs", Media::Mixed(DiskClass::Hdd, DiskClass::Nvme))),
    (8, ("SATA and NVMe SSDs", Media::Mixed(DiskClass::Sata, DiskClass::Nvme))),
    (2, ("memory cards and USB sticks", Media::Equal(DiskClass::Card))),
    (4, ("cloud volumes", Media::Unlike(DiskClass::Cloud))),
];

/// How data lie: a family of layouts, before the number of copies is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    BtrfsRaid1,
    BtrfsRaid10,
    MdRaid1,
    MdRaid10(&'static str),
    Lvm,
    Zfs,
    Gmirror,
}

const FAMILIES: &[(u32, Family)] = &[
    (36, Family::BtrfsRaid1),
    (12, Family::BtrfsRaid10),
    (14, Family::MdRaid1),
    (6, Family::MdRaid10("near")),
    (6, Family::MdRaid10("far")),
    (4, Family::MdRaid10("offset")),
    (5, Family::Lvm),
    (12, Family::Zfs),
    (5, Family::Gmirror),
];

/// Members and copies of an array, and the family of its layout.
#[derive(Clone, Copy, Debug)]
struct Shape {
    family: Family,
    copies: usize,
    members: usize,
}

struct Member {
    disk: DrawnDisk,
    lines: Vec<String>,
}

impl DrawnArray {
    /// The array of pairing `number`.
    pub(super) fn new(seed: u64, number: u32) -> DrawnArray {
        let mut draw = Draw::new(seed, number, "array");
        let shape = Shape::new(&mut draw);
        let (media_name, media) = draw.weighted(MEDIA);
        let mut members = members(&mut draw, media, shape.members);
        set_sizes(&mut draw, &mut members);
        let mut oddities = Vec::new();
        let links = links(&mut draw, &mut members, &mut oddities);
        let timed_faults = faults(&mut draw, &mut members, media, &mut oddities);
        let is_rebuilding = states(&mut draw, &mut members, media, shape, &mut oddities);
        if oddities.is_empty() {
            oddities.push("none");
        }
        let mut classes = Classes::default();
        classes.add("disks", media_name);
        classes.add("copies", shape.copies.to_string());
        classes.add("members", members_class(shape.members));
        classes.add("layout", shape.family.name());
        oddities.into_iter().for_each(|oddity| classes.add("irregular", oddity));
        let mut text = format!("# Array of pairing {number} of the sample with seed {seed}.\n");
        text += &shape.written();
        if draw.chance(0.25) {
            text += &format!("used = \"{}%\"\n", draw.whole(10..=70));
        }
        text += &host(&mut draw);
        text += &links;
        for member in &members {
            text += &member.written();
        }
        let is_slow = matches!(media, Media::Equal(class) | Media::Unlike(class)
            if class == DiskClass::Hdd);
        DrawnArray { classes, is_slow, is_rebuilding, text, timed_faults }
    }

    pub(super) fn text(&self, run: Nanos) -> String {
        let seconds = run.as_secs_f64();
        let mut text = self.text.clone();
        for (place, fault) in self.timed_faults.iter().enumerate() {
            let entry = match *fault {
                TimedFault::Slow { factor, from, until } => format!(
                    "{{ slow = {factor:.2}, from = \"{}\", until = \"{}\" }}",
                    microseconds(from * seconds),
                    microseconds(until * seconds)
                ),
                TimedFault::Stall { seconds: length, at } => format!(
                    "{{ stall = \"{}\", at = \"{}\" }}",
                    microseconds(length),
                    microseconds(at * seconds)
                ),
            };
            text = text.replace(&mark(place), &format!("{entry},"));
        }
        text
    }

    /// The array file without the faults that begin within the run.
    pub(super) fn text_without_timed_faults(&self) -> String {
        let mut text = self.text.clone();
        for place in 0..self.timed_faults.len() {
            text = text.replace(&mark(place), "");
        }
        text
    }
}

/// What stands in the text for a fault whose times are not known yet.
fn mark(place: usize) -> String {
    format!("@fault-{place}@")
}

impl Shape {
    fn new(draw: &mut Draw) -> Shape {
        let family = draw.weighted(FAMILIES);
        let copies = match family {
            Family::BtrfsRaid10 => 2,
            _ => draw.weighted(&[(68, 2), (20, 3), (12, 4)]),
        };
        let wanted = draw.weighted(&[
            (30, 2),
            (10, 3),
            (18, 4),
            (6, 5),
            (12, 6),
            (4, 7),
            (10, 8),
            (4, 10),
            (4, 12),
            (2, 16),
        ]);
        let members = match family {
            Family::MdRaid1 | Family::Lvm | Family::Gmirror => copies,
            Family::Zfs => (wanted / copies).max(1) * copies,
            _ => wanted.max(copies),
        };
        Shape { family, copies, members }
    }

    fn written(&self) -> String {
        let copies = self.copies;
        match self.family {
            Family::BtrfsRaid1 if copies == 2 => "profile = \"raid1\"\n".to_owned(),
            Family::BtrfsRaid1 => format!("profile = \"raid1c{copies}\"\n"),
            Family::BtrfsRaid10 => "profile = \"raid10\"\n".to_owned(),
            Family::MdRaid1 => "layout = \"md-raid1\"\n".to_owned(),
            Family::MdRaid10(kind) => format!("layout = \"md-raid10-{kind}:{copies}\"\n"),
            Family::Lvm => "layout = \"lvm-raid1\"\n".to_owned(),
            Family::Zfs => format!("layout = \"zfs-mirror:{copies}\"\n"),
            Family::Gmirror => "layout = \"gmirror\"\n".to_owned(),
        }
    }
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Family::BtrfsRaid1 => "btrfs raid1",
            Family::BtrfsRaid10 => "btrfs raid10",
            Family::MdRaid1 => "md raid1",
            Family::MdRaid10(_) => "md raid10",
            Family::Lvm => "LVM raid1",
            Family::Zfs => "ZFS mirrors",
            Family::Gmirror => "gmirror",
        }
    }
}

impl Member {
    fn written(&self) -> String {
        let mut text = format!("\n[[member]]\nmodel = \"{}\"\n", self.disk.model);
        for line in &self.lines {
            text += &format!("{line}\n");
        }
        if !self.disk.set.is_empty() {
            text += &format!("[member.set]\n{}\n", self.disk.set.join("\n"));
        }
        text
    }

    fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(key))
    }
}

fn members_class(members: usize) -> &'static str {
    match members {
        2 => "2",
        3..=4 => "3 to 4",
        5..=8 => "5 to 8",
        _ => "10 to 16",
    }
}

/// The disks: all of one kind, of up to three kinds of a class, or of two classes.
fn members(draw: &mut Draw, media: Media, count: usize) -> Vec<Member> {
    let kinds: Vec<DrawnDisk> = match media {
        Media::Equal(class) => vec![DrawnDisk::new(draw, class)],
        Media::Unlike(class) => {
            let kinds = draw.whole(2..=3.min(count as u64));
            (0..kinds).map(|_| DrawnDisk::new(draw, class)).collect()
        }
        Media::Mixed(first, second) => {
            vec![DrawnDisk::new(draw, first), DrawnDisk::new(draw, second)]
        }
    };
    let mut of_member: Vec<usize> =
        (0..count).map(|_| draw.whole(0..=kinds.len() as u64 - 1) as usize).collect();
    // No kind is missing, at a random place.
    let first = draw.whole(0..=count as u64 - 1) as usize;
    for kind in 0..kinds.len() {
        of_member[(first + kind) % count] = kind;
    }
    let member = |kind: usize| Member { disk: kinds[kind].clone(), lines: Vec::new() };
    of_member.into_iter().map(member).collect()
}

/// Sizes: those of the models, one common size, or partitions at a random place of each disk.
fn set_sizes(draw: &mut Draw, members: &mut [Member]) {
    let smallest = members.iter().map(|member| member.disk.capacity_bytes).min().unwrap_or(0);
    let total: u64 = members.iter().map(|member| member.disk.capacity_bytes).sum();
    let bytes_max = smallest.min(ARRAY_BYTES_MAX / members.len() as u64);
    if draw.chance(0.15) {
        for member in members {
            let length = (bytes_max / 2) >> 20 << 20;
            let begin = draw.whole(0..=(member.disk.capacity_bytes - length) >> 20) << 20;
            member.lines.push(format!("begin = {begin}\nlength = {length}"));
        }
    } else if (total > ARRAY_BYTES_MAX || draw.chance(0.5))
        && let Some(size) = common_size(draw, bytes_max)
    {
        members.iter_mut().for_each(|member| member.lines.push(format!("size = \"{size}\"")));
    }
}

fn host(draw: &mut Draw) -> String {
    let overhead = draw.log_whole(3..=60);
    let read_ahead = draw.weighted(&[(50, 128), (5, 256), (10, 512), (5, 1024), (30, 4096)]);
    let cpus = draw.one_of(&[2, 4, 8, 16, 32, 64]);
    format!("\n[host]\noverhead = \"{overhead}us\"\nread_ahead_kb = {read_ahead}\ncpus = {cpus}\n")
}

/// A bus, a network or nothing between members and the host.
fn links(draw: &mut Draw, members: &mut [Member], oddities: &mut Vec<&'static str>) -> String {
    let count = members.len() as u64;
    let behind = |draw: &mut Draw, members: &mut [Member], at_least: u64| {
        let first = draw.whole(0..=count - 1);
        for place in first..first + draw.whole(at_least.min(count)..=count) {
            members[(place % count) as usize].lines.push("link = \"link\"".to_owned());
        }
    };
    if draw.chance(0.12) {
        behind(draw, members, 2);
        oddities.push("shared link");
        let rate = draw.one_of(&["190MB/s", "280MB/s", "560MB/s", "800MB/s", "1.6GB/s", "3.2GB/s"]);
        return format!("\n[[link]]\nname = \"link\"\nread = \"{rate}\"\nwrite = \"{rate}\"\n");
    }
    if draw.chance(0.08) {
        behind(draw, members, 1);
        oddities.push("network");
        let rate = draw.one_of(&["117MB/s", "290MB/s", "1.17GB/s"]);
        let latency = draw.log_whole(20..=4000);
        let jitter = draw.uniform(0.0..=0.8) * latency as f64;
        return format!(
            "\n[[link]]\nname = \"link\"\nread = \"{rate}\"\nwrite = \"{rate}\"\n\
             latency = \"{latency}us\"\njitter = \"{jitter:.0}us\"\n"
        );
    }
    String::new()
}

/// At most one member that is slower than its model says, stalls or fails reads.
fn faults(
    draw: &mut Draw,
    members: &mut [Member],
    media: Media,
    oddities: &mut Vec<&'static str>,
) -> Vec<TimedFault> {
    if !draw.chance(0.2) {
        return Vec::new();
    }
    let member = draw.whole(0..=members.len() as u64 - 1) as usize;
    let has_disks = matches!(media, Media::Equal(DiskClass::Hdd) | Media::Unlike(DiskClass::Hdd));
    let mut timed = Vec::new();
    let entry = match draw.weighted(&[(4, "slow"), (3, "slowing"), (2, "stalls"), (1, "errors")]) {
        "slow" => {
            oddities.push("slow member");
            format!("{{ slow = {:.2} }}", draw.log_uniform(1.3..=6.0))
        }
        "errors" => {
            oddities.push("read errors");
            format!("{{ error_rate = {:.5} }}", draw.log_uniform(0.0003..=0.01))
        }
        "slowing" => {
            oddities.push("member slows for a time");
            let from = draw.uniform(0.25..=0.5);
            let until = from + draw.uniform(0.15..=0.4);
            timed.push(TimedFault::Slow { factor: draw.log_uniform(2.0..=10.0), from, until });
            mark(0)
        }
        _ => {
            oddities.push("member stalls");
            let length = if has_disks { 0.1..=0.5 } else { 0.005..=0.05 };
            let marks: Vec<String> = (0..draw.whole(2..=8) as usize)
                .map(|place| {
                    let seconds = draw.uniform(length.clone());
                    timed.push(TimedFault::Stall { seconds, at: draw.uniform(0.05..=0.95) });
                    mark(place)
                })
                .collect();
            marks.concat()
        }
    };
    members[member].lines.push(format!("fault = [{entry}]"));
    timed
}

/// Write-mostly, rebuilding and missing members. Returns whether one is being rebuilt.
fn states(
    draw: &mut Draw,
    members: &mut [Member],
    media: Media,
    shape: Shape,
    oddities: &mut Vec<&'static str>,
) -> bool {
    if matches!(media, Media::Mixed(DiskClass::Hdd, _)) && draw.chance(0.1) {
        oddities.push("write-mostly");
        for member in members.iter_mut().filter(|member| member.disk.model.starts_with("hdd")) {
            member.lines.push("write_mostly = true".to_owned());
        }
    }
    let place = draw.whole(0..=members.len() as u64 - 1) as usize;
    let (is_rebuilding, is_missing) = (draw.chance(0.04), draw.chance(0.03));
    let part = draw.uniform(0.1..=0.9);
    let member = &mut members[place];
    if is_rebuilding && !member.has("begin") {
        // The size is that of the model or a smaller one on sale.
        let bytes = member.disk.capacity_bytes.min(100_000_000_000) as f64 * part;
        member.lines.push(format!("rebuilding = \"{}MB\"", (bytes / 1e6) as u64));
        oddities.push("rebuilding member");
        return true;
    }
    if is_missing && (shape.copies > 2 || members.len() > 3) {
        members[place].lines.push("failed = true".to_owned());
        oddities.push("missing member");
    }
    false
}
