//! The random generator: xoshiro256++ seeded through SplitMix64.
//!
//! It is our own, so that no upgrade of a library changes a golden table.
//! Algorithms: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021;
//! bounded integers by Lemire's multiplication, "Fast random integer generation in an interval",
//! 2019. Not for secrets.

/// A seeded generator. Equal seeds give equal sequences on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for `seed`, which may be any number.
    pub fn new(seed: u64) -> Rng {
        let mut mix = seed;
        Rng { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// A generator for one named part of a run: streams of different `label`s under the same `seed`
    /// are independent, so that a change in one part leaves the draws of the others as they were.
    pub fn stream(seed: u64, label: &str) -> Rng {
        let mut mix = seed;
        let mut hash = split_mix(&mut mix);
        for byte in label.bytes() {
            mix = hash ^ u64::from(byte);
            hash = split_mix(&mut mix);
        }
        Rng::new(hash)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform integer in `0..bound`. Panics if `bound` is zero.
    #[inline(always)]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "cannot draw from an empty range");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            // Rejecting the short last interval keeps the draw unbiased; for small bounds the
            // first comparison settles it without the division.
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform real in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed real with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// A normally distributed real with mean 0 and deviation 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published first outputs of SplitMix64 for seed 1234567 (Vigna's reference program).
    #[test]
    fn seeding_matches_the_reference() {
        let mut state = 1_234_567;
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(expected, [split_mix(&mut state), split_mix(&mut state)]);
    }

    /// First outputs of xoshiro256++ from state 1, 2, 3, 4 (rand_xoshiro's test vector).
    #[test]
    fn sequence_matches_the_reference() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223];
        assert_eq!(expected, std::array::from_fn(|_| rng.next_u64()));
    }

    #[test]
    fn draws_are_uniform_and_streams_differ() {
        let mut rng = Rng::new(7);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.below(6) as usize] += 1;
        }
        // Binomial deviation is 91; five of them.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 460), "{counts:?}");
        assert_ne!(Rng::stream(7, "a").next_u64(), Rng::stream(7, "b").next_u64());
    }

    #[test]
    fn moments_of_the_real_draws() {
        let mut rng = Rng::new(1);
        let draws = 200_000;
        let mean =
            |mut f: Box<dyn FnMut() -> f64>| (0..draws).map(|_| f()).sum::<f64>() / 200_000.0;
        let mut other = rng.clone();
        assert!((mean(Box::new(move || other.exponential())) - 1.0).abs() < 0.01);
        let mut other = rng.clone();
        assert!(mean(Box::new(move || other.normal())).abs() < 0.01);
        assert!((mean(Box::new(move || rng.normal().powi(2))) - 1.0).abs() < 0.015);
    }
}
