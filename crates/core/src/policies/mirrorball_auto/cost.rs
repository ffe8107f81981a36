//! What a read costs at each mirror, and the mirror where it costs least.
//!
//! All costs are times. Writes go to every mirror, so a member that is behind with them holds up
//! whoever writes: each write that it has in flight more than the least loaded mirror costs what
//! four I/O cost there, and readers leave it alone until it has caught up.

use super::ingredients::Ingredient;
use super::runs::Run;
use super::{Auto, tenancy};
use crate::member::Members;
use crate::policy::{Mirror, Read, Reason};
use crate::units::Nanos;

const IO_PER_WRITE_BEHIND: u64 = 4;

/// What a decision looks at.
pub(super) struct View<'a> {
    pub(super) run: &'a Run,
    pub(super) members: &'a Members,
    pub(super) now: Nanos,
    writes_least: u32,
}

/// The cost of a read at one mirror and its parts, in ns.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    wait_ns: u64,
    seek_ns: u64,
    tenant_ns: u64,
    writes_ns: u64,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn new(
        run: &'a Run,
        mirrors: &[Mirror],
        members: &'a Members,
        now: Nanos,
    ) -> View<'a> {
        let writes = mirrors.iter().map(|mirror| members[mirror.member].writes_in_flight);
        View { run, members, now, writes_least: writes.min().unwrap_or(0) }
    }
}

impl Cost {
    #[inline]
    pub(super) fn total_ns(self) -> u64 {
        self.wait_ns + self.seek_ns + self.tenant_ns + self.writes_ns
    }
}

impl Auto {
    /// What reading so many bytes at this mirror costs.
    #[inline]
    pub(super) fn cost(&self, mirror: &Mirror, length: u64, view: &View<'_>) -> Cost {
        let (known, member) = (self.known(mirror), &view.members[mirror.member]);
        let (speed, io_ns) = (&known.speed, known.speed.io_ns());
        let load = speed.load(member);
        let seek_ns = match speed.is_disk() {
            true if self.has(Ingredient::Territory) => {
                known.territory.seek_ns(mirror.offset, load, io_ns)
            }
            true => io_ns,
            false => 0,
        };
        let has_tenant = speed.is_disk() && known.tenancy.is_held_from(view.run, view.now);
        let writes_behind = u64::from(member.writes_in_flight - view.writes_least);
        let goes_on = view.run.is_reader() && view.run.member == mirror.member;
        let wait_ns = speed.wait_ns(load, length, self.has(Ingredient::Foresight));
        Cost {
            wait_ns: if goes_on { speed.going_on_ns(wait_ns, length) } else { wait_ns }
                + speed.overdue_ns(member, view.now),
            seek_ns,
            tenant_ns: u64::from(has_tenant) * tenancy::KEEP_OUT * io_ns,
            writes_ns: u64::from(self.has(Ingredient::Writes))
                * IO_PER_WRITE_BEHIND
                * writes_behind
                * io_ns,
        }
    }

    /// The mirror of least cost; equals take turns.
    #[inline]
    pub(super) fn cheapest(&self, read: &Read, mirrors: &[Mirror], view: &View<'_>) -> usize {
        let key = |(place, mirror): (usize, &Mirror)| {
            // Its place in the round; without a division, for this is asked for every read.
            let round = self.turn + place + 1;
            let round = if round >= mirrors.len() { round - mirrors.len() } else { round };
            (self.cost(mirror, read.length, view).total_ns(), round, place)
        };
        mirrors.iter().enumerate().map(key).min().expect("mirrors are never empty").2
    }

    /// Keeps the books of a choice.
    #[inline]
    pub(super) fn note(
        &mut self,
        chosen: usize,
        is_tenant: bool,
        read: &Read,
        mirrors: &[Mirror],
        view: &View<'_>,
    ) {
        for (place, mirror) in mirrors.iter().enumerate() {
            let known = &mut self.members[mirror.member.get()];
            known.speed.see(&view.members[mirror.member], view.now);
            if place != chosen || !is_tenant {
                known.tenancy.leave(view.run);
            }
            if place != chosen {
                continue;
            }
            known.read_at = view.now;
            if is_tenant {
                known.tenancy.settle(view.run, read, view.now);
            } else {
                known.territory.drift(mirror.offset);
                if !read.background {
                    known.tenancy.share(view.run, view.now);
                }
            }
        }
    }

    /// For people: what `choose` goes by.
    pub(super) fn reasons(
        &self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        now: Nanos,
    ) -> Vec<Reason> {
        let run = self.runs.peek(read);
        let view = View::new(&run, mirrors, members, now);
        let alone = self.disk_alone(&run, read, mirrors, now);
        let reason = |(place, mirror): (usize, &Mirror)| {
            if alone == Some(place) {
                return Reason::new("cost_ns", 0).with("disk_to_itself", 1);
            }
            let cost = self.cost(mirror, read.length, &view);
            Reason::new("cost_ns", cost.total_ns())
                .with("wait_ns", cost.wait_ns)
                .with("seek_ns", cost.seek_ns)
                .with("tenant_ns", cost.tenant_ns)
                .with("writes_ns", cost.writes_ns)
        };
        mirrors.iter().enumerate().map(reason).collect()
    }
}
