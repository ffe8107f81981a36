//! Judges the judge of `watch` on random histories of simulated arrays, with the truth known.
//!
//!     cargo run --release -p mirrorball-health --example histories -- [HISTORIES] [FIRST SEED]
//!
//! Each history is an array of one to four disks of our models under 30 minutes of changing load:
//! random reads and writes that come by themselves, a reader of a stream, scrubs. In half of them a
//! disk becomes slow between the 18th and the 22nd minute. Counters are those that Linux would
//! keep, read once a second, in whole milliseconds.

use mirrorball_core::io::{IoError, Op};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_disk::model::DiskIo;
use mirrorball_disk::model_array::ModelArray;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{DiskFacts, DiskHistory, DiskState, DiskWindow, Judge};
use mirrorball_health::service::DiskKind;
use std::collections::{BTreeMap, BTreeSet};

const SECOND: Nanos = Nanos::from_secs(1);
const LENGTH_S: u64 = 1800;
const DISK_BYTES: u64 = 100_000_000_000;
/// Requests that come while so many are in flight are lost, as of a client that gave up.
const IN_FLIGHT_MAX: u32 = 64;
const SLOWNESS: [f64; 6] = [1.3, 1.5, 2.0, 3.0, 5.0, 10.0];
/// Seconds for which a plain rule must hold.
const RULE_S: u32 = 30;

const MODELS: [(DiskKind, &[&str]); 3] = [
    (DiskKind::Hdd, &["hdd-7k2-ent", "hdd-7k2-desktop", "hdd-5k4", "hdd-7k2-14tb"]),
    (DiskKind::Ssd, &["ssd-sata-plp", "ssd-sata-consumer", "ssd-sata-dramless"]),
    (DiskKind::Nvme, &["nvme-gen3", "nvme-tlc-ent"]),
];

/// The disks of a history, and which becomes slow.
struct DrawnArray {
    disks: Vec<DiskFacts>,
    text: String,
    slow: Option<SlowDisk>,
}

#[derive(Clone, Copy)]
struct SlowDisk {
    place: usize,
    factor: f64,
    from_s: u64,
}

/// The load of a few minutes.
#[derive(Clone, Copy)]
struct Load {
    reads_per_s: f64,
    writes_per_s: f64,
    bytes: u64,
    has_stream: bool,
    has_scrub: bool,
    /// Reads go to the mirror with the least in flight; else by chance.
    is_balanced: bool,
}

/// An I/O in flight: where, what, since when, and its stream.
#[derive(Clone, Copy)]
struct Flying {
    op: Op,
    bytes: u64,
    since: Nanos,
    source: Source,
}

#[derive(Clone, Copy, PartialEq)]
enum Source {
    Client,
    Stream,
    Scrub,
}

/// The counters of a disk as Linux keeps them, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Account {
    counters: DiskCounters,
    read_ns: u64,
    write_ns: u64,
    busy_ns: u64,
    in_flight: u32,
    changed_at: Nanos,
}

struct World {
    array: ModelArray,
    rng: Rng,
    now: Nanos,
    flying: BTreeMap<(u16, u64), Flying>,
    accounts: Vec<Account>,
    tag: u64,
    stream_at: u64,
    scrub_at: Vec<u64>,
}

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

fn fraction(rng: &mut Rng) -> f64 {
    rng.below(1 << 30) as f64 / f64::from(1 << 30)
}

fn draw(rng: &mut Rng) -> DrawnArray {
    let (class, models) = MODELS[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]];
    let count = if chance(rng, 10) { 1 } else { 2 + rng.below(3) as usize };
    let is_uniform = chance(rng, 70);
    let first = rng.below(models.len() as u64) as usize;
    let slow = chance(rng, 50).then(|| SlowDisk {
        place: rng.below(count as u64) as usize,
        factor: SLOWNESS[rng.below(SLOWNESS.len() as u64) as usize],
        from_s: 1080 + rng.below(240),
    });
    let mut text = "name = \"drawn\"\nprofile = \"single\"\n".to_owned();
    let mut disks = Vec::new();
    for place in 0..count {
        let model = match is_uniform {
            true => models[first],
            false => models[rng.below(models.len() as u64) as usize],
        };
        text += &format!("[[member]]\nmodel = \"{model}\"\nsize = \"100GB\"\n");
        if let Some(SlowDisk { factor, from_s, .. }) = slow.filter(|slow| slow.place == place) {
            text += &format!("fault = [{{ slow = {factor:.1}, from = \"{from_s}s\" }}]\n");
        }
        let (name, model) = (format!("sd{place}"), Some(model.to_owned()));
        disks.push(DiskFacts { name, class, model, link: None });
    }
    DrawnArray { disks, text, slow }
}

