//! One direction of a workload: which sizes its requests have and where they go.

use super::block_source::BlockSource;
use super::map::RandomMap;
use crate::job::{Access, AddressModifier, Direction, Mix, Region, Section};
use mirrorball_core::rng::Rng;

#[derive(Clone, Copy, Debug)]
pub(super) enum DirectionDraw {
    /// Always the same.
    Only(Direction),
    /// A read if 64 random bits are below this, else a write.
    ReadBelow(u64),
    /// A discard. The workload makes a write of the same range follow.
    TrimWrite,
}

/// The sizes and addresses of one direction. Addresses count from the region's start.
#[derive(Clone, Debug)]
pub(super) struct DirectionStream {
    block_bytes: u64,
    /// Distance between random addresses.
    align_bytes: u64,
    region_bytes: u64,
    count: u64,
    place: BlockSource,
    random_percent: u64,
    /// Where its last request ended, and where it began.
    position: u64,
    last_start: u64,
    modifier: AddressModifier,
    /// Whether a request that does not fit the end of the region ends the job, as with a skip.
    ends: bool,
    /// Whether one that would follow the end is random.
    is_random_at_end: bool,
    /// The one size, or zero if each is drawn.
    fixed_bytes: u64,
    /// (cumulative share, bytes).
    sizes: Vec<(u64, u64)>,
    /// Sum of the shares.
    weight: u64,
}

/// Whether an address may be random, where that is not left to a percentage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddressTurn {
    Any,
    Random,
    /// It follows the address before, or repeats it.
    Following,
}

/// Where a request goes, within the region.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawTarget {
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl DirectionDraw {
    pub(super) fn new(mix: Mix) -> DirectionDraw {
        match (mix.directions(), mix) {
            (&[direction], _) | (_, Mix::Only(direction)) => DirectionDraw::Only(direction),
            (_, Mix::ReadWrite { read_percent }) => {
                DirectionDraw::ReadBelow(((u128::from(read_percent) << 64) / 100) as u64)
            }
            (_, Mix::TrimWrite) => DirectionDraw::TrimWrite,
        }
    }

    #[inline]
    pub(super) fn draw(self, rng: &mut Rng) -> Direction {
        match self {
            DirectionDraw::Only(direction) => direction,
            DirectionDraw::ReadBelow(bound) if rng.next_u64() < bound => Direction::Read,
            DirectionDraw::ReadBelow(_) => Direction::Write,
            DirectionDraw::TrimWrite => Direction::Trim,
        }
    }

    pub(super) fn other(self, than: Direction) -> Option<Direction> {
        match (self, than) {
            (DirectionDraw::Only(_) | DirectionDraw::TrimWrite, _) => None,
            (DirectionDraw::ReadBelow(_), Direction::Read) => Some(Direction::Write),
            (DirectionDraw::ReadBelow(_), _) => Some(Direction::Read),
        }
    }
}

impl DirectionStream {
    /// The requests of `direction`.
    pub(super) fn new(
        job: &Section,
        direction: Direction,
        region: Region,
        rng: &mut Rng,
    ) -> DirectionStream {
        let block_bytes = job.block_bytes(direction);
        let align_bytes = job.align_bytes[direction].unwrap_or(block_bytes);
        let count = job.place_count(direction, region.bytes);
        let used = job.access == Access::Random && job.mix.directions().contains(&direction);
        let place = match used {
            true => {
                let blocks = (count, align_bytes);
                BlockSource::of_direction(&job.distribution, direction, blocks, rng)
            }
            false => BlockSource::Uniform { count },
        };
        let mut weight = 0;
        let shares = job.sizes[direction].iter().map(|share| {
            weight += share.weight;
            (weight, share.bytes)
        });
        let sizes: Vec<(u64, u64)> = shares.collect();
        let fixed_bytes = if sizes.len() == 1 { block_bytes } else { 0 };
        // What follows its predecessor is a random job with no random request.
        let is_random = job.access == Access::Random;
        let random_percent = if is_random { job.random_percent[direction] } else { 0 };
        DirectionStream {
            block_bytes,
            align_bytes,
            region_bytes: region.bytes,
            count,
            place,
            random_percent,
            position: 0,
            last_start: 0,
            modifier: job.modifier,
            ends: !job.time_based
                && (is_random || matches!(job.modifier, AddressModifier::Skip(_))),
            is_random_at_end: !job.time_based
                && is_random
                && !matches!(job.modifier, AddressModifier::Runs { is_identical: true, .. }),
            fixed_bytes,
            sizes,
            weight,
        }
    }

