//! Where random requests go: draws of block numbers by fio's distributions.
//!
//! Every draw costs O(1) in time and memory, whatever the number of blocks. The skewed ones draw a
//! *rank* by popularity and scatter the ranks over the region by a [`Permutation`], as fio does by
//! a hash; unlike a hash it never puts two ranks on one block.
//!
//! - **zipf**: rank k with a probability proportional to k^-theta, exactly, by rejection-inversion
//!   (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//!   distributions", 1996). fio approximates it (Gray et al., "Quickly generating billion-record
//!   synthetic databases", 1994), after a sum over up to all blocks.
//! - **pareto**: the self-similar rule of the same paper, as in fio: rank (n - 1) u^p with
//!   p = ln h / ln(1 - h), so that 1 - h of the requests go to h of the blocks, and so on within.
//! - **normal**: fio's bell (`lib/gauss.c`): the mean of twelve uniform draws, whose deviation is a
//!   twelfth of the region, widened by a uniform draw of `deviation` percent of the region (at most
//!   50). It is not a normal law with that deviation. We draw the mean of twelve as a normal, which
//!   it equals but for tails beyond three of its deviations, and draw again what falls outside.
//! - **zoned**: uniform within a zone. As for the others, no random map is kept.

use super::permutation::Permutation;
use crate::job::{Direction, Distribution, SizeOrPercent, Zone};
use mirrorball_core::rng::Rng;

/// A source of block numbers below a count.
#[derive(Clone, Debug)]
pub(super) enum BlockSource {
    /// All alike.
    Uniform { count: u64 },
    /// Some more often.
    Skewed { rank: BlockRank, scatter: Scatter },
    /// Some files more often, each the sum of so many neighbouring ranks.
    Files { rank: BlockRank, count: u64, shift: u64 },
    /// Zones, each uniform.
    Zoned(Vec<BlockSpan>),
    /// Blocks in this order, again and again.
    Sequence { blocks: Vec<u64>, strides: bool, drawn: u64, count: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct BlockSpan {
    /// Accesses to this zone and those before it, in percent.
    access_end: u64,
    first: u64,
    count: u64,
}

/// A draw of ranks, the most popular first (in the middle for the bell).
#[derive(Clone, Debug)]
pub(super) enum BlockRank {
    Zipf(Zipf),
    Pareto { count: u64, power: f64 },
    Bell { count: u64, width: f64 },
}

/// The law of skewed draws: ranks, the most popular one, and where that lies.
struct Popularity {
    rank: BlockRank,
    top: u64,
    center: Option<f64>,
}

/// Ranks of which a file has the sum.
const RANKS_OF_FILE: u64 = 1 << 10;

#[derive(Clone, Debug)]
pub(super) struct Scatter {
    order: Permutation,
    shift: u64,
}

/// Constants of the rejection-inversion; the names follow the paper's H and h.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    count: f64,
    theta: f64,
    area_first: f64,
    area_last: f64,
    sure: f64,
}

impl BlockSource {
    /// The source of a direction's blocks: their count and size. A uniform one is not mapped; the
    /// caller may do that.
    pub(super) fn of_direction(
        distribution: &Distribution,
        direction: Direction,
        (count, block_bytes): (u64, u64),
        rng: &mut Rng,
    ) -> BlockSource {
        if let Some(Popularity { rank, top, center }) = Popularity::of(distribution, count) {
            let scatter = Scatter::new(count, top, center, rng);
            return BlockSource::Skewed { rank, scatter };
        }
        match *distribution {
            Distribution::Sequence { ref blocks, strides } => {
                BlockSource::Sequence { blocks: blocks.clone(), strides, drawn: 0, count }
            }
            Distribution::Zoned(ref zones) if !zones[direction].is_empty() => {
                BlockSource::Zoned(spans(&zones[direction], count, block_bytes))
            }
            _ => BlockSource::Uniform { count },
        }
    }

    /// The source of the files of a section. As fio, it draws from 1024 ranks for each file, which
    /// are not scattered: popular files are neighbours.
    pub(super) fn of_files(distribution: &Distribution, files: u64, rng: &mut Rng) -> BlockSource {
        let count = files * RANKS_OF_FILE;
        let Some(Popularity { rank, top, center }) = Popularity::of(distribution, count) else {
            return BlockSource::Uniform { count: files };
        };
        let shift = match center {
            Some(center) => (count as f64 * center) as u64 + count - top,
            None if top > 0 => 0,
            None => rng.below(count),
        };
        BlockSource::Files { rank, count, shift }
    }

    #[inline]
    pub(super) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match self {
            BlockSource::Uniform { count } => rng.below(*count),
            other => other.draw_skewed(rng),
        }
    }

    fn draw_skewed(&mut self, rng: &mut Rng) -> u64 {
        match self {
            BlockSource::Uniform { count } => rng.below(*count),
            BlockSource::Skewed { rank, scatter } => scatter.at(rank.draw(rng)),
            BlockSource::Files { rank, count, shift } => {
                (rank.draw(rng) + *shift) % *count / RANKS_OF_FILE
            }
            BlockSource::Sequence { blocks, strides, drawn, count } => {
                let (turn, place) = (*drawn / blocks.len() as u64, *drawn % blocks.len() as u64);
                let begin = if *strides { turn * blocks.len() as u64 } else { 0 };
                *drawn += 1;
                (begin + blocks[place as usize]) % *count
            }
            BlockSource::Zoned(spans) => {
                let access = rng.below(100);
                let span = spans.iter().find(|span| access < span.access_end);
                let span = span.expect("the accesses of all zones add up to 100");
                span.first + rng.below(span.count)
            }
        }
    }
}