fn draw_load(rng: &mut Rng, class: DiskKind, count: usize) -> Load {
    let most = match class {
        DiskKind::Hdd => 80.0,
        DiskKind::Ssd => 400.0,
        DiskKind::Nvme => 600.0,
    };
    let level = fraction(rng).powi(2) * 1.1;
    let bytes = [4096, 4096, 16_384, 65_536, 524_288][rng.below(5) as usize];
    let reads = most * count as f64 * level / (1.0 + bytes as f64 / 262_144.0);
    Load {
        reads_per_s: reads,
        writes_per_s: reads * [0.0, 0.0, 0.1, 0.4][rng.below(4) as usize] / count as f64,
        bytes,
        has_stream: class == DiskKind::Hdd && chance(rng, 20),
        has_scrub: class == DiskKind::Hdd && chance(rng, 8),
        is_balanced: chance(rng, 50),
    }
}

impl Account {
    fn change(&mut self, now: Nanos, by: i32) {
        if self.in_flight > 0 {
            self.busy_ns += (now - self.changed_at).0;
        }
        self.changed_at = now;
        self.in_flight = self.in_flight.checked_add_signed(by).expect("ends are of begun I/O");
    }

    fn read(&mut self, now: Nanos) -> DiskCounters {
        self.change(now, 0);
        let ms = |ns: u64| ns / 1_000_000;
        DiskCounters {
            read_ms: ms(self.read_ns),
            write_ms: ms(self.write_ns),
            busy_ms: ms(self.busy_ns),
            weighted_ms: ms(self.read_ns + self.write_ns),
            ..self.counters
        }
    }
}

impl World {
    fn submit(&mut self, place: usize, op: Op, offset: u64, bytes: u64, source: Source) {
        let flying = Flying { op, bytes, since: self.now, source };
        self.tag += 1;
        self.flying.insert((place as u16, self.tag), flying);
        self.accounts[place].change(self.now, 1);
        let io = DiskIo { tag: self.tag, op, offset, length: bytes };
        self.array.submit(self.now, MemberIndex(place as u16), io);
    }

    fn complete(&mut self, place: usize, tag: u64, result: Result<(), IoError>, load: &Load) {
        assert_eq!(result, Ok(()), "slow disks give no errors");
        let flying = self.flying.remove(&(place as u16, tag)).expect("an I/O ends once");
        let account = &mut self.accounts[place];
        account.change(self.now, -1);
        let wait = (self.now - flying.since).0;
        let sectors = flying.bytes / 512;
        match flying.op {
            Op::Write => {
                account.counters.writes += 1;
                account.counters.written_sectors += sectors;
                account.write_ns += wait;
            }
            _ => {
                account.counters.reads += 1;
                account.counters.read_sectors += sectors;
                account.read_ns += wait;
            }
        }
        match flying.source {
            Source::Stream if load.has_stream => self.stream(place),
            Source::Scrub if load.has_scrub => self.scrub(place),
            _ => {}
        }
    }

    fn stream(&mut self, place: usize) {
        self.stream_at = (self.stream_at + 131_072) % (DISK_BYTES / 2);
        self.submit(place, Op::Read, self.stream_at, 131_072, Source::Stream);
    }

    fn scrub(&mut self, place: usize) {
        self.scrub_at[place] = (self.scrub_at[place] + 524_288) % (DISK_BYTES / 2);
        let offset = self.scrub_at[place];
        self.submit(place, Op::Read, offset, 524_288, Source::Scrub);
    }

