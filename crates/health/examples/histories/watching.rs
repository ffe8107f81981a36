//! Judges the judge of `watch` on random histories of simulated arrays, with the truth known.
//!
//! A history is an array of one to sixteen disks of our models under 30 minutes of changing load:
//! reads and writes of clients, streams, scrubs, backups, rebuilds, bulk writes, neighbours on the
//! same disk. In half of them a disk, or a link, becomes slow after 18 to 22 minutes. A control is
//! a healthy array over a day with its night. Counters are those that Linux would keep, read once
//! a second, in whole milliseconds.

use crate::faults::{FaultKind, Truth};
use crate::rules::{RULES, Rules};
use crate::world::{Balance, IoLoop, Load, SECOND, World, chance, fraction};
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{Cause, DiskFacts, DiskHistory, DiskState, DiskWindow, Judge};
use mirrorball_health::service::DiskKind;
use std::collections::BTreeMap;

const HISTORY_S: u64 = 1800;
const DAY_S: u64 = 86_400;
/// Seconds from a disk's naming to the cause that counts.
const CAUSE_AFTER_S: u64 = 30;

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

/// The disks of a history, and what becomes slow.
struct DrawnArray {
    class: DiskKind,
    disks: Vec<DiskFacts>,
    text: String,
    truth: Option<Truth>,
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
        // Members without any fault cannot be given one later.
        text += "fault = [{ slow = 1.0, from = \"0s\", until = \"1s\" }]\n";
        let link = linked.contains(&place).then(|| "usb1".to_owned());
        disks.push(DiskFacts {
            name: format!("sd{place}"),
            class,
            model: Some(model.into()),
            link,
        });
    }
    let is_faulty = may_be_faulty && chance(rng, 50);
    let truth = is_faulty.then(|| Truth::draw(rng, class, count, &linked));
    DrawnArray { class, disks, text, truth }
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

/// The verdicts of a rule on a history.
#[derive(Clone, Default)]
struct Found {
    /// Disks that are named now.
    named: Vec<usize>,
    false_alarms: u32,
    /// False alarms that the judge explains by the writes before.
    tidying: u32,
    /// When the slow disk was named first.
    at: Option<u64>,
    cause: Option<Cause>,
}

impl Found {
    fn observe(&mut self, second: u64, named: Vec<(usize, Option<Cause>)>, truth: Option<&Truth>) {
        let truth = truth.filter(|it| second >= it.from_s);
        for (place, cause) in &named {
            let is_new = !self.named.contains(place);
            match truth {
                Some(truth) if truth.places.contains(place) => {
                    let at = *self.at.get_or_insert(second);
                    if second <= at + CAUSE_AFTER_S && *place == truth.places[0] {
                        self.cause = *cause;
                    }
                }
                _ if is_new && *cause == Some(Cause::AfterWrites) => self.tidying += 1,
                _ if is_new => self.false_alarms += 1,
                _ => {}
            }
        }
        self.named = named.into_iter().map(|(place, _)| place).collect();
    }
}

/// The end of a history.
struct Outcome {
    truth: Option<Truth>,
    /// By the judge, and by the rules.
    found: Vec<Found>,
    /// Seconds at which the slow disk had enough load to be judged, after it became slow.
    loaded_s: Vec<u64>,
    healthy_s: u64,
}

fn run(seed: u64, length_s: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let is_day = length_s == DAY_S;
    let DrawnArray { class, disks, text, mut truth } = draw(&mut rng, !is_day);
    let count = disks.len();
    let array = ArrayFile::parse(&text, "drawn").expect("a valid array").spec;
    let array = array.model_array(seed).expect("models of ours");
    let mut world = World::new(array, Rng::stream(seed, "load"), count);
    if class == DiskKind::Hdd && chance(&mut rng, 20) {
        world.standby_after = Some(Nanos::from_secs(600));
    }
    let mut judge = Judge::new(disks.into_iter().map(|it| (it, DiskHistory::default())));
    let mut rules = Rules::new(class, count);
    let mut found = vec![Found::default(); 1 + RULES.len()];
    let mut before = vec![(DiskCounters::default(), 0); count];
    let mut load_until = 0;
    let mut load = draw_load(&mut rng, class, count, 1.0);
    let mut loaded_s = Vec::new();
    for second in 1..=length_s {
        if second > load_until {
            let swing = (second as f64 / DAY_S as f64 * std::f64::consts::TAU).sin();
            let scale = if is_day { (0.5 + 0.5 * swing).max(0.02) } else { 1.0 };
            load = draw_load(&mut rng, class, count, scale);
            load_until = second + (60 + rng.below(240)) * if is_day { 6 } else { 1 };
            let tidies = truth.as_ref().filter(|it| it.kind == FaultKind::AfterWrites);
            if tidies.is_some_and(|it| load_until > it.from_s) && chance(&mut rng, 60) {
                load.loops = bulk_writes(class, count);
            }
            world.begin(&load);
        }
        world.pass(&load);
        let now: Vec<_> = world.counters().into_iter().zip(world.errors.iter().copied()).collect();
        let window = |(now, then): (&(DiskCounters, u64), &(DiskCounters, u64))| DiskWindow {
            time: SECOND,
            counters: now.0.since(&then.0),
            errors: now.1 - then.1,
        };
        let windows: Vec<DiskWindow> = now.iter().zip(&before).map(window).collect();
        before = now;
        if let Some(truth) = &mut truth {
            let window = &windows[truth.places[0]];
            if truth.reached_s.is_some() && truth.concerns(window) {
                loaded_s.push(second);
            }
            truth.act(second, window, &mut world);
        }
        judge.observe(world.now, SECOND, &windows.iter().copied().map(Some).collect::<Vec<_>>());
        let ours = judge.disks().zip(0..).filter_map(|((_, state, ..), place)| match state {
            DiskState::Slow { cause, .. } => Some((place, Some(cause))),
            _ => None,
        });
        found[0].observe(second, ours.collect(), truth.as_ref());
        for (found, named) in found[1..].iter_mut().zip(rules.observe(&windows)) {
            found.observe(second, named.into_iter().map(|it| (it, None)).collect(), truth.as_ref());
        }
    }
    // A disk whose fault waits for heat or writes may stay healthy.
    let truth = truth.filter(|it| it.reached_s.is_some());
    let healthy_s = truth.as_ref().map_or(length_s, |it| it.from_s);
    Outcome { truth, found, loaded_s, healthy_s }
}

