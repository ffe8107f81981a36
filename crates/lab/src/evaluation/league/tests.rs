//! Drawn arrays and jobs are valid and of every class, and standings say what saved outcomes hold.

use super::array::DrawnArray;
use super::class::Classes;
use super::job::{DrawnJob, Sizing};
use super::record::{EntryRecord, Folder, PairingRecord, SectionFigures};
use super::standings::{Pairing, Standings};
use super::text::Detail;
use super::{LeagueOutcome, LeagueRequest, REFERENCES, text};
use crate::experiment::build::BuildIdentity;
use crate::experiment::inputs;
use crate::experiment::run::{CellSource, RunOptions};
use crate::report::{ColourMode, Style};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_disk::profile::ModelProfile;
use mirrorball_sim::job::{JobContext, JobFile};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn request(size: u32, subjects: &[&str], rivals: &[&str]) -> LeagueRequest {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    LeagueRequest {
        size,
        seed: 1,
        subjects: names(subjects),
        rivals: names(rivals),
        quick: true,
        keeps_rivals: false,
        command: "mirrorball league --sample".to_owned(),
        registry: Registry::default(),
        written: BTreeMap::new(),
    }
}

fn drawn(seed: u64, number: u32) -> (DrawnArray, DrawnJob) {
    LeagueRequest { seed, ..request(number, &[], &[]) }.drawn(number)
}

/// The texts of a pairing that runs for ten seconds.
fn texts(array: &DrawnArray, job: &DrawnJob) -> (String, String) {
    let rates = job.sections.iter().map(|section| section.load.map(|_| 100)).collect();
    let (ramp, runtime) = (Nanos::from_secs(2), Nanos::from_secs(8));
    (array.text(ramp + runtime), job.text(&Sizing { ramp, runtime, rates }))
}

#[test]
fn every_drawn_pairing_can_run() {
    for number in 1..=600 {
        let (array, job) = drawn(3, number);
        let (array_text, job_text) = texts(&array, &job);
        let spec = ArrayFile::parse(&array_text, "a.toml");
        let spec = spec.unwrap_or_else(|error| panic!("{number}: {error}\n{array_text}")).spec;
        assert!((2..=16).contains(&spec.members.len()), "{array_text}");
        let file = JobFile::parse(&job_text, "j.fio", &JobContext::empty());
        let file = file.unwrap_or_else(|error| panic!("{number}: {error}\n{job_text}"));
        assert!((1..=3).contains(&file.sections.len()), "{job_text}");
        inputs::check_fit("a.toml", &spec, &file)
            .unwrap_or_else(|error| panic!("{number}: {error}\n{array_text}\n{job_text}"));
    }
}

#[test]
fn every_model_layout_and_fault_is_drawn() {
    let drawn: Vec<(DrawnArray, DrawnJob)> = (1..=1000).map(|number| drawn(1, number)).collect();
    let texts: Vec<(String, String)> = drawn.iter().map(|(array, job)| texts(array, job)).collect();
    let arrays: String = texts.iter().map(|(array, _)| array.as_str()).collect();
    let jobs: String = texts.iter().map(|(_, job)| job.as_str()).collect();
    // Newer than the recorded sample, whose pairings another table of models would change; to be
    // drawn from the next recorded sample on.
    let not_yet = ["hdd-5k4-1tb", "hdd-5k4-8tb"];
    for model in ModelProfile::builtin_names() {
        let is_drawn = arrays.contains(&format!("model = \"{model}\""));
        assert_eq!(is_drawn, !not_yet.contains(&model), "{model}");
    }
    for part in ["\"raid1\"", "\"raid1c3\"", "\"raid1c4\"", "\"raid10\"", "md-raid1\"", "gmirror"] {
        assert!(arrays.contains(part), "{part}");
    }
    for part in ["near:2", "far:3", "offset:4", "lvm-raid1", "zfs-mirror:3", "used = "] {
        assert!(arrays.contains(part), "{part}");
    }
    for part in ["slow = ", "until = ", "stall = ", "error_rate", "jitter", "write_mostly"] {
        assert!(arrays.contains(part), "{part}");
    }
    for part in ["rebuilding = ", "failed = true", "begin = ", "recovery_probability"] {
        assert!(arrays.contains(part), "{part}");
    }
    for part in ["background=scrub", "background=defrag", "background=rebuild", "bssplit", "zipf"] {
        assert!(jobs.contains(part), "{part}");
    }
    for part in ["numjobs=16", "rate_process=poisson", "randrw", "fsync=", "psync", "bs=1024k"] {
        assert!(jobs.contains(part), "{part}");
    }
    assert!(!arrays.contains('@'), "a fault without its times");
}

