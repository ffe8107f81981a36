//! Where XFS puts the blocks of one file on a striped volume, as far as it decides which parts of
//! the volume a job writes.
//!
//! The volume is cut into allocation groups (AGs). Each begins with its headers; the first has the
//! root inodes as well, and the middle one the log. All else is free, and the file is alone on it.
//!
//! - *Preallocated* (`posix_fallocate`): the file takes the longest free extents that there are,
//!   in the order of the AGs, each from a stripe unit on.
//! - *Sparse*: a write allocates what it does not find allocated. Behind the last extent of the
//!   file the gap in the file is kept on the volume if it ends in the same AG; else the blocks
//!   follow the extent before. Between two extents the gap is kept if it is at most [`GAP_LENGTHS`]
//!   times as long as the write; else the blocks go next to the nearer neighbour. If that place is
//!   taken, the nearest beginning of free space in the AG is used, then the next AG that has space.
//!   So writes in random order fill an AG from its beginning.
//!
//! The rules are those of Linux, checked against the extents of a real XFS (`tests`).
//!
//! Non-goals: other files, freed space, B-tree blocks of the file, delayed allocation, reflink and
//! its reserved space.

use mirrorball_core::units::{KIB, MIB};
use std::collections::BTreeMap;
use std::ops::Range;

