//! # Idea
//! Each read goes where it costs least, by what each member was seen to do. Flash costs its
//! unloaded latency and, for what it has in flight, twice the wait that this adds: for the read and
//! for those that it will hold up. A disk costs its access time for each I/O in flight and for the
//! read itself, more the further that lies from what the disk reads most: so the disks of a mirror
//! share out the addresses. A disk that one sequential reader has to itself is left to it.
//!
//! # State
//! Per member some 20 words: what it costs, where it reads, who has it to itself, when it was last
//! read. For all: 256 runs of consecutive reads.
//!
//! # Cost
//! A hash, and a few additions and multiplications a mirror. A division when a read ends.
//!
//! # Good at
//! Unequal members at any depth, random reads on disks, several streams, readers beside writers,
//! a member that slows and recovers: one that was not read for long is read as well, by the way.
//!
//! # Bad at
//! Stalls: reads that met one wait (`+hedge` reads them again). Fairness between streams: one that
//! has a disk to itself keeps it while others share the rest.
//!
//! # Origin
//! Ours. Shortest expected delay is IPVS's `sed`; marginal cost instead of mean wait is what makes
//! greedy choices best for all; serving an area each is RAIDframe's `Partition`, here with a border
//! that moves; keeping a stream on its disk is md's. `docs/auto.md` has more.

mod cost;
mod disk;
mod flash;
pub(super) mod ingredients;
mod known;
mod learning;
mod probes;
mod runs;
mod speed;
mod split;
mod tenancy;
mod territory;
mod work;

use self::cost::View;
use self::ingredients::Ingredient;
use self::known::Known;
use self::runs::Runs;
use super::Build;
use super::spec::PolicyError;
use crate::io::{MemberIo, Op, Outcome, Purpose};
use crate::member::{MemberState, Members};
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, MirrorSet, Read, ReadPolicy};
use crate::units::Nanos;

struct Auto {
    /// The number of the ingredient that is left out.
    without: u64,
    turn: usize,
    runs: Runs,
    members: Vec<Known>,
}

/// Builds the policy; its value is the place of what to leave out.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    let without = build.values[0];
    Ok(Box::new(Auto { without, turn: 0, runs: Runs::default(), members: Vec::new() }))
}

impl Auto {
    #[inline]
    fn has(&self, ingredient: Ingredient) -> bool {
        self.without != ingredient as u64
    }

    #[inline]
    fn known(&self, mirror: &Mirror) -> &Known {
        &self.members[mirror.member.get()]
    }
}

impl ReadPolicy for Auto {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        let now = ctx.now;
        let run = self.runs.take(read, mirrors, now);
        let alone = self.disk_alone(&run, read, mirrors, now);
        let writes_least = self.see(mirrors, members, now);
        let view = View { run: &run, length: read.length, now, writes_least };
        let place = alone.unwrap_or_else(|| self.cheapest(mirrors, &view));
        self.turn = if self.turn + 1 < mirrors.len() { self.turn + 1 } else { 0 };
        self.runs.put(&run, mirrors, place);
        let due = self.note(place, alone.is_some(), read, mirrors, &view);
        if self.pays_to_split(place, mirrors, &view) {
            mirrors.iter().for_each(|mirror| self.members[mirror.member.get()].give(now));
            return Choice::Split(MirrorSet::all(mirrors));
        }
        match due {
            Some(probed) => {
                let known = &mut self.members[mirrors[probed].member.get()];
                known.give(now);
                known.speed.forget();
                Choice::All(MirrorSet::pair(place, probed))
            }
            None => Choice::Mirror(place),
        }
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        let known = &mut self.members[io.member.get()];
        let was_chosen = known.read_at == ctx.now;
        if io.op == Op::Read && io.purpose == Purpose::User && !was_chosen {
            known.serve(io.offset, ctx.now);
        }
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        if outcome.result.is_ok() {
            let known = &mut self.members[io.member.get()];
            let is_tenant = known.tenancy.extend(io.stream, outcome.completed_at);
            known.speed.learn(io, outcome, is_tenant);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        for (index, member) in members.iter() {
            let known = Known::new(&member.config);
            match self.members.get_mut(index.get()) {
                None => self.members.push(known),
                Some(old) if member.state == MemberState::Failed => *old = known,
                Some(_) => {}
            }
        }
    }

    fn explain(
        &self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        now: Nanos,
    ) -> Vec<MirrorScore> {
        self.reasons(read, mirrors, members, now)
    }
}
