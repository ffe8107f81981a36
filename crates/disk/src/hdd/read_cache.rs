//! The segmented read cache: what the disk still holds of what passed under its head.
//!
//! Each segment holds one run of the recording, as positions rather than bytes, so that the
//! progress of a read-ahead is the angle the spindle has turned. One segment at a time can be
//! *filling*: the head follows the recording behind the last read until the segment is full or a
//! command takes the head away. Nothing happens in between, so nothing needs an event.
//!
//! The segment used longest ago is given away; more streams than segments therefore lose their
//! read-ahead before they come back for it.

use super::geometry::PositionRange;
use super::mechanism::{Head, Mechanics};
use mirrorball_core::units::Nanos;

/// All segments of a disk.
#[derive(Clone, Debug)]
pub(super) struct ReadCache {
    segments: Vec<CacheSegment>,
    /// Segments by when they were used, the last one first.
    order: Vec<u8>,
    filling: Option<Filling>,
    /// Gap between two tracks that holds no data: a read that starts so far beyond the end of
    /// a segment still goes on with it.
    gap: u64,
}

#[derive(Clone, Copy, Debug)]
struct CacheSegment {
    start: u64,
    end: u64,
    /// Whether reads have gone on where the last one ended.
    sequential: bool,
}

#[derive(Clone, Copy, Debug)]
struct Filling {
    segment: usize,
    /// Where the read-ahead stops for want of room.
    limit: u64,
    size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CacheLookup {
    Whole(usize),
    /// The beginning, or it starts just where a segment ends.
    Beginning(usize),
    Nothing,
}

/// A segment without contents, further along than any disk is long.
const EMPTY: CacheSegment =
    CacheSegment { start: u64::MAX / 2, end: u64::MAX / 2, sequential: false };

impl CacheSegment {
    #[inline]
    fn reaches(&self, position: u64, gap: u64) -> bool {
        // One comparison: a position before the start wraps round to a huge number.
        position.wrapping_sub(self.start) <= self.end - self.start + gap
    }
}

impl ReadCache {
    /// A cache with this number of segments, on a disk whose tracks lie at most `gap` apart.
    pub(super) fn new(segments: u8, gap: u64) -> ReadCache {
        let order = (0..segments).collect();
        ReadCache { segments: vec![EMPTY; usize::from(segments)], order, filling: None, gap }
    }

    /// Looks `run` up in all segments, with the filling one as it is at `now`.
    #[inline]
    pub(super) fn look_up(
        &mut self,
        range: PositionRange,
        mechanics: &Mechanics,
        head: &Head,
        now: Nanos,
    ) -> CacheLookup {
        self.settle(mechanics, head, now);
        let reaches = |segment: &CacheSegment| segment.reaches(range.start, self.gap);
        match self.segments.iter().position(reaches) {
            Some(index) => self.look_into(index, range),
            None => CacheLookup::Nothing,
        }
    }

    /// Looks `run` up again when its turn has come: in the segment that had its beginning, which
    /// may have gone on or been given away since, and in what the head is reading now. A read that
    /// found nothing before and lies in another segment now is not worth the search.
    #[inline]
    pub(super) fn look_again(
        &mut self,
        before: CacheLookup,
        range: PositionRange,
        mechanics: &Mechanics,
        head: &Head,
        now: Nanos,
    ) -> CacheLookup {
        self.settle(mechanics, head, now);
        let known = match before {
            CacheLookup::Whole(index) | CacheLookup::Beginning(index) => Some(index),
            CacheLookup::Nothing => None,
        };
        let filling = self.filling.map(|filling| filling.segment);
        for index in filling.into_iter().chain(known) {
            if self.segments[index].reaches(range.start, self.gap) {
                return self.look_into(index, range);
            }
        }
        CacheLookup::Nothing
    }

    fn look_into(&self, index: usize, range: PositionRange) -> CacheLookup {
        match range.end <= self.segments[index].end {
            true => CacheLookup::Whole(index),
            false => CacheLookup::Beginning(index),
        }
    }

    pub(super) fn end_of(&self, segment: usize) -> u64 {
        self.segments[segment].end
    }