    /// Draws the next request, by the random map if there is one. `None` at the end of a region
    /// that ends the job, and where the map has no block for it.
    #[inline(always)]
    pub(super) fn next(
        &mut self,
        map: Option<&mut RandomMap>,
        turn: AddressTurn,
        rng: &mut Rng,
    ) -> Option<DrawTarget> {
        let random = match (turn, self.random_percent) {
            (AddressTurn::Following, _) | (_, 0) => false,
            (_, 100) => true,
            (_, percent) => rng.below(100) < percent,
        };
        let is_at_end = self.position >= self.region_bytes;
        let random = random || (is_at_end && self.is_random_at_end);
        if !random {
            let offset = self.following()?;
            let length = self.length(self.region_bytes - offset, rng);
            return Some(self.at(offset, length));
        }
        let Some(map) = map else {
            let offset = self.place.draw(rng) * self.align_bytes;
            let length = self.length(self.region_bytes - offset, rng);
            return Some(self.at(offset, length));
        };
        let block = map.draw(self.count, rng)?;
        let offset = block * self.align_bytes;
        let room = self.region_bytes.checked_sub(offset).filter(|&it| it >= self.block_bytes)?;
        let length = map.visit(block, self.length(room, rng), self.block_bytes);
        Some(self.at(offset, length))
    }

    /// Starts over at the region's start.
    pub(super) fn restart(&mut self) {
        self.position = 0;
    }

    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Whether a request that follows the last one fits in the region.
    pub(super) fn has_room(&self) -> bool {
        self.random_percent > 0 || self.position + self.block_bytes <= self.region_bytes
    }

    #[inline]
    fn at(&mut self, offset: u64, length: u64) -> DrawTarget {
        (self.position, self.last_start) = (offset + length, offset);
        DrawTarget { offset, length }
    }

    /// The address of a request that is not random.
    #[inline]
    fn following(&self) -> Option<u64> {
        let next = match self.modifier {
            AddressModifier::Skip(bytes) => self.skipped(bytes)?,
            AddressModifier::Runs { is_identical: true, .. } => self.last_start,
            _ => self.position,
        };
        match next + self.block_bytes <= self.region_bytes {
            true => Some(next),
            // As in fio, what does not fit ends a job that skips.
            false if self.ends => None,
            false => Some(0),
        }
    }

    /// The address after a skip of bytes, which may be negative. As in fio, a job that ends exactly
    /// at the end of its region is done, and any other goes round.
    fn skipped(&self, bytes: i64) -> Option<u64> {
        if self.position >= self.region_bytes {
            return if self.ends { None } else { Some(0) };
        }
        if self.position == 0 {
            return Some(0);
        }
        let region = self.region_bytes;
        match self.position.checked_add_signed(bytes).filter(|&next| next < region) {
            Some(next) => Some(next),
            None if bytes > 0 => Some(0),
            None => region.checked_add_signed(bytes).or(Some(0)),
        }
    }

    #[inline]
    fn length(&self, room: u64, rng: &mut Rng) -> u64 {
        if self.fixed_bytes > 0 {
            return self.fixed_bytes;
        }
        let draw = rng.below(self.weight);
        let (_, bytes) = self.sizes[self.sizes.partition_point(|(end, _)| *end <= draw)];
        if bytes <= room { bytes } else { self.block_bytes }
    }
}
