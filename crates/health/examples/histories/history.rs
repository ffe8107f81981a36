//! A random history of a simulated array: its disks, its loads, and what becomes slow.
//!
//! An array of one to sixteen disks of our models under 30 minutes of changing load: reads and
//! writes of clients, streams, scrubs, backups, rebuilds, bulk writes, neighbours on the same disk.
//! In half of them a disk, or a link, becomes slow after 18 to 22 minutes. A control is a healthy
//! array over a day with its night. In a fifth of all, a healthy disk tries an I/O again now and
//! then, and counts an error. Counters are those that Linux would keep, read once a second, in
//! whole milliseconds.

use crate::faults::{FaultKind, Truth};
use crate::world::{Balance, IoLoop, Load, SECOND, World, chance, fraction};
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{DiskFacts, DiskWindow};
use mirrorball_health::service::DiskKind;

pub(crate) const DAY_S: u64 = 86_400;
/// Mean seconds between stray errors.
const STRAY_S: u64 = 300;

const MODELS: [(DiskKind, &[&str]); 3] = [
    (
        DiskKind::Hdd,
        &[
            "hdd-7k2-ent", "hdd-7k2-desktop", "hdd-7k2-desktop-worn", "hdd-7k2-4tb",
            "hdd-7k2-14tb", "hdd-7k2-18tb", "hdd-5k4", "hdd-5k4-8tb", "hdd-10k", "hdd-15k",
            "hdd-smr",
        ],
    ),
    (DiskKind::Ssd, &["ssd-sata-plp", "ssd-sata-consumer", "ssd-sata-dramless", "ssd-sata-qlc"]),
    (DiskKind::Nvme, &["nvme-gen3", "nvme-gen4", "nvme-tlc-ent", "nvme-tlc-real"]),
];

pub(crate) struct History {
    pub(crate) class: DiskKind,
    pub(crate) disks: Vec<DiskFacts>,
    pub(crate) truth: Option<Truth>,
    length_s: u64,
    second: u64,
    world: World,
    rng: Rng,
    /// Of stray errors, and the disk that has them.
    stray: (Rng, Option<usize>),
    load: Load,
    load_until: u64,
    before: Vec<(DiskCounters, u64)>,
}

/// The disks of a history, and what becomes slow.
struct DrawnArray {
    class: DiskKind,
    disks: Vec<DiskFacts>,
    text: String,
    truth: Option<Truth>,
    stops_spindles: bool,
}

impl History {
    pub(crate) fn draw(seed: u64, length_s: u64) -> History {
        let mut rng = Rng::new(seed);
        let DrawnArray { class, disks, text, truth, stops_spindles } =
            draw(&mut rng, length_s != DAY_S);
        let count = disks.len();
        let array = ArrayFile::parse(&text, "drawn").expect("a valid array").spec;
        let array = array.model_array(seed).expect("models of ours");
        let mut world = World::new(array, Rng::stream(seed, "load"), count);
        world.standby_after = stops_spindles.then_some(Nanos::from_secs(600));
        let mut stray = Rng::stream(seed, "stray errors");
        let strays = chance(&mut stray, 20).then(|| stray.below(count as u64) as usize);
        let load = draw_load(&mut rng, class, count, 1.0);
        let before = vec![(DiskCounters::default(), 0); count];
        let (second, load_until, stray) = (0, 0, (stray, strays));
        History {
            class,
            disks,
            truth,
            length_s,
            second,
            world,
            rng,
            stray,
            load,
            load_until,
            before,
        }
    }

    /// Lets a second pass; returns the windows of the disks, or `None` at the end.
    pub(crate) fn pass(&mut self) -> Option<Vec<DiskWindow>> {
        if self.second == self.length_s {
            return None;
        }
        self.second += 1;
        if self.second > self.load_until {
            self.change_load();
        }
        if let (rng, Some(place)) = &mut self.stray
            && rng.below(STRAY_S) == 0
        {
            let time_ms = if self.class == DiskKind::Hdd { 1000 } else { 50 };
            self.world.stray_error = Some((*place, Nanos::from_millis(time_ms)));
        }
        self.world.pass(&self.load);
        let counters = self.world.counters();
        let now: Vec<_> = counters.into_iter().zip(self.world.errors.iter().copied()).collect();
        let window = |(now, then): (&(DiskCounters, u64), &(DiskCounters, u64))| DiskWindow {
            time: SECOND,
            counters: now.0.since(&then.0),
            errors: now.1 - then.1,
        };
        let windows: Vec<DiskWindow> = now.iter().zip(&self.before).map(window).collect();
        self.before = now;
        if let Some(truth) = &mut self.truth {
            truth.act(self.second, &windows[truth.places[0]], &mut self.world);
        }
        Some(windows)
    }

    fn change_load(&mut self) {
        let (count, is_day) = (self.disks.len(), self.length_s == DAY_S);
        let swing = (self.second as f64 / DAY_S as f64 * std::f64::consts::TAU).sin();
        let scale = if is_day { (0.5 + 0.5 * swing).max(0.02) } else { 1.0 };
        self.load = draw_load(&mut self.rng, self.class, count, scale);
        let factor = if is_day { 6 } else { 1 };
        self.load_until = self.second + (60 + self.rng.below(240)) * factor;
        let tidies = self.truth.as_ref().filter(|it| it.kind == FaultKind::AfterWrites);
        if tidies.is_some_and(|it| self.load_until > it.from_s) && chance(&mut self.rng, 60) {
            self.load.loops = bulk_writes(self.class, count);
        }
        self.world.begin(&self.load);
    }
}