    /// Whether `segment` is filling, and fills up to `end` without being asked.
    pub(super) fn will_fill_to(&self, segment: usize, end: u64) -> bool {
        self.filling.is_some_and(|filling| filling.segment == segment && end <= filling.limit)
    }

    /// Counts a read that ended at `end` and was served by `segment` alone. If the segment is
    /// filling, there is room again; a head that had stopped for want of it goes on.
    pub(super) fn consume(
        &mut self,
        segment: usize,
        end: u64,
        mechanics: &Mechanics,
        head: &mut Head,
        now: Nanos,
    ) {
        self.touch(segment);
        self.segments[segment].sequential = true;
        if let Some(filling) = &mut self.filling
            && filling.segment == segment
            && end + filling.size > filling.limit
        {
            let stopped_at = filling.limit;
            filling.limit = end + filling.size;
            if mechanics.position_at(head, now) > stopped_at {
                mechanics.resume(head, stopped_at, now);
            }
        }
    }

    /// Records that the head has read `run` and goes on filling, `size` further at most. The run
    /// extends the segment that it went on from, or takes the one used longest ago. Returns whether
    /// the segment is being read in sequence.
    #[inline]
    pub(super) fn extend(&mut self, from: CacheLookup, range: PositionRange, size: u64) -> bool {
        let index = match from {
            CacheLookup::Whole(index) | CacheLookup::Beginning(index) => {
                let segment = &mut self.segments[index];
                segment.end = range.end;
                segment.start = segment.start.max(range.end.saturating_sub(size));
                segment.sequential = true;
                index
            }
            CacheLookup::Nothing => {
                let Some(&oldest) = self.order.last() else { return false };
                let index = usize::from(oldest);
                let PositionRange { start, end } = range;
                self.segments[index] = CacheSegment { start, end, sequential: false };
                index
            }
        };
        self.touch(index);
        self.filling = Some(Filling { segment: index, limit: range.end + size, size });
        self.segments[index].sequential
    }

    /// The run that the head is reading ahead of reads in sequence, up to where a read would still
    /// go on with it.
    #[inline]
    pub(super) fn stream(
        &mut self,
        mechanics: &Mechanics,
        head: &Head,
        now: Nanos,
    ) -> Option<PositionRange> {
        let segment = self.filling?.segment;
        if !self.segments[segment].sequential {
            return None;
        }
        self.settle(mechanics, head, now);
        let CacheSegment { start, end, .. } = self.segments[segment];
        Some(PositionRange { start, end: end + self.gap })
    }

    /// Ends the filling: the head leaves at `now`.
    #[inline]
    pub(super) fn stop_filling(&mut self, mechanics: &Mechanics, head: &Head, now: Nanos) {
        self.settle(mechanics, head, now);
        self.filling = None;
    }

    /// Drops what a write of `run` makes stale.
    pub(super) fn invalidate(&mut self, range: PositionRange) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            let filling = self.filling.filter(|filling| filling.segment == index);
            let end = filling.map_or(segment.end, |filling| filling.limit);
            if segment.start < range.end && range.start < end {
                *segment = EMPTY;
                if filling.is_some() {
                    self.filling = None;
                }
            }
        }
    }

    /// Brings the filling segment up to `now`.
    #[inline]
    fn settle(&mut self, mechanics: &Mechanics, head: &Head, now: Nanos) {
        if let Some(filling) = self.filling {
            let segment = &mut self.segments[filling.segment];
            if segment.end < filling.limit {
                let reached = mechanics.position_at(head, now).min(filling.limit);
                segment.end = segment.end.max(reached);
                // A segment is a ring: what is read ahead overwrites what was read first.
                segment.start = segment.start.max(segment.end.saturating_sub(filling.size));
            }
        }
    }

    /// Moves a segment to the front of the order.
    #[inline]
    fn touch(&mut self, segment: usize) {
        let place = self.order.iter().rposition(|&other| usize::from(other) == segment);
        let place = place.expect("every segment has a place in the order");
        self.order[..=place].rotate_right(1);
    }
}
