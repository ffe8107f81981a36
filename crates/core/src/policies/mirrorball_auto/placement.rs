//! Rules that place a read without comparing costs: a disk dedicated to the read's run, and the
//! disk that serves another strip of the same request.
//!
//! A sequential reader gets a disk if another mirror is left for the rest. The last disk that is
//! left is dedicated to no run while there is more than one reader: all runs without a disk share
//! it. Of several readers the one with the fewest I/O in flight is served first, for it loses most
//! where it shares; of equal ones the oldest, so that over the pairs of a raid10 the same one is
//! served everywhere. An owner whose disk is much slower than another free one moves there. Where
//! its disk has the next piece far from the last one, as every other chunk in md's far layout, it
//! takes the disk of the copy with the lowest offset, and so reads all disks in sequence.
//! Background readers get no disk, because no client waits for them. Nor does any reader while the
//! disks are written.

use super::components::Component;
use super::member_model::{MemberModel, MemberModels};
use super::runs::SequentialRun;
use super::stream_affinity::DiskClaim;
use crate::policy::{Mirror, Read};
use crate::units::Nanos;

/// An owner moves only after this many reads, so that it gains more than the move costs.
const READS_BEFORE_MOVE: u32 = 32;
/// The seek to where a reader goes on is spread over up to this many reads.
const SEEK_SPREAD_READS: u32 = 64;

impl MemberModels {
    /// The disk that is, or from now on shall be, dedicated to a sequential reader. `None` if the
    /// run has to share a disk, or is better off on flash.
    #[inline]
    pub(super) fn dedicated_disk(
        &self,
        run: &SequentialRun,
        read: &Read,
        mirrors: &[Mirror],
        now: Nanos,
    ) -> Option<usize> {
        let may_own = run.is_reader() && self.has_disks && !read.background;
        if !may_own || !self.has(Component::Affinity) {
            return None;
        }
        self.disk_of_reader(run, read, mirrors, now)
    }

    /// The same for a sequential reader.
    fn disk_of_reader(
        &self,
        run: &SequentialRun,
        read: &Read,
        mirrors: &[Mirror],
        now: Nanos,
    ) -> Option<usize> {
        let claim = self.claim(run, read);
        let (mut own, mut first, mut free) = (None, DiskClaim::NONE, 0);
        for (place, mirror) in mirrors.iter().enumerate() {
            let affinity = &self.of(mirror).affinity;
            if affinity.was_written(now) {
                return None;
            }
            let is_dedicated = affinity.is_dedicated(now);
            if is_dedicated && affinity.is_owner(run) {
                if !affinity.goes_on_at(mirror.offset) {
                    return self.disk_of_first_copy(mirrors);
                }
                if affinity.owner_reads() < READS_BEFORE_MOVE {
                    return Some(place);
                }
                own = Some(place);
            }
            free += usize::from(affinity.is_free_for(claim, now));
            first = first.min(affinity.first_sharer(run, now));
        }
        let may_own = first == DiskClaim::NONE || free >= 2;
        if own.is_none() && (first < claim || !may_own) {
            return None;
        }
        let cost = |(place, mirror): (usize, &Mirror)| {
            let MemberModel { cost: model, affinity, .. } = self.of(mirror);
            let alone_ns = model.sequential_ns(read.length);
            let cost_ns = match model.is_disk {
                true if own == Some(place) => return Some((alone_ns, place)),
                true if !may_own || !affinity.is_free_for(claim, now) => return None,
                true => alone_ns + model.io_ns() / u64::from(run.reads.min(SEEK_SPREAD_READS)),
                false if affinity.first_sharer(run, now) != DiskClaim::NONE => {
                    model.wait_ns(model.load, read.length)
                        + model.delay_ns(model.load, read.length, true)
                }
                false => alone_ns,
            };
            Some((cost_ns + cost_ns / 4, place))
        };
        let place = mirrors.iter().enumerate().filter_map(cost).min()?.1;
        self.of(&mirrors[place]).cost.is_disk.then_some(place)
    }

    /// The disk with the copy at the lowest offset.
    fn disk_of_first_copy(&self, mirrors: &[Mirror]) -> Option<usize> {
        let place = (0..mirrors.len()).min_by_key(|&place| mirrors[place].offset)?;
        self.of(&mirrors[place]).cost.is_disk.then_some(place)
    }

    /// The disk that was just given the strip of the same request that lies before this one on the
    /// disk. Reading both from one disk saves a seek on the other.
    #[inline]
    pub(super) fn disk_of_strip(
        &self,
        mirrors: &[Mirror],
        run: &SequentialRun,
        now: Nanos,
    ) -> Option<usize> {
        if !run.is_strip {
            return None;
        }
        mirrors.iter().position(|mirror| {
            let model = self.of(mirror);
            model.cost.is_disk && model.read_at == now && run.was_at(mirror.member)
        })
    }
}
