//! Verdicts on made-up studies whose answers are known.

use super::*;
use crate::experiment::plan::{Cell, Plan};
use crate::experiment::study::Study;
use crate::fixtures::{Achieved, criteria, measurement, plan, study, study_of};
use mirrorball_core::policies::all;
use std::fs;
use std::path::Path;

/// A study of one job: the reads of each policy in 10 s, by repeat.
fn of_rates(rates: &[(&str, [u64; 5])]) -> Study {
    let policies: Vec<&str> = rates.iter().map(|(policy, _)| *policy).collect();
    study(&plan(&["j"], &policies, 5), |cell| {
        let found = rates.iter().find(|(policy, _)| *policy == cell.policy);
        Achieved::reads(found.map_or(20_000, |(_, reads)| reads[cell.repeat as usize]))
    })
}

fn sentence(jobs: &[&str], policies: &[&str], achieve: &dyn Fn(&Cell<'_>) -> Achieved) -> String {
    study(&plan(jobs, policies, 2), achieve).verdict.sentence
}

fn by_length(cell: &Cell<'_>) -> Achieved {
    Achieved::reads(100 * cell.policy.len() as u64)
}

#[test]
fn the_gain_is_stated_against_the_baseline_if_there_is_one() {
    assert_eq!(
        sentence(&["j"], &["btrfs/pid"], &by_length),
        "Only `btrfs/pid` was run; name more policies to compare it with."
    );
    assert_eq!(
        sentence(&["j"], &["btrfs/pid", "program/own@0123456789abcdef"], &by_length),
        "Use `program/own@0123456789ab`: on `j` it is 3.11 times as fast as `btrfs/pid`."
    );
    assert_eq!(
        sentence(&["j"], &["btrfs/pid", "a/x"], &by_length),
        "Use `btrfs/pid`: it is the baseline, and on `j` no policy compared here is faster."
    );
    assert_eq!(
        sentence(&["j"], &["c/longer", "a/x"], &by_length),
        "Use `c/longer`: on `j` it is 2.67 times as fast as `a/x` (`btrfs/pid` was not run)."
    );
    let plan = plan(&["j"], &["c/longer", "a/x"], 2);
    let without = study_of(&plan, Criteria::default(), |cell| measurement(by_length(cell)));
    let expected = "Use `c/longer`: on `j` it is 2.67 times as fast as `a/x`.";
    assert_eq!(without.verdict.sentence, expected);
    let pid_starves = |cell: &Cell<'_>| match cell.policy {
        "btrfs/pid" if cell.job_index == 1 => Achieved::reads(0),
        _ => by_length(cell),
    };
    assert_eq!(
        sentence(&["j", "k"], &["btrfs/pid", "c/much-longer"], &pid_starves),
        "Use `c/much-longer`: over the 2 jobs it is 1.44 times as fast as `btrfs/pid`, and on \
         k `btrfs/pid` completed nothing; it is the best under each of them."
    );
}

/// All three have the same rates; the tail of the first is ten times that of the others, and of
/// those `mirrorball/first` has the simpler rule.
#[test]
fn of_policies_that_tie_the_shorter_tail_and_then_the_simpler_rule_is_named() {
    let plan = plan(&["j"], &["btrfs/devid:1", "zfs/mirror", "mirrorball/first"], 3);
    let with_tail = |tail_us: u64| {
        study(&plan, |cell| {
            let mut achieved = Achieved::reads(10_000);
            achieved.latency_us = if cell.policy == "btrfs/devid:1" { tail_us } else { 100 };
            achieved
        })
    };
    let verdict = with_tail(1_000).verdict;
    assert_eq!(verdict.policy.as_deref(), Some("mirrorball/first"));
    assert_eq!(verdict.preferred, Some(Preference::ShorterTail));
    assert_eq!(verdict.ties, ["zfs/mirror", "btrfs/devid:1"]);
    assert_eq!(
        verdict.sentence,
        "Use `mirrorball/first`: it ties with `btrfs/devid:1` and has lower 99th percentiles; on \
         `j` it reaches 100 % of the best (`btrfs/pid` was not run); `zfs/mirror` and \
         `btrfs/devid:1` tie with it in 3 repeats."
    );
    let equal_tails = with_tail(100).verdict;
    assert_eq!(equal_tails.policy.as_deref(), Some("mirrorball/first"), "it has no parameter");
    assert_eq!(equal_tails.preferred, Some(Preference::Simpler));
}

/// The mean of the bimodal policy is lower by 26 of 90, with an interval of 61: not a tie.
#[test]
fn a_bimodal_policy_is_reported_with_its_range_and_worst_seed() {
    let study = of_rates(&[
        ("a/steady", [9_000, 9_000, 9_000, 9_000, 9_000]),
        ("btrfs/pid", [10_000, 1_000, 10_000, 1_000, 10_000]),
    ]);
    let verdict = &study.verdict;
    assert_eq!((verdict.policy.as_deref(), verdict.ties.len()), (Some("a/steady"), 0));
    assert_eq!(verdict.undecided[0].policy, "btrfs/pid");
    assert_eq!(
        verdict.sentence,
        "Use `a/steady`: on `j` it is 1.41 times as fast as `btrfs/pid` on average, which is not \
         certain; 5 repeats do not decide about `btrfs/pid` (16 to 156 % of its mean, lowest with \
         seed 2)."
    );
}

