//! Model of each member: what it costs, where it reads, to which stream it is dedicated.

use super::components::{Component, Components};
use super::cost_model::CostModel;
use super::fairness::{DecidingStream, StreamTable};
use super::locality::Locality;
use super::runs::SequentialRun;
use super::stream_affinity::{DiskClaim, StreamAffinity};
use crate::io::{MemberIo, Op, Outcome, Purpose};
use crate::member::{MemberConfig, MemberIndex, MemberState, Members};
use crate::policy::{Mirror, MirrorSet, Read};
use crate::units::Nanos;

/// A member is probed once in this many times what a read takes there. So probes cost less than a
/// hundredth of the members' time.
const PROBE_INTERVAL_READS: u64 = 64;

pub(super) struct MemberModel {
    pub(super) cost: CostModel,
    pub(super) locality: Locality,
    pub(super) affinity: StreamAffinity,
    /// Time at which the member was last given a read.
    pub(super) read_at: Nanos,
}

/// Models of all members, and the components that use them.
pub(super) struct MemberModels {
    pub(super) components: Components,
    pub(super) streams: StreamTable,
    /// True if a member is a disk. If not, what only disks need is not recorded.
    pub(super) has_disks: bool,
    pub(super) has_flash: bool,
    list: Vec<MemberModel>,
}

/// Inputs of a decision.
#[derive(Clone, Copy)]
pub(super) struct ReadContext<'a> {
    pub(super) run: &'a SequentialRun,
    pub(super) length: u64,
    pub(super) now: Nanos,
    /// Number of writes in flight on the mirror that has the fewest.
    pub(super) writes_least: u32,
    /// True if one of the mirrors is a disk.
    pub(super) has_disk: bool,
    pub(super) stream: DecidingStream,
    /// True if no client waits for the read.
    pub(super) background: bool,
}

/// Figures of all mirrors of a read that a decision needs.
#[derive(Clone, Copy)]
pub(super) struct Observed {
    /// Number of writes in flight on the mirror that has the fewest.
    pub(super) writes_least: u32,
    /// True if one of the mirrors is a disk.
    pub(super) has_disk: bool,
    /// The mirrors that are to be probed if the read goes elsewhere, one bit each.
    pub(super) probes: u64,
}

impl Default for Observed {
    fn default() -> Observed {
        Observed { writes_least: u32::MAX, has_disk: false, probes: 0 }
    }
}

impl<'a> ReadContext<'a> {
    /// A context without its stream.
    #[inline]
    pub(super) fn new(
        run: &'a SequentialRun,
        read: &Read,
        seen: &Observed,
        now: Nanos,
    ) -> ReadContext<'a> {
        ReadContext {
            run,
            length: read.length,
            now,
            writes_least: seen.writes_least,
            has_disk: seen.has_disk,
            stream: DecidingStream::default(),
            background: read.background,
        }
    }
}

impl MemberModel {
    /// Model of a member that has served nothing yet.
    fn new(config: &MemberConfig) -> MemberModel {
        MemberModel {
            cost: CostModel::new(config.rotational),
            locality: Locality::new(config.size_bytes),
            affinity: StreamAffinity::default(),
            read_at: Nanos::ZERO,
        }
    }

    #[inline]
    fn begin_read(&mut self, now: Nanos) {
        self.read_at = now;
        self.cost.begin_read();
    }

    /// Records where the member reads, and for which run.
    #[inline]
    fn record_place(
        &mut self,
        offset: u64,
        read: &Read,
        run: &SequentialRun,
        claim: DiskClaim,
        is_owner: bool,
        now: Nanos,
    ) {
        if is_owner {
            self.affinity.read_as_owner(run, claim, read, offset, now);
            return;
        }
        self.affinity.release(run);
        self.locality.add(offset);
        if !read.background {
            self.affinity.read_as_sharer(run, claim, now);
        }
    }

    /// True if the member should get a copy of a read of this run that another one serves: it is
    /// idle, not dedicated to another run, and was not read for long.
    #[inline]
    fn is_probe_due(&self, run: &SequentialRun, now: Nanos) -> bool {
        self.is_unread_for_long(now) && !self.affinity.is_dedicated_to_other(run, now)
    }

    /// True if the member is idle, and was not read for long.
    #[inline]
    pub(super) fn is_unread_for_long(&self, now: Nanos) -> bool {
        self.cost.load.work == 0
            && now.saturating_sub(self.read_at).0 > PROBE_INTERVAL_READS * self.cost.alone_ns()
    }
}

impl MemberModels {
    pub(super) fn new(components: Components) -> MemberModels {
        let streams = StreamTable::new(components.has(Component::Workloads));
        MemberModels { components, streams, has_disks: false, has_flash: false, list: Vec::new() }
    }

    #[inline]
    pub(super) fn has(&self, component: Component) -> bool {
        self.components.has(component)
    }

