//! A simulated array under the load of clients, with the counters that Linux would keep.
//!
//! A member that is avoided gets no reads while another is there, as a
//! write-mostly member of md; a change may suspend the array until its I/O is done, and reads that
//! come meanwhile wait. Faults that a model does not have (of reads only, retries, of a link) delay
//! the end of an I/O beyond that of the model.

use mirrorball_core::io::Op;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_disk::fault::{Fault, FaultWindow};
use mirrorball_disk::model::DiskIo;
use mirrorball_disk::model_array::ModelArray;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::service::DiskKind;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) const SECOND: Nanos = Nanos::from_secs(1);
const DISK_BYTES: u64 = 100_000_000_000;
/// Time of the two writes of a superblock with which a suspension ends.
const SUPERBLOCK: Nanos = Nanos::from_millis(30);
/// Time in which a hard disk gets up to speed.
const SPIN_UP: Nanos = Nanos::from_secs(8);
/// Requests that come while so many are in flight are lost, as of a client that gave up.
const IN_FLIGHT_MAX: u32 = 64;

pub(crate) const MODELS: [(DiskKind, &[&str]); 3] = [
    (DiskKind::Hdd, &["hdd-7k2-ent", "hdd-7k2-desktop", "hdd-5k4", "hdd-7k2-14tb"]),
    (DiskKind::Ssd, &["ssd-sata-plp", "ssd-sata-consumer", "ssd-sata-dramless"]),
    (DiskKind::Nvme, &["nvme-gen3", "nvme-tlc-ent"]),
];

/// The I/O of clients and of background work.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) reads_per_s: f64,
    pub(crate) writes_per_s: f64,
    pub(crate) bytes: u64,
    pub(crate) balance: Balance,
    pub(crate) loops: Vec<IoLoop>,
    /// A member that clients do not read, because it is rebuilt.
    pub(crate) unread: Option<usize>,
}

/// Background work that has one I/O in flight: a stream, a scrub, a neighbour on the same disk.
#[derive(Clone, Copy)]
pub(crate) struct IoLoop {
    pub(crate) place: usize,
    pub(crate) op: Op,
    pub(crate) bytes: u64,
    pub(crate) is_random: bool,
    /// Time from the end of an I/O to the next.
    pub(crate) pause: Nanos,
}

/// A delay of a member's I/O beyond its model.
#[derive(Clone, Copy)]
pub(crate) struct Delay {
    /// How many times longer a matching I/O takes.
    pub(crate) factor: f64,
    pub(crate) is_reads_only: bool,
    pub(crate) bytes_min: u64,
    /// Share of I/Os that are tried again and counted as errors, and how long that takes.
    pub(crate) retries: Option<(f64, Nanos)>,
}

/// The member that a read goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Balance {
    Chance,
    /// The first of those with the least in flight.
    FirstOfShortest,
    /// Any of those with the least in flight.
    AnyOfShortest,
    /// Four of five reads go to the first.
    MostlyFirst,
}

mirrorball_core::slab_key! {
    /// Names an I/O in flight; its slot is the tag that the model sees.
    struct FlyingKey;
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
    /// A loop of the load, by its index, and the number of that load.
    Loop(usize, u64),
}

/// An event that no model knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The end of a delayed I/O.
    Complete(usize, FlyingKey),
    /// The next I/O of a loop.
    Continue(usize, u64),
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
    flying: Slab<FlyingKey, Flying>,
    accounts: Vec<Account>,
    load_number: u64,
    loops_at: Vec<u64>,
    /// By time, then in the order in which they were set.
    timers: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    timers_set: u64,
    pub(crate) delays: Vec<Option<Delay>>,
    /// Errors counted of each member.
    pub(crate) errors: Vec<u64>,
    /// Members that stop their spindle after this long without I/O.
    pub(crate) standby_after: Option<Nanos>,
    /// Members that are read only if no other is there.
    avoided: Vec<bool>,
    is_suspended: bool,
    /// Waits of reads of clients since they were taken last, in nanoseconds, if they are.
    waits_ns: Option<Vec<u64>>,
    /// Members that may serve a read, kept for its space.
    serving: Vec<usize>,
    /// A member whose next I/O is tried again, and how long that takes.
    pub(crate) stray_error: Option<(usize, Nanos)>,
}

