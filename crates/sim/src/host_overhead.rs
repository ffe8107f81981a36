//! The time that each request spends in the host.
//!
//! With a constant overhead, requests stay in lockstep: all that complete at one instant are
//! submitted again at one instant, so that a decision such as md's "is this disk idle?" always has
//! the same outcome. Each request therefore draws its own overhead.
//!
//! Every client draws from a random stream of its own, at submission. The n-th request of a client
//! has the same overhead under every policy, so policies stay paired.

use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file;

/// Overhead of a read that the page cache answers: a system call, a look-up and a copy of 4 KiB.
/// About 1 us on current machines: fio reads a cached file at 0.8 to 1.2 M IOPS per CPU.
const CACHE_HIT: Nanos = Nanos::from_micros(1);

/// A request takes at least this long. Otherwise a client whose requests fail at once would submit
/// them for ever without the clock moving.
const OVERHEAD_MIN: Nanos = Nanos(1);

/// The distribution of the overhead: uniform around its mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostOverhead {
    least: Nanos,
    /// Number of values, in nanoseconds, above and including `least`.
    values: u64,
    cache_hit: Nanos,
}

impl HostOverhead {
    pub(crate) fn new(spec: array_file::HostOverhead) -> HostOverhead {
        let spread = (spec.mean.0 as f64 * spec.jitter).round() as u64;
        HostOverhead {
            least: spec.mean.saturating_sub(Nanos(spread)).max(OVERHEAD_MIN),
            values: 2 * spread + 1,
            cache_hit: CACHE_HIT.min(spec.mean).max(OVERHEAD_MIN),
        }
    }

    /// Draws the overhead of a request that goes to the volume.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> Nanos {
        if self.values == 1 {
            return self.least;
        }
        // A multiplication in place of `Rng::below`: a bias of 2^-40 does not show in a latency.
        let above = (u128::from(rng.next_u64()) * u128::from(self.values)) >> 64;
        self.least + Nanos(above as u64)
    }

    /// The overhead of a read that the page cache answers. It is no larger than the mean.
    #[inline]
    pub(crate) fn cache_hit(&self) -> Nanos {
        self.cache_hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overhead(mean_us: u64, jitter: f64) -> HostOverhead {
        HostOverhead::new(array_file::HostOverhead { mean: Nanos::from_micros(mean_us), jitter })
    }

    #[test]
    fn draws_are_uniform_around_the_mean() {
        let (overhead, mut rng) = (overhead(15, 0.2), Rng::new(1));
        let draws: Vec<u64> = (0..100_000).map(|_| overhead.draw(&mut rng).0).collect();
        assert!(draws.iter().all(|draw| (12_000..=18_000).contains(draw)));
        let mean = draws.iter().sum::<u64>() / draws.len() as u64;
        assert!(mean.abs_diff(15_000) < 25, "{mean}");
        let below = draws.iter().filter(|&&draw| draw < 13_500).count();
        assert!(below.abs_diff(25_000) < 700, "a quarter of the range: {below}");
    }

    #[test]
    fn without_jitter_the_overhead_is_constant_and_never_zero() {
        let mut rng = Rng::new(1);
        assert_eq!(overhead(15, 0.0).draw(&mut rng), Nanos::from_micros(15));
        assert_eq!(overhead(0, 0.1).draw(&mut rng), Nanos(1));
        assert_eq!(rng.next_u64(), Rng::new(1).next_u64(), "nothing was drawn");
    }

    #[test]
    fn cache_hit_costs_a_microsecond_or_less() {
        assert_eq!(overhead(15, 0.1).cache_hit(), Nanos::from_micros(1));
        assert_eq!(overhead(0, 0.1).cache_hit(), Nanos(1));
    }
}