    #[inline]
    pub(super) fn of(&self, mirror: &Mirror) -> &MemberModel {
        &self.list[mirror.member.get()]
    }

    #[inline]
    fn get_mut(&mut self, member: MemberIndex) -> &mut MemberModel {
        &mut self.list[member.get()]
    }

    #[inline(always)]
    pub(super) fn deciding(&self, read: &Read) -> DecidingStream {
        let stream = self.streams.deciding(read);
        if self.has(Component::Fairness) { stream } else { stream.without_fairness() }
    }

    /// The claim of a run to a disk.
    #[inline]
    pub(super) fn claim(&self, run: &SequentialRun, read: &Read) -> DiskClaim {
        DiskClaim::new(run, self.streams.deciding(read).depth())
    }

    /// Records the load of each mirror. Returns what the decision on a read of the run needs to
    /// know of all of them.
    #[inline]
    pub(super) fn observe(
        &mut self,
        mirrors: &[Mirror],
        members: &Members,
        run: &SequentialRun,
        now: Nanos,
    ) -> Observed {
        let mut seen = Observed::default();
        for (place, &Mirror { member, .. }) in mirrors.iter().enumerate() {
            let model = self.get_mut(member);
            let writes = model.cost.update_load(&members[member], now).writes;
            seen.writes_least = seen.writes_least.min(writes);
            seen.has_disk |= model.cost.is_disk;
            if model.is_probe_due(run, now) {
                seen.probes |= 1 << place;
            }
        }
        seen
    }

    pub(super) fn update_load(&mut self, member: MemberIndex, members: &Members, now: Nanos) {
        self.get_mut(member).cost.update_load(&members[member], now);
    }

    /// Records a choice; returns the mirror to probe with a copy of the read, if one is due.
    #[inline]
    pub(super) fn record_choice(
        &mut self,
        chosen: usize,
        is_owner: bool,
        read: &Read,
        mirrors: &[Mirror],
        context: &ReadContext<'_>,
        seen: &Observed,
    ) -> Option<usize> {
        let (run, now) = (context.run, context.now);
        let others = !(1 << chosen);
        // Only a sequential reader owns a disk.
        if self.has_disks && run.is_reader() {
            let others = mirrors.iter().enumerate().filter(|&(place, _)| place != chosen);
            others.for_each(|(_, it)| self.get_mut(it.member).affinity.release(run));
        }
        let has_disks = self.has_disks;
        let claim = if has_disks { self.claim(run, read) } else { DiskClaim::NONE };
        let model = self.get_mut(mirrors[chosen].member);
        model.begin_read(now);
        if has_disks {
            model.record_place(mirrors[chosen].offset, read, run, claim, is_owner, now);
        }
        let due = seen.probes & others;
        let may_probe = due != 0 && !read.background && self.has(Component::Probes);
        may_probe.then(|| due.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn record_set(&mut self, set: MirrorSet, mirrors: &[Mirror], now: Nanos) {
        set.iter().for_each(|place| self.get_mut(mirrors[place].member).begin_read(now));
    }

    /// Records that a column of a full stripe is read.
    pub(super) fn record_read(&mut self, column: &Mirror, now: Nanos) {
        self.get_mut(column.member).begin_read(now);
    }

    /// Records a probe: the member's next read replaces its estimates.
    #[inline]
    pub(super) fn record_probe(&mut self, mirror: &Mirror, now: Nanos) {
        let model = self.get_mut(mirror.member);
        model.begin_read(now);
        model.cost.expire();
    }

    /// Records an I/O that is submitted. A read for which the policy was not asked, because only
    /// this member could serve it, moves the member's locality.
    #[inline]
    pub(super) fn on_submit(&mut self, io: &MemberIo, now: Nanos) {
        self.streams.submit(io);
        let model = self.get_mut(io.member);
        if io.op == Op::Write && !io.background {
            model.affinity.write(now);
        }
        let was_chosen = model.read_at == now;
        if io.op == Op::Read && io.purpose == Purpose::User && !was_chosen {
            model.read_at = now;
            model.locality.add(io.offset);
        }
    }

    /// Updates the estimates from an I/O that succeeded.
    #[inline]
    pub(super) fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome) {
        let model = self.get_mut(io.member);
        let is_owner = model.affinity.complete(io.stream, outcome.completed_at);
        model.cost.complete(io, outcome, is_owner);
    }

    /// Adds models for new members, and resets those of failed ones.
    pub(super) fn on_members_change(&mut self, members: &Members) {
        self.streams.set_members(members.iter().count());
        for (index, member) in members.iter() {
            let model = MemberModel::new(&member.config);
            match self.list.get_mut(index.get()) {
                None => self.list.push(model),
                Some(old) if member.state == MemberState::Failed => *old = model,
                Some(_) => {}
            }
        }
        self.has_disks = self.list.iter().any(|model| model.cost.is_disk);
        self.has_flash = self.list.iter().any(|model| !model.cost.is_disk);
    }
}
