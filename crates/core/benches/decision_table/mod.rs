//! A policy with random members and reads, for benches of decisions.
//!
//! The bench of `program` includes this file too, so that its figures are for the same reads.

use mirrorball_core::io::{MemberIo, Outcome};
use mirrorball_core::member::{MemberConfig, MemberIndex, Members};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, MIB, Nanos};
use std::hint::black_box;
use std::time::{Duration, Instant};

const READS: usize = 1024;
/// Decisions after which all I/O in flight complete.
const IN_FLIGHT: u64 = 32;
/// Event that the last of them waits for.
const SERVICE: Nanos = Nanos::from_micros(80);

/// Data of the reads, and their source.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Number of streams among which the reads are drawn.
    pub(crate) streams: u64,
    /// True if the members are disks.
    pub(crate) rotational: bool,
}

impl Load {
    /// More streams than any table has entries, on disks: almost each read is of a new stream.
    pub(crate) const MANY: Load = Load { streams: 32_768, rotational: true };
}

/// A policy, its members, and the reads for which it chooses.
pub(crate) struct DecisionTable {
    policy: Box<dyn ReadPolicy>,
    members: Members,
    reads: Vec<(Read, Vec<Mirror>)>,
    next: usize,
    /// I/O that are submitted and not completed.
    in_flight: Vec<MemberIo>,
    rng: Rng,
}

impl DecisionTable {
    /// A table for an array of this many mirrors; `build` makes the policy from their devids.
    pub(crate) fn new(
        mirrors: u16,
        load: Load,
        build: impl FnOnce(&[u64]) -> Box<dyn ReadPolicy>,
    ) -> DecisionTable {
        let mut draw = Rng::new(1);
        let devids: Vec<u64> = (1..=u64::from(mirrors)).collect();
        let mut members = Members::new(devids.iter().map(|&devid| MemberConfig {
            rotational: load.rotational,
            ..MemberConfig::new(devid, 64 * GIB)
        }));
        for index in 0..mirrors {
            let member = members.get_mut(MemberIndex(index));
            member.reads_in_flight = draw.below(8) as u32;
            member.submitted_end = draw.below(64) * MIB;
            member.completed_end = draw.below(64) * MIB;
            member.last_wait = Nanos(1_000_000 + draw.below(1 << 20));
            member.reads_completed = 1000 + draw.below(1000);
            member.read_wait = Nanos(member.reads_completed * (4_000_000 + draw.below(1 << 20)));
        }
        let mut policy = build(&devids);
        policy.on_members_change(&members);
        let reads = (0..READS).map(|number| random_read(number, mirrors, load, &mut draw));
        let reads = reads.collect();
        let mut table = DecisionTable {
            policy,
            members,
            reads,
            next: 0,
            in_flight: Vec::new(),
            rng: Rng::new(2),
        };
        table.complete_one_each(&mut draw);
        table
    }

    /// Completes a read of each member, so that policies with estimates have a sample.
    fn complete_one_each(&mut self, draw: &mut Rng) {
        let (read, mirrors) = &self.reads[0];
        for mirror in mirrors {
            let wait = Nanos(4_000_000 + draw.below(1 << 22));
            let completed_at = Nanos::from_millis(900);
            let io = read.io(mirror, completed_at - wait);
            let outcome = Outcome { result: Ok(()), completed_at, wait, superseded: false };
            self.policy.on_submit(
                &io,
                &mut Ctx { now: io.submitted_at, members: &self.members, rng: &mut self.rng },
            );
            let mut ctx = Ctx { now: completed_at, members: &self.members, rng: &mut self.rng };
            self.policy.on_complete(&io, &outcome, &mut ctx);
        }
    }

    /// A choice, without the notification that follows it.
    pub(crate) fn choose(&mut self) -> Choice {
        let (read, mirrors) = &self.reads[self.next % READS];
        self.next += 1;
        let mut ctx = Ctx { now: time_of(self.next), members: &self.members, rng: &mut self.rng };
        black_box(self.policy.choose(read, mirrors, &mut ctx))
    }

    pub(crate) fn decide(&mut self) -> Choice {
        let choice = self.choose();
        let (now, io) = (time_of(self.next), self.io_of(choice));
        self.policy.on_submit(&io, &mut Ctx { now, members: &self.members, rng: &mut self.rng });
        self.in_flight.push(io);
        choice
    }

    /// Time of so many calls, without that of the completions between them.
    pub(crate) fn time(&mut self, calls: u64, call: fn(&mut DecisionTable) -> Choice) -> Duration {
        let mut took = Duration::ZERO;
        let mut left = calls;
        while left > 0 {
            let batch = left.min(IN_FLIGHT);
            let start = Instant::now();
            for _ in 0..batch {
                call(self);
            }
            took += start.elapsed();
            self.complete_all();
            left -= batch;
        }
        took
    }

    fn complete_all(&mut self) {
        let completed_at = time_of(self.next);
        for io in self.in_flight.drain(..) {
            let wait = completed_at.saturating_sub(io.submitted_at) + SERVICE;
            let outcome = Outcome { result: Ok(()), completed_at, wait, superseded: false };
            let mut ctx = Ctx { now: completed_at, members: &self.members, rng: &mut self.rng };
            self.policy.on_complete(&io, &outcome, &mut ctx);
        }
    }

    /// The I/O of the last choice.
    fn io_of(&self, choice: Choice) -> MemberIo {
        let (read, mirrors) = &self.reads[(self.next - 1) % READS];
        read.io(&mirrors[choice.first()], time_of(self.next))
    }
}

/// Time of a decision. With the same time for all reads, they would be strips of one request.
fn time_of(decision: usize) -> Nanos {
    Nanos::from_secs(1) + Nanos::from_micros(decision as u64)
}

/// Every fourth read is random, the others continue one of three streams.
fn random_read(number: usize, mirrors: u16, load: Load, draw: &mut Rng) -> (Read, Vec<Mirror>) {
    let offset = match number % 4 {
        0 => draw.below(GIB / 4096) * 4096,
        stream => stream as u64 * GIB + number as u64 * 1024,
    };
    let read = Read {
        offset,
        length: 4096,
        stream: draw.below(load.streams),
        cpu: 0,
        background: false,
        copies: mirrors as u8,
    };
    let mirror = |index| Mirror { member: MemberIndex(index), offset, copy: index as u8 };
    (read, (0..mirrors).map(mirror).collect())
}
