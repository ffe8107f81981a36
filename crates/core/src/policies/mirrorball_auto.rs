//! # Idea
//! Each read goes to the mirror where it costs least, by estimates learned from completed I/O.
//! Flash costs its unloaded latency, the wait behind what is in flight, and the read's own work for
//! each I/O in flight, which it will delay. A disk costs its access time for each I/O in flight and
//! for the read itself, and more the further the read lies from the addresses that the disk reads
//! most. So the disks of a mirror divide the addresses among them. A disk on which one sequential
//! reader is alone is dedicated to that reader. A read of a stream with many I/O in flight costs
//! more where it delays the I/O of streams that have few; streams that read alike count as one.
//! Where reads on flash are often late, a mirror that has room for it reads a second copy. With
//! parity, what a slow or stalled member holds is recovered from others where that costs less.
//!
//! # State
//! Per member some 20 words: its costs, the centre of its addresses, the stream to which it is
//! dedicated, the time of its last read. For the volume: 256 sequential runs, and 64 streams.
//!
//! # Cost
//! A hash, and a few additions and multiplications per mirror. A division when a read completes.
//!
//! # Good at
//! Unequal members at any depth, random reads on disks, several streams, a lone reader besides a
//! deep workload, reads mixed with writes. A member that slows down and recovers: one that was not
//! read for long gets a copy of a read as a probe.
//!
//! # Bad at
//! Rare stalls: a read that meets one waits until it ends (`+hedge` reads it again elsewhere).
//! Several sequential readers on disks of many pairs: a disk that is dedicated to one of them is
//! kept for it while others share the rest, though it reads from each pair in turn.
//!
//! # Origin
//! Ours. Shortest expected delay is IPVS's `sed`. Greedy choices by marginal cost, instead of by
//! the read's own wait, minimise the mean wait of all reads. An address range per disk is
//! RAIDframe's `Partition`, here with a border that moves. Keeping a stream on its disk is md's
//! rule. `docs/paper.md` explains the details.

pub(super) mod components;
mod cost_model;
mod estimators;
mod explanation;
mod fairness;
mod load;
mod locality;
mod member_model;
mod placement;
mod read_cost;
mod reconstruction;
mod redundancy;
mod runs;
mod split;
mod stream_affinity;
mod streams;
mod workloads;

use self::components::{Component, Components};
use self::member_model::{MemberModels, ReadContext};
use self::reconstruction::ProgressWatch;
use self::runs::RunTable;
use super::{Build, Built};
use crate::column_set::ColumnSet;
use crate::io::{MemberIo, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy, StripeRead};

struct Auto {
    turn: usize,
    runs: RunTable,
    models: MemberModels,
    watch: ProgressWatch,
}

/// Builds the policy from the index of the component to leave out.
pub(super) fn build(build: &Build<'_>) -> Built {
    let models = MemberModels::new(Components::without(build.values[0]));
    let (runs, watch) = (RunTable::default(), ProgressWatch::default());
    Ok(Box::new(Auto { turn: 0, runs, models, watch }))
}

impl ReadPolicy for Auto {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let now = ctx.now;
        let run = self.runs.take(read, mirrors, now);
        let dedicated = self.models.dedicated_disk(&run, read, mirrors, now);
        let seen = self.models.observe(mirrors, ctx.members, &run, now);
        let disk = dedicated.or_else(|| self.models.disk_of_strip(mirrors, &run, now));
        let mut context = ReadContext::new(&run, read, &seen, now);
        let place = disk.unwrap_or_else(|| {
            context.stream = self.models.deciding(read);
            self.models.cheapest(mirrors, self.turn, &context)
        });
        self.turn = if self.turn + 1 < mirrors.len() { self.turn + 1 } else { 0 };
        self.runs.put(&run, mirrors, place);
        let owns = dedicated.is_some();
        let probe = self.models.record_choice(place, owns, read, mirrors, &context, &seen);
        // A read is not split next to a disk.
        if !seen.has_disk
            && let Some(set) = self.models.split(place, mirrors, &context)
        {
            self.models.record_set(set, mirrors, now);
            return Choice::Split(set);
        }
        self.models.read_twice(place, probe, mirrors, &context)
    }

    fn reconstructs(&self) -> bool {
        self.models.has(Component::Reconstruction)
    }

    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        self.watch.leave_out(&mut self.models, read, columns, ctx.members, ctx.now)
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.models.on_submit(io, ctx.now);
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        self.models.streams.complete(io);
        if outcome.result.is_ok() {
            self.models.on_complete(io, outcome);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.models.on_members_change(members);
        self.watch.set_members(members.len());
    }

    fn explain(&self, read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        explanation::scores(&self.models, &self.runs, read, mirrors, ctx.members, ctx.now)
    }
}
