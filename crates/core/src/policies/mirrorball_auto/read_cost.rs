//! Cost of a read at each mirror, and the mirror of least cost.
//!
//! All costs are times. Writes go to every mirror, so a disk that is behind with its writes delays
//! the writer. Each write that it has in flight more than the least loaded mirror costs as much as
//! four I/O, so reads avoid the disk until it has caught up. Flash serves reads and writes in
//! parallel and is not avoided.

use super::components::Component;
use super::load::{IO, MemberLoad, WORK_MAX};
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

    /// Wait of the read itself.
    #[inline]
    pub(super) fn own_ns(self) -> u64 {
        self.wait_ns + self.seek_ns + self.dedicated_ns + self.writes_ns
    }

    /// Wait that it adds to other I/O.
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
    pub(super) fn cost(
        &self,
        mirror: &Mirror,
        load: MemberLoad,
        context: &ReadContext<'_>,
    ) -> ReadCost {
        match self.of(mirror).cost.is_disk {
            true => self.disk_cost(mirror, load, context),
            false => self.flash_cost(mirror, load, context),
        }
    }

    #[inline(always)]
    fn disk_cost(&self, mirror: &Mirror, load: MemberLoad, context: &ReadContext<'_>) -> ReadCost {
        let member = self.of(mirror);
        let io_ns = member.cost.disk_io_ns();
        let dedicated_ns = match member.affinity.is_dedicated_to_other(context.run, context.now) {
            true if context.run.is_reader() || context.background => DEDICATED_ACCESSES * io_ns,
            true => INTRUSION_ACCESSES * context.stream.weight() * io_ns,
            false => 0,
        };
        let writes_ns = match load.writes - context.writes_least {
            behind if behind > 0 && self.has(Component::Writes) => {
                IO_PER_WRITE_BEHIND * u64::from(behind) * io_ns
            }
            _ => 0,
        };
        ReadCost {
            wait_ns: member.cost.disk_wait_ns(load, context.length),
            delay_ns: 0,
            seek_ns: self.seek_ns(mirror, load, context),
            dedicated_ns,
            writes_ns,
            fairness_ns: FAIRNESS_DISK * self.delayed(mirror, context) * io_ns,
        }
    }

    #[inline(always)]
    fn flash_cost(&self, mirror: &Mirror, load: MemberLoad, context: &ReadContext<'_>) -> ReadCost {
        let model = &self.of(mirror).cost;
        let delay_ns = match self.has(Component::MarginalCost) {
            true => model.delay_ns(load, context.length, context.has_disk),
            false => 0,
        };
        let saved_ns = if continues(mirror, context) { model.saved_ns(context.length) } else { 0 };
        let wait_ns = model.flash_wait_ns(load, context.length).saturating_sub(saved_ns)
            + model.overdue_ns(load.work, context.now);
        let fairness_ns = FAIRNESS_FLASH * self.delayed(mirror, context) * model.flash_io_ns();
        ReadCost { wait_ns, delay_ns, seek_ns: 0, dedicated_ns: 0, writes_ns: 0, fairness_ns }
    }

    #[inline(always)]
    fn seek_ns(&self, mirror: &Mirror, load: MemberLoad, context: &ReadContext<'_>) -> u64 {
        let member = self.of(mirror);
        let io_ns = member.cost.disk_io_ns();
        if !self.has(Component::Locality) {
            return io_ns;
        }
        let seek_ns = member.locality.seek_ns(mirror.offset, load.work, io_ns);
        if continues(mirror, context) {
            return seek_ns.min(io_ns / GOES_ON);
        }
        if load.work == 0 {
            return seek_ns;
        }
        // On a busy disk a long seek mostly delays the others, whose reads are worth less.
        io_ns + ((seek_ns - io_ns) >> context.stream.shallow_shift)
    }

    /// Number of I/O of other workloads that the read delays, beyond their load.
    #[inline(always)]
    fn delayed(&self, mirror: &Mirror, context: &ReadContext<'_>) -> u64 {
        if !context.stream.counts_others() {
            return 0;
        }
        let excess = self.streams.excess(context.stream, mirror.member);
        let work = self.of(mirror).cost.work_of(context.length);
        ((excess * work / IO) >> EXCESS_BITS).min(WORK_MAX)
    }

    /// Cost of the read at this mirror behind the load that was last recorded.
    pub(super) fn cost_ns(&self, mirror: &Mirror, context: &ReadContext<'_>) -> u64 {
        self.cost(mirror, self.of(mirror).cost.load, context).total_ns()
    }

    /// The mirror of least cost. Mirrors of equal cost take turns. Arrays of one kind of member
    /// have a loop of their own, since together the two costs take far more registers than there
    /// are.
    #[inline]
    pub(super) fn cheapest(
        &self,
        mirrors: &[Mirror],
        turn: usize,
        context: &ReadContext<'_>,
    ) -> usize {
        if !context.has_disk {
            return least(mirrors, turn, |mirror| {
                self.flash_cost(mirror, self.of(mirror).cost.load, context).total_ns()
            });
        }
        match self.has_flash {
            true => least(mirrors, turn, |mirror| self.cost_ns(mirror, context)),
            false => least(mirrors, turn, |mirror| {
                self.disk_cost(mirror, self.of(mirror).cost.load, context).total_ns()
            }),
        }
    }
}

/// True if the read goes on where a sequential reader read last.
#[inline(always)]
fn continues(mirror: &Mirror, context: &ReadContext<'_>) -> bool {
    context.run.is_reader() && context.run.was_at(mirror.member)
}

/// The place of the mirror of least cost; of equal ones the first that follows the last `turn`
/// places, and then the first of all.
#[inline(always)]
fn least(mirrors: &[Mirror], turn: usize, cost_ns: impl Fn(&Mirror) -> u64) -> usize {
    let first = (mirrors.len() - 1).saturating_sub(turn);
    let (mut least_ns, mut chosen) = (u64::MAX, 0);
    for (place, mirror) in mirrors.iter().enumerate() {
        let cost_ns = cost_ns(mirror);
        let is_next = cost_ns == least_ns && chosen < first && first <= place;
        if cost_ns < least_ns || is_next {
            (least_ns, chosen) = (cost_ns, place);
        }
    }
    chosen
}
