//! A seeded order of the numbers 0 to n - 1, in constant memory.
//!
//! fio remembers which blocks it has visited in a bitmap, one bit for each: 256 MiB for 8 TiB of
//! 4 KiB blocks. A simulation must not grow with the size of a job, so the order is computed: a
//! bijection on k-bit words, the fewest that hold n, and "cycle walking" past the words that are
//! not below n, of which there are fewer than half (Black and Rogaway, "Ciphers with arbitrary
//! finite domains", 2002). The bijection is built like the finaliser of SplitMix64, cut to k bits
//! and with seeded multipliers: multiplications by odd numbers modulo 2^k and xor-shifts, each of
//! which can be undone. A Feistel network of equal quality (four rounds) takes half as long again.
//!
//! Not for secrets, and not a fair draw among all n! orders: for n of a handful few of them occur.

use mirrorball_core::rng::Rng;

/// With three rounds the distances between neighbours are plainly uneven, with five they pass a
/// chi-square test from twelve bits on.
const ROUNDS: usize = 5;

/// A permutation of `0..count`.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    offset: u64,
    multipliers: [u64; ROUNDS],
}

/// A permutation that is walked once through.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    order: Permutation,
    next: u64,
}

impl Permutation {
    /// Draws a permutation of `0..count`; `count` is not zero.
    pub(super) fn new(count: u64, rng: &mut Rng) -> Permutation {
        assert!(count > 0, "a permutation of nothing");
        let bits = 64 - (count - 1).leading_zeros();
        Permutation {
            count,
            mask: u64::MAX.checked_shr(64 - bits).unwrap_or(0),
            shift: bits.div_ceil(2).max(1),
            offset: rng.next_u64(),
            multipliers: std::array::from_fn(|_| rng.next_u64() | 1),
        }
    }

    /// How many numbers it orders.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The number at place `index`, both below `count`.
    #[inline]
    pub(super) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut word = self.step(index);
        while word >= self.count {
            word = self.step(word);
        }
        word
    }

    #[inline]
    fn step(&self, word: u64) -> u64 {
        let mut word = word.wrapping_add(self.offset) & self.mask;
        for multiplier in self.multipliers {
            word = word.wrapping_mul(multiplier) & self.mask;
            word ^= word >> self.shift;
        }
        word
    }
}

impl Coverage {
    /// Starts on a fresh order of `0..count`.
    pub(super) fn new(count: u64, rng: &mut Rng) -> Coverage {
        Coverage { order: Permutation::new(count, rng), next: 0 }
    }

    /// The next number, or `None` if each came.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u64> {
        let index = Some(self.next).filter(|&it| it < self.order.count)?;
        self.next += 1;
        Some(self.order.at(index))
    }

    /// Forgets what came, and draws another order.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        *self = Coverage::new(self.order.count, rng);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{prop_assert, proptest};

    proptest! {
        /// The counts around powers of two are where a wrong number of bits would show.
        #[test]
        fn every_number_comes_once(seed: u64, power in 0u32..13, delta in -1i64..=1) {
            let count = (1i64 << power).saturating_add(delta).max(1) as u64;
            let order = Permutation::new(count, &mut Rng::new(seed));
            let mut seen = vec![false; count as usize];
            for index in 0..count {
                let number = order.at(index) as usize;
                prop_assert!(!std::mem::replace(&mut seen[number], true), "{} twice", number);
            }
        }
    }

    #[test]
    fn a_pass_is_followed_by_another_order() {
        let mut rng = Rng::new(3);
        let mut coverage = Coverage::new(1000, &mut rng);
        let mut pass = || {
            coverage.restart(&mut rng);
            std::iter::from_fn(|| coverage.next()).collect::<Vec<u64>>()
        };
        let (first, second) = (pass(), pass());
        assert_eq!(first.len(), 1000);
        assert_ne!(first, second);
        let sorted = |mut numbers: Vec<u64>| {
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(sorted(first), sorted(second));
    }

    /// Distances between neighbours of a random order of n spread evenly around the ring: with 64
    /// bins the chi-square has mean 63 and deviation 11.
    #[test]
    fn neighbours_are_unrelated() {
        for (seed, count) in [(1, 1 << 16), (2, 100_000), (3, (1 << 16) + 1)] {
            let order = Permutation::new(count, &mut Rng::new(seed));
            let mut bins = [0u64; 64];
            for index in 1..count {
                let distance = (order.at(index) + count - order.at(index - 1)) % count;
                bins[(distance * 64 / count) as usize] += 1;
            }
            let expected = (count - 1) as f64 / 64.0;
            let chi: f64 = bins.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
            assert!(chi < 63.0 + 6.0 * 11.0, "{count}: {chi}");
        }
    }

    #[test]
    fn the_greatest_domain_fits() {
        let order = Permutation::new(u64::MAX, &mut Rng::new(1));
        assert_ne!(order.at(0), order.at(u64::MAX - 1));
        assert_eq!(Permutation::new(1, &mut Rng::new(1)).at(0), 0);
    }
}