#[derive(Clone, Default)]
struct Score {
    right: u32,
    missed: u32,
    unloaded: u32,
    right_cause: u32,
    delays_s: Vec<usize>,
}

impl Score {
    fn add(&mut self, found: &Found, truth: &Truth, loaded_s: &[u64]) {
        match found.at {
            Some(at) => {
                self.right += 1;
                self.delays_s.push(loaded_s.iter().filter(|it| **it <= at).count());
                self.right_cause += u32::from(found.cause == Some(truth.cause()));
            }
            // A minute of load is what is asked for.
            None if loaded_s.len() < 60 => self.unloaded += 1,
            None => self.missed += 1,
        }
    }

    fn line(&mut self) -> String {
        self.delays_s.sort_unstable();
        let delay = self.delays_s.get(self.delays_s.len() / 2).copied().unwrap_or(0);
        format!(
            "found {} of {} ({:.3}), after {delay} s of load (median), cause right in {:.3}; \
             without a minute of load {}",
            self.right,
            self.right + self.missed,
            f64::from(self.right) / f64::from((self.right + self.missed).max(1)),
            f64::from(self.right_cause) / f64::from(self.right.max(1)),
            self.unloaded
        )
    }
}

/// Runs histories from a seed on, and prints the scores of the judge and the rules.
pub(crate) fn report(histories: u64, first: u64) {
    score(histories, first, HISTORY_S);
}

/// Runs healthy days from a seed on, and prints the false alarms.
pub(crate) fn report_controls(days: u64, first: u64) {
    score(days, first, DAY_S);
}

fn score(histories: u64, first: u64, length_s: u64) {
    let mut by_factor: BTreeMap<u64, Score> = BTreeMap::new();
    let mut by_kind: BTreeMap<FaultKind, Score> = BTreeMap::new();
    let mut from_twice = vec![Score::default(); 1 + RULES.len()];
    let mut false_alarms = vec![0; 1 + RULES.len()];
    let (mut healthy_s, mut tidying) = (0, 0);
    for seed in first..first + histories {
        let outcome = run(seed, length_s);
        healthy_s += outcome.healthy_s;
        tidying += outcome.found[0].tidying;
        for (rule, found) in outcome.found.iter().enumerate() {
            false_alarms[rule] += found.false_alarms;
            let Some(truth) = &outcome.truth else { continue };
            if truth.factor >= 2.0 {
                from_twice[rule].add(found, truth, &outcome.loaded_s);
            }
            if rule == 0 {
                let milli = (truth.factor * 1e3) as u64;
                by_factor.entry(milli).or_default().add(found, truth, &outcome.loaded_s);
                if truth.factor >= 2.0 {
                    by_kind.entry(truth.kind).or_default().add(found, truth, &outcome.loaded_s);
                }
            }
        }
        let wrong = outcome.found[0].false_alarms;
        if wrong > 0 {
            println!("seed {seed}: {wrong} false alarms");
        }
    }
    let years = healthy_s as f64 / (365.25 * DAY_S as f64);
    println!(
        "{histories} histories from seed {first}, {years:.3} years of arrays that were healthy"
    );
    println!("{tidying} healthy disks named for tidying up after writes");
    let names = std::iter::once("mirrorball watch").chain(RULES);
    for ((name, score), wrong) in names.zip(&mut from_twice).zip(&false_alarms) {
        let precision = f64::from(score.right) / f64::from((score.right + wrong).max(1));
        println!("{name}: {wrong} false alarms ({:.1} a year)", f64::from(*wrong) / years);
        println!("  from x2 on precision {precision:.3}, {}", score.line());
    }
    for (milli, score) in &mut by_factor {
        println!("x{:.1}: {}", *milli as f64 / 1e3, score.line());
    }
    for (kind, score) in &mut by_kind {
        println!("{kind:?}, from x2 on: {}", score.line());
    }
}
