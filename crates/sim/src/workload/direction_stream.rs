//! One direction of a workload: which sizes its requests have and where they go.

use super::block_source::BlockSource;
use super::permutation::{Coverage, Map};
use crate::job::{Access, Direction, Distribution, Mix, Region, Section};
use mirrorball_core::rng::Rng;

/// The draw of a direction.
#[derive(Clone, Copy, Debug)]
pub(super) enum DirectionDraw {
    /// Always the same.
    Only(Direction),
    /// A read if 64 random bits are below this, else a write.
    ReadBelow(u64),
}

/// The sizes and addresses of one direction. Addresses count from the region's start.
#[derive(Clone, Debug)]
pub(super) struct DirectionStream {
    block_bytes: u64,
    region_bytes: u64,
    place: BlockSource,
    random_percent: u64,
    /// Where its last request ended.
    position: u64,
    /// The one size, or zero if each is drawn.
    fixed_bytes: u64,
    /// (cumulative percent, bytes).
    sizes: Vec<(u64, u64)>,
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
            (&[direction], _) => DirectionDraw::Only(direction),
            (_, Mix::ReadWrite { read_percent }) => {
                DirectionDraw::ReadBelow(((u128::from(read_percent) << 64) / 100) as u64)
            }
            (_, Mix::Only(direction)) => DirectionDraw::Only(direction),
        }
    }

    #[inline]
    pub(super) fn draw(self, rng: &mut Rng) -> Direction {
        match self {
            DirectionDraw::Only(direction) => direction,
            DirectionDraw::ReadBelow(bound) if rng.next_u64() < bound => Direction::Read,
            DirectionDraw::ReadBelow(_) => Direction::Write,
        }
    }

    /// The other direction of a mix.
    pub(super) fn other(self, than: Direction) -> Option<Direction> {
        match (self, than) {
            (DirectionDraw::Only(_), _) => None,
            (DirectionDraw::ReadBelow(_), Direction::Read) => Some(Direction::Write),
            (DirectionDraw::ReadBelow(_), _) => Some(Direction::Read),
        }
    }
}

impl DirectionStream {
    /// The requests of `direction`. Uniform random addresses are mapped unless `norandommap` is
    /// set. Directions with blocks of one size share a map, so that a pass visits a block once.
    pub(super) fn new(
        job: &Section,
        direction: Direction,
        region: Region,
        maps: &mut Vec<Map>,
        rng: &mut Rng,
    ) -> DirectionStream {
        let block_bytes = job.block_bytes(direction);
        let count = (region.bytes / block_bytes).max(1);
        let used = job.access == Access::Random && job.mix.directions().contains(&direction);
        let place = match &job.distribution {
            Distribution::Uniform if used && job.random_map => {
                BlockSource::Map(map_of(maps, block_bytes, count, rng))
            }
            skewed if used => BlockSource::new(skewed, count, rng),
            _ => BlockSource::Uniform { count },
        };
        let mut end = 0;
        let shares = job.sizes[direction].iter().map(|share| {
            end += share.percent;
            (end, share.bytes)
        });
        let sizes: Vec<(u64, u64)> = shares.collect();
        let fixed_bytes = if sizes.len() == 1 { block_bytes } else { 0 };
        // What follows its predecessor is a random job with no random request.
        let random_percent =
            if job.access == Access::Random { job.random_percent[direction] } else { 0 };
        let region_bytes = region.bytes;
        DirectionStream {
            block_bytes,
            region_bytes,
            place,
            random_percent,
            position: 0,
            fixed_bytes,
            sizes,
        }
    }

    /// Draws the next request.
    #[inline(always)]
    pub(super) fn next(&mut self, maps: &mut [Map], rng: &mut Rng) -> DrawTarget {
        let random = match self.random_percent {
            0 => false,
            100 => true,
            percent => rng.below(100) < percent,
        };
        let offset = if random {
            self.place.draw(maps, rng) * self.block_bytes
        } else if self.position + self.block_bytes <= self.region_bytes {
            self.position
        } else {
            0
        };
        let length = self.length(self.region_bytes - offset, rng);
        self.position = offset + length;
        DrawTarget { offset, length }
    }

    /// Starts over at the region's start.
    pub(super) fn restart(&mut self) {
        self.position = 0;
    }

    #[inline]
    fn length(&self, room: u64, rng: &mut Rng) -> u64 {
        if self.fixed_bytes > 0 {
            return self.fixed_bytes;
        }
        let draw = rng.below(100);
        let drawn = self.sizes.iter().find(|(end, _)| draw < *end);
        let (_, bytes) = *drawn.expect("the shares of a direction add up to 100");
        if bytes <= room { bytes } else { self.block_bytes }
    }
}

/// Which of `maps` has blocks of `block_bytes`; makes one if none has.
fn map_of(maps: &mut Vec<Map>, block_bytes: u64, count: u64, rng: &mut Rng) -> usize {
    maps.iter().position(|(bytes, _)| *bytes == block_bytes).unwrap_or_else(|| {
        maps.push((block_bytes, Coverage::new(count, rng)));
        maps.len() - 1
    })
}
