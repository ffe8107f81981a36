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
pub(super) const LONGEST: Nanos = Nanos(3_000_000_000);

/// The warm-up before a job of an advice counts, as a part of its simulated time: caches fill, and
/// policies learn the disks.
const WARM_UP_PART: u64 = 4;

/// The warm-up of a job that is simulated for a time.
pub(super) fn warm_up(time: Nanos) -> Nanos {
    Nanos(time.0 / WARM_UP_PART)
}

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

/// Number of member I/Os that jobs make, found by short runs of them.
pub struct Pilot {
    /// By job, in the simulated time.
    ios: Vec<u64>,
    time: Nanos,
}

impl Pilot {
    /// Runs the jobs under `policy`. Fails if the array cannot be simulated.
    pub fn run(inputs: &Inputs, policy: &str) -> Result<Pilot> {
        let spec = Spec::parse(policy).expect("a setting of a system is a policy");
        let mut pilot = Pilot { ios: Vec::new(), time: Nanos::ZERO };
        for time in PILOTS {
            if pilot.ios.iter().sum::<u64>() >= PILOT_IOS {
                break;
            }
            let ios = |job| {
                let record = engine::run(&Simulation {
                    array: &inputs.array,
                    job,
                    policy: PolicyUnderTest::Parsed(&spec),
                    seed: 1,
                    duration: Some(time),
                    checks: Checks::Off,
                })?;
                Ok(record.member_ios)
            };
            pilot = Pilot { ios: inputs.jobs.iter().map(ios).collect::<Result<_>>()?, time };
        }
        Ok(pilot)
    }

    /// The simulated time of every job with which `runs` runs of each stay within a budget, in
    /// steps of 100 ms, and never too short to say something.
    pub fn affordable(&self, runs: u64, budget: Nanos) -> Nanos {
        self.time_for(ios_in(budget), self.ios.iter().sum(), runs)
    }

    /// The simulated time of each job of an advice after its warm-up, so that a round of `runs`
    /// runs of all takes half the budget: most answers are certain after one. No job takes longer
    /// than says something new; what those with few I/Os leave of their shares goes to the others.
    pub fn durations(&self, runs: u64, budget: Nanos) -> Vec<Nanos> {
        let mut left = ios_in(budget) / 2 / u128::from(runs);
        let mut times = vec![LONGEST; self.ios.len()];
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by_key(|&job| self.ios[job]);
        for (place, &job) in order.iter().enumerate() {
            let share = left / (times.len() - place) as u128;
            let share = share * u128::from(WARM_UP_PART) / u128::from(WARM_UP_PART + 1);
            times[job] = self.time_for(share, self.ios[job], 1).min(LONGEST);
            left = left.saturating_sub(self.cost(self.ios[job], times[job]).into());
        }
        times
    }

    /// Number of rounds of `runs` runs of each job for which a budget suffices, where the jobs take
    /// these times.
    pub fn rounds(&self, durations: &[Nanos], runs: u64, budget: Nanos) -> u32 {
        let round = u128::from(self.costs(durations).iter().sum::<u64>()) * u128::from(runs);
        (ios_in(budget) / round.max(1)).clamp(1, u128::from(ROUNDS_MAX)) as u32
    }

    /// What a run of each job costs that takes these times: a number of I/Os.
    pub fn costs(&self, durations: &[Nanos]) -> Vec<u64> {
        self.ios.iter().zip(durations).map(|(&ios, &time)| self.cost(ios, time)).collect()
    }

    /// Number of I/Os in a time of a job that makes `ios` in the pilot's, and in its warm-up.
    fn cost(&self, ios: u64, time: Nanos) -> u64 {
        let time = time + warm_up(time);
        (u128::from(ios) * u128::from(time.0) / u128::from(self.time.0)).max(1) as u64
    }

    /// The time in which `runs` runs of what makes `ios` in the pilot's time make `ios_max`.
    fn time_for(&self, ios_max: u128, ios: u64, runs: u64) -> Nanos {
        const STEP: u128 = 100_000_000;
        let time = ios_max * u128::from(self.time.0) / u128::from((ios * runs).max(1));
        Nanos(u64::try_from(time / STEP * STEP).unwrap_or(u64::MAX)).max(SHORTEST)
    }
}

/// Number of member I/Os that two cores simulate in a time.
fn ios_in(budget: Nanos) -> u128 {
    u128::from(IOS_PER_SECOND) * u128::from(budget.0) / 1_000_000_000
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
        let times = |array: &str, runs: u64| {
            let jobs = ["rand-4k-qd32", "rand-4k-qd1"].map(str::to_owned);
            let inputs = Inputs::load(array, &jobs).unwrap();
            let pilot = Pilot::run(&inputs, "md/raid1").unwrap();
            let times = pilot.durations(runs, BUDGET);
            let used = pilot.rounds(&times, runs, BUDGET);
            assert!((1..=ROUNDS_MAX as u32).contains(&used));
            <[Nanos; 2]>::try_from(times).unwrap()
        };
        assert_eq!(times("eight-hdd-raid10", 72), [LONGEST; 2]);
        let [deep, single] = times("two-ssd-raid1", 150);
        assert!(
            deep < single && single == LONGEST,
            "what one leaves is of the other: {deep}, {single}"
        );
        assert_eq!(times("two-ssd-raid1", 1_000_000), [SHORTEST; 2]);
    }
}
