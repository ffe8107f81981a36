//! A simulated array under the load of clients, with the counters that Linux would keep.
//!
//! A member that is avoided gets no reads while another is there, as a
//! write-mostly member of md; a change may suspend the array until its I/O is done, and reads that
//! come meanwhile wait.

use mirrorball_core::io::{IoError, Op};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::model::DiskIo;
use mirrorball_disk::model_array::ModelArray;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::service::DiskKind;
use std::collections::BTreeMap;

pub(crate) const SECOND: Nanos = Nanos::from_secs(1);
const DISK_BYTES: u64 = 100_000_000_000;
/// Time of the two writes of a superblock with which a suspension ends.
const SUPERBLOCK: Nanos = Nanos::from_millis(30);
/// Requests that come while so many are in flight are lost, as of a client that gave up.
const IN_FLIGHT_MAX: u32 = 64;

pub(crate) const MODELS: [(DiskKind, &[&str]); 3] = [
    (DiskKind::Hdd, &["hdd-7k2-ent", "hdd-7k2-desktop", "hdd-5k4", "hdd-7k2-14tb"]),
    (DiskKind::Ssd, &["ssd-sata-plp", "ssd-sata-consumer", "ssd-sata-dramless"]),
    (DiskKind::Nvme, &["nvme-gen3", "nvme-tlc-ent"]),
];

#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) reads_per_s: f64,
    pub(crate) writes_per_s: f64,
    pub(crate) bytes: u64,
    pub(crate) has_stream: bool,
    pub(crate) has_scrub: bool,
    pub(crate) balance: Balance,
}

/// The member that a read goes to.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Balance {
    Chance,
    /// The first of those with the least in flight.
    FirstOfShortest,
    /// Any of those with the least in flight.
    AnyOfShortest,
}

/// An I/O in flight: where, what, since when, and its stream.
#[derive(Clone, Copy)]
struct Flying {
    op: Op,
    bytes: u64,
    /// When the client asked for it, and when the disk was.
    came: Nanos,
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

pub(crate) struct World {
    array: ModelArray,
    rng: Rng,
    pub(crate) now: Nanos,
    flying: BTreeMap<(u16, u64), Flying>,
    accounts: Vec<Account>,
    tag: u64,
    stream_at: u64,
    scrub_at: Vec<u64>,
    /// Members that are read only if no other is there.
    avoided: Vec<bool>,
    is_suspended: bool,
    /// Waits of reads of clients since they were taken last, in nanoseconds.
    waits_ns: Vec<u64>,
}

pub(crate) fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// A number from 0 to 1.
pub(crate) fn fraction(rng: &mut Rng) -> f64 {
    rng.below(1 << 30) as f64 / f64::from(1 << 30)
}

/// A random load on so many disks.
pub(crate) fn draw_load(rng: &mut Rng, class: DiskKind, count: usize) -> Load {
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
        balance: if chance(rng, 50) { Balance::FirstOfShortest } else { Balance::Chance },
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
    pub(crate) fn new(array: ModelArray, rng: Rng, count: usize) -> World {
        World {
            array,
            rng,
            now: Nanos::ZERO,
            flying: BTreeMap::new(),
            accounts: vec![Account::default(); count],
            tag: 0,
            stream_at: 0,
            scrub_at: vec![0; count],
            avoided: vec![false; count],
            is_suspended: false,
            waits_ns: Vec::new(),
        }
    }

    pub(crate) fn counters(&mut self) -> Vec<DiskCounters> {
        let now = self.now;
        self.accounts.iter_mut().map(|it| it.read(now)).collect()
    }

    /// Changes which members are avoided, after the array was suspended if that is asked for.
    pub(crate) fn avoid(&mut self, avoided: &[bool], suspends: bool) {
        self.avoided = avoided.to_vec();
        self.is_suspended = suspends;
    }

    /// The waits of the reads of clients since the last call.
    pub(crate) fn take_waits_ns(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.waits_ns)
    }

    /// The member that serves a read.
    fn chosen(&mut self, balance: Balance) -> usize {
        let mut serving = self.serving();
        if balance != Balance::Chance {
            let in_flight = |member: &usize| self.accounts[*member].in_flight;
            let least = serving.iter().map(in_flight).min();
            serving.retain(|it| Some(in_flight(it)) == least);
        }
        match balance {
            Balance::FirstOfShortest => serving[0],
            _ => serving[self.rng.below(serving.len() as u64) as usize],
        }
    }

    fn serving(&self) -> Vec<usize> {
        let all = 0..self.accounts.len();
        let serving: Vec<usize> = all.clone().filter(|&it| !self.avoided[it]).collect();
        if serving.is_empty() { all.collect() } else { serving }
    }

    fn submit(&mut self, place: usize, op: Op, offset: u64, bytes: u64, source: Source) {
        self.submit_since(self.now, place, op, (offset, bytes), source);
    }

    /// Submits an I/O that came at `since`.
    fn submit_since(
        &mut self,
        since: Nanos,
        place: usize,
        op: Op,
        (offset, bytes): (u64, u64),
        source: Source,
    ) {
        let flying = Flying { op, bytes, came: since, since: self.now, source };
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
                if flying.source == Source::Client {
                    self.waits_ns.push((self.now - flying.came).0);
                }
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
    pub(crate) fn pass(&mut self, load: &Load) {
        let begin = self.now;
        let end = self.now + SECOND;
        if self.is_suspended {
            self.drain(end, load);
        }
        let resumed = self.now;
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
            let at = (0..number).map(|_| (begin + Nanos(self.rng.below(SECOND.0)), op));
            arrivals.extend(at.collect::<Vec<_>>());
        }
        arrivals.sort_unstable_by_key(|&(at, op)| (at, op == Op::Write));
        for (at, op) in arrivals {
            self.run_to(at.max(resumed), load);
            let offset = self.rng.below((DISK_BYTES - load.bytes) / 4096) * 4096;
            let targets: Vec<usize> = match op {
                Op::Write => (0..count).collect(),
                _ => vec![self.chosen(load.balance)],
            };
            for place in targets {
                if self.accounts[place].in_flight < IN_FLIGHT_MAX {
                    let part = (offset, load.bytes);
                    self.submit_since(at, place, op, part, Source::Client);
                }
            }
        }
        self.run_to(end, load);
    }

    /// Lets all I/O in flight end, and the metadata be written, before anything is begun.
    fn drain(&mut self, end: Nanos, load: &Load) {
        self.is_suspended = false;
        while !self.flying.is_empty() {
            let Some(at) = self.array.next_event().filter(|at| *at < end) else { break };
            self.run_to(at, load);
        }
        self.run_to((self.now + SUPERBLOCK).min(end), load);
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
