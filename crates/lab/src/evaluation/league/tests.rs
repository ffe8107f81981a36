//! The files of the league fit together, and standings say what a made-up study holds.

use super::matrix::{Half, Matrix};
use super::standings::{Standings, pairings};
use super::text::{Detail, markdown, text};
use super::{LeagueRequest, QUICK_RIVALS, all_rivals, csv, files, page, prepare};
use crate::experiment::plan::Cell;
use crate::experiment::record::ORACLE;
use crate::fixtures::{Achieved, plan, study};
use crate::report::{ColourMode, Style};
use std::collections::BTreeSet;

fn asked(subjects: &[&str], rivals: &[&str]) -> LeagueRequest {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    LeagueRequest {
        matrix: Matrix::builtin(),
        subjects: names(subjects),
        rivals: names(rivals),
        halves: Half::ALL.to_vec(),
        repeats: 2,
        seed: 1,
        quick: false,
        command: "mirrorball league".to_owned(),
    }
}

#[test]
fn seeds_that_differ_by_little_are_others() {
    let seeds: BTreeSet<u64> = (1..=100).map(|seed| super::seed_of("equal-hdd", seed)).collect();
    assert_eq!(seeds.len(), 100);
}

/// IOPS by policy and job: the subject is half as fast as the best rival under `j`, a tenth faster
/// under `k`, and ties under the others with a tail of its own.
fn achieved(cell: &Cell<'_>) -> Achieved {
    let reads = match (cell.policy, cell.job().name.as_str()) {
        ("own/new", "j") => 500,
        ("own/new", "k") => 1100,
        ("own/other", _) => 900,
        ("a/x", _) => 1000,
        ("b/y", "k") => 995,
        (ORACLE, _) => 2000,
        ("own/new", _) => 1000,
        _ => 250,
    };
    let latency_us = if cell.policy == "own/new" { 20_000 } else { 10_000 };
    Achieved { latency_us, ..Achieved::reads(reads) }
}

fn standings() -> Standings {
    let asked = asked(&["own/new", "own/other"], &["a/x", "b/y"]);
    let plan = plan(&["j", "k", "l", "m"], &["own/new", "own/other", "a/x", "b/y"], 2);
    Standings::new(&asked, pairings(&study(&plan, achieved), &asked.rivals))
}

#[test]
fn every_file_is_listed_and_every_entry_has_its_file() {
    let matrix = Matrix::builtin();
    let arrays: Vec<&str> = matrix.arrays.iter().map(|array| &*array.name).collect();
    let jobs: Vec<&str> = matrix.jobs.iter().map(|job| &*job.name).collect();
    for (folder, files, names) in
        [("arrays", &files::ARRAYS[..], arrays), ("jobs", &files::JOBS[..], jobs)]
    {
        assert_eq!(files.iter().map(|(name, _)| *name).collect::<Vec<&str>>(), names);
        let path = format!("{}/../../league/{folder}", env!("CARGO_MANIFEST_DIR"));
        let stem = |entry: std::fs::DirEntry| {
            entry.path().file_stem().unwrap().to_str().unwrap().to_owned()
        };
        let there: BTreeSet<String> =
            std::fs::read_dir(path).unwrap().map(|entry| stem(entry.unwrap())).collect();
        assert_eq!(there, names.iter().map(|name| (*name).to_owned()).collect());
    }
}

#[test]
fn the_matrix_is_large_and_its_halves_are_about_equal() {
    let matrix = Matrix::builtin();
    let halves = matrix
        .arrays
        .iter()
        .flat_map(|array| matrix.jobs.iter().map(|job| Half::of(&array.name, &job.name)));
    let halves: Vec<Half> = halves.collect();
    assert!(matrix.arrays.len() >= 12 && matrix.jobs.len() >= 20 && halves.len() >= 240);
    let design = halves.iter().filter(|half| **half == Half::Design).count();
    assert!(design * 5 > halves.len() * 2 && design * 5 < halves.len() * 3, "{design}");
}

#[test]
fn every_job_is_understood_on_every_kind_of_array() {
    let matrix = Matrix::builtin().only(Some("hdd-ssd,rebuilding"), None).unwrap();
    let jobs: Vec<_> = matrix.jobs.iter().collect();
    for array in &matrix.arrays {
        let inputs = prepare::inputs(array, &jobs, 0.01).unwrap();
        for (job, source) in matrix.jobs.iter().zip(&inputs.job_sources) {
            assert_eq!(source.name, job.name);
            assert!(!source.text.contains("${"), "{}", source.text);
        }
    }
}