/// The bimodal policy has the higher mean, 106 to 90, by chance or not.
#[test]
fn a_steady_policy_is_named_before_a_leader_that_depends_on_the_seed() {
    let study = of_rates(&[
        ("a/steady", [9_000, 9_000, 9_000, 9_000, 9_000]),
        ("b/bimodal", [17_000, 1_000, 17_000, 1_000, 17_000]),
    ]);
    let verdict = &study.verdict;
    assert_eq!(study.matrix.rows[0].policy, "b/bimodal");
    assert_eq!(verdict.policy.as_deref(), Some("a/steady"));
    assert_eq!((verdict.preferred, verdict.ties.len()), (Some(Preference::Steadier), 0));
    assert_eq!(verdict.undecided[0].policy, "b/bimodal");
    let reason = "Use `a/steady`: it is steadier than `b/bimodal`, which has a higher mean but \
                  depends on the seed; on `j`";
    assert!(verdict.sentence.starts_with(reason), "{}", verdict.sentence);
    // A lead that is certain is named, with its range.
    let certain = of_rates(&[
        ("a/steady", [900, 900, 900, 900, 900]),
        ("b/bimodal", [17_000, 9_000, 17_000, 9_000, 17_000]),
    ]);
    assert_eq!(certain.verdict.policy.as_deref(), Some("b/bimodal"));
    let range = "it depends on the seed: 65 to 123 % of its mean, lowest with seed 2";
    assert!(certain.verdict.sentence.contains(range), "{}", certain.verdict.sentence);
}

#[test]
fn one_repeat_proves_nothing() {
    let once = study(&plan(&["j"], &["btrfs/pid", "a/xyz-longer"], 1), by_length);
    assert_eq!(
        once.verdict.sentence,
        "`a/xyz-longer` is ahead in a single repeat, which proves nothing: on `j` it is 1.33 times \
         as fast as `btrfs/pid`. Run more repeats, for example with --repeats 5."
    );
}

/// The rounds of `bench` are not called repeats.
#[test]
fn one_round_on_real_disks_proves_nothing() {
    let command = "mirrorball bench /srv rand-4k-qd1".to_owned();
    let plan = Plan { command, ..plan(&["j"], &["btrfs/pid", "b/y"], 1) };
    let once = study(&plan, |_| Achieved::reads(800));
    assert!(
        once.verdict.sentence.ends_with("Run more rounds, for example with --rounds 5."),
        "{}",
        once.verdict.sentence
    );
}

#[test]
fn policies_that_are_equal_in_a_single_repeat_are_called_so() {
    let once = study(&plan(&["j"], &["btrfs/pid", "b/y"], 1), |_| Achieved::reads(800));
    assert_eq!(
        once.verdict.sentence,
        "All policies are equally fast in a single repeat, which proves nothing. Run more repeats, \
         for example with --repeats 5."
    );
}

#[test]
fn without_a_request_that_succeeded_there_is_no_verdict() {
    let failing = |cell: &Cell<'_>| Achieved {
        errors: 40,
        ..Achieved::reads(if cell.job_index == 1 { 0 } else { 500 })
    };
    let study = study(&plan(&["j", "k"], &["a/x", "b/y"], 2), failing);
    assert_eq!((&study.verdict.policy, &study.jobs[1].best), (&None, &None));
    assert_eq!(
        study.verdict.sentence,
        "No request of k succeeded under any policy, so no policy can be recommended. Leave it \
         out to rank the policies under the other jobs."
    );
    assert!(study.matrix.rows.iter().all(|row| row.geometric_mean.is_finite()));
    assert_eq!(study.verdict_row(), None);
}

#[test]
fn where_no_policy_had_a_choice_the_verdict_says_so() {
    let of_choices = |choices| {
        study_of(&plan(&["j"], &["a/x", "b/y"], 2), criteria(), |_| {
            let mut measured = measurement(Achieved::reads(500));
            measured.choices = choices;
            measured
        })
    };
    let none = of_choices(Some(0));
    assert_eq!((none.verdict.policy, none.jobs[0].had_choice), (None, Some(false)));
    let sentence = "No policy had a choice: every read had a single mirror, so no policy can be \
                    recommended.";
    assert_eq!(none.verdict.sentence, sentence);
    assert_eq!(of_choices(Some(1)).jobs[0].had_choice, Some(true));
    let imported = of_choices(None);
    assert_eq!((imported.jobs[0].had_choice, imported.verdict.policy.is_some()), (None, true));
}

#[test]
fn long_lists_of_ties_are_counted() {
    let names: Vec<String> = (0..9).map(|number| format!("x/{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = sentence(&["j"], &names, &|_| Achieved::reads(900));
    let ties = "`x/1`, `x/2`, `x/3`, `x/4` and 4 others tie with it in 2 repeats";
    assert!(text.contains(ties), "{text}");
    let text = sentence(&["j"], &names[..3], &|_| Achieved::reads(900));
    assert!(text.contains("`x/1` and `x/2` tie with it"), "{text}");
}

/// The code that judges treats every policy alike, so it names none.
#[test]
fn no_policy_is_named_in_the_code_that_judges() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/experiment");
    let files = sources(&Path::new(folder).join("study"));
    assert!(files.len() > 8, "{files:?}");
    for path in files.into_iter().chain([Path::new(folder).join("study.rs")]) {
        let text = fs::read_to_string(&path).unwrap();
        for info in all() {
            assert!(!text.contains(info.name), "{} names {}", path.display(), info.name);
        }
    }
}

/// The files of a folder that are no tests.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.file_name().unwrap() != "tests.rs" {
            files.push(path);
        }
    }
    files
}
