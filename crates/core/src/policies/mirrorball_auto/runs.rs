//! Sequential runs: reads of the volume of which each begins where the one before it ended.
//!
//! The table is indexed by the offset at which the next read of a run would begin, so one look-up
//! finds the run of a read, in whatever order many readers come. A random read leaves an entry too.
//! That entry may replace another random read. It replaces a sequential reader only if that had no
//! read for one second, or if both entries of the set are readers.
//!
//! A raid10 splits a large request into strips and asks for each, all at the same time. The strips
//! count as one read; otherwise a single long request would look like a sequential reader. They
//! differ from the reads of a client with several requests in flight by their mirrors: the next
//! strip lies on other members.

use crate::member::MemberIndex;
use crate::policy::{Mirror, Read};
use crate::units::Nanos;

const SETS: usize = 128;
/// A run of this many reads is a sequential reader.
const READER_READS: u32 = 4;
const STALE: Nanos = Nanos::from_secs(1);

/// Reads in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SequentialRun {
    /// Identifies the run; zero for none. A run that began earlier has a smaller number.
    pub(super) id: u64,
    /// Number of reads; the strips of a request count as one.
    pub(super) reads: u32,
    /// True if its last two reads are strips of one request.
    pub(super) is_strip: bool,
    /// One bit per member: set if the member served the last read among its mirrors.
    members: u64,
    /// Member that served the last read.
    last: MemberIndex,
    next: u64,
    read_at: Nanos,
}

#[derive(Debug)]
pub(super) struct RunTable {
    sets: Box<[[SequentialRun; 2]; SETS]>,
    last_id: u64,
}

impl Default for RunTable {
    fn default() -> RunTable {
        RunTable { sets: Box::new([[SequentialRun::default(); 2]; SETS]), last_id: 0 }
    }
}

impl SequentialRun {
    /// True if the run is long enough to be a sequential reader.
    #[inline]
    pub(super) fn is_reader(&self) -> bool {
        self.reads >= READER_READS
    }

    /// True if this member, and none of its mirrors, served the last read that it could serve.
    #[inline]
    pub(super) fn was_at(&self, member: MemberIndex) -> bool {
        self.members & bit_of(member) != 0
    }

    /// True if the run goes on with a read at this offset.
    #[inline]
    fn continues_at(&self, offset: u64) -> bool {
        self.next == offset && self.id != 0
    }

    #[inline]
    fn clear(&mut self) {
        (self.id, self.reads, self.read_at) = (0, 0, Nanos::ZERO);
    }

    #[inline]
    fn extended(&self, read: &Read, mirrors: &[Mirror], now: Nanos) -> SequentialRun {
        let is_strip = self.read_at == now
            && self.reads > 0
            && mirrors.iter().all(|mirror| mirror.member != self.last);
        let reads = self.reads.saturating_add(u32::from(!is_strip));
        SequentialRun { reads, is_strip, next: read.offset + read.length, read_at: now, ..*self }
    }
}

impl RunTable {
    /// Removes the run that this read continues, or starts one, and adds the read to it. The caller
    /// puts it back with [`RunTable::put`].
    #[inline]
    pub(super) fn take(&mut self, read: &Read, mirrors: &[Mirror], now: Nanos) -> SequentialRun {
        let set = &mut self.sets[set_of(read.offset)];
        let Some(found) = set.iter_mut().find(|run| run.continues_at(read.offset)) else {
            self.last_id += 1;
            let (id, next) = (self.last_id, read.offset + read.length);
            return SequentialRun { id, reads: 1, next, read_at: now, ..SequentialRun::default() };
        };
        let run = found.extended(read, mirrors, now);
        found.clear();
        run
    }

    /// Stores a run whose last read was given to the mirror at `place`.
    #[inline]
    pub(super) fn put(&mut self, run: &SequentialRun, mirrors: &[Mirror], place: usize) {
        // Readers that are not silent before all others, in one number.
        let worth = |old: &SequentialRun| {
            let is_live = old.is_reader() && run.read_at.saturating_sub(old.read_at) < STALE;
            u64::from(is_live) << (u64::BITS - 1) | old.read_at.0
        };
        let set = &mut self.sets[set_of(run.next)];
        let old = usize::from(worth(&set[1]) < worth(&set[0]));
        let here = mirrors.iter().fold(0, |bits, mirror| bits | bit_of(mirror.member));
        let members = run.members & !here | bit_of(mirrors[place].member);
        set[old] = SequentialRun { members, last: mirrors[place].member, ..*run };
    }

    /// The run that this read would continue, with the read added; the default if there is none.
    pub(super) fn peek(&self, read: &Read, mirrors: &[Mirror], now: Nanos) -> SequentialRun {
        let set = &self.sets[set_of(read.offset)];
        let found = set.iter().find(|run| run.continues_at(read.offset));
        found.map(|run| run.extended(read, mirrors, now)).unwrap_or_default()
    }
}

/// Bit of a member; with more than 64 members, some share a bit.
#[inline]
fn bit_of(member: MemberIndex) -> u64 {
    1 << (member.get() % u64::BITS as usize)
}

/// Fibonacci hashing: the high bits of a product with the golden ratio.
#[inline]
fn set_of(offset: u64) -> usize {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
}