#[test]
fn the_draws_follow_from_the_seed_and_the_number() {
    let of = |seed, number| {
        let (array, job) = drawn(seed, number);
        texts(&array, &job)
    };
    assert_eq!(of(1, 7), of(1, 7));
    let without_head = |(array, job): (String, String)| {
        let body = |text: String| text.split_once('\n').unwrap().1.to_owned();
        (body(array), body(job))
    };
    let distinct: BTreeSet<_> =
        (1..=50).flat_map(|number| [1, 2].map(|seed| without_head(of(seed, number)))).collect();
    assert_eq!(distinct.len(), 100);
}

/// Sections get these scores, each from 10,000 reads.
fn entry(policy: &str, scores: &[f64], tail_us: f64) -> EntryRecord {
    let section = |(place, &score): (usize, &f64)| SectionFigures {
        name: format!("s{place}"),
        score,
        iops: score,
        reads: 10_000,
        p99_us: tail_us,
        p99_9_us: 2.0 * tail_us,
    };
    EntryRecord {
        policy: policy.to_owned(),
        build: BuildIdentity::with_hash("test"),
        sections: scores.iter().enumerate().map(section).collect(),
        extra_reads: 0,
    }
}

fn record(number: u32, entries: Vec<EntryRecord>) -> PairingRecord {
    let (mut array, mut job) = (Classes::default(), Classes::default());
    array.add("disks", if number.is_multiple_of(2) { "equal HDDs" } else { "memory cards" });
    job.add("contains", "random reads");
    job.add("contains", "streams");
    PairingRecord { key: String::new(), number, array, job, entries, last: Vec::new() }
}

/// Pairing 1: the subject starves the second section, for a score of half of the best rival's.
/// Pairing 2: a tie with twice the tail. Pairing 3: no policy completed the second section, and the
/// subject is a quarter faster.
fn standings() -> Standings {
    let request = request(3, &["own/new"], &["a/x", "b/y"]);
    let pairing = |number, own: [f64; 2], best: [f64; 2], other: [f64; 2]| {
        let mut entries = vec![entry("own/new", &own, 200.0), entry("a/x", &best, 100.0)];
        entries.push(entry("b/y", &other, 100.0));
        entries.extend(REFERENCES.map(|reference| entry(reference, &[400.0, 400.0], 50.0)));
        record(number, entries)
    };
    let records = [
        pairing(1, [400.0, 25.0], [200.0, 200.0], [100.0, 50.0]),
        pairing(2, [100.0, 100.0], [101.0, 101.0], [0.0, 50.0]),
        pairing(3, [125.0, 0.0], [100.0, 0.0], [80.0, 0.0]),
    ];
    Standings::new(&request, &records)
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9 * right.abs()
}

#[test]
fn a_ratio_is_to_the_best_rival_and_by_section() {
    let standings = standings();
    let own: Vec<f64> = standings.pairings.iter().map(|it| it.entry("own/new").ratio).collect();
    assert!(near(own[0], 0.5) && near(own[1], 100.0 / 101.0), "{own:?}");
    assert!(near(own[2], 1.25), "no policy completed the second section: {own:?}");
    assert!(standings.pairings.iter().all(|pairing| pairing.best == "a/x"));
    assert_eq!(standings.pairings[1].entry("b/y").ratio, 0.0);
    let row = standings.row("own/new");
    assert!(near(row.geometric_mean.value, (0.5 * own[1] * own[2]).cbrt()), "{row:?}");
    assert_eq!((row.worst, row.worst_number, row.median), (0.5, 1, own[1]));
    assert_eq!((standings.best_rival().policy.as_str(), row.wins), ("a/x", 2));
}