const BLOCK: u64 = 4 * KIB;
/// Superblock, headers, roots of the B-trees and the free list of an AG.
const HEADER_BYTES: u64 = 8 * BLOCK;
/// The first chunk of inodes, at the second stripe unit of the first AG.
const INODES_BYTES: u64 = 8 * BLOCK;
/// The log, as mkfs.xfs of 2016 made it on 50 GiB.
const LOG_BYTES: u64 = 25 * MIB;
/// A gap in the file is kept on the volume up to this many lengths of the write.
const GAP_LENGTHS: u64 = 4;
/// The log2 of the number of AGs on a striped volume, by the size from which it holds.
const AG_SHIFTS: [(u64, u32); 5] =
    [(512 << 30, 5), (8 << 30, 4), (128 << 20, 3), (64 << 20, 2), (32 << 20, 1)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct XfsGeometry {
    pub(crate) volume_bytes: u64,
    pub(crate) ag_bytes: u64,
    pub(crate) unit_bytes: u64,
    /// To which extents are aligned: the unit, or with `swalloc` the width.
    pub(crate) align_bytes: u64,
}

/// A file and the free space of its filesystem. Offsets of the volume are in bytes.
#[derive(Clone, Debug)]
pub(crate) struct XfsFile {
    geometry: XfsGeometry,
    /// The end of each free extent, by its start. None spans two AGs.
    free: BTreeMap<u64, u64>,
    /// Place on the volume and length of each extent, by its offset in the file.
    extents: BTreeMap<u64, (u64, u64)>,
}

impl XfsGeometry {
    /// The size of the AGs that mkfs.xfs makes on a volume with this stripe unit and this many
    /// units in a full stripe: no multiple of a full stripe, so that headers are on all disks.
    pub(crate) fn ag_bytes(volume_bytes: u64, unit_bytes: u64, units: u64) -> u64 {
        let shift = AG_SHIFTS.iter().find(|(from, _)| volume_bytes >= *from);
        let ags = 1 << shift.map_or(0, |(_, shift)| *shift);
        let bytes = volume_bytes.div_ceil(ags).next_multiple_of(unit_bytes);
        let is_multiple = units > 1 && ags > 1 && bytes.is_multiple_of(units * unit_bytes);
        if is_multiple { bytes - unit_bytes } else { bytes }
    }

    fn ag_of(&self, place: u64) -> u64 {
        place / self.ag_bytes
    }

    fn ag_range(&self, ag: u64) -> Range<u64> {
        let start = ag * self.ag_bytes;
        start..(start + self.ag_bytes).min(self.volume_bytes)
    }

    fn ags(&self) -> u64 {
        self.volume_bytes.div_ceil(self.ag_bytes)
    }

    /// The first place from `place` on that is aligned within its AG.
    fn aligned(&self, place: u64, align: u64) -> u64 {
        let start = place - place % self.ag_bytes;
        start + (place - start).next_multiple_of(align)
    }
}

impl XfsFile {
    /// An empty file on a new filesystem.
    pub(crate) fn new(geometry: XfsGeometry) -> XfsFile {
        let mut file = XfsFile { geometry, free: BTreeMap::new(), extents: BTreeMap::new() };
        for ag in 0..geometry.ags() {
            let Range { start, end } = geometry.ag_range(ag);
            if start + HEADER_BYTES < end {
                file.free.insert(start + HEADER_BYTES, end / BLOCK * BLOCK);
            }
        }
        file.take(geometry.unit_bytes, INODES_BYTES);
        file.take(geometry.ags() / 2 * geometry.ag_bytes + geometry.unit_bytes, LOG_BYTES);
        file
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.iter().map(|(start, end)| end - start).sum()
    }

    /// Allocates the first `length` bytes at once. Returns false if they do not fit.
    pub(crate) fn preallocate(&mut self, length: u64) -> bool {
        let align = self.geometry.align_bytes;
        let mut offset = 0;
        while offset < length {
            let longest = self.free.iter().map(|(&start, &end)| self.usable(start, end, align));
            let longest = longest.map(|range| range.end.saturating_sub(range.start)).max();
            let wanted = (length - offset).next_multiple_of(BLOCK).min(longest.unwrap_or(0));
            if wanted == 0 {
                return false;
            }
            let found = self.free.iter().map(|(&start, &end)| self.usable(start, end, align));
            let mut found = found.filter(|range| range.start + wanted <= range.end);
            let place = found.next().map(|range| range.start).expect("the longest is one of them");
            self.take(place, wanted);
            self.extents.insert(offset, (place, wanted));
            offset += wanted;
        }
        true
    }

    /// Allocates what a write to this range of the file does not find allocated. Returns false if
    /// there is no space.
    pub(crate) fn allocate(&mut self, range: Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            if let Some((_, _, held)) = self.extent_at(at) {
                at += held;
                continue;
            }
            let next = self.extents.range(at..).next().map(|(&offset, _)| offset);
            let length = range.end.min(next.unwrap_or(u64::MAX)) - at;
            let Some((place, length)) = self.find(at, length) else { return false };
            self.take(place, length);
            self.extents.insert(at, (place, length));
            at += length;
        }
        true
    }

    /// The parts of the volume that hold a range of the file, in the order of the file. Holes are
    /// left out.
    pub(crate) fn map(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Some((_, place, held)) = self.extent_at(at) else {
                let next = self.extents.range(at..).next().map(|(&offset, _)| offset);
                at = next.unwrap_or(u64::MAX);
                continue;
            };
            let length = held.min(range.end - at);
            match parts.last_mut() {
                Some(last) if last.end == place => last.end += length,
                _ => parts.push(place..place + length),
            }
            at += length;
        }
        parts
    }

    /// The start of the extent that holds a byte of the file, the place of the byte, and how many
    /// bytes of the extent follow from it on.
    fn extent_at(&self, offset: u64) -> Option<(u64, u64, u64)> {
        let (&start, &(place, length)) = self.extents.range(..=offset).next_back()?;
        (offset < start + length).then(|| (start, place + offset - start, start + length - offset))
    }

    /// A free place for `length` bytes at `offset` of the file, or for as many as there are.
    fn find(&self, offset: u64, length: u64) -> Option<(u64, u64)> {
        let is_last = self.extents.range(offset..).next().is_none();
        let wanted = self.wanted_place(offset, length, is_last);
        if is_last && wanted.is_some_and(|place| self.is_free(place, length)) {
            return wanted.map(|place| (place, length));
        }
        let align = if is_last { self.geometry.align_bytes } else { BLOCK };
        let wanted = wanted.unwrap_or(0);
        // A place behind the last block of an AG still counts as one of this AG.
        let first = self.geometry.ag_of(wanted.saturating_sub(1));
        let ags = (0..self.geometry.ags()).map(|ag| (first + ag) % self.geometry.ags());
        let mut found = ags.filter_map(|ag| {
            let target = if ag == first { wanted } else { self.geometry.ag_range(ag).start };
            self.nearest(ag, target, length, align)
        });
        found.next().map(|place| (place, length)).or_else(|| {
            let longest = self.free.iter().max_by_key(|(start, end)| *end - *start);
            longest.map(|(&start, &end)| (start, end - start))
        })
    }

    /// The place that would keep the file in order on the volume, by its neighbours in the file.
    fn wanted_place(&self, offset: u64, length: u64, is_last: bool) -> Option<u64> {
        let before = self.extents.range(..offset).next_back();
        let before = before.map(|(&start, &(place, length))| (start + length, place + length));
        if is_last {
            let (end, place) = before?;
            let ag = self.geometry.ag_of(place - 1);
            let is_valid = |place| self.geometry.ag_of(place) == ag;
            let kept = place + (offset - end);
            return [kept, place].into_iter().find(|&place| is_valid(place));
        }
        let (next, next_place) = self.extents.range(offset..).next().map(|(&o, &(p, _))| (o, p))?;
        let after_before = before.map(|(end, place)| {
            let gap = offset - end;
            let is_valid = self.geometry.ag_of(place + gap) == self.geometry.ag_of(place - 1);
            match gap <= GAP_LENGTHS * length && is_valid {
                true => (place + gap, gap),
                false => (place, 2 * gap),
            }
        });
        let gap = next - offset;
        let in_ag = next_place % self.geometry.ag_bytes;
        let before_next = match (gap <= GAP_LENGTHS * length && gap <= in_ag, length <= in_ag) {
            (true, _) => (next_place - gap, gap),
            (false, true) => (next_place - length, (2 * gap).saturating_sub(length)),
            (false, false) => (next_place, 2 * gap),
        };
        match after_before {
            Some((place, distance)) if distance <= before_next.1 => Some(place),
            _ => Some(before_next.0),
        }
    }

    /// The free place of an AG for `length` bytes that is nearest to `target`. An extent that does
    /// not hold the target is used from its start, also one before the target, so that a file that
    /// grows stays in one piece.
    fn nearest(&self, ag: u64, target: u64, length: u64, align: u64) -> Option<u64> {
        let free = self.free.range(self.geometry.ag_range(ag));
        let places = free.filter_map(|(&start, &end)| {
            let Range { start, end } = self.usable(start, end, align);
            let last = end.checked_sub(length).filter(|&last| last >= start)?;
            if target < start || last < target {
                return Some(start);
            }
            let up = self.geometry.aligned(target, align);
            Some(if up <= last { up } else { start + (last - start) / align * align })
        });
        places.min_by_key(|place| place.abs_diff(target))
    }

    fn is_free(&self, place: u64, length: u64) -> bool {
        let free = self.free.range(..=place).next_back();
        free.is_some_and(|(_, &end)| place + length <= end)
    }

    /// The part of a free extent from its first aligned byte on; perhaps empty.
    fn usable(&self, start: u64, end: u64, align: u64) -> Range<u64> {
        self.geometry.aligned(start, align).min(end)..end
    }

    /// Removes what is free of a range from the free space.
    fn take(&mut self, place: u64, length: u64) {
        let taken = place..place + length;
        let Some((&start, &end)) = self.free.range(..taken.end).next_back() else { return };
        if end <= taken.start {
            return;
        }
        self.free.remove(&start);
        if start < taken.start {
            self.free.insert(start, taken.start);
        }
        if taken.end < end {
            self.free.insert(taken.end, end);
        }
    }
}

#[cfg(test)]
mod tests;
