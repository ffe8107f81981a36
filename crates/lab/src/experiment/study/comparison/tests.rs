//! Comparisons of made-up studies whose answers are known.

use super::*;
use crate::experiment::build::{BuildIdentity, PROGRAM_VERSION};
use crate::experiment::plan::Plan;
use crate::fixtures::{Achieved, criteria, measurement, plan, study, study_of};

const POLICIES: [&str; 3] = ["a/one", "b/two", "c/three"];

/// A run of 10 s each, with these IOPS by policy and repeat.
fn made_up(plan: &Plan, rates: [[u64; 3]; 3]) -> Study {
    study(plan, |cell| {
        let policy = POLICIES.iter().position(|policy| *policy == cell.policy);
        let iops = policy.map_or(2000, |policy| rates[policy][cell.repeat as usize]);
        Achieved::reads(10 * iops)
    })
}

const BEFORE: [[u64; 3]; 3] = [[900, 1000, 1100], [500, 520, 540], [300, 310, 290]];
/// The first gains 5 % under each seed, far less than its seeds differ by; the second loses a
/// tenth; the third moves by chance.
const AFTER: [[u64; 3]; 3] = [[945, 1050, 1155], [450, 468, 486], [310, 290, 305]];

fn compared(before: &Study, after: &Study) -> Comparison {
    Comparison::new(&[("before", before), ("after", after)]).unwrap()
}

fn change<'a>(comparison: &'a Comparison, policy: &str) -> &'a Change {
    let row = comparison.jobs[0].rows.iter().find(|row| row.policy == policy).unwrap();
    row.changes[0].as_ref().unwrap()
}

#[test]
fn one_set_has_nothing_to_be_compared_with() {
    let plan = plan(&["j"], &POLICIES, 3);
    assert_eq!(Comparison::new(&[("only", &made_up(&plan, BEFORE))]), None);
}

#[test]
fn gains_and_losses_are_separated_from_chance_by_pairs() {
    let plan = plan(&["j"], &POLICIES, 3);
    let comparison = compared(&made_up(&plan, BEFORE), &made_up(&plan, AFTER));
    let significance = |policy| change(&comparison, policy).significance;
    assert_eq!(significance("a/one"), Significance::Faster);
    assert_eq!(significance("b/two"), Significance::Slower);
    assert_eq!(significance("c/three"), Significance::Tied);
    let speed = change(&comparison, "a/one").speed.unwrap();
    assert!((speed.value - 1.05).abs() < 1e-12, "{speed:?}");
    // Differences 45, 50, 55: deviation 5, by the square root of 3, times 4.303, by 1000.
    assert!((speed.high.unwrap() - 1.05 - 0.012_422).abs() < 1e-5, "{speed:?}");
    assert!((speed.value - speed.low.unwrap() - 0.012_422).abs() < 1e-5, "{speed:?}");
    assert_eq!(change(&comparison, "b/two").figure.value, 468.0);
    assert_eq!(change(&comparison, "oracle").significance, Significance::Tied);
    let order: Vec<&str> = comparison.jobs[0].rows.iter().map(|row| &*row.policy).collect();
    assert_eq!(order, ["a/one", "b/two", "c/three", "oracle"]);
}

#[test]
fn all_jobs_together_in_words() {
    let plan = plan(&["j", "k"], &POLICIES, 3);
    let comparison = compared(&made_up(&plan, BEFORE), &made_up(&plan, AFTER));
    let overall = &comparison.overall[0];
    let counts = (overall.faster, overall.slower, overall.tied, overall.unknown);
    assert_eq!(counts, (2, 2, 2, 0), "the oracle takes no part");
    assert_eq!(
        overall.sentence,
        "`after` is 0.98 times as fast as `before` (geometric mean over 6 pairs of job and \
         policy): 2 faster, 2 slower, 2 tied; the best policy is the same under 2 \
         of 2 jobs."
    );
}

/// Live repeats share no seeds with simulated ones: the same rates as above are then far too
/// spread to tell 5 % apart.
#[test]
fn sets_without_common_seeds_are_independent() {
    let before = plan(&["j"], &POLICIES, 3);
    let mut after = before.clone();
    after.seeds = vec![71, 72, 73];
    let comparison = compared(&made_up(&before, BEFORE), &made_up(&after, AFTER));
    assert_eq!(change(&comparison, "a/one").significance, Significance::Tied);
    assert_eq!(change(&comparison, "b/two").significance, Significance::Slower);
}

