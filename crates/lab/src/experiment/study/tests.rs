//! What a study concludes from made-up runs whose answers are known.

use super::*;
use crate::experiment::plan::Cell;
use crate::experiment::record::RunRecord;
use crate::fixtures::{Achieved, criteria, measurement, plan, section, study, study_of};

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
    // Slower by 2 % on average, with an interval of 32 %.
    ("c/erratic", [1000, 900, 1040]),
    ("oracle", [1100, 1200, 1300]),
];

#[test]
fn policies_are_compared_with_the_best_by_paired_differences() {
    let plan = plan(&["j"], &["a/fast", "b/near", "c/erratic"], 3);
    let study = study(&plan, |cell| made_up(cell, &RATES));
    let job = &study.jobs[0];
    assert_eq!(job.best.as_deref(), Some("a/fast"));
    let standing = |policy| row(job, policy).standing;
    assert_eq!(standing("a/fast"), Standing::Best);
    assert_eq!(standing("b/near"), Standing::Behind);
    assert_eq!(standing("c/erratic"), Standing::Undecided);
    assert_eq!(standing("oracle"), Standing::Reference);
}

#[test]
fn rates_have_their_interval_and_their_fraction_of_the_oracle() {
    let plan = plan(&["j"], &["a/fast", "b/near", "c/erratic"], 3);
    let study = study(&plan, |cell| made_up(cell, &RATES));
    let fast = row(&study.jobs[0], "a/fast");
    assert_eq!(fast.sections[0].figures.iops.value, 1000.0);
    // Deviation 100, by the square root of 3, times 4.303.
    assert!(
        (fast.sections[0].figures.iops.high.unwrap() - 1248.43).abs() < 0.05,
        "{:?}",
        fast.sections[0].figures.iops
    );
    assert!((fast.sections[0].figures.mib_per_s.value - 1000.0 * 4096.0 / 1048576.0).abs() < 1e-9);
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
    let median = row(&study.jobs[0], "a/x").sections[0].figures.p50_us;
    assert!((median.value - 100.0).abs() < 1.0, "{median:?}");
    assert!(median.high.unwrap() > 9_000.0);
}

