//! What a study concludes from made-up runs whose answers are known.

use super::*;
use crate::experiment::plan::Cell;
use crate::fixtures::{Achieved, plan, study};

/// IOPS by policy and seed; a run lasts 10 s.
fn made_up(cell: &Cell<'_>, by_policy: &[(&str, [u64; 3])]) -> Achieved {
    let row = by_policy.iter().find(|(policy, _)| *policy == cell.policy);
    let (_, iops) = row.expect("every policy has its rates");
    Achieved::reads(10 * iops[cell.repeat as usize])
}

fn row<'a>(job: &'a JobStudy, policy: &str) -> &'a Row {
    job.rows.iter().find(|row| row.policy == policy).unwrap()
}

const RATES: [(&str, [u64; 3]); 4] = [
    ("a/fast", [900, 1000, 1100]),
    // Overlaps with the first, but each seed is slower by about the same.
    ("b/near", [880, 979, 1081]),
    // Slower on average, and not to be told from the first.
    ("c/erratic", [1000, 900, 1040]),
    ("oracle", [1100, 1200, 1300]),
];

#[test]
fn the_best_is_told_from_the_tied_by_paired_differences() {
    let plan = plan(&["j"], &["a/fast", "b/near", "c/erratic"], 3);
    let study = study(&plan, |cell| made_up(cell, &RATES));
    let job = &study.jobs[0];
    assert_eq!(job.best, "a/fast");
    let standing = |policy| row(job, policy).standing;
    assert_eq!(standing("a/fast"), Standing::Best);
    assert_eq!(standing("b/near"), Standing::Behind);
    assert_eq!(standing("c/erratic"), Standing::Tied);
    assert_eq!(standing("oracle"), Standing::Reference);
}

#[test]
fn rates_have_their_interval_and_their_fraction_of_the_oracle() {
    let plan = plan(&["j"], &["a/fast", "b/near", "c/erratic"], 3);
    let study = study(&plan, |cell| made_up(cell, &RATES));
    let fast = row(&study.jobs[0], "a/fast");
    assert_eq!(fast.figures.iops.value, 1000.0);
    // Deviation 100, by the square root of 3, times 4.303.
    assert!((fast.figures.iops.high.unwrap() - 1248.43).abs() < 0.05, "{:?}", fast.figures.iops);
    assert!((fast.figures.mib_per_s.value - 1000.0 * 4096.0 / 1048576.0).abs() < 1e-9);
    assert!((fast.fraction_of_oracle.unwrap() - 1000.0 / 1200.0).abs() < 1e-12);
    assert_eq!(row(&study.jobs[0], "oracle").fraction_of_oracle, None);
}

/// One repeat of 100 slow reads and one of 900 fast ones: the median of all is fast, although the
/// mean of the two medians is half-way.
#[test]
fn percentiles_come_from_merged_bins() {
    let plan = plan(&["j"], &["a/x"], 2);
    let study = study(&plan, |cell| Achieved {
        latency_us: if cell.repeat == 0 { 9_000 } else { 100 },
        ..Achieved::reads(if cell.repeat == 0 { 100 } else { 900 })
    });
    let median = row(&study.jobs[0], "a/x").figures.p50_us;
    assert!((median.value - 100.0).abs() < 1.0, "{median:?}");
    assert!(median.high.unwrap() > 9_000.0);
}

#[test]
fn a_single_repeat_has_no_interval() {
    let plan = plan(&["j"], &["a/x", "b/y"], 1);
    let study = study(&plan, |_| Achieved::reads(500));
    let job = &study.jobs[0];
    assert_eq!(row(job, "a/x").figures.iops.high, None);
    assert_eq!(row(job, "b/y").standing, Standing::Tied, "equal to the last bit");
}

