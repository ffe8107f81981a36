//! What one decision costs: every policy of the table, at 2, 4 and 16 mirrors.
//!
//! A decision is `choose` and the `on_submit` that follows it, for a read of a stream of random and
//! sequential reads over members with filled books. The bounds to hold, at 2 mirrors: 20 ns for
//! policies that are fixed, rotate or count, 60 ns for all (ARCHITECTURE.md, performance).
//!
//! Run with `cargo bench -p mirrorball-core --bench decisions`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mirrorball_core::io::{IoId, Leg, MemberIo, Op, Purpose, RequestId};
use mirrorball_core::member::{MemberConfig, MemberIndex, Members};
use mirrorball_core::policies::{PolicyInfo, Spec, all};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, MIB, Nanos};
use std::hint::black_box;
use std::time::Duration;

const READS: usize = 1024;

criterion_group!(benches, decisions);
criterion_main!(benches);

fn decisions(criterion: &mut Criterion) {
    for mirrors in [2, 4, 16] {
        let mut group = criterion.benchmark_group(format!("decision, {mirrors} mirrors"));
        // A decision takes nanoseconds: half a second holds enough of them.
        group.warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_millis(500));
        for info in all() {
            let mut table = Table::new(info, mirrors);
            group.bench_function(BenchmarkId::from_parameter(info.name), |bencher| {
                bencher.iter(|| table.decide());
            });
        }
        group.finish();
    }
}

/// A policy, the members it decides among, and the reads it is asked to place.
struct Table {
    policy: Box<dyn ReadPolicy>,
    members: Members,
    reads: Vec<(Read, Vec<Mirror>)>,
    next: usize,
    rng: Rng,
}

impl Table {
    fn new(info: &'static PolicyInfo, mirrors: u16) -> Table {
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
        let mut policy = Spec::new(info).build(&devids).expect("defaults fit the array");
        policy.on_members_change(&members);
        let reads = (0..READS).map(|number| random_read(number, mirrors, &mut draw)).collect();
        Table { policy, members, reads, next: 0, rng: Rng::new(2) }
    }

    fn decide(&mut self) -> Choice {
        let (read, mirrors) = &self.reads[self.next % READS];
        self.next += 1;
        let now = Nanos::from_secs(1);
        let mut ctx = Ctx { now, rng: &mut self.rng };
        let choice = black_box(self.policy.choose(read, mirrors, &self.members, &mut ctx));
        self.policy.on_submit(&member_io(read, &mirrors[choice.first()], now), &mut ctx);
        choice
    }
}

/// Every fourth read is random, the others continue one of four streams.
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
        leg: Leg::Only,
        submitted_at: now,
    }
}