#[test]
fn a_single_repeat_has_no_interval_and_decides_nothing() {
    let plan = plan(&["j"], &["a/x", "b/y"], 1);
    let study = study(&plan, |_| Achieved::reads(500));
    let job = &study.jobs[0];
    assert_eq!(row(job, "a/x").sections[0].figures.iops.high, None);
    assert_eq!((row(job, "a/x").score.high, row(job, "a/x").spread), (None, None));
    assert_eq!(row(job, "b/y").standing, Standing::Undecided, "although equal to the last bit");
    assert!(study.verdict.ties.is_empty() && study.verdict.undecided.is_empty());
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
fn a_section_counts_reads_and_writes_together_and_is_shown_by_its_reads() {
    let plan = plan(&["w", "rw"], &["a/x", "b/y"], 1);
    let study = study(&plan, |cell| Achieved {
        writes: if cell.policy == "b/y" { 900 } else { 100 },
        ..Achieved::reads(if cell.job_index == 0 { 0 } else { 50 })
    });
    let [w, rw] = &study.jobs[..] else { panic!("two jobs") };
    assert_eq!((w.sections[0].main_kind, w.best.as_deref()), (IoKind::Write, Some("b/y")));
    assert_eq!(row(w, "b/y").sections[0].figures.iops.value, 90.0);
    assert_eq!((rw.sections[0].main_kind, rw.best.as_deref()), (IoKind::Read, Some("b/y")));
    let both = row(rw, "b/y");
    assert_eq!((both.score.value, both.sections[0].figures.iops.value), (95.0, 5.0));
    assert_eq!(both.sections[0].writes.as_ref().unwrap().iops.value, 90.0);
}

/// Both keep the rate, and one serves each read three times as fast; a few more reads by the other
/// do not count.
#[test]
fn a_section_with_a_rate_is_judged_by_latency() {
    let plan = plan(&["j"], &["btrfs/pid", "a/x"], 2);
    let study = study_of(&plan, criteria(), |cell| {
        let mut measured = measurement(Achieved {
            latency_us: if cell.policy == "a/x" { 100 } else { 300 },
            ..Achieved::reads(if cell.policy == "a/x" { 500 } else { 510 })
        });
        measured.sections[0].has_rate = true;
        measured
    });
    let job = &study.jobs[0];
    assert_eq!((job.yardstick, job.best.as_deref()), (Yardstick::MeanLatency, Some("a/x")));
    assert_eq!(row(job, "btrfs/pid").standing, Standing::Behind);
    assert!((study.matrix.rows[1].percent[0] - 100.0 / 3.0).abs() < 0.1);
    assert!(study.verdict.sentence.contains("it is 3.00 times as fast as `btrfs/pid`"));
    assert!(study.verdict.sentence.ends_with("; ranked by mean latency."));
}

/// Two sections: one policy serves many small reads and starves the large ones, the other is fair.
fn two_sections(cell: &Cell<'_>) -> RunRecord {
    let (small, large) = if cell.policy == "btrfs/pid" { (9_000, 40) } else { (4_000, 160) };
    let mut measured = measurement(Achieved::reads(small));
    let of = |name, reads| section(name, Achieved::reads(reads + cell.seed));
    measured.sections = vec![of("small", small), of("large", large)];
    measured
}

#[test]
fn a_policy_does_not_win_by_starving_a_section() {
    let plan = plan(&["two"], &["btrfs/pid", "a/fair"], 3);
    let study = study_of(&plan, criteria(), two_sections);
    let job = &study.jobs[0];
    assert_eq!((job.yardstick, job.best.as_deref()), (Yardstick::Score, Some("a/fair")));
    let pid = row(job, "btrfs/pid");
    let figures: Vec<f64> = pid.sections.iter().map(|row| row.figures.iops.value).collect();
    let expected = [900.2, 4.2];
    let is_near = |(left, right): (&f64, f64)| (left - right).abs() < 1e-9;
    assert!(figures.iter().zip(expected).all(is_near), "figures by section: {figures:?}");
    assert!((study.matrix.rows[1].percent[0] - 76.0).abs() < 1.0, "60 of 80: {:?}", study.matrix);
    let sentence = &study.verdict.sentence;
    let slow = "; but under it `small` of `two` has 44 % of the speed that it has under \
                `btrfs/pid`";
    assert!(sentence.contains(slow), "{sentence}");
    assert!(sentence.ends_with("; ranked by the geometric mean over sections of IOPS."));
}

#[test]
fn a_goal_replaces_the_score_and_is_named() {
    let plan = plan(&["two"], &["btrfs/pid", "a/fair"], 3);
    let goal = Goal::parse("mib").unwrap();
    let study = study_of(&plan, Criteria { goal, ..criteria() }, two_sections);
    assert_eq!(study.jobs[0].best.as_deref(), Some("a/fair"));
    let sentence = &study.verdict.sentence;
    assert!(sentence.ends_with("; ranked by mib."), "{sentence}");
}

/// One policy has medians of 100 and 1000 us by seed, the other 300 us: all requests of the
/// first together have 1000 us, but the mean of the inverses, which ranks, is one over 182 us.
#[test]
fn the_figure_that_is_shown_is_the_one_that_ranks() {
    let goal = Goal::parse("p50").unwrap();
    let study =
        study_of(&plan(&["j"], &["a/x", "b/y"], 2), Criteria { goal, ..criteria() }, |it| {
            let latency_us = match it.policy {
                "a/x" => [100, 1000][it.seed as usize - 1],
                _ => 300,
            };
            measurement(Achieved { latency_us, ..Achieved::reads(500) })
        });
    let [shown, other] = ["a/x", "b/y"].map(|policy| row(&study.jobs[0], policy).terms[0]);
    assert_eq!(study.jobs[0].best.as_deref(), Some("a/x"));
    assert!((180.0..184.0).contains(&shown) && (298.0..302.0).contains(&other), "{shown} {other}");
    assert_eq!(row(&study.jobs[0], "a/x").sections[0].figures.p50_us.value, shown);
}

/// 60 of 100 requests are few for chance to explain, and 93 of 100 are not.
#[test]
fn a_rate_is_missed_by_more_than_chance_explains() {
    let plan = plan(&["j"], &["btrfs/pid", "a/x"], 1);
    let study = study_of(&plan, criteria(), |cell| {
        let mut measured = measurement(Achieved::reads(if cell.policy == "a/x" { 60 } else { 93 }));
        measured.sections[0].has_rate = true;
        measured.sections[0].asked_iops = Some(10.0);
        measured
    });
    let missed: Vec<bool> =
        study.jobs[0].rows.iter().map(|row| row.sections[0].missed_rate).collect();
    assert_eq!(missed, [false, true, false]);
}

#[test]
fn the_words_for_the_score_name_the_sections_with_a_rate() {
    let plan = plan(&["two"], &["btrfs/pid", "a/fair"], 3);
    let study = study_of(&plan, criteria(), |cell| {
        let mut measured = two_sections(cell);
        measured.sections[1].has_rate = true;
        measured
    });
    assert_eq!(
        study.ranked_by(),
        "the geometric mean over sections of IOPS, and of 1/mean latency for `large`"
    );
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
    assert_eq!((verdict.policy.as_deref(), &verdict.ties[..]), (Some("a/x"), &[][..]));
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
#[should_panic(expected = "out of place")]
fn cells_out_of_order_are_a_bug() {
    let plan = plan(&["j"], &["a/x", "b/y"], 1);
    let mut cells = study(&plan, |_| Achieved::reads(500)).cells;
    cells.swap(0, 1);
    let _ = Study::new(plan, cells, Criteria::default());
}
