//! How much is simulated for an answer: which seeds, for how long, and in how many rounds at most.
//!
//! All are chosen from the array alone, not from the speed of the machine that simulates it, so
//! that the answer is the same everywhere. A budget in seconds therefore is a number of I/Os.

use crate::experiment::inputs::Inputs;
use crate::experiment::study::statistics::LOOKS_MAX;
use anyhow::Result;
use mirrorball_core::policies::Spec;
use mirrorball_core::units::Nanos;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::first_stream;

/// Time for all cells of an answer on two cores.
pub const BUDGET: Nanos = Nanos(15_000_000_000);
/// Number of member I/Os that two cores simulate in a second.
const IOS_PER_SECOND: u64 = 2_000_000;
/// Most rounds of repeats: the last of them hardly make an interval narrower.
const ROUNDS_MAX: u64 = LOOKS_MAX as u64;
/// Simulated times of the runs of each job that tell how many I/Os a longer one makes: the first
/// that makes [`PILOT_IOS`] counts, else the last.
const PILOTS: [Nanos; 2] = [Nanos(20_000_000), Nanos(2_000_000_000)];
const PILOT_IOS: u64 = 2000;
/// Limits of the simulated time of a job: a hard disk serves some ten requests in the least, and
/// what a hard disk does in the most is decided by the repeats.
const SHORTEST: Nanos = Nanos(200_000_000);
const LONGEST: Nanos = Nanos(3_000_000_000);

/// Seeds from `first` on, so that the numbers of processes leave every remainder of a division by
/// `copies` equally often, as far as `count` allows. A policy that reads the mirror with the number
/// of a process modulo the copies, as btrfs does, would be judged by chance otherwise.
pub fn balanced_seeds(first: u64, count: u32, copies: usize) -> Vec<u64> {
    let copies = copies.max(1) as u64;
    let most = u64::from(count).div_ceil(copies);
    let mut used = vec![0; copies as usize];
    let mut seeds = Vec::new();
    let mut seed = first;
    while seeds.len() < count as usize {
        let remainder = (first_stream(seed) % copies) as usize;
        if used[remainder] < most {
            used[remainder] += 1;
            seeds.push(seed);
        }
        seed = seed.wrapping_add(1);
    }
    seeds
}

/// Seeds for rounds of repeats, each of which is balanced.
pub fn seeds_in_rounds(first: u64, round: u32, rounds: u32, copies: usize) -> Vec<u64> {
    let mut seeds: Vec<u64> = Vec::new();
    for _ in 0..rounds {
        let first = seeds.last().map_or(first, |last| last.wrapping_add(1));
        seeds.extend(balanced_seeds(first, round, copies));
    }
    seeds
}

/// The simulated time of each job of an advice for which `affordable` is known.
pub fn duration(affordable: Nanos) -> Nanos {
    affordable.min(LONGEST)
}

/// Number of rounds of repeats for which the budget suffices, where one may take `affordable`, and
/// its jobs take `duration`.
pub fn rounds(affordable: Nanos, duration: Nanos) -> u32 {
    (affordable.0 / duration.0.max(1)).clamp(1, ROUNDS_MAX) as u32
}

/// The simulated time of each job with which `runs` runs of every job stay within a budget on two
/// cores, in steps of 100 ms, and never too short to say something. `policy` is in force. Fails if
/// the array cannot be simulated.
pub fn affordable(inputs: &Inputs, policy: &str, runs: u64, budget: Nanos) -> Result<Nanos> {
    let spec = Spec::parse(policy).expect("a setting of a system is a policy");
    let (mut ios, mut pilot) = (0, Nanos::ZERO);
    for time in PILOTS {
        if ios >= PILOT_IOS {
            break;
        }
        (ios, pilot) = (0, time);
        for job in &inputs.jobs {
            let record = engine::run(&Simulation {
                array: &inputs.array,
                job,
                policy: PolicyUnderTest::Parsed(&spec),
                seed: 1,
                duration: Some(pilot),
                checks: Checks::Off,
            })?;
            ios += record.member_ios;
        }
    }
    const STEP: u128 = 100_000_000;
    let ios_max = u128::from(IOS_PER_SECOND) * u128::from(budget.0) / 1_000_000_000;
    let affordable = ios_max * u128::from(pilot.0) / u128::from((ios * runs).max(1));
    let time = u64::try_from(affordable / STEP * STEP).unwrap_or(u64::MAX);
    Ok(Nanos(time).max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remainder_comes_equally_often() {
        for (copies, count) in [(2, 6), (3, 6), (4, 8), (1, 3)] {
            let seeds = balanced_seeds(1, count, copies);
            let of = |remainder: u64| {
                let leaves = |seed: &&u64| first_stream(**seed) % copies as u64 == remainder;
                seeds.iter().filter(leaves).count()
            };
            let each = count as usize / copies;
            assert!((0..copies as u64).all(|it| of(it) == each), "{copies} copies: {seeds:?}");
        }
        let uneven = balanced_seeds(7, 5, 2);
        assert_eq!(uneven.len(), 5);
        assert!(uneven.windows(2).all(|pair| pair[0] < pair[1]), "{uneven:?}");
        let rounds = seeds_in_rounds(1, 6, 3, 2);
        assert_eq!((rounds.len(), &rounds[..6]), (18, &balanced_seeds(1, 6, 2)[..]));
        assert!(rounds.windows(2).all(|pair| pair[0] < pair[1]), "{rounds:?}");
    }

    #[test]
    fn a_faster_array_is_simulated_for_a_shorter_time() {
        let time = |array: &str, runs: u64| {
            let inputs = Inputs::load(array, &["rand-4k-qd32".to_owned()]).unwrap();
            let affordable = affordable(&inputs, "md/raid1", runs, BUDGET).unwrap();
            let time = duration(affordable);
            assert!(rounds(affordable, time) == 1 || time == LONGEST);
            time
        };
        assert_eq!(time("eight-hdd-raid10", 72), LONGEST);
        let ssds = time("two-ssd-raid1", 720);
        assert!(ssds < LONGEST && ssds >= SHORTEST, "{ssds}");
        assert_eq!(time("two-ssd-raid1", 1_000_000), SHORTEST);
    }
}
