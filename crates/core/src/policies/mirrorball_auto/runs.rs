//! Runs of reads that each begin where one before it ended.
//!
//! A table by where the next read of a run would begin, so a read finds its run with one look, in
//! whatever order many readers come. A random read leaves an entry behind as well; it may push out
//! another of its kind, but a run only when that has not gone on for a second.
//!
//! A raid10 cuts a large request into strips and asks for each, all at the same time. These are
//! parts of one read, however long the request: else a single request would pass for a reader. They
//! are told from the reads of one who asks for several at once by the mirrors: the next strip lies
//! on others. Those that lie one after the other on a disk are read from that one, for two disks
//! would both seek.

use super::Auto;
use super::cost::View;
use crate::member::MemberIndex;
use crate::policy::{Mirror, Read};
use crate::units::Nanos;

const SETS: usize = 128;
/// From this many reads on a run counts as a sequential reader.
const READER_READS: u32 = 4;
const STALE: Nanos = Nanos::from_secs(1);

/// Reads in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// Names it; zero for none.
    pub(super) id: u64,
    /// How many reads it has; the parts of a request are one.
    pub(super) reads: u32,
    /// Whether its last two reads are parts of one request.
    pub(super) is_part: bool,
    /// A bit for each member that of its mirrors was the last to be read.
    members: u64,
    /// Who served the last one.
    last: MemberIndex,
    next: u64,
    read_at: Nanos,
}

/// The runs of a volume.
#[derive(Debug)]
pub(super) struct Runs {
    sets: Box<[[Run; 2]; SETS]>,
    last_id: u64,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs { sets: Box::new([[Run::default(); 2]; SETS]), last_id: 0 }
    }
}

impl Run {
    /// Whether it is long enough to be a sequential reader.
    #[inline]
    pub(super) fn is_reader(&self) -> bool {
        self.reads >= READER_READS
    }

    /// Whether its last read from this member or a copy of it was from this one.
    #[inline]
    pub(super) fn was_at(&self, member: MemberIndex) -> bool {
        self.members & bit_of(member) != 0
    }

    /// The same with one more read.
    #[inline]
    fn extended(&self, read: &Read, mirrors: &[Mirror], now: Nanos) -> Run {
        let is_part = self.reads > 0
            && self.read_at == now
            && mirrors.iter().all(|mirror| mirror.member != self.last);
        let reads = self.reads.saturating_add(u32::from(!is_part));
        Run { reads, is_part, next: read.offset + read.length, read_at: now, ..*self }
    }
}

impl Runs {
    /// The run that this read goes on with, or its own; the read counts in it. To be put back.
    #[inline]
    pub(super) fn take(&mut self, read: &Read, mirrors: &[Mirror], now: Nanos) -> Run {
        let set = &mut self.sets[set_of(read.offset)];
        let found = set.iter_mut().find(|run| run.next == read.offset && run.id != 0);
        let before = found.map(std::mem::take).unwrap_or_else(|| {
            self.last_id += 1;
            Run { id: self.last_id, ..Run::default() }
        });
        before.extended(read, mirrors, now)
    }

    /// Keeps a run whose read went to this place.
    #[inline]
    pub(super) fn put(&mut self, run: &Run, mirrors: &[Mirror], place: usize) {
        let worth = |old: &Run| {
            let is_live = old.is_reader() && run.read_at.saturating_sub(old.read_at) < STALE;
            (is_live, old.read_at)
        };
        let set = &mut self.sets[set_of(run.next)];
        let old = usize::from(worth(&set[1]) < worth(&set[0]));
        let here = mirrors.iter().fold(0, |bits, mirror| bits | bit_of(mirror.member));
        let members = run.members & !here | bit_of(mirrors[place].member);
        set[old] = Run { members, last: mirrors[place].member, ..*run };
    }

    /// The run that such a read would be part of, if there is one, as it would then be.
    pub(super) fn peek(&self, read: &Read, mirrors: &[Mirror], now: Nanos) -> Run {
        let set = &self.sets[set_of(read.offset)];
        let found = set.iter().find(|run| run.next == read.offset && run.id != 0);
        found.map(|run| run.extended(read, mirrors, now)).unwrap_or_default()
    }
}

impl Auto {
    /// The disk that has just been given the part of the same request that lies before this one.
    #[inline]
    pub(super) fn with_first_part(&self, mirrors: &[Mirror], view: &View<'_>) -> Option<usize> {
        if !view.run.is_part {
            return None;
        }
        mirrors.iter().position(|mirror| {
            let known = self.known(mirror);
            known.speed.is_disk && known.read_at == view.now && view.run.was_at(mirror.member)
        })
    }
}

/// Of more than 64 members some share a bit.
#[inline]
fn bit_of(member: MemberIndex) -> u64 {
    1 << (member.get() % u64::BITS as usize)
}

/// Fibonacci hashing: the high bits of a product with the golden ratio.
#[inline]
fn set_of(offset: u64) -> usize {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
}
