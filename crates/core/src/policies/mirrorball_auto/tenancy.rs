//! Who has a disk to itself.
//!
//! A sequential reader alone on a disk reads at the rate of the medium; two make it seek between
//! them and get a tenth together. So a reader becomes the tenant of a disk, and everything else
//! keeps out while any other mirror is left to it. Of the last disk that is left nobody becomes the
//! tenant as long as there is more than one reader: all that have no disk share that one. Of
//! several readers the oldest is served first, so that over the pairs of a raid10 it is the same
//! one everywhere. A tenant whose disk is much slower than another that is free moves there. Who
//! reads in the background gets no disk, for nobody waits for it.

use super::ingredients::Ingredient;
use super::runs::Run;
use super::{Auto, Known};
use crate::policy::{Mirror, Read};
use crate::units::Nanos;

/// What reading from a disk that has a tenant costs others, in accesses: more than any queue.
pub(super) const KEEP_OUT: u64 = 1000;
/// A tenant that has not read for so long is gone.
const TENANT_STAYS: Nanos = Nanos::from_millis(80);
/// Whoever shares a disk may wait long for each read, and is remembered longer.
const SHARER_STAYS: Nanos = Nanos::from_millis(400);
/// A tenant moves only after so many reads, that it may earn what a move costs.
const READS_BEFORE_MOVE: u32 = 32;
/// Over so many reads the seek to where a reader goes on is spread.
const SEEK_SPREAD_READS: u32 = 64;

/// The tenant of a disk, and the last two others that read from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tenancy {
    tenant: u64,
    stream: u64,
    reads: u32,
    read_at: Nanos,
    sharers: [(u64, Nanos); 2],
}

impl Tenancy {
    pub(super) fn is_held(&self, now: Nanos) -> bool {
        self.tenant != 0 && now.saturating_sub(self.read_at) < TENANT_STAYS
    }

    /// Whether another than this run has it to itself.
    #[inline]
    pub(super) fn is_held_from(&self, run: &Run, now: Nanos) -> bool {
        self.tenant != run.id && self.is_held(now)
    }

    /// The other runs that lately read from it beside others; of many the last two.
    fn others(&self, run: &Run, now: Nanos) -> impl Iterator<Item = u64> {
        let id_of_run = run.id;
        let is_other = move |&&(id, at): &&(u64, Nanos)| {
            id != 0 && id != id_of_run && now.saturating_sub(at) < SHARER_STAYS
        };
        self.sharers.iter().filter(is_other).map(|&(id, _)| id)
    }

    /// The run reads here as its tenant.
    pub(super) fn settle(&mut self, run: &Run, read: &Read, now: Nanos) {
        self.reads = if self.tenant == run.id { self.reads.saturating_add(1) } else { 0 };
        (self.tenant, self.stream, self.read_at) = (run.id, read.stream, now);
        self.sharers.iter_mut().filter(|sharer| sharer.0 == run.id).for_each(|it| it.0 = 0);
    }

    /// The run reads here beside others.
    #[inline]
    pub(super) fn share(&mut self, run: &Run, now: Nanos) {
        if self.sharers[0].0 != run.id {
            self.sharers[1] = self.sharers[0];
        }
        self.sharers[0] = (run.id, now);
    }

    /// The run reads elsewhere.
    #[inline]
    pub(super) fn leave(&mut self, run: &Run) {
        if self.tenant == run.id {
            self.tenant = 0;
        }
    }

    /// A read of this stream ended. Whether it is the tenant's.
    #[inline]
    pub(super) fn extend(&mut self, stream: u64, now: Nanos) -> bool {
        let is_tenant = self.tenant != 0 && self.stream == stream;
        if is_tenant {
            self.read_at = now;
        }
        is_tenant
    }
}

impl Auto {
    /// The disk that a sequential reader has to itself, or shall have from now on; `None` if it has
    /// to share, or is better off on flash.
    pub(super) fn disk_alone(
        &self,
        run: &Run,
        read: &Read,
        mirrors: &[Mirror],
        now: Nanos,
    ) -> Option<usize> {
        if read.background || !run.is_reader() || !self.has(Ingredient::Tenancy) {
            return None;
        }
        let known = |mirror: &Mirror| self.known(mirror);
        let is_mine = |it: &Known| it.tenancy.tenant == run.id && it.tenancy.is_held(now);
        let is_open = |it: &&Known| !it.speed.is_disk() || !it.tenancy.is_held_from(run, now);
        let open = mirrors.iter().map(known).filter(is_open).count();
        let oldest = mirrors.iter().flat_map(|it| known(it).tenancy.others(run, now)).min();
        let home = mirrors.iter().position(|mirror| is_mine(known(mirror)));
        if home.is_none() && oldest.is_some_and(|other| other < run.id) {
            return None;
        }
        let cost = |(place, mirror): (usize, &Mirror)| {
            let it = known(mirror);
            let alone_ns = it.speed.sequential_ns(read.length);
            let cost_ns = match it.speed.is_disk() {
                true if is_mine(it) => return Some((alone_ns, place)),
                true if it.tenancy.is_held(now) || (oldest.is_some() && open < 2) => return None,
                true => alone_ns + it.speed.io_ns() / u64::from(run.reads.min(SEEK_SPREAD_READS)),
                false if it.tenancy.others(run, now).next().is_some() => {
                    it.speed.wait_now_ns(read.length)
                }
                false => alone_ns,
            };
            Some((cost_ns + cost_ns / 4, place))
        };
        let best = mirrors.iter().enumerate().filter_map(cost).min()?.1;
        let stays = |&home: &usize| known(&mirrors[home]).tenancy.reads < READS_BEFORE_MOVE;
        let place = home.filter(stays).unwrap_or(best);
        known(&mirrors[place]).speed.is_disk().then_some(place)
    }
}
