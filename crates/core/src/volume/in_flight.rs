//! Member I/O handed out and not completed.

use super::keys::{IoKey, PieceKey};
use super::stripe::StripeOwner;
use super::target::PlanTarget;
use crate::io::{IoId, MemberIo, Op};
use crate::slab::{Slab, SlabKey};

/// The part of the volume that a member I/O belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A target of a piece, which may have ended if the I/O is superseded.
    Piece(PieceKey, PlanTarget),
    /// The stripes of a volume with parity.
    Stripe(StripeOwner),
    /// The gate, which named it so.
    Gate(u32),
}

/// A member I/O handed out and not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightIo {
    pub(super) io: MemberIo,
    pub(super) owner: Owner,
    /// True if its race is over; its piece may have ended.
    pub(super) superseded: bool,
    /// The policy that was notified of its submission.
    pub(super) policy_number: u32,
}

/// All member I/O in flight, by its [`IoId`].
#[derive(Debug, Default)]
pub(super) struct LiveIos {
    ios: Slab<IoKey, InFlightIo>,
    issued: u32,
}

impl LiveIos {
    /// Gives an I/O its number and keeps it.
    #[inline]
    pub(super) fn insert(&mut self, mut in_flight: InFlightIo) -> &MemberIo {
        debug_assert!(in_flight.io.length > 0 || in_flight.io.op == Op::Flush, "{in_flight:?}");
        self.issued = self.issued.wrapping_add(1);
        // The count in the upper half distinguishes a second completion of an I/O from the first
        // completion of a later I/O in the same slot.
        let count = u64::from(self.issued) << 32;
        let kept = self.ios.insert_with(|slot| {
            in_flight.io.id = IoId(count | u64::from(slot.slot()));
            in_flight
        });
        &kept.io
    }

    /// Removes an I/O that ended.
    #[inline]
    pub(super) fn remove(&mut self, id: IoId) {
        self.ios.discard(IoKey::of(id));
    }

    /// The I/O with this number, if it is still in flight.
    #[inline]
    pub(super) fn find(&self, id: IoId) -> Option<&InFlightIo> {
        self.ios.find(IoKey::of(id)).filter(|found| found.io.id == id)
    }

    pub(super) fn get(&self, key: IoKey) -> &InFlightIo {
        self.ios.get(key)
    }

    pub(super) fn get_mut(&mut self, key: IoKey) -> &mut InFlightIo {
        self.ios.get_mut(key)
    }
}