#[test]
fn a_section_with_less_than_half_is_starved() {
    let standings = standings();
    let first = standings.pairings[0].entry("own/new");
    assert_eq!((first.least_section, &*first.least_section_name), (0.125, "s1"));
    assert!(first.is_starved() && !standings.pairings[1].entry("own/new").is_starved());
    assert_eq!((standings.row("own/new").starved, standings.row("a/x").starved), (1, 0));
    // In pairing 1 the second section gets a quarter; in 2 the first one gets nothing.
    assert_eq!(standings.row("b/y").starved, 2);
    let classes = standings.by_class(|pairing| &pairing.array);
    let cards = classes.iter().find(|row| row.class.value == "memory cards").unwrap();
    assert_eq!((cards.pairings, cards.starved, cards.worst_number), (2, 1, 1));
    assert_eq!((cards.best_rival.as_str(), cards.best_rival_mean), ("a/x", 1.0));
}

#[test]
fn tails_are_compared_where_there_is_a_tie() {
    let tails = standings().tails("own/new");
    assert_eq!((tails.ties, tails.p99, tails.p99_9), (1, (1, 1), (1, 1)));
}

#[test]
fn every_form_holds_every_pairing() {
    let standings = standings();
    let on_screen =
        text::text(&standings, Detail::All, Style { ink: ColourMode::Plain, width_columns: 160 });
    insta::assert_snapshot!("text", on_screen);
    insta::assert_snapshot!("markdown", text::markdown(&standings, Detail::Screen));
}

/// Runs two pairings and returns the score of each policy in each, and the number of cells that
/// were run.
fn run(request: &LeagueRequest, folder: &Folder) -> (Vec<(u32, String, f64)>, usize) {
    let (stop, ran) = (AtomicBool::new(false), AtomicUsize::new(0));
    let on_cell = |source, _: u64| {
        ran.fetch_add(usize::from(source == CellSource::Run), Ordering::Relaxed);
    };
    let options = RunOptions { threads: None, stop: &stop, costs: &[], on_cell: &on_cell };
    let LeagueOutcome { done, standings } = super::run(request, folder, &options).unwrap();
    assert_eq!(done, 2, "it was not stopped");
    let pairings = standings.unwrap().pairings.into_iter();
    let scores = pairings.flat_map(|Pairing { number, entries, .. }| {
        entries.into_iter().map(move |entry| (number, entry.policy, entry.score))
    });
    (scores.collect(), ran.into_inner())
}

#[test]
fn a_league_that_is_stopped_has_the_standings_of_what_is_done() {
    let path = tempfile::TempDir::new().unwrap();
    let own = request(3, &["research/sed"], &["zfs/mirror"]);
    let folder = Folder::open(path.path(), &own).unwrap();
    let (stop, ran) = (AtomicBool::new(false), AtomicUsize::new(0));
    let cells = own.cells_per_pairing();
    let on_cell =
        |_, _| stop.store(ran.fetch_add(1, Ordering::Relaxed) + 1 == cells, Ordering::Relaxed);
    let options =
        RunOptions { threads: NonZeroUsize::new(1), stop: &stop, costs: &[], on_cell: &on_cell };
    let outcome = super::run(&own, &folder, &options).unwrap();
    assert_eq!((outcome.done, outcome.standings.unwrap().pairings.len()), (1, 1));
    let outcome = super::run(&own, &folder, &options).unwrap();
    assert_eq!(outcome.done, 0, "no pairing was started");
    assert!(outcome.standings.is_none());
}

/// The record of pairing 1 after `subjects` have run in this order, by builds that are named in
/// the hashes of programs, or by `build`.
fn ran_in_turn(subjects: &[(&str, &str)]) -> PairingRecord {
    let mut record = record(1, vec![entry("a/x", &[100.0], 1.0)]);
    for (place, &(subject, build)) in subjects.iter().enumerate() {
        let request = request(1, &[subject], &["a/x"]);
        let build = BuildIdentity::with_hash(build);
        record.set_last(&request, &build);
        record.entries.retain(|entry| entry.policy != *subject || entry.build == build);
        if record.entry(subject).is_none() {
            let entry = entry(subject, &[100.0 + 10.0 * place as f64], 1.0);
            record.entries.push(EntryRecord { build, ..entry });
        }
    }
    record
}

