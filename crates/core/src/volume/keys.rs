//! The keys of requests, pieces, races and member I/O in their slabs. A request and its first
//! piece have one slot.

use crate::io::IoId;
use crate::slab::SlabKey;

crate::slab_key! {
    /// Names a request not yet replied to.
    pub struct RequestKey;
}

crate::slab_key! {
    pub struct PieceKey;
}

crate::slab_key! {
    /// Names a race while it is under way.
    pub(super) struct RaceKey;
}

crate::slab_key! {
    /// Names an operation on a full stripe.
    pub(super) struct StripeKey;
}

crate::slab_key! {
    /// Names a member I/O in flight: the lower half of its [`IoId`].
    pub(super) struct IoKey;
}

impl IoKey {
    #[inline]
    pub(super) fn of(id: IoId) -> IoKey {
        IoKey::from_slot(id.0 as u32)
    }
}
