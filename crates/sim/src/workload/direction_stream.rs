//! One direction of a workload: which sizes its requests have and where they go.

use super::block_source::BlockSource;
use super::map::RandomMap;
use crate::job::{Access, AddressModifier, Direction, Distribution, Mix, Section, WorkRegion};
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
    /// Bytes of the file or device in front of the region, and from its start on.
    before_bytes: u64,
    room_bytes: u64,
    count: u64,
    place: BlockSource,
    is_random: bool,
    random_percent: u64,
    /// Where its last request ended, and where it began.
    position: u64,
    last_start: u64,
    modifier: AddressModifier,
    /// Whether a request that would follow the end of the region goes to its start.
    goes_round: bool,
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
    /// The requests of `direction` to a region, or a zone of it.
    pub(super) fn new(
        job: &Section,
        direction: Direction,
        WorkRegion { region, container }: WorkRegion,
        goes_round: bool,
        rng: &mut Rng,
    ) -> DirectionStream {
        let block_bytes = job.block_bytes(direction);
        let align_bytes = job.align_bytes[direction].unwrap_or(block_bytes);
        let count = match job.distribution {
            // As in fio, with the part of a block at the end.
            Distribution::Zipf { .. }
            | Distribution::Pareto { .. }
            | Distribution::Normal { .. } => {
                let blocks = [Direction::Read, Direction::Write].map(|it| job.block_bytes(it));
                region.bytes.div_ceil(blocks[0].min(blocks[1]))
            }
            _ => job.place_count(direction, job.zones.map_or(region.bytes, |it| it.range_bytes)),
        };
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
            before_bytes: region.offset - container.offset,
            room_bytes: container.offset + container.bytes - region.offset,
            count,
            place,
            is_random,
            random_percent,
            position: 0,
            last_start: 0,
            modifier: job.modifier,
            goes_round,
            fixed_bytes,
            sizes,
            weight,
        }
    }

    /// Draws the next request, by the random map if there is one. `None` where fio ends a file: at
    /// an address behind the region, for a request that reaches beyond the file or device, and
    /// where the map has no block for it.
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
        let following = if random { None } else { self.following() };
        let (offset, visits) = match (following, map) {
            (Some(offset), _) => (offset, None),
            (None, _) if !self.is_random => return None,
            (None, None) => (self.place.draw(rng) * self.align_bytes, None),
            (None, Some(map)) => {
                let block = map.draw(self.count, rng)?;
                (block * self.align_bytes, Some((map, block)))
            }
        };
        let left = self.region_bytes.checked_sub(offset).filter(|&left| left > 0)?;
        let mut length = self.length(left, rng)?;
        if offset + length > self.room_bytes {
            return None;
        }
        if let Some((map, block)) = visits {
            length = map.visit(block, length, self.block_bytes);
        }
        (self.position, self.last_start) = (offset + length, offset);
        Some(DrawTarget { offset, length })
    }

    /// Starts over at the region's start.
    pub(super) fn restart(&mut self) {
        (self.position, self.last_start) = (0, 0);
    }

    /// Starts over if its last request ended at `end` or behind it.
    pub(super) fn restart_at(&mut self, end: u64) {
        if self.position >= end {
            self.position = 0;
        }
    }

    /// Sets the region's start within the file or device.
    pub(super) fn set_start(&mut self, before_bytes: u64, container_bytes: u64) {
        self.before_bytes = before_bytes;
        self.room_bytes = container_bytes - before_bytes;
    }

    /// The address of a request that is not random. `None` at the end of the file or device.
    #[inline]
    fn following(&mut self) -> Option<u64> {
        if let AddressModifier::Runs { is_identical: true, .. } = self.modifier {
            return Some(self.last_start);
        }
        if self.goes_round {
            self.restart_at(self.region_bytes);
        }
        if self.position >= self.room_bytes {
            return None;
        }
        match self.modifier {
            AddressModifier::Skip(bytes) => Some(self.skipped(bytes)),
            _ => Some(self.position),
        }
    }

    /// The address after a skip of bytes, which may be negative. As in fio, the size and the offset
    /// of the region are taken for addresses in it.
    fn skipped(&self, bytes: i64) -> u64 {
        let position = match self.position {
            0 if bytes < 0 && self.before_bytes > 0 => {
                self.region_bytes.wrapping_sub(self.before_bytes)
            }
            position => position,
        };
        let next = position.wrapping_add_signed(bytes);
        match position {
            0 => 0,
            _ if next < self.before_bytes + self.room_bytes => next,
            _ if bytes > 0 => self.before_bytes,
            _ => self.region_bytes.wrapping_add_signed(bytes),
        }
    }

    /// Draws a length for a request, with this number of bytes to the end of the region. `None` if
    /// several sizes are drawn and none fits.
    #[inline(always)]
    fn length(&self, left: u64, rng: &mut Rng) -> Option<u64> {
        match self.fixed_bytes {
            0 => self.drawn_length(left, rng),
            fixed => Some(fixed),
        }
    }

    #[inline(never)]
    fn drawn_length(&self, left: u64, rng: &mut Rng) -> Option<u64> {
        let draw = rng.below(self.weight);
        let (_, bytes) = self.sizes[self.sizes.partition_point(|(end, _)| *end <= draw)];
        let bytes = if bytes <= left { bytes } else { self.block_bytes };
        Some(bytes).filter(|&bytes| bytes <= left)
    }
}