#[test]
fn a_single_repeat_is_different_or_equal_and_no_more() {
    let plan = plan(&["j"], &POLICIES, 1);
    let mut after = AFTER;
    after[2] = BEFORE[2];
    let comparison = compared(&made_up(&plan, BEFORE), &made_up(&plan, after));
    assert_eq!(change(&comparison, "a/one").significance, Significance::Unknown);
    assert_eq!(change(&comparison, "a/one").speed.unwrap().low, None);
    assert_eq!(change(&comparison, "c/three").significance, Significance::Tied);
    assert_eq!(comparison.overall[0].unknown, 2);
}

#[test]
fn the_order_of_policies_agrees_more_or_less() {
    let plan = plan(&["j"], &POLICIES, 3);
    let agreement = |after: [[u64; 3]; 3]| {
        compared(&made_up(&plan, BEFORE), &made_up(&plan, after)).jobs[0].rank_agreement[0]
    };
    assert_eq!(agreement(AFTER), Some(1.0));
    assert_eq!(agreement([[1; 3], [2; 3], [3; 3]]), Some(-1.0));
    // Two pairs as before, one the other way round.
    assert!((agreement([[5; 3], [1; 3], [2; 3]]).unwrap() - 1.0 / 3.0).abs() < 1e-12);
    // Two of three pairs agree, one is tied: 2 / sqrt(3 * 2).
    assert!((agreement([[5; 3], [2; 3], [2; 3]]).unwrap() - 2.0 / 6f64.sqrt()).abs() < 1e-12);
    assert_eq!(agreement([[4; 3]; 3]), None, "no order at all");
}

#[test]
fn what_only_one_set_has_is_left_out() {
    let before = plan(&["j", "k"], &POLICIES[..2], 3);
    let after = plan(&["k", "l"], &POLICIES[1..], 3);
    let comparison = compared(&made_up(&before, BEFORE), &made_up(&after, AFTER));
    assert_eq!(comparison.jobs.len(), 1);
    let rows = &comparison.jobs[0].rows;
    let names: Vec<&str> = rows.iter().map(|row| &*row.policy).collect();
    assert_eq!((&*comparison.jobs[0].job, names), ("k", vec!["b/two", "oracle"]));
    let sentence = &comparison.overall[0].sentence;
    let expected =
        "`after` is 0.90 times as fast as `before`: 1 slower; the best policy is another.";
    assert_eq!(sentence, expected);
    let apart = plan(&["x"], &POLICIES, 3);
    let nothing = compared(&made_up(&before, BEFORE), &made_up(&apart, AFTER));
    let expected = "`after` and `before` have no job and policy in common.";
    assert_eq!((nothing.jobs.len(), &*nothing.overall[0].sentence), (0, expected));
}

#[test]
fn speed_under_a_job_with_its_own_pace_is_the_inverse_of_latency() {
    let plan = plan(&["j"], &POLICIES, 3);
    let with_latency = |latency_us| {
        study_of(&plan, criteria(), |_| {
            let mut measured = measurement(Achieved { latency_us, ..Achieved::reads(500) });
            measured.sections[0].has_rate = true;
            measured
        })
    };
    let comparison = compared(&with_latency(300), &with_latency(100));
    let change = change(&comparison, "a/one");
    assert!((change.speed.unwrap().value - 3.0).abs() < 0.01, "{change:?}");
    assert_eq!(change.significance, Significance::Faster);
    assert!(change.figure.value < comparison.jobs[0].rows[0].first.value, "the figure is latency");
}

#[test]
fn what_else_differs_is_remarked() {
    let before = plan(&["j", "k"], &POLICIES, 3);
    let mut after = before.clone();
    after.array.text = "another text".to_owned();
    after.jobs[1].text = "another text".to_owned();
    after.build = BuildIdentity::with_hash("another");
    after.duration_ns = Some(1);
    let comparison = compared(&made_up(&before, BEFORE), &made_up(&after, AFTER));
    assert_eq!(
        comparison.remarks,
        [
            "array `pair` has other contents in `after` than in `before`",
            "job `k` has other contents in `after` than in `before`",
            "`after` was run for another duration than `before`",
            &format!(
                "`before` was run by build {PROGRAM_VERSION} (tests), `after` by build \
                 {PROGRAM_VERSION} (another)"
            ),
        ]
    );
}
