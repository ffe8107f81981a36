//! Time of one decision: every policy and modifier, at 2, 4 and 16 mirrors.
//!
//! A decision is `choose` and the `on_submit` that follows it. The reads are a mix of random and
//! sequential ones, on members with statistics. The bounds at 2 mirrors are 20 ns for policies that
//! are fixed, rotate or count, and 60 ns for all (ARCHITECTURE.md, performance).
//!
//! Run with `cargo bench -p mirrorball-core --bench decisions`. Criterion compares each figure with
//! the previous run; then a table of the medians of the same samples follows.

use criterion::{BenchmarkId, Criterion};
use mirrorball_core::io::{IoId, MemberIo, Op, Outcome, Purpose, ReadRole, RequestId};
use mirrorball_core::member::{MemberConfig, MemberIndex, Members};
use mirrorball_core::policies::{Spec, all, modifiers};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, MIB, Nanos};
use std::hint::black_box;
use std::time::{Duration, Instant};

const READS: usize = 1024;
const MIRRORS: [u16; 3] = [2, 4, 16];

/// Policies that are fixed, rotate or count; the others also use times or positions.
const PLAIN: [&str; 30] = [
    "mirrorball/first",
    "mirrorball/random",
    "btrfs/pid",
    "btrfs/round-robin",
    "btrfs/devid",
    "btrfs/titovets",
    "kakra/queue",
    "gmirror/prefer",
    "gmirror/round-robin",
    "gmirror/split",
    "drbd/prefer-local",
    "drbd/prefer-remote",
    "drbd/round-robin",
    "drbd/least-pending",
    "drbd/striping",
    "dm/round-robin",
    "dm/queue-length",
    "dm/service-time",
    "dm/io-affinity",
    "nvme/numa",
    "nvme/round-robin",
    "nvme/queue-depth",
    "spdk/raid1",
    "zfs/offset",
    "zfs/pending-10ms",
    "raidframe/partition",
    "solaris/geometric",
    "vxvm/round",
    "crucible/read-all-first",
    "research/p2c",
];
const PLAIN_BOUND_NS: f64 = 20.0;
const BOUND_NS: f64 = 60.0;

/// Samples in nanoseconds per decision.
type Samples = Vec<f64>;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let columns = MIRRORS.map(|mirrors| measure(&mut criterion, mirrors));
    criterion.final_summary();
    println!("{}", report(&columns));
}

/// Every policy, then every modifier with the cheapest policy that makes a decision.
fn specs() -> Vec<Spec> {
    let modified = modifiers::ALL.iter().map(|info| format!("btrfs/pid+{}", info.name));
    let modified = modified.map(|text| Spec::parse(&text).expect("both are in their tables"));
    all().map(Spec::new).chain(modified).collect()
}

/// Measures every policy that the command line selects.
fn measure(criterion: &mut Criterion, mirrors: u16) -> Vec<Samples> {
    let mut group = criterion.benchmark_group(format!("decision, {mirrors} mirrors"));
    // A decision takes nanoseconds, so half a second is enough for many of them.
    group.warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(500));
    let column = specs().into_iter().map(|spec| {
        let mut table = Table::new(&spec, mirrors);
        let mut samples = Samples::new();
        group.bench_function(BenchmarkId::from_parameter(&spec), |bencher| {
            bencher.iter_custom(|decisions| {
                let start = Instant::now();
                for _ in 0..decisions {
                    table.decide();
                }
                let took = start.elapsed();
                samples.push(took.as_nanos() as f64 / decisions as f64);
                took
            });
        });
        samples
    });
    let column = column.collect();
    group.finish();
    column
}

/// One row per policy: the medians, the bound at two mirrors, and a mark if it is exceeded.
fn report(columns: &[Vec<Samples>; 3]) -> String {
    assert!(PLAIN.iter().all(|name| all().any(|info| info.name == *name)), "a name is unknown");
    let mut report = format!("{:<30}", "ns per decision, median");
    report += &MIRRORS.map(|mirrors| format!("{mirrors:>8}")).concat();
    report += " mirrors   bound at 2\n";
    for (row, spec) in specs().iter().enumerate() {
        let name = spec.to_string();
        let medians = columns.each_ref().map(|column| median(&column[row]));
        // Not selected, or run only once, as a test.
        let [Some(at_two), _, _] = medians else { continue };
        let bound_ns = if PLAIN.contains(&name.as_str()) { PLAIN_BOUND_NS } else { BOUND_NS };
        let cells = medians.map(|cell| cell.map_or("-".into(), |cell| format!("{cell:.1}")));
        let mark = if at_two > bound_ns { "  EXCEEDED" } else { "" };
        report += &format!("{name:<30}");
        report += &cells.map(|cell| format!("{cell:>8}")).concat();
        report += &format!("{bound_ns:>20}{mark}\n");
    }
    report
}

