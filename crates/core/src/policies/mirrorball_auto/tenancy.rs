//! Who has a disk to itself.
//!
//! A sequential reader alone on a disk reads at the rate of the medium; two make it seek between
//! them and get a tenth together. So a reader becomes the tenant of a disk, and everything else
//! keeps out while any other mirror is left to it. Of the last disk that is left nobody becomes the
//! tenant as long as there is more than one reader: all that have no disk share that one. Of
//! several readers the oldest is served first, so that over the pairs of a raid10 it is the same
//! one everywhere. A tenant whose disk is much slower than another that is free moves there. Who
//! reads in the background gets no disk, for nobody waits for it.

use super::Auto;
use super::ingredients::Ingredient;
use super::known::Known;
use super::runs::Run;
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

    /// The oldest other run that lately read from it beside others; of many the last two count.
    #[inline]
    fn oldest_other(&self, run: &Run, now: Nanos) -> Option<u64> {
        let is_other = |&(id, at): &(u64, Nanos)| {
            id != 0 && id != run.id && now.saturating_sub(at) < SHARER_STAYS
        };
        let [one, other] = self.sharers.map(|sharer| is_other(&sharer).then_some(sharer.0));
        one.into_iter().chain(other).min()
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
        let (mut home, mut oldest, mut open) = (None, None, 0);
        for (place, mirror) in mirrors.iter().enumerate() {
            let it = &self.known(mirror).tenancy;
            let is_held = it.is_held(now);
            if is_held && it.tenant == run.id {
                if it.reads < READS_BEFORE_MOVE {
                    return Some(place);
                }
                home = Some(place);
            }
            open += usize::from(!is_held || it.tenant == run.id);
            oldest = oldest.into_iter().chain(it.oldest_other(run, now)).min();
        }
        if home.is_none() && oldest.is_some_and(|other| other < run.id) {
            return None;
        }
        let may_settle = oldest.is_none() || open >= 2;
        let cost = |(place, mirror): (usize, &Mirror)| {
            let Known { speed, tenancy, .. } = self.known(mirror);
            let alone_ns = speed.sequential_ns(read.length);
            let cost_ns = match speed.is_disk {
                true if home == Some(place) => return Some((alone_ns, place)),
                true if !may_settle || tenancy.is_held(now) => return None,
                true => alone_ns + speed.io_ns() / u64::from(run.reads.min(SEEK_SPREAD_READS)),
                false if tenancy.oldest_other(run, now).is_some() => {
                    speed.wait_ns(speed.seen.load, read.length, true)
                }
                false => alone_ns,
            };
            Some((cost_ns + cost_ns / 4, place))
        };
        let place = mirrors.iter().enumerate().filter_map(cost).min()?.1;
        self.known(&mirrors[place]).speed.is_disk.then_some(place)
    }
}