#[test]
fn a_subject_is_compared_with_its_last_build() {
    let last = |subjects: &[(&str, &str)]| {
        let (subject, _) = *subjects.last().unwrap();
        ran_in_turn(subjects).last(subject).map(|last| last.sections[0].score)
    };
    let [one, two, three] =
        ["program/p@1", "program/p@2", "program/p@3"].map(|program| (program, "same"));
    assert_eq!(last(&[one]), None);
    assert_eq!(last(&[one, one]), None, "the same build again");
    assert_eq!(last(&[one, two]), Some(100.0));
    assert_eq!(last(&[one, two, two]), Some(100.0), "it stays when the run is repeated");
    assert_eq!(last(&[one, two, three, one]), Some(120.0), "back to the first");
    assert_eq!(last(&[one, ("program/p@2?gain=2", "same")]), None, "other parameters");
    assert_eq!(last(&[("own/new", "old"), ("own/new", "new")]), Some(100.0));
    let mut record = ran_in_turn(&[("own/new", "old"), ("own/new", "new")]);
    record.entries.extend(REFERENCES.map(|reference| entry(reference, &[400.0], 1.0)));
    let standings = Standings::new(&request(1, &["own/new"], &["a/x"]), &[record]);
    let compared = standings.last_build("own/new").unwrap();
    assert!(near(compared.geometric_mean.value, 1.1), "{compared:?}");
    assert_eq!((compared.pairings, compared.changes), (1, (1, 0)));
    assert!(compared.build.contains("(old)"), "{}", compared.build);
}

#[test]
fn a_pairing_has_the_command_that_runs_it_again() {
    let mut request = request(3, &["program/p@12"], &["a/x"]);
    request.written.insert("program/p@12".to_owned(), "program:p.wasm?gain=2".to_owned());
    let command = request.replay_command(3, ["program/p@12", "a/x"]);
    let (write, compare) = command.split_once(" && ").unwrap();
    assert_eq!(write, "mirrorball league --seed 1 --quick --pairing 3");
    assert!(compare.starts_with("mirrorball compare sample-1-3.toml sample-1-3.fio "), "{compare}");
    assert!(compare.ends_with(" --policy 'program:p.wasm?gain=2,a/x'"), "{compare}");
}

#[test]
fn saved_pairings_are_reused_and_only_what_is_missing_is_run() {
    let path = tempfile::TempDir::new().unwrap();
    let own = request(2, &["research/sed"], &["zfs/mirror"]);
    let folder = Folder::open(path.path(), &own).unwrap();
    let all = 2 + REFERENCES.len();
    let (first, ran) = run(&own, &folder);
    assert_eq!(ran, 2 * all);
    assert_eq!(run(&own, &folder), (first.clone(), 0));
    let other = request(2, &["btrfs/pid"], &["zfs/mirror"]);
    assert_eq!(run(&other, &folder).1, 2, "the rival and the oracles are reused");
    let file = path.path().join("pairing-00002.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("\"reads\":", "\"reads\": ", 1)).unwrap();
    assert_eq!(run(&own, &folder), (first.clone(), all), "the file was changed");
    // Results of another build count for rivals and oracles only, and only if that is asked for.
    let mut record: PairingRecord =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for entry in &mut record.entries {
        entry.build = BuildIdentity::with_hash("another");
    }
    folder.save(&record).unwrap();
    let kept = LeagueRequest { keeps_rivals: true, ..own.clone() };
    assert_eq!(run(&kept, &folder), (first.clone(), 1));
    assert_eq!(run(&own, &folder), (first, all - 1));
}

#[test]
fn a_folder_with_other_contents_is_refused() {
    let path = tempfile::TempDir::new().unwrap();
    std::fs::write(path.path().join("notes.txt"), "mine").unwrap();
    let own = request(2, &["research/sed"], &["zfs/mirror"]);
    let message = Folder::open(path.path(), &own).unwrap_err().to_string();
    assert!(message.contains("holds no results of a sample"), "{message}");
    // Pairings of another sample have the same numbers.
    let path = tempfile::TempDir::new().unwrap();
    Folder::open(path.path(), &own).unwrap();
    for other in [
        LeagueRequest { seed: own.seed + 1, ..own.clone() },
        LeagueRequest { quick: !own.quick, ..own.clone() },
    ] {
        let message = Folder::open(path.path(), &other).unwrap_err().to_string();
        assert!(message.contains("holds the sample of seed"), "{message}");
    }
    let larger = LeagueRequest { size: 9, ..own.clone() };
    assert!(Folder::open(path.path(), &larger).is_ok());
}