impl Popularity {
    /// The law of a distribution over so many blocks, if it has ranks.
    fn of(distribution: &Distribution, count: u64) -> Option<Popularity> {
        let (rank, top, center) = match *distribution {
            Distribution::Zipf { theta, center } => {
                (BlockRank::Zipf(Zipf::new(count, theta)), 0, center)
            }
            Distribution::Pareto { h, center } => {
                (BlockRank::Pareto { count, power: h.ln() / (1.0 - h).ln() }, 0, center)
            }
            Distribution::Normal { deviation, center } => {
                (BlockRank::Bell { count, width: deviation.min(50.0) / 100.0 }, count / 2, center)
            }
            _ => return None,
        };
        Some(Popularity { rank, top, center })
    }
}

impl BlockRank {
    fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            BlockRank::Zipf(ref zipf) => zipf.draw(rng),
            BlockRank::Pareto { count, power } => {
                ((count - 1) as f64 * rng.unit().powf(power)) as u64
            }
            BlockRank::Bell { count, width } => loop {
                let place = 0.5 + rng.normal() / 12.0 + width * (rng.unit() - 0.5);
                if (0.0..1.0).contains(&place) {
                    break (place * count as f64) as u64;
                }
            },
        }
    }
}

impl Scatter {
    /// Scatters `count` ranks so that rank `top` lies at `center`, if one is given.
    fn new(count: u64, top: u64, center: Option<f64>, rng: &mut Rng) -> Scatter {
        let order = Permutation::new(count, rng);
        let shift = center.map_or(0, |center| {
            let target = ((count as f64 * center) as u64).min(count - 1);
            (target + count - order.at(top)) % count
        });
        Scatter { order, shift }
    }

    fn at(&self, rank: u64) -> u64 {
        let count = self.order.count();
        let block = self.order.at(rank.min(count - 1)) + self.shift;
        if block >= count { block - count } else { block }
    }
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Zipf {
        let mut zipf =
            Zipf { count: count as f64, theta, area_first: 0.0, area_last: 0.0, sure: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank from zero.
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_last + rng.unit() * (self.area_first - self.area_last);
            let point = self.area_inverse(area);
            let rank = (point + 0.5).floor().clamp(1.0, self.count);
            if rank - point <= self.sure || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// The hat: x^-theta.
    fn height(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Integral from 1 to x: (x^(1 - theta) - 1) / (1 - theta), without the cancellation that
    /// this form has for a theta near 1.
    fn area(&self, x: f64) -> f64 {
        let (log, exponent) = (x.ln(), 1.0 - self.theta);
        log * if exponent * log == 0.0 { 1.0 } else { (exponent * log).exp_m1() / (exponent * log) }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.theta)).max(-1.0);
        (area * if scaled == 0.0 { 1.0 } else { scaled.ln_1p() / scaled }).exp()
    }
}

fn spans(zones: &[Zone], count: u64, block_bytes: u64) -> Vec<BlockSpan> {
    let (mut access_end, mut percents, mut bytes) = (0, 0, 0);
    let mut spans = Vec::with_capacity(zones.len());
    for zone in zones {
        let block_at = |percents: u64, bytes: u64| {
            let part = (u128::from(count) * u128::from(percents) / 100) as u64;
            (part + bytes / block_bytes).min(count)
        };
        let first = block_at(percents, bytes).min(count - 1);
        access_end += zone.access_percent;
        match zone.size {
            SizeOrPercent::Percent(percent) => percents += percent,
            SizeOrPercent::Bytes(size) => bytes += size,
        }
        // A region of few blocks may leave a zone none of its own.
        let count = block_at(percents, bytes).saturating_sub(first).max(1);
        spans.push(BlockSpan { access_end, first, count });
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::PerDirection;

    /// The constants of the rejection meet their extremes here: it must end, and stay in bounds.
    #[test]
    fn every_law_is_bounded_on_any_count() {
        let mut rng = Rng::new(1);
        let zone = Zone { access_percent: 100, size: SizeOrPercent::Percent(1) };
        for count in [1, 2, 3, 1000, 1 << 40] {
            let mut laws = vec![
                Distribution::Pareto { h: 0.999, center: Some(1.0) },
                Distribution::Normal { deviation: 100.0, center: Some(1.0) },
                Distribution::Zoned(PerDirection([vec![zone], Vec::new(), Vec::new()])),
            ];
            for theta in [0.001, 0.5, 0.999_999, 1.000_001, 5.0, 100.0] {
                laws.push(Distribution::Zipf { theta, center: None });
            }
            for law in laws {
                let mut place =
                    BlockSource::of_direction(&law, Direction::Read, (count, 1), &mut rng);
                let worst = (0..2000).map(|_| place.draw(&mut rng)).max();
                assert!(worst < Some(count), "{law:?} on {count}: {worst:?}");
            }
        }
    }
}