/// The median, or `None` if there are too few samples.
fn median(samples: &Samples) -> Option<f64> {
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    (sorted.len() >= 10).then(|| sorted[sorted.len() / 2])
}

/// A policy, its members, and the reads for which it chooses.
struct Table {
    policy: Box<dyn ReadPolicy>,
    members: Members,
    reads: Vec<(Read, Vec<Mirror>)>,
    next: usize,
    rng: Rng,
}

impl Table {
    fn new(spec: &Spec, mirrors: u16) -> Table {
        let mut draw = Rng::new(1);
        let devids: Vec<u64> = (1..=u64::from(mirrors)).collect();
        let mut members =
            Members::new(devids.iter().map(|&devid| MemberConfig::new(devid, 64 * GIB)));
        for index in 0..mirrors {
            let member = members.get_mut(MemberIndex(index));
            member.reads_in_flight = draw.below(8) as u32;
            member.submitted_end = draw.below(64) * MIB;
            member.completed_end = draw.below(64) * MIB;
            member.last_wait = Nanos(1_000_000 + draw.below(1 << 20));
            member.reads_completed = 1000 + draw.below(1000);
            member.read_wait = Nanos(member.reads_completed * (4_000_000 + draw.below(1 << 20)));
        }
        let mut policy = spec.build(&devids).expect("defaults fit the array");
        policy.on_members_change(&members);
        let reads = (0..READS).map(|number| random_read(number, mirrors, &mut draw)).collect();
        let mut table = Table { policy, members, reads, next: 0, rng: Rng::new(2) };
        table.complete_one_each(&mut draw);
        table
    }

    /// Completes a read of each member, so that policies with estimates have a sample.
    fn complete_one_each(&mut self, draw: &mut Rng) {
        let (read, mirrors) = &self.reads[0];
        for mirror in mirrors {
            let wait = Nanos(4_000_000 + draw.below(1 << 22));
            let completed_at = Nanos::from_millis(900);
            let io = member_io(read, mirror, completed_at - wait);
            let outcome = Outcome { result: Ok(()), completed_at, wait, superseded: false };
            self.policy.on_submit(&io, &mut Ctx { now: io.submitted_at, rng: &mut self.rng });
            let mut ctx = Ctx { now: completed_at, rng: &mut self.rng };
            self.policy.on_complete(&io, &outcome, &mut ctx);
        }
    }

    fn decide(&mut self) -> Choice {
        let (read, mirrors) = &self.reads[self.next % READS];
        self.next += 1;
        // With the same time for all reads, they would be strips of one request.
        let now = Nanos::from_secs(1) + Nanos::from_micros(self.next as u64);
        let mut ctx = Ctx { now, rng: &mut self.rng };
        let choice = black_box(self.policy.choose(read, mirrors, &self.members, &mut ctx));
        self.policy.on_submit(&member_io(read, &mirrors[choice.first()], now), &mut ctx);
        choice
    }
}

/// Every fourth read is random, the others continue one of three streams.
fn random_read(number: usize, mirrors: u16, draw: &mut Rng) -> (Read, Vec<Mirror>) {
    let offset = match number % 4 {
        0 => draw.below(GIB / 4096) * 4096,
        stream => stream as u64 * GIB + number as u64 * 1024,
    };
    let read = Read {
        offset,
        length: 4096,
        stream: draw.below(32768),
        cpu: 0,
        background: false,
        copies: mirrors as u8,
    };
    let mirror = |index| Mirror { member: MemberIndex(index), offset, copy: index as u8 };
    (read, (0..mirrors).map(mirror).collect())
}

fn member_io(read: &Read, mirror: &Mirror, now: Nanos) -> MemberIo {
    MemberIo {
        id: IoId(0),
        request: RequestId(0),
        member: mirror.member,
        op: Op::Read,
        purpose: Purpose::User,
        offset: mirror.offset,
        length: read.length,
        volume_offset: read.offset,
        stream: read.stream,
        background: read.background,
        role: ReadRole::Only,
        submitted_at: now,
    }
}
