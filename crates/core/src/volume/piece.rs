//! A piece: the part of a request that is served by one plan, and how far it has come; and the keys
//! of requests, pieces, races and member I/O in their slabs. A request and its first piece have one
//! slot.

use super::plan::PiecePlan;
use super::plan::TargetSet;
use crate::io::{IoId, Purpose, RequestKind, VolumeError};
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

/// Marks that a gate sets on a piece until the piece ends. The volume does not read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateMarks {
    /// True if the gate counts the piece among those that change data.
    pub is_counted: bool,
    /// True if the gate keeps something in memory for the piece.
    pub is_pinned: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) request: RequestKey,
    pub(super) kind: RequestKind,
    /// The member I/O that it takes.
    pub(super) plan: PiecePlan,
    /// Number of member I/Os of this piece that are queued or in flight.
    pub(super) pending: u8,
    /// Targets whose I/O succeeded.
    pub(super) good: TargetSet,
    /// Targets whose I/O failed for any reason; they are not read again for this piece.
    pub(super) failed: TargetSet,
    /// Targets whose medium failed, then those that are rewritten. A smaller piece may be readable.
    /// A target behind a transport that failed keeps its data.
    pub(super) spoiled: TargetSet,
    /// Those of them whose data did not match their checksums.
    pub(super) mismatched: TargetSet,
    /// Targets whose data did not match while a write may have been under way: they are read again
    /// under the lock.
    pub(super) doubted: TargetSet,
    /// True if a race answered the piece, whatever comes of reading it again.
    pub(super) has_answer: bool,
    /// True if the piece was read and now rewrites other targets.
    pub(super) is_rewriting: bool,
    /// True if what it rewrote is read back.
    pub(super) is_reading_back: bool,
    /// True if the piece holds the lock of its range.
    pub(super) has_lock: bool,
    /// True if it is to be rewritten once no other piece of its request is read.
    pub(super) is_parked: bool,
    pub(super) marks: GateMarks,
    pub(super) race: Option<RaceKey>,
}

impl IoKey {
    #[inline]
    pub(super) fn of(id: IoId) -> IoKey {
        IoKey::from_slot(id.0 as u32)
    }
}

impl Piece {
    #[inline]
    pub(super) fn new(request: RequestKey, kind: RequestKind, plan: PiecePlan) -> Piece {
        Piece {
            request,
            kind,
            plan,
            pending: 0,
            good: TargetSet::default(),
            failed: TargetSet::default(),
            spoiled: TargetSet::default(),
            mismatched: TargetSet::default(),
            doubted: TargetSet::default(),
            has_answer: false,
            is_rewriting: false,
            is_reading_back: false,
            has_lock: false,
            is_parked: false,
            marks: GateMarks::default(),
            race: None,
        }
    }

    /// Forgets which targets could not be read.
    pub(super) fn forget_reads(&mut self) {
        (self.failed, self.spoiled) = (TargetSet::default(), TargetSet::default());
        (self.mismatched, self.doubted) = (TargetSet::default(), TargetSet::default());
    }

    /// The purpose of its reads that a policy chooses.
    #[inline]
    pub(super) fn read_purpose(&self) -> Purpose {
        match self.kind {
            RequestKind::Rebuild(_) | RequestKind::Resync => Purpose::Rebuild,
            _ => Purpose::User,
        }
    }

    /// The targets that it has written with success.
    pub(super) fn written(&self) -> TargetSet {
        match self.kind {
            RequestKind::Write => self.good,
            _ if self.is_rewriting => self.spoiled.and(self.good).without(self.failed),
            _ => TargetSet::default(),
        }
    }

    /// Returns true if a repair was written and is not read back yet.
    #[inline]
    pub(super) fn has_repaired(&self) -> bool {
        let is_repair =
            matches!(self.kind, RequestKind::Read | RequestKind::Scrub | RequestKind::Repair(_));
        self.is_rewriting && !self.is_reading_back && is_repair
    }

    /// Returns true if a mirror did not take what it was to get, which the piece is about. The
    /// source of a rebuild may stay as bad as it was.
    pub(super) fn has_missed_a_copy(&self) -> bool {
        match self.plan.rebuilt {
            Some(rebuilt) => self.failed.contains(rebuilt),
            None => !self.failed.is_empty(),
        }
    }

    /// Returns true if the piece needs the lock of its range. A read takes it only once it failed:
    /// its retry may end in a repair.
    #[inline]
    pub(super) fn needs_lock(&self) -> bool {
        match self.kind {
            RequestKind::Flush => false,
            RequestKind::Read => !self.failed.is_empty() || !self.doubted.is_empty(),
            _ => true,
        }
    }

    /// The result of the piece once none of its I/O is pending.
    pub(super) fn result(&self) -> Result<(), VolumeError> {
        match self.kind {
            _ if !self.good.is_empty() || self.has_answer => Ok(()),
            _ if self.is_rewriting => Err(VolumeError::Unwritable),
            RequestKind::Read
            | RequestKind::Scrub
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => Err(VolumeError::Unreadable),
            // A discard is advice: a member that does not take it loses no data.
            RequestKind::Discard => Ok(()),
            RequestKind::Write | RequestKind::Flush => Err(VolumeError::Unwritable),
        }
    }
}