    /// Lets a second pass under a load.
    fn pass(&mut self, load: &Load) {
        let end = self.now + SECOND;
        let count = self.accounts.len();
        let is_flying = |world: &World, source| world.flying.values().any(|it| it.source == source);
        if load.has_stream && !is_flying(self, Source::Stream) {
            let place = self.rng.below(count as u64) as usize;
            self.stream(place);
        }
        if load.has_scrub && !is_flying(self, Source::Scrub) {
            (0..count).for_each(|place| self.scrub(place));
        }
        let mut arrivals: Vec<(Nanos, Op)> = Vec::new();
        for (op, rate) in [(Op::Read, load.reads_per_s), (Op::Write, load.writes_per_s)] {
            let number = (rate + fraction(&mut self.rng)) as u64;
            let at = (0..number).map(|_| (self.now + Nanos(self.rng.below(SECOND.0)), op));
            arrivals.extend(at.collect::<Vec<_>>());
        }
        arrivals.sort_unstable_by_key(|&(at, op)| (at, op == Op::Write));
        for (at, op) in arrivals {
            self.run_to(at, load);
            let offset = self.rng.below((DISK_BYTES - load.bytes) / 4096) * 4096;
            let targets: Vec<usize> = match op {
                Op::Write => (0..count).collect(),
                _ if load.is_balanced => {
                    (0..count).min_by_key(|&it| self.accounts[it].in_flight).into_iter().collect()
                }
                _ => vec![self.rng.below(count as u64) as usize],
            };
            for place in targets {
                if self.accounts[place].in_flight < IN_FLIGHT_MAX {
                    self.submit(place, op, offset, load.bytes, Source::Client);
                }
            }
        }
        self.run_to(end, load);
    }

    fn run_to(&mut self, end: Nanos, load: &Load) {
        while let Some(at) = self.array.next_event().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            while let Some((member, done)) = self.array.pop_completion(at) {
                self.complete(usize::from(member.0), done.tag, done.result, load);
            }
        }
        assert!(self.array.pop_completion(end).is_none(), "all that ended by now was taken");
        self.now = end;
    }
}

/// The rules that are compared.
const RULES: [&str; 3] = ["mirrorball watch", "await over a bound", "twice the peers' median"];

/// When each rule first named each disk, in seconds.
type Found = [BTreeMap<usize, u64>; 3];

/// Plain rules: await over 30 ms (hard disks) or 3 ms for half a minute, as alerts of `iostat`
/// have it; and wait over twice the median of all disks of the array for as long.
fn plain_rules(
    windows: &[DiskWindow],
    class: DiskKind,
    held: &mut [[u32; 2]],
) -> [BTreeSet<usize>; 2] {
    let wait = |it: &DiskWindow| {
        let count = it.counters.reads + it.counters.writes;
        (it.counters.read_ms + it.counters.write_ms) as f64 / count.max(1) as f64
    };
    let waits: Vec<f64> = windows.iter().map(wait).collect();
    let mut sorted = waits.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[(sorted.len() - 1) / 2];
    let bound = if class == DiskKind::Hdd { 30.0 } else { 3.0 };
    let mut named = [BTreeSet::new(), BTreeSet::new()];
    for (place, wait) in waits.iter().enumerate() {
        let is_over = [*wait > bound, waits.len() > 1 && *wait > 2.0 * median.max(0.05)];
        for rule in 0..2 {
            held[place][rule] = if is_over[rule] { held[place][rule] + 1 } else { 0 };
            if held[place][rule] >= RULE_S {
                named[rule].insert(place);
            }
        }
    }
    named
}

/// The end of a history.
struct Outcome {
    drawn: DrawnArray,
    found: Found,
    /// Seconds at which the slow disk had enough load to be judged, after it became slow.
    loaded_s: Vec<u64>,
}

