//! The order of runs.
//!
//! A *round* runs every setting once under every job, with one seed: what the settings have in
//! common, the draws of the job and the state of the disks at that time, cancels in the differences
//! within a round. The order of settings in consecutive rounds is that of a Williams square (E. J.
//! Williams, "Experimental designs balanced for the estimation of residual effects of treatments",
//! 1949): each setting follows each other one equally often, and is at each place equally often.
//! With two settings that is A B B A.

use mirrorball_core::units::Nanos;

/// Most rounds that a budget leads to.
const ROUNDS_MAX: usize = 24;
/// The same with a single setting, which is compared with nothing.
const ROUNDS_OF_ONE: usize = 3;
/// Time between two runs: the start of fio and the switch.
const SWITCH_TIME: Nanos = Nanos::from_secs(1);

/// The lengths of the windows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimes {
    /// Time after the start whose figures are dropped.
    pub settle: Nanos,
    pub measure: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BenchStep {
    pub(super) round: usize,
    pub(super) job: usize,
    pub(super) arm: usize,
}

/// Rows of a Williams square: as many as settings if their number is even, else twice as many.
pub(super) fn williams_rows(arms: usize) -> Vec<Vec<usize>> {
    if arms < 2 {
        return vec![vec![0; arms]];
    }
    // 0, 1, n-1, 2, n-2, …: the differences of neighbours are all different.
    let base: Vec<usize> = (0..arms)
        .map(|place| if place % 2 == 1 { place.div_ceil(2) } else { (arms - place / 2) % arms })
        .collect();
    let shifted = |by: usize| base.iter().map(|arm| (arm + by) % arms).collect::<Vec<usize>>();
    let mut rows: Vec<Vec<usize>> = (0..arms).map(shifted).collect();
    if arms % 2 == 1 {
        let reversed: Vec<Vec<usize>> =
            rows.iter().map(|row| row.iter().rev().copied().collect()).collect();
        rows.extend(reversed);
    }
    rows
}

/// Imbalance of a design of this many rounds; none if everything is balanced.
pub(super) fn imbalance(rounds: usize, arms: usize) -> Option<String> {
    let square = williams_rows(arms).len();
    match (arms, rounds % square) {
        (0 | 1, _) | (_, 0) => None,
        (2, _) if rounds == 1 => {
            Some("one round is compared with no other: give --rounds 2 or more".to_owned())
        }
        (2, _) => Some(format!(
            "round {rounds} has no partner in the other order: the comparison leaves it out"
        )),
        (_, rest) => Some(format!(
            "{rest} of {square} orders are run{}, so the order of the settings is not balanced; \
             --rounds {} balances it",
            if rounds > square { " once more than the others" } else { "" },
            rounds - rest + square
        )),
    }
}

/// All runs in their order.
pub(super) fn steps(rounds: usize, jobs: usize, arms: usize) -> Vec<BenchStep> {
    let rows = williams_rows(arms);
    let mut steps = Vec::new();
    for round in 0..rounds {
        let row = &rows[round % rows.len()];
        for job in 0..jobs {
            steps.extend(row.iter().map(|&arm| BenchStep { round, job, arm }));
        }
    }
    steps
}

/// The time of one round. `groups` has, of each job, the number of its groups of sections, which
/// run one after the other.
pub(super) fn round_time(times: RunTimes, groups: &[usize], arms: usize) -> Nanos {
    let groups: usize = groups.iter().map(|groups| groups * arms).sum();
    let one = times.settle.0.saturating_add(times.measure.0).saturating_add(SWITCH_TIME.0);
    Nanos(one.saturating_mul(groups as u64))
}

/// The number of rounds that fit into `budget`: whole squares if one fits.
pub(super) fn rounds_within(budget: Nanos, round: Nanos, arms: usize) -> usize {
    let most = if arms < 2 { ROUNDS_OF_ONE } else { ROUNDS_MAX };
    let fitting = (budget.0 / round.0.max(1)).min(most as u64) as usize;
    let square = williams_rows(arms).len();
    if fitting >= square { fitting / square * square } else { fitting }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    #[test]
    fn two_settings_are_measured_in_the_order_abba() {
        assert_eq!(williams_rows(2), [[0, 1], [1, 0]]);
        let order: Vec<usize> = steps(2, 1, 2).iter().map(|step| step.arm).collect();
        assert_eq!(order, [0, 1, 1, 0]);
        assert_eq!(williams_rows(1), [[0]]);
        assert_eq!(williams_rows(4)[0], [0, 1, 3, 2]);
    }

    #[test]
    fn what_is_not_balanced_is_said() {
        assert_eq!(imbalance(7, 1), None);
        assert_eq!(imbalance(4, 2), None);
        assert!(imbalance(5, 2).unwrap().starts_with("round 5 has no partner"));
        assert!(imbalance(1, 2).unwrap().contains("--rounds 2"));
        assert_eq!(imbalance(20, 5), None);
        let six = imbalance(6, 5).unwrap();
        assert!(six.starts_with("6 of 10 orders are run, so the order"), "{six}");
        assert!(six.ends_with("; --rounds 10 balances it"), "{six}");
        assert!(imbalance(6, 4).unwrap().contains("2 of 4 orders are run once more"));
    }

    proptest! {
        #[test]
        fn every_setting_follows_every_other_equally_often(arms in 2usize..12) {
            let rows = williams_rows(arms);
            prop_assert_eq!(rows.len(), if arms % 2 == 0 { arms } else { 2 * arms });
            let mut follows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            let mut places: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for row in &rows {
                for pair in row.windows(2) {
                    *follows.entry((pair[0], pair[1])).or_default() += 1;
                }
                for (place, arm) in row.iter().enumerate() {
                    *places.entry((place, *arm)).or_default() += 1;
                }
            }
            let often = rows.len() / arms;
            prop_assert_eq!(follows.len(), arms * (arms - 1));
            prop_assert_eq!(places.len(), arms * arms);
            prop_assert!(follows.values().chain(places.values()).all(|count| *count == often));
        }

        #[test]
        fn rounds_never_exceed_the_budget(arms in 1usize..8, budget in 0u64..10_000) {
            let times = RunTimes { settle: Nanos::from_secs(5), measure: Nanos::from_secs(20) };
            let round = round_time(times, &[1, 2], arms);
            let rounds = rounds_within(Nanos::from_secs(budget), round, arms);
            prop_assert!(rounds as u64 * round.0 <= Nanos::from_secs(budget).0);
        }
    }

    #[test]
    fn a_budget_holds_whole_squares_if_one_fits() {
        let times = RunTimes { settle: Nanos::from_secs(5), measure: Nanos::from_secs(20) };
        let round = round_time(times, &[1, 1, 1], 4);
        assert_eq!(round, Nanos::from_secs(4 * 3 * 26));
        assert_eq!(rounds_within(Nanos::from_secs(2400), round, 4), 4);
        assert_eq!(rounds_within(Nanos::from_secs(3000), round, 4), 8);
        assert_eq!(rounds_within(Nanos::from_secs(1000), round, 4), 3, "less than a square");
        assert_eq!(rounds_within(Nanos::from_secs(1 << 30), round, 4), 24);
    }
}
