//! A piece: the part of a request that lies on one set of mirrors, and how far it has come.

use super::race::RaceKey;
use crate::geometry::{MAX_COPIES, MappedRange};
use crate::io::{Purpose, RequestKind, VolumeError};
use crate::policy::Mirror;
use crate::units::SECTOR_BYTES;

crate::slab_key! {
    /// Names a request not yet replied to.
    pub(super) struct RequestKey;
}

crate::slab_key! {
    /// Names a piece of a request.
    pub(super) struct PieceKey;
}

/// A set of copies of one piece, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CopySet(u8);

impl CopySet {
    pub(super) fn insert(&mut self, copy: usize) {
        self.0 |= 1 << copy;
    }

    pub(super) fn contains(self, copy: usize) -> bool {
        self.0 & 1 << copy != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_COPIES).filter(move |&copy| self.contains(copy))
    }
}

/// One piece of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Key of the request.
    pub(super) request: RequestKey,
    /// What the request asks.
    pub(super) kind: RequestKind,
    /// First byte on the volume.
    pub(super) offset: u64,
    /// Number of bytes.
    pub(super) length: u64,
    /// Where its copies lie, in the order of the chunk's stripes.
    mirrors: [Mirror; MAX_COPIES],
    /// How many copies it has.
    copies: u8,
    /// Member I/O of this piece queued or in flight.
    pub(super) pending: u8,
    /// Copies that answered well.
    pub(super) good: CopySet,
    /// Copies that failed, for whatever reason: it is not read from them again.
    pub(super) failed: CopySet,
    /// Those whose medium failed: they are rewritten, and a smaller piece may fare better. A copy
    /// behind a transport that failed is as good as it was.
    pub(super) spoiled: CopySet,
    /// The copy of a member being rebuilt that is to be written.
    pub(super) target: Option<u8>,
    /// Whether it has read what it needs and now rewrites other copies.
    pub(super) rewriting: bool,
    /// Whether overlapping writes wait for it.
    pub(super) locked: bool,
    /// The race that its reads run.
    pub(super) race: Option<RaceKey>,
}

impl Piece {
    pub(super) fn new(
        request: RequestKey,
        kind: RequestKind,
        offset: u64,
        extent: &MappedRange,
    ) -> Piece {
        Piece {
            request,
            kind,
            offset,
            length: extent.length,
            mirrors: extent.mirrors,
            copies: extent.copies,
            pending: 0,
            good: CopySet::default(),
            failed: CopySet::default(),
            spoiled: CopySet::default(),
            target: None,
            rewriting: false,
            locked: false,
            race: None,
        }
    }

    /// All its copies, eligible or not.
    #[inline]
    pub(super) fn mirrors(&self) -> &[Mirror] {
        &self.mirrors[..usize::from(self.copies)]
    }

    /// Why it is read, once the policy has chosen from where.
    #[inline]
    pub(super) fn read_purpose(&self) -> Purpose {
        match self.kind {
            RequestKind::Rebuild(_) => Purpose::Rebuild,
            _ => Purpose::User,
        }
    }

    /// Whether it changes what its range holds.
    #[inline]
    pub(super) fn changes_data(&self) -> bool {
        matches!(self.kind, RequestKind::Write | RequestKind::Discard)
    }

    pub(super) fn overlaps(&self, other: &Piece) -> bool {
        self.offset < other.offset + other.length && other.offset < self.offset + self.length
    }

    /// A piece of the same request: `length` bytes at `skip` bytes into this one.
    pub(super) fn part(&self, skip: u64, length: u64) -> Piece {
        let mut part = *self;
        part.offset += skip;
        part.length = length;
        for mirror in &mut part.mirrors[..usize::from(self.copies)] {
            mirror.offset += skip;
        }
        part
    }

    /// Its two halves, to be read anew, if it is longer than what a medium loses at least.
    pub(super) fn halves(&self) -> Option<[Piece; 2]> {
        // The sector's edge before the middle or, if the piece begins behind that, the one after.
        let half = self.offset + self.length / 2;
        let before = half / SECTOR_BYTES * SECTOR_BYTES;
        let after = half.next_multiple_of(SECTOR_BYTES);
        let middle = if before > self.offset { before } else { after };
        if middle >= self.offset + self.length {
            return None;
        }
        let none = CopySet::default();
        let fresh = Piece { failed: none, spoiled: none, ..*self };
        let skip = middle - self.offset;
        Some([fresh.part(0, skip), fresh.part(skip, self.length - skip)])
    }

    /// How it ends for its request when nothing of it is pending.
    pub(super) fn result(&self) -> Result<(), VolumeError> {
        match self.kind {
            _ if !self.good.is_empty() => Ok(()),
            RequestKind::Read | RequestKind::Scrub | RequestKind::Rebuild(_) => {
                Err(VolumeError::Unreadable)
            }
            // A discard is advice; a member that does not take it loses nothing.
            RequestKind::Discard => Ok(()),
            RequestKind::Write | RequestKind::Flush => Err(VolumeError::Unwritable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::MemberIndex;
    use crate::slab::SlabKey;

    #[test]
    fn halves_meet_at_the_edge_of_a_sector_wherever_there_is_one() {
        let mirror = Mirror { member: MemberIndex(0), offset: 0, copy: 0 };
        let halves = |offset, length| {
            let extent = MappedRange { length, mirrors: [mirror; MAX_COPIES], copies: 1 };
            let piece = Piece::new(RequestKey::from_slot(0), RequestKind::Read, offset, &extent);
            piece.halves().map(|halves| halves.map(|half| (half.offset, half.length)))
        };
        assert_eq!(halves(0, 4096), None, "a sector is not cut");
        assert_eq!(halves(512, 1024), None, "nor is a part of one");
        assert_eq!(halves(0, 16384), Some([(0, 8192), (8192, 8192)]));
        assert_eq!(halves(512, 7680), Some([(512, 3584), (4096, 4096)]), "the only edge");
        assert_eq!(halves(3584, 8192), Some([(3584, 512), (4096, 7680)]), "the edge before");
        assert_eq!(halves(3584, 1024), Some([(3584, 512), (4096, 512)]), "the edge behind");
    }
}
