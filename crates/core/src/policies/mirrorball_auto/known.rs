//! What is known of a member, and what is noted of it when a read is placed.

use super::Auto;
use super::cost::View;
use super::ingredients::Ingredient;
use super::runs::Run;
use super::speed::Speed;
use super::tenancy::Tenancy;
use super::territory::Territory;
use crate::member::{MemberConfig, Members};
use crate::policy::{Mirror, Read};
use crate::units::Nanos;

/// A member.
pub(super) struct Known {
    /// What it costs.
    pub(super) speed: Speed,
    /// Where it reads.
    pub(super) territory: Territory,
    /// Who has it to itself.
    pub(super) tenancy: Tenancy,
    /// When it was last given a read.
    pub(super) read_at: Nanos,
}

impl Known {
    /// Of a member that has done nothing yet.
    pub(super) fn new(config: &MemberConfig) -> Known {
        Known {
            speed: Speed::new(config.rotational),
            territory: Territory::new(config.size_bytes),
            tenancy: Tenancy::default(),
            read_at: Nanos::ZERO,
        }
    }

    /// It is given a read, whose wait is to be set against what it now meets.
    #[inline]
    pub(super) fn give(&mut self, now: Nanos) {
        self.read_at = now;
        self.speed.load_met = self.speed.seen.load;
    }

    /// It serves a read at this offset that no other could, for which nobody was asked. Who must
    /// read in one place has less to give in others.
    pub(super) fn serve(&mut self, offset: u64, now: Nanos) {
        self.read_at = now;
        self.territory.drift(offset);
    }

    /// It is given a read at this offset, by choice.
    #[inline]
    fn take(&mut self, offset: u64, read: &Read, run: &Run, is_tenant: bool, now: Nanos) {
        self.give(now);
        if is_tenant {
            self.tenancy.settle(run, read, now);
            return;
        }
        self.tenancy.leave(run);
        self.territory.drift(offset);
        if !read.background {
            self.tenancy.share(run, now);
        }
    }
}

impl Auto {
    /// Looks once at what each mirror has in flight, for all that goes by it; the writes in flight
    /// where there are fewest.
    #[inline]
    pub(super) fn see(&mut self, mirrors: &[Mirror], members: &Members, now: Nanos) -> u32 {
        let mut least = u32::MAX;
        for &Mirror { member, .. } in mirrors {
            least = least.min(self.members[member.get()].speed.see(&members[member], now).writes);
        }
        least
    }

    /// Keeps the books of a choice. The mirror that is due to be asked as well, if there is one.
    #[inline]
    pub(super) fn note(
        &mut self,
        chosen: usize,
        is_tenant: bool,
        read: &Read,
        mirrors: &[Mirror],
        view: &View<'_>,
    ) -> Option<usize> {
        let (run, now) = (view.run, view.now);
        let probes = !read.background && self.has(Ingredient::Probes);
        let mut due = None;
        for (place, mirror) in mirrors.iter().enumerate() {
            let known = &mut self.members[mirror.member.get()];
            if place == chosen {
                known.take(mirror.offset, read, run, is_tenant, now);
                continue;
            }
            known.tenancy.leave(run);
            if probes && due.is_none() && known.is_due(now) {
                due = Some(place);
            }
        }
        due
    }
}