pub(crate) fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// A number from 0 to 1.
pub(crate) fn fraction(rng: &mut Rng) -> f64 {
    rng.below(1 << 30) as f64 / f64::from(1 << 30)
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
            flying: Slab::default(),
            accounts: vec![Account::default(); count],
            load_number: 0,
            loops_at: Vec::new(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            delays: vec![None; count],
            errors: vec![0; count],
            standby_after: None,
            avoided: vec![false; count],
            is_suspended: false,
            waits_ns: None,
            serving: Vec::new(),
            stray_error: None,
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

    /// The waits of the reads of clients since the last call; none at the first.
    pub(crate) fn take_waits_ns(&mut self) -> Vec<u64> {
        self.waits_ns.replace(Vec::new()).unwrap_or_default()
    }

    /// Makes a member slower by a factor until a time.
    pub(crate) fn slow(&mut self, place: usize, factor: f64, until: Nanos) {
        let during = FaultWindow { from: self.now, until };
        let fault = Fault::Slow { factor_milli: (factor * 1e3) as u64, during };
        self.array.add_fault(MemberIndex(place as u16), fault);
    }

    /// Replaces the load.
    pub(crate) fn begin(&mut self, load: &Load) {
        self.load_number += 1;
        self.loops_at = load.loops.iter().map(|_| self.rng.below(DISK_BYTES / 2)).collect();
        for index in 0..load.loops.len() {
            self.set_timer(self.now, Timer::Continue(index, self.load_number));
        }
    }

    fn set_timer(&mut self, at: Nanos, timer: Timer) {
        self.timers_set += 1;
        self.timers.push(Reverse((at, self.timers_set, timer)));
    }

    /// The member that serves a read.
    fn chosen(&mut self, load: &Load) -> usize {
        let all = 0..self.accounts.len();
        let mut serving = std::mem::take(&mut self.serving);
        serving.clear();
        serving.extend(all.clone().filter(|&it| !self.avoided[it]));
        if serving.is_empty() {
            serving.extend(all);
        }
        if serving.len() > 1 {
            serving.retain(|it| Some(*it) != load.unread);
        }
        if matches!(load.balance, Balance::FirstOfShortest | Balance::AnyOfShortest) {
            let in_flight = |member: &usize| self.accounts[*member].in_flight;
            let least = serving.iter().map(in_flight).min();
            serving.retain(|it| Some(in_flight(it)) == least);
        }
        let chosen = match load.balance {
            Balance::FirstOfShortest => serving[0],
            Balance::MostlyFirst if chance(&mut self.rng, 80) => serving[0],
            _ => serving[self.rng.below(serving.len() as u64) as usize],
        };
        self.serving = serving;
        chosen
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
        let tag = u64::from(self.flying.insert(flying).slot());
        let account = &mut self.accounts[place];
        let is_idle_for = |time| account.in_flight == 0 && self.now - account.changed_at > time;
        if self.standby_after.is_some_and(is_idle_for) {
            let fault = Fault::Stall { at: self.now, length: SPIN_UP };
            self.array.add_fault(MemberIndex(place as u16), fault);
        }
        account.change(self.now, 1);
        let io = DiskIo { tag, op, offset, length: bytes };
        self.array.submit(self.now, MemberIndex(place as u16), io);
    }

    /// Ends an I/O of a model, now or after the delay of its member.
    fn end(&mut self, place: usize, key: FlyingKey, load: &Load) {
        let flying = self.flying.get(key);
        let mut by = Nanos::ZERO;
        if let Some(delay) = &self.delays[place] {
            let is_read = flying.op == Op::Read;
            if flying.bytes >= delay.bytes_min && (is_read || !delay.is_reads_only) {
                let wait = (self.now - flying.since).0 as f64;
                by = Nanos((wait * (delay.factor - 1.0)) as u64);
            }
            if let Some((share, time)) = delay.retries
                && fraction(&mut self.rng) < share
            {
                by += time;
                self.errors[place] += 1;
            }
        }
        if let Some((_, time)) = self.stray_error.take_if(|it| it.0 == place) {
            by += time;
            self.errors[place] += 1;
        }
        match by {
            Nanos::ZERO => self.complete(place, key, load),
            by => self.set_timer(self.now + by, Timer::Complete(place, key)),
        }
    }

    fn complete(&mut self, place: usize, key: FlyingKey, load: &Load) {
        let flying = self.flying.remove(key).expect("an I/O ends once");
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
                if flying.source == Source::Client
                    && let Some(waits_ns) = &mut self.waits_ns
                {
                    waits_ns.push((self.now - flying.came).0);
                }
            }
        }
        if let Source::Loop(index, number) = flying.source
            && number == self.load_number
        {
            let pause = load.loops[index].pause;
            match pause {
                Nanos::ZERO => self.go_on(index, load),
                pause => self.set_timer(self.now + pause, Timer::Continue(index, number)),
            }
        }
    }

    /// Submits the next I/O of a loop.
    fn go_on(&mut self, index: usize, load: &Load) {
        let IoLoop { place, op, bytes, is_random, .. } = load.loops[index];
        let next = match is_random {
            true => self.rng.below(DISK_BYTES - bytes) / 4096 * 4096,
            false => (self.loops_at[index] / 4096 * 4096 + bytes) % (DISK_BYTES - 2 * bytes),
        };
        self.loops_at[index] = next;
        let source = Source::Loop(index, self.load_number);
        self.submit_since(self.now, place, op, (next, bytes), source);
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
                _ => vec![self.chosen(load)],
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
            let Some(at) = self.next_event().filter(|at| *at < end) else { break };
            self.run_to(at, load);
        }
        self.run_to((self.now + SUPERBLOCK).min(end), load);
    }

    fn next_event(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        [self.array.next_event(), timer].into_iter().flatten().min()
    }

    fn run_to(&mut self, end: Nanos, load: &Load) {
        while let Some(at) = self.next_event().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            while let Some((member, done)) = self.array.pop_completion(at) {
                assert_eq!(done.result, Ok(()), "slow disks give no errors");
                let key = FlyingKey::from_slot(done.tag as u32);
                self.end(usize::from(member.0), key, load);
            }
            while self.timers.peek().is_some_and(|Reverse((due, ..))| *due <= at) {
                let Some(Reverse((.., timer))) = self.timers.pop() else { break };
                match timer {
                    Timer::Complete(place, key) => self.complete(place, key, load),
                    Timer::Continue(index, number) if number == self.load_number => {
                        self.go_on(index, load);
                    }
                    Timer::Continue(..) => {}
                }
            }
        }
        assert!(self.array.pop_completion(end).is_none(), "all that ended by now was taken");
        self.now = end;
    }
}