fn draw(rng: &mut Rng, may_be_faulty: bool) -> DrawnArray {
    let (class, models) = MODELS[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]];
    let count = match rng.below(20) {
        0..2 => 1,
        2..11 => 2,
        11..18 => 3 + rng.below(2),
        18 => 5 + rng.below(4),
        _ => 9 + rng.below(8),
    } as usize;
    let is_uniform = chance(rng, 70);
    let first = rng.below(models.len() as u64) as usize;
    // Some of the disks are behind one port multiplier or hub.
    let behind = if chance(rng, 40) { 2 + rng.below(2) as usize } else { 0 };
    let linked: Vec<usize> = if behind < count { (0..behind).collect() } else { Vec::new() };
    let mut text = "name = \"drawn\"\nprofile = \"single\"\n".to_owned();
    let mut disks = Vec::new();
    for place in 0..count {
        let other = rng.below(models.len() as u64) as usize;
        let model = models[if is_uniform { first } else { other }];
        text += &format!("[[member]]\nmodel = \"{model}\"\nsize = \"100GB\"\n");
        let link = linked.contains(&place).then(|| "usb1".to_owned());
        disks.push(DiskFacts {
            name: format!("sd{place}"),
            class,
            model: Some(model.into()),
            link,
            is_shingled: model == "hdd-smr",
        });
    }
    let is_faulty = may_be_faulty && chance(rng, 50);
    let truth = is_faulty.then(|| Truth::draw(rng, class, count, &linked));
    let stops_spindles = class == DiskKind::Hdd && chance(rng, 20);
    if is_faulty || stops_spindles {
        // Members without any fault cannot be given one later.
        let none = "fault = [{ slow = 1.0, from = \"0s\", until = \"1s\" }]\n";
        text = text.replace("size = \"100GB\"\n", &format!("size = \"100GB\"\n{none}"));
    }
    DrawnArray { class, disks, text, truth, stops_spindles }
}

/// A random load on so many disks; `scale` is of the hour of the day.
fn draw_load(rng: &mut Rng, class: DiskKind, count: usize, scale: f64) -> Load {
    let most = match class {
        DiskKind::Hdd => 80.0,
        DiskKind::Ssd => 200.0,
        DiskKind::Nvme => 300.0,
    };
    let level = fraction(rng).powi(2) * 1.1 * scale;
    let bytes = [4096, 4096, 16_384, 65_536, 524_288][rng.below(5) as usize];
    let reads = most * count as f64 * level / (1.0 + bytes as f64 / 262_144.0);
    let mut load = Load {
        reads_per_s: if chance(rng, 5) { 0.02 } else { reads },
        writes_per_s: reads * [0.0, 0.0, 0.1, 0.4][rng.below(4) as usize] / count as f64,
        bytes,
        balance: [Balance::FirstOfShortest, Balance::Chance, Balance::Chance, Balance::MostlyFirst]
            [rng.below(4) as usize],
        loops: Vec::new(),
        unread: None,
    };
    add_loops(rng, class, count, &mut load);
    load
}

/// Adds background work: in a third of all loads.
fn add_loops(rng: &mut Rng, class: DiskKind, count: usize, load: &mut Load) {
    let place = rng.below(count as u64) as usize;
    let pause = if class == DiskKind::Hdd { Nanos::ZERO } else { Nanos::from_millis(6) };
    let whole = IoLoop { place, op: Op::Read, bytes: 524_288, is_random: false, pause };
    match rng.below(100) {
        // Readers of a stream, and of everything.
        0..8 => load.loops.push(IoLoop { bytes: 131_072, ..whole }),
        8..12 => load.loops.extend([whole; 4]),
        12..17 => load.loops.extend((0..count).map(|place| IoLoop { place, ..whole })),
        17..21 if count > 1 => {
            load.loops.push(IoLoop { op: Op::Write, ..whole });
            load.loops.push(IoLoop { place: (place + 1) % count, ..whole });
            load.unread = Some(place);
        }
        21..26 => load.loops.extend(bulk_writes(class, count)),
        26..34 => {
            let bytes = [4096, 65_536][rng.below(2) as usize];
            let pause = Nanos::from_millis(3 + rng.below(30));
            let neighbour = IoLoop { bytes, is_random: true, pause, ..whole };
            load.loops.extend(vec![neighbour; 1 + rng.below(4) as usize]);
        }
        _ => {}
    }
}

/// Writes of a copy or restore to all disks.
fn bulk_writes(class: DiskKind, count: usize) -> Vec<IoLoop> {
    let pause = Nanos::from_millis(if class == DiskKind::Hdd { 5 } else { 6 });
    let write = |place| IoLoop { place, op: Op::Write, bytes: 524_288, is_random: false, pause };
    (0..count).map(write).collect()
}
