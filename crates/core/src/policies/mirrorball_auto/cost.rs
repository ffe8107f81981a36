//! What a read costs at each mirror, and the mirror where it costs least.
//!
//! All costs are times. Writes go to every mirror, so a disk that is behind with them holds up
//! whoever writes: each write that it has in flight more than the least loaded mirror costs what
//! four I/O cost there, and readers leave it alone until it has caught up. Flash takes writes
//! beside reads, and is not spared.

use super::ingredients::Ingredient;
use super::runs::Run;
use super::work::Busy;
use super::{Auto, tenancy};
use crate::member::Members;
use crate::policy::{Mirror, MirrorScore, Read};
use crate::units::Nanos;

const IO_PER_WRITE_BEHIND: u64 = 4;

/// What a decision looks at.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) run: &'a Run,
    /// How many bytes are to be read.
    pub(super) length: u64,
    pub(super) now: Nanos,
    /// The writes in flight where there are fewest.
    pub(super) writes_least: u32,
}

/// The cost of a read at one mirror and its parts, in ns.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    wait_ns: u64,
    seek_ns: u64,
    tenant_ns: u64,
    writes_ns: u64,
}

impl Cost {
    #[inline]
    pub(super) fn total_ns(self) -> u64 {
        self.wait_ns + self.seek_ns + self.tenant_ns + self.writes_ns
    }
}

impl Auto {
    /// What reading at this mirror costs beside what it has in flight. Always inlined: where only
    /// the sum is wanted, to write the parts and read them again takes longer than all else here.
    #[inline(always)]
    pub(super) fn cost(&self, mirror: &Mirror, busy: Busy, view: &View<'_>) -> Cost {
        let known = self.known(mirror);
        let (speed, io_ns) = (&known.speed, known.speed.io_ns());
        let seek_ns = match speed.is_disk {
            true if self.has(Ingredient::Territory) => {
                known.territory.seek_ns(mirror.offset, busy.load, io_ns)
            }
            true => io_ns,
            false => 0,
        };
        let has_tenant = speed.is_disk && known.tenancy.is_held_from(view.run, view.now);
        let writes_behind = u64::from(busy.writes - view.writes_least);
        let goes_on = view.run.is_reader() && view.run.was_at(mirror.member);
        let wait_ns = speed.wait_ns(busy.load, view.length, self.has(Ingredient::Foresight));
        Cost {
            wait_ns: wait_ns.saturating_sub(if goes_on { speed.saved_ns(view.length) } else { 0 })
                + speed.overdue_ns(busy.load, view.now),
            seek_ns,
            tenant_ns: u64::from(has_tenant) * tenancy::KEEP_OUT * io_ns,
            writes_ns: u64::from(speed.is_disk && self.has(Ingredient::Writes))
                * IO_PER_WRITE_BEHIND
                * writes_behind
                * io_ns,
        }
    }

    /// The same beside what was last seen.
    #[inline]
    pub(super) fn cost_ns(&self, mirror: &Mirror, view: &View<'_>) -> u64 {
        self.cost(mirror, self.known(mirror).speed.seen, view).total_ns()
    }

    /// The mirror of least cost, equals taking turns; for the rest of a request, where the first
    /// part went.
    #[inline]
    pub(super) fn cheapest(&self, mirrors: &[Mirror], view: &View<'_>) -> usize {
        if let Some(place) = self.with_first_part(mirrors, view) {
            return place;
        }
        let (mut best, mut chosen) = ((u64::MAX, usize::MAX), 0);
        for (place, mirror) in mirrors.iter().enumerate() {
            // Its place in the round; without a division, for this is asked for every read.
            let round = self.turn + place + 1;
            let round = if round >= mirrors.len() { round - mirrors.len() } else { round };
            let key = (self.cost_ns(mirror, view), round);
            if key < best {
                (best, chosen) = (key, place);
            }
        }
        chosen
    }

    /// For people: what `choose` goes by.
    pub(super) fn reasons(
        &self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        now: Nanos,
    ) -> Vec<MirrorScore> {
        let run = self.runs.peek(read, mirrors, now);
        let busy = |mirror: &Mirror| self.known(mirror).speed.busy(&members[mirror.member]);
        let writes_least = mirrors.iter().map(|mirror| busy(mirror).writes).min().unwrap_or(0);
        let view = View { run: &run, length: read.length, now, writes_least };
        let alone = self.disk_alone(&run, read, mirrors, now);
        let part = self.with_first_part(mirrors, &view);
        let reason = |(place, mirror): (usize, &Mirror)| {
            if alone == Some(place) {
                return MirrorScore::new("cost_ns", 0).with("disk_to_itself", 1);
            }
            if alone.is_none() && part == Some(place) {
                return MirrorScore::new("cost_ns", 0).with("part_of_request", 1);
            }
            let cost = self.cost(mirror, busy(mirror), &view);
            MirrorScore::new("cost_ns", cost.total_ns())
                .with("wait_ns", cost.wait_ns)
                .with("seek_ns", cost.seek_ns)
                .with("tenant_ns", cost.tenant_ns)
                .with("writes_ns", cost.writes_ns)
        };
        mirrors.iter().enumerate().map(reason).collect()
    }
}