#[test]
fn a_run_measures_about_as_many_requests_as_the_list_says() {
    let matrix = Matrix::builtin().only(Some("equal-ssd"), Some("rand-4k-qd16")).unwrap();
    let jobs: Vec<_> = matrix.jobs.iter().collect();
    let length = 0.7;
    let inputs = prepare::inputs(&matrix.arrays[0], &jobs, length).unwrap();
    let wanted = matrix.arrays[0].reads as f64 * length;
    let runtime = inputs.jobs[0].sections[0].runtime.unwrap().as_secs_f64();
    // Two of these SSDs serve 120,000 to 140,000 reads a second with 16 in flight.
    assert!((0.9..1.1).contains(&(runtime * 130_000.0 / wanted)), "{runtime}");
}

#[test]
fn names_choose_a_part_of_the_matrix() {
    let part = Matrix::builtin().only(Some("equal-*"), Some("seq-1-direct,poisson-*")).unwrap();
    let jobs: Vec<&str> = part.jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(part.arrays.len(), 2);
    assert_eq!(jobs, ["seq-1-direct", "poisson-30", "poisson-60", "poisson-90"]);
    let message = Matrix::builtin().only(Some("equal-hd"), None).unwrap_err().to_string();
    assert!(message.contains("did you mean `equal-hdd`?"), "{message}");
}

#[test]
fn rivals_are_all_policies_but_our_own() {
    let rivals = all_rivals();
    assert!(rivals.len() > 40 && rivals.iter().all(|rival| !rival.starts_with("mirrorball/")));
    assert!(QUICK_RIVALS.iter().all(|quick| rivals.iter().any(|rival| rival == quick)));
}

#[test]
fn a_ratio_is_to_the_best_rival_and_the_first_of_equals_is_the_best() {
    let standings = standings();
    let of = |job: &str| standings.pairings.iter().find(|it| it.job == job).unwrap();
    let ratio = |job: &str, policy: &str| of(job).entry(policy).ratio;
    assert_eq!((&*of("j").best, ratio("j", "own/new")), ("a/x", 0.5));
    assert!((ratio("k", "own/new") - 1.1).abs() < 1e-9);
    assert_eq!((ratio("l", "a/x"), ratio("l", "b/y"), ratio("l", ORACLE)), (1.0, 0.25, 2.0));
    assert_eq!(of("j").entry("own/new").of_oracle, 0.25);
}

#[test]
fn a_standing_is_the_mean_the_worst_and_the_wins() {
    let standings = standings();
    let mut wins = 0;
    for table in &standings.tables {
        let of_half = standings.of(table);
        assert_eq!(table.pairings, of_half.len());
        let row = table.rows.iter().find(|row| row.policy == "b/y").unwrap();
        wins += row.wins;
        let ratios = of_half.iter().map(|pairing| pairing.entry("b/y").ratio);
        assert_eq!(row.worst, ratios.fold(f64::INFINITY, f64::min));
        assert!(table.rows.is_sorted_by(|a, b| a.geometric_mean >= b.geometric_mean));
        assert_eq!(table.best_rival(&standings.subjects).policy, "a/x");
    }
    assert_eq!(wins, 1, "0.995 under `k` counts, 0.25 does not");
}

#[test]
fn a_subject_is_held_to_its_ratio_and_where_it_ties_to_its_tail() {
    let standings = standings();
    let held = standings.tables.iter().map(|table| standings.held(table, "own/new"));
    let sum = held.fold((0, 0, 0), |sum, held| {
        (sum.0 + held.behind, sum.1 + held.ties, sum.2 + held.long_tails)
    });
    assert_eq!(sum, (1, 2, 2), "`j`; `l` and `m`, both with twice the tail");
}

#[test]
fn every_form_holds_every_pairing() {
    let standings = standings();
    assert_eq!(csv::render(&standings).lines().count(), 1 + 4 * 5);
    let page = page::render(&standings);
    assert_eq!(page.matches("best rival a/x with").count(), 4 * 2, "a map for each subject");
    let on_screen =
        text(&standings, Detail::All, Style { ink: ColourMode::Plain, width_columns: 160 });
    insta::assert_snapshot!("text", on_screen);
    insta::assert_snapshot!("markdown", markdown(&standings, Detail::Screen));
}
