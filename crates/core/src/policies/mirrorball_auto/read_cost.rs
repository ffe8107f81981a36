//! Cost of a read at each mirror, and the mirror of least cost.
//!
//! All costs are times. Writes go to every mirror, so a disk that is behind with its writes delays
//! the writer. Each write that it has in flight more than the least loaded mirror costs as much as
//! four I/O, so reads avoid the disk until it has caught up. Flash serves reads and writes in
//! parallel and is not avoided.

use super::components::Component;
use super::load::{IO, Load, WORK_MAX};
use super::member_model::{MemberModels, ReadContext};
use super::workloads::EXCESS_BITS;
use crate::policy::{Mirror, MirrorScore};

const IO_PER_WRITE_BEHIND: u64 = 4;
/// Weight of the delay of other workloads. One would do if the delay were known; what a read adds
/// is estimated by the mean, which says less of a disk.
const FAIRNESS_FLASH: u64 = 2;
const FAIRNESS_DISK: u64 = 4;
/// A sequential reader that shares a disk seeks less than others where it read last, since the disk
/// reads ahead: at most this part of an access.
const GOES_ON: u64 = 4;
/// Cost to a sequential reader of a read from a disk that is dedicated to another one, in accesses:
/// more than any queue, for it reads faster once the disk is its own. And to a background read, for
/// which no client waits: the owner loses many reads for it, where others lose one each.
const DEDICATED_ACCESSES: u64 = 1000;
/// Accesses by which another read delays the owner: the one there, and the one back.
const INTRUSION_ACCESSES: u64 = 2;

/// Cost of a read at one mirror, by its causes.
#[derive(Clone, Copy)]
pub(super) struct ReadCost {
    wait_ns: u64,
    delay_ns: u64,
    seek_ns: u64,
    dedicated_ns: u64,
    writes_ns: u64,
    fairness_ns: u64,
}

impl ReadCost {
    #[inline]
    pub(super) fn total_ns(self) -> u64 {
        self.own_ns() + self.others_ns()
    }

    /// What the read itself waits for.
    #[inline]
    pub(super) fn own_ns(self) -> u64 {
        self.wait_ns + self.seek_ns + self.dedicated_ns + self.writes_ns
    }

    /// What it adds to the waits of other I/O.
    #[inline]
    pub(super) fn others_ns(self) -> u64 {
        self.delay_ns + self.fairness_ns
    }

    /// The total as a policy's score, with its parts.
    pub(super) fn reason(self) -> MirrorScore {
        MirrorScore::new("cost_ns", self.total_ns())
            .with("wait_ns", self.wait_ns)
            .with("delay_ns", self.delay_ns)
            .with("seek_ns", self.seek_ns)
            .with("dedicated_ns", self.dedicated_ns)
            .with("writes_ns", self.writes_ns)
            .with("fairness_ns", self.fairness_ns)
    }
}

impl MemberModels {
    /// Cost of the read at this mirror behind `load`. Always inlined: where only the total is
    /// wanted, storing the parts and loading them again would take longer than the rest.
    #[inline(always)]
    pub(super) fn cost(&self, mirror: &Mirror, load: Load, context: &ReadContext<'_>) -> ReadCost {
        let member = self.of(mirror);
        let (model, io_ns) = (&member.cost, member.cost.io_ns());
        let is_dedicated =
            model.is_disk && member.affinity.is_dedicated_to_other(context.run, context.now);
        let writes_behind = u64::from(load.writes - context.writes_least);
        let continues = context.run.is_reader() && context.run.was_at(mirror.member);
        let seek_ns =
            if model.is_disk { self.seek_ns(mirror, load, continues, context) } else { 0 };
        let dedicated_accesses = match context.run.is_reader() || context.background {
            true => DEDICATED_ACCESSES,
            false => INTRUSION_ACCESSES * context.stream.weight(),
        };
        let wait_ns = model.wait_ns(load, context.length);
        let delay_ns = match self.has(Component::MarginalCost) {
            true => model.delay_ns(load, context.length, context.has_disk),
            false => 0,
        };
        let saved_ns = if continues { model.saved_ns(context.length) } else { 0 };
        ReadCost {
            wait_ns: wait_ns.saturating_sub(saved_ns) + model.overdue_ns(load.work, context.now),
            delay_ns,
            seek_ns,
            dedicated_ns: u64::from(is_dedicated) * dedicated_accesses * io_ns,
            writes_ns: u64::from(model.is_disk && self.has(Component::Writes))
                * IO_PER_WRITE_BEHIND
                * writes_behind
                * io_ns,
            fairness_ns: self.fairness_ns(mirror, context),
        }
    }

    /// Time of the seek on a disk.
    #[inline]
    fn seek_ns(
        &self,
        mirror: &Mirror,
        load: Load,
        continues: bool,
        context: &ReadContext<'_>,
    ) -> u64 {
        let member = self.of(mirror);
        let io_ns = member.cost.io_ns();
        if !self.has(Component::Locality) {
            return io_ns;
        }
        let seek_ns = member.locality.seek_ns(mirror.offset, load.work, io_ns);
        if continues {
            return seek_ns.min(io_ns / GOES_ON);
        }
        let shift = match self.has(Component::Fairness) && load.work > 0 {
            true => context.stream.shallow_shift,
            false => 0,
        };
        // On a busy disk a long seek mostly delays the others, whose reads are worth less.
        seek_ns.min(io_ns) + (seek_ns.saturating_sub(io_ns) >> shift)
    }

    /// Time by which the read delays those of other workloads, beyond their load.
    #[inline]
    fn fairness_ns(&self, mirror: &Mirror, context: &ReadContext<'_>) -> u64 {
        if !context.stream.has_others() || !self.has(Component::Fairness) {
            return 0;
        }
        let model = &self.of(mirror).cost;
        let excess = self.streams.excess(context.stream, mirror.member);
        let delayed = ((excess * model.work_of(context.length) / IO) >> EXCESS_BITS).min(WORK_MAX);
        delayed * model.io_ns() * if model.is_disk { FAIRNESS_DISK } else { FAIRNESS_FLASH }
    }

    /// Cost of the read at this mirror behind the load that was last recorded.
    #[inline]
    pub(super) fn cost_ns(&self, mirror: &Mirror, context: &ReadContext<'_>) -> u64 {
        self.cost(mirror, self.of(mirror).cost.load, context).total_ns()
    }

    /// The mirror of least cost. Mirrors of equal cost take turns: the first after `turn` is taken.
    #[inline]
    pub(super) fn cheapest(
        &self,
        mirrors: &[Mirror],
        turn: usize,
        context: &ReadContext<'_>,
    ) -> usize {
        let (mut best, mut chosen) = ((u64::MAX, usize::MAX), 0);
        for (place, mirror) in mirrors.iter().enumerate() {
            // Its position in the round, without a division, since this runs for every read.
            let round = turn + place + 1;
            let round = if round >= mirrors.len() { round - mirrors.len() } else { round };
            let key = (self.cost_ns(mirror, context), round);
            if key < best {
                (best, chosen) = (key, place);
            }
        }
        chosen
    }
}