/// Runs a history.
fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let drawn = draw(&mut rng);
    let spec = ArrayFile::parse(&drawn.text, "drawn").expect("a valid array").spec;
    let count = drawn.disks.len();
    let class = drawn.disks[0].class;
    let mut world = World {
        array: spec.model_array(seed).expect("models of ours"),
        rng: Rng::stream(seed, "load"),
        now: Nanos::ZERO,
        flying: BTreeMap::new(),
        accounts: vec![Account::default(); count],
        tag: 0,
        stream_at: 0,
        scrub_at: vec![0; count],
    };
    let mut judge = Judge::new(drawn.disks.iter().map(|it| (it.clone(), DiskHistory::default())));
    let mut found: Found = Default::default();
    let mut before = vec![DiskCounters::default(); count];
    let mut held = vec![[0; 2]; count];
    let mut load = draw_load(&mut rng, class, count);
    let mut load_until = 60 + rng.below(240);
    let mut loaded_s = Vec::new();
    for second in 1..=LENGTH_S {
        if second > load_until {
            load = draw_load(&mut rng, class, count);
            load_until = second + 60 + rng.below(240);
        }
        world.pass(&load);
        let now = world.now;
        let counters: Vec<_> = world.accounts.iter_mut().map(|it| it.read(now)).collect();
        let window = |(now, then): (&DiskCounters, &DiskCounters)| DiskWindow {
            time: SECOND,
            counters: now.since(then),
            errors: 0,
        };
        let windows: Vec<DiskWindow> = counters.iter().zip(&before).map(window).collect();
        before = counters;
        if let Some(slow) = drawn.slow.filter(|slow| second > slow.from_s) {
            let DiskWindow { counters, .. } = &windows[slow.place];
            // As much as the judge wants in five seconds.
            if counters.reads.max(counters.writes) >= 2 && counters.read_ms + counters.write_ms >= 1
            {
                loaded_s.push(second);
            }
        }
        let [over, peers] = plain_rules(&windows, class, &mut held);
        let windows: Vec<_> = windows.into_iter().map(Some).collect();
        judge.observe(now, SECOND, &windows);
        let slow = judge.disks().enumerate();
        let slow = slow.filter(|(_, (_, state, ..))| matches!(state, DiskState::Slow { .. }));
        let ours: BTreeSet<usize> = slow.map(|(place, _)| place).collect();
        for (found, named) in found.iter_mut().zip([ours, over, peers]) {
            for place in named {
                found.entry(place).or_insert(second);
            }
        }
    }
    Outcome { drawn, found, loaded_s }
}

#[derive(Clone, Copy, Default)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
    unloaded: u32,
}

fn main() {
    let mut args = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let (histories, first): (u64, u64) = (args.next().unwrap_or(200), args.next().unwrap_or(1));
    let mut by_factor: BTreeMap<u64, [Score; 3]> = BTreeMap::new();
    let mut false_alarms = [0; 3];
    let mut healthy_s = 0;
    let mut delays: [Vec<usize>; 3] = Default::default();
    for seed in first..first + histories {
        let Outcome { drawn, found, loaded_s } = run(seed);
        let healthy = drawn.slow.map_or(LENGTH_S, |slow| slow.from_s);
        healthy_s += healthy;
        for rule in 0..3 {
            let early = |(place, at): (&usize, &u64)| {
                *at < healthy || drawn.slow.is_none_or(|slow| slow.place != *place)
            };
            let wrong = found[rule].iter().filter(|it| early(*it)).count() as u32;
            false_alarms[rule] += wrong;
            if rule == 0 && wrong > 0 {
                println!("seed {seed}: {wrong} false alarms");
            }
            if let Some(slow) = drawn.slow {
                let score = &mut by_factor.entry((slow.factor * 10.0) as u64).or_default()[rule];
                score.wrong += wrong;
                match found[rule].get(&slow.place).filter(|at| **at >= slow.from_s) {
                    Some(at) => {
                        score.right += 1;
                        delays[rule].push(loaded_s.iter().filter(|it| *it <= at).count());
                    }
                    // A minute of load is what is asked for.
                    None if loaded_s.len() < 60 => score.unloaded += 1,
                    None => score.missed += 1,
                }
            }
        }
    }
    println!(
        "{histories} histories from seed {first}, {healthy_s} s of arrays without a slow disk"
    );
    for (rule, name) in RULES.iter().enumerate() {
        delays[rule].sort_unstable();
        let delay = delays[rule].get(delays[rule].len() / 2).copied().unwrap_or(0);
        let (mut right, mut judged) = (0, 0);
        for (_, scores) in by_factor.range(20..) {
            right += scores[rule].right;
            judged += scores[rule].right + scores[rule].missed;
        }
        println!(
            "{name}: {} false alarms; from x2 on recall {:.3}, precision {:.3}; median delay \
             {delay} s of load",
            false_alarms[rule],
            f64::from(right) / f64::from(judged.max(1)),
            f64::from(right) / f64::from((right + false_alarms[rule]).max(1)),
        );
        for (factor, scores) in &by_factor {
            let Score { right, wrong, missed, unloaded } = scores[rule];
            println!(
                "  x{:.1}: found {right} of {}, another disk named {wrong}; without a minute of \
                 load {unloaded}",
                *factor as f64 / 10.0,
                right + missed
            );
        }
    }
}