#[test]
fn shares_are_those_of_all_repeats_together() {
    let plan = plan(&["j"], &["a/x"], 2);
    let study = study(&plan, |cell| Achieved {
        first_percent: if cell.repeat == 0 { 100 } else { 0 },
        ..Achieved::reads(if cell.repeat == 0 { 300 } else { 100 })
    });
    let shares = &row(&study.jobs[0], "a/x").shares;
    let expected = [(1, 0.75), (4, 0.25)];
    assert_eq!(shares.iter().map(|s| (s.devid, s.share)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_that_only_writes_is_judged_by_its_writes() {
    let plan = plan(&["w", "rw"], &["a/x", "b/y"], 1);
    let study = study(&plan, |cell| Achieved {
        writes: if cell.policy == "b/y" { 900 } else { 100 },
        ..Achieved::reads(if cell.job_index == 0 { 0 } else { 50 })
    });
    assert_eq!((study.jobs[0].judged_by, &*study.jobs[0].best), (Direction::Write, "b/y"));
    assert_eq!(row(&study.jobs[0], "b/y").figures.iops.value, 90.0);
    assert_eq!((study.jobs[1].judged_by, &*study.jobs[1].best), (Direction::Read, "a/x"));
    assert_eq!(row(&study.jobs[1], "b/y").writes.as_ref().unwrap().iops.value, 90.0);
}

/// Both keep the rate, and one serves each read three times as fast; a hair more reads by the other
/// are not what counts.
#[test]
fn a_job_with_its_own_pace_is_judged_by_latency() {
    let mut plan = plan(&["j"], &["btrfs/pid", "a/x"], 2);
    plan.jobs[0].pace = crate::experiment::plan::Pace::Job;
    let study = study(&plan, |cell| Achieved {
        latency_us: if cell.policy == "a/x" { 100 } else { 300 },
        ..Achieved::reads(if cell.policy == "a/x" { 500 } else { 510 })
    });
    let job = &study.jobs[0];
    assert_eq!((job.yardstick, &*job.best), (Yardstick::MeanLatency, "a/x"));
    assert_eq!(row(job, "btrfs/pid").standing, Standing::Behind);
    assert!((study.matrix.rows[1].percent[0] - 100.0 / 3.0).abs() < 0.1);
    assert!(study.verdict.sentence.contains("it is 3.00 times as fast as `btrfs/pid`"));
}

/// IOPS by job: `a/x` 100 and 50, `b/y` 25 and 100; the oracle takes no part in the best.
fn two_by_two(cell: &Cell<'_>) -> Achieved {
    let reads = match (cell.policy, cell.job_index) {
        ("btrfs/pid", 0) => 250,
        ("btrfs/pid", _) => 1000,
        ("a/x", 0) => 1000,
        ("a/x", _) => 810,
        (_, _) => 2000,
    };
    Achieved::reads(reads)
}

#[test]
fn the_matrix_has_percentages_worst_cells_and_geometric_means() {
    let plan = plan(&["j", "k"], &["btrfs/pid", "a/x"], 2);
    let matrix = study(&plan, two_by_two).matrix;
    let names: Vec<&str> = matrix.rows.iter().map(|row| row.policy.as_str()).collect();
    assert_eq!(names, ["a/x", "btrfs/pid", "oracle"]);
    let [best, pid, oracle] = &matrix.rows[..] else { panic!("three rows") };
    assert_eq!(best.percent, [100.0, 81.0]);
    assert!((best.geometric_mean - 90.0).abs() < 1e-9);
    assert_eq!((&*best.worst_job, best.worst_percent), ("k", 81.0));
    assert_eq!((pid.geometric_mean.round(), &*pid.worst_job), (50.0, "j"));
    assert_eq!(oracle.percent, [200.0, 200.0]);
}

#[test]
fn the_verdict_names_the_policy_and_its_gain_over_pid() {
    let plan = plan(&["j", "k"], &["btrfs/pid", "a/x"], 2);
    let verdict = study(&plan, two_by_two).verdict;
    assert_eq!((&*verdict.policy, &verdict.ties[..]), ("a/x", &[][..]));
    let gain = verdict.gain.unwrap();
    assert_eq!(gain.factors, [Some(4.0), Some(0.81)]);
    assert!((gain.geometric_mean.unwrap() - 1.8).abs() < 1e-9);
    assert_eq!(
        verdict.sentence,
        "Use `a/x`: over the 2 jobs it is 1.80 times as fast as `btrfs/pid` (geometric mean; \
         from 0.81 on k to 4.00 on j); its least is 81 % of the best (k)."
    );
}

#[test]
fn the_verdict_copes_with_every_company() {
    let sentence = |jobs: &[&str], policies: &[&str], achieve: &dyn Fn(&Cell<'_>) -> Achieved| {
        study(&plan(jobs, policies, 2), achieve).verdict.sentence
    };
    let by_length = |cell: &Cell<'_>| Achieved::reads(100 * cell.policy.len() as u64);
    assert_eq!(
        sentence(&["j"], &["btrfs/pid"], &by_length),
        "Only `btrfs/pid` was run; name more policies to compare it with."
    );
    assert_eq!(
        sentence(&["j"], &["btrfs/pid", "a/x"], &by_length),
        "Use `btrfs/pid`: on j no policy compared here beats it."
    );
    assert_eq!(
        sentence(&["j"], &["c/longer", "a/x"], &by_length),
        "Use `c/longer`: on j it reaches 100 % of the best (`btrfs/pid` was not run)."
    );
    let pid_starves = |cell: &Cell<'_>| match cell.policy {
        "btrfs/pid" if cell.job_index == 1 => Achieved::reads(0),
        _ => by_length(cell),
    };
    assert_eq!(
        sentence(&["j", "k"], &["btrfs/pid", "c/much-longer"], &pid_starves),
        "Use `c/much-longer`: over the 2 jobs it is 1.44 times as fast as `btrfs/pid`, and on \
         k `btrfs/pid` completed nothing; it is the best under each of them."
    );
    assert_eq!(
        sentence(&["j"], &["a/x", "b/y"], &by_length),
        "Use `a/x`: on j it reaches 100 % of the best (`btrfs/pid` was not run); `b/y` cannot \
         be told from it in 2 repeats."
    );
}

/// Its own mean is below the best, so the words have to say why it is the one to use.
#[test]
fn auto_is_preferred_where_it_ties_the_best_and_the_verdict_says_why() {
    let plan = plan(&["j"], &["btrfs/pid", "mirrorball/auto"], 2);
    let study = study(&plan, |cell| {
        Achieved::reads(match (cell.policy, cell.seed % 2) {
            ("btrfs/pid", 0) => 1040,
            ("btrfs/pid", _) => 960,
            (_, 0) => 900,
            _ => 1000,
        })
    });
    assert_eq!(
        study.verdict.sentence,
        "Use `mirrorball/auto`: it needs no choosing, and none is faster for sure; on j it is \
         0.95 times as fast as `btrfs/pid`, on average: it takes more repeats to be sure; \
         `btrfs/pid` cannot be told from it in 2 repeats."
    );
}

#[test]
#[should_panic(expected = "out of place")]
fn cells_out_of_order_are_a_bug() {
    let plan = plan(&["j"], &["a/x", "b/y"], 1);
    let mut cells = study(&plan, |_| Achieved::reads(500)).cells;
    cells.swap(0, 1);
    let _ = Study::new(plan, cells);
}
