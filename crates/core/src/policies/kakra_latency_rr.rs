//! # Idea
//! Mirrors whose mean read wait is within 25 % of the lowest take turns. Slower ones are left out
//! until their mean is reset.
//!
//! # State
//! Per member the counters of `kakra/latency`; one counter of blocks read, as in
//! `btrfs/round-robin`.
//!
//! # Cost
//! One division per mirror and an update of its counters, two divisions for the turn, a ranking of
//! the devids.
//!
//! # Good at
//! Arrays with some fast and some slow members: the fast ones share the reads, the slow ones are
//! idle. The best of its family on six unequal disks, both idle and during a defrag (kakra's
//! measurements, May 2025).
//!
//! # Bad at
//! - Two mirrors: it is either `latency` or `round-robin`, never a share in between.
//! - A single sequential stream, which it moves from disk to disk at every turn.
//! - Members that differ by about 25 %: the set of candidates changes back and forth.
//!
//! # Origin
//! kakra/linux PR #36 (6.12), by Kai Krakow; 1.20 in its first version, 1.25 later; dropped in PR
//! #40. The code was not available. Added here, where its text says nothing: a turn is one of
//! btrfs's, counted in blocks of the volume and of 256 KiB; candidates are ordered by devid; an
//! unknown mean counts as 0, so while a member is unknown or probed only such members are
//! candidates; 1.25 times the lowest is rounded down to a nanosecond. `:bytes:once` ends a probe at
//! its first read. The original is by Kai Krakow, from a patch of Anand Jain
//! <anand.jain@oracle.com>.

use super::shared::block_rotation::{BlockRotation, nth_by_devid};
use super::shared::checkpointed_mean::{CheckpointedMeans, Probe};
use super::{Build, Built};
use crate::io::MemberIo;
use crate::member::Members;
use crate::policy::{Choice, Counter, Ctx, Mirror, MirrorScore, Read, ReadPolicy};

struct LatencyRoundRobin {
    means: CheckpointedMeans,
    rotation: BlockRotation,
}

/// Builds the policy from the bytes of a turn and the length of a probe.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(LatencyRoundRobin {
        means: CheckpointedMeans::new(Probe::from_value(build.values[1])),
        rotation: BlockRotation::new(build.values[0]),
    }))
}

/// Highest mean with which a mirror is a candidate.
fn limit_ns(means: &CheckpointedMeans, mirrors: &[Mirror]) -> u64 {
    let means_ns = mirrors.iter().map(|mirror| means.mean_ns(mirror));
    let lowest_ns = means_ns.min().expect("mirrors are never empty");
    lowest_ns.saturating_add(lowest_ns / 4)
}

impl ReadPolicy for LatencyRoundRobin {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.means.begin_decision(mirrors, ctx.members);
        let limit_ns = limit_ns(&self.means, mirrors);
        let is_candidate = |mirror: &Mirror| self.means.mean_ns(mirror) <= limit_ns;
        let candidates = mirrors.iter().filter(|mirror| is_candidate(mirror)).count();
        let turn = self.rotation.turn(candidates as u32);
        let place = nth_by_devid(mirrors, ctx.members, turn, is_candidate)
            .expect("the turn is below the number of candidates");
        self.means.end_decision(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        self.rotation.count(io);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.means.resize(members);
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = self.means.counters();
        let value = i64::from(self.rotation.blocks_read());
        counters.push(Counter { member: None, name: "blocks_read", value });
        counters
    }

    fn explain(&self, _read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        let mut means = self.means.clone();
        means.begin_decision(mirrors, ctx.members);
        let limit_ns = limit_ns(&means, mirrors);
        let reason = |mirror: &Mirror| {
            let mean_ns = means.mean_ns(mirror);
            MirrorScore::new("beyond_limit_ns", mean_ns.saturating_sub(limit_ns))
                .with("mean_wait_ns", mean_ns)
        };
        mirrors.iter().map(reason).collect()
    }
}
