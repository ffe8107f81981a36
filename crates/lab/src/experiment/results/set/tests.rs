//! What is loaded, what is left out and why: folders as people really have them.

use super::*;
use crate::experiment::plan::Cell;
use crate::experiment::results::Results;
use crate::experiment::results::digest;
use crate::experiment::results::read::parse_cell;
use crate::fixtures::{Achieved, criteria, measurement, plan};
use proptest::prelude::*;
use tempfile::TempDir;

/// IOPS grow with the length of the policy's name and with the seed.
fn made_up(cell: &Cell<'_>) -> CellRecord {
    let reads = 400 + 100 * cell.policy.len() as u64 + 10 * cell.seed;
    cell.record(measurement(Achieved::reads(reads)))
}

fn usual_plan() -> Plan {
    plan(&["j", "k"], &["a/xx", "b/y"], 3)
}

/// A results folder with those cells of `plan` that are wanted.
fn saved(plan: &Plan, wanted: impl Fn(&Cell<'_>) -> bool) -> TempDir {
    let folder = TempDir::new().unwrap();
    let results = Results::open(folder.path(), plan).unwrap();
    for cell in plan.cells().iter().filter(|cell| wanted(cell)) {
        results.save(cell, &made_up(cell)).unwrap();
    }
    folder
}

fn load_one(folder: &Path) -> ResultSet {
    let mut loaded = load(&[folder.to_owned()], &criteria());
    assert_eq!((loaded.sets.len(), &loaded.refused[..]), (1, &[][..]));
    loaded.sets.remove(0)
}

fn cell_file(folder: &TempDir, part: &str) -> PathBuf {
    let files = json_files(&folder.path().join(CELLS_FOLDER)).unwrap();
    files.into_iter().find(|path| path.display().to_string().contains(part)).unwrap()
}

/// The reasons for which files were left out, after `change` was made in a whole folder.
fn reasons_after(change: impl Fn(&TempDir)) -> Vec<String> {
    let folder = saved(&usual_plan(), |_| true);
    change(&folder);
    let set = load_one(folder.path());
    set.skipped.into_iter().map(|skipped| skipped.reason).collect()
}

#[test]
fn a_whole_folder_gives_the_study_that_was_made_at_the_run() {
    let plan = usual_plan();
    let folder = saved(&plan, |_| true);
    let summary = |cell: &Cell<'_>| CellSummary::new(made_up(cell));
    let at_the_run =
        Study::new(plan.clone(), plan.cells().iter().map(summary).collect(), criteria());
    let set = load_one(folder.path());
    assert_eq!(set.study, at_the_run);
    assert_eq!((set.cells.len(), set.skipped.len(), set.notes.len()), (18, 0, 0));
    assert_eq!(set.label, folder.path().file_name().unwrap().to_str().unwrap());
}

#[test]
fn without_a_plan_the_cells_tell_it() {
    let plan = usual_plan();
    let folder = saved(&plan, |_| true);
    let with_plan = load_one(folder.path()).study;
    fs::remove_file(folder.path().join(PLAN_FILE)).unwrap();
    let set = load_one(folder.path());
    assert_eq!((&set.study.jobs, &set.study.verdict), (&with_plan.jobs, &with_plan.verdict));
    assert_eq!(set.study.plan.seeds, plan.seeds);
    let files = json_files(&folder.path().join(CELLS_FOLDER)).unwrap();
    let loaded = load(&files, &criteria());
    assert_eq!(loaded.sets[0].study, set.study, "named one by one they say the same");
    assert_eq!(loaded.sets[0].label, set.label);
}

/// The quantiles of Student's t are known for so many looks.
#[test]
fn a_plan_of_no_looks_or_of_too_many_is_refused() {
    for looks in [0, LOOKS_MAX + 1] {
        let folder = saved(&usual_plan().with_looks(looks), |_| true);
        let set = load_one(folder.path());
        assert!(set.skipped[0].reason.contains(&format!("`looks` is {looks}")), "{looks}");
        assert_eq!(set.study.plan.looks, 1, "the cells tell it");
    }
}

#[test]
fn what_is_no_cell_is_named_with_what_it_is() {
    let write = |text: &'static str| {
        move |folder: &TempDir| fs::write(cell_file(folder, "j.a-xx.seed-2"), text).unwrap()
    };
    let cases: [(&'static str, &str); 9] = [
        ("", "is empty"),
        (
            "{\"schema_version\":4,\"program_ver",
            "is cut off: its JSON ends too early (at its byte 32)",
        ),
        (
            "{\"schema_version\":5}",
            "was saved by a newer mirrorball: use that version (it has schema version 5",
        ),
        ("{\"schema_version\":2}", "was saved by an older mirrorball: run the comparison again"),
        (
            "fio: note\n{\"fio version\" : \"fio-3.33\"}",
            "is output of fio\n  help: `mirrorball import fio",
        ),
        ("{\"fio version\" : \"fio-3.33\"}", "is output of fio"),
        ("{\"results\":[]}", "is JSON, but not a result of mirrorball"),
        ("array,job,section,requests\n", "has the figures of a report as CSV"),
        (
            "IOPS: 94\n",
            "is not a result of mirrorball: it is not JSON\n  help: give a results folder",
        ),
    ];
    for (text, reason) in cases {
        let reasons = reasons_after(write(text));
        assert!(reasons.len() == 1 && reasons[0].starts_with(reason), "{text}: {reasons:?}");
    }
}

/// The text of a saved cell with the digest that fits it.
fn sealed_again(text: &str) -> String {
    let (_, fields) = text.split_once("\",").unwrap();
    digest::seal(&format!("{{{fields}"))
}

#[test]
fn a_cell_that_was_changed_is_left_out() {
    let reasons = reasons_after(|folder| {
        let path = cell_file(folder, "k.b-y.seed-3");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("text of k", "text of q")).unwrap();
    });
    assert_eq!(reasons, ["was changed after it was saved: its digest does not fit"]);
}

#[test]
fn a_cell_of_another_experiment_is_left_out() {
    let edit = |from: &'static str, to: &'static str| {
        reasons_after(|folder| {
            let path = cell_file(folder, "k.b-y.seed-3");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(path, sealed_again(&text.replace(from, to))).unwrap();
        })
    };
    assert_eq!(
        edit("text of k", "text of q"),
        ["is a result of a different job that is also named `k`"]
    );
    assert_eq!(
        edit("text of pair", "other"),
        ["is a result of a different array that is also named `pair`"]
    );
    assert_eq!(
        edit("\"b/y\"", "\"c/z\""),
        ["is a result of policy `c/z`, which the plan does not have"]
    );
    assert_eq!(edit("\"seed\":3", "\"seed\":9"), ["has seed 9, which the plan does not have"]);
    assert!(edit("\"seed\":3", "\"seed\":2")[0].starts_with("is the same cell as "));
    assert_eq!(
        edit("\"width_us\":[", "\"width_us\":[7,"),
        ["is damaged: the columns of `intervals`"]
    );
}

#[test]
fn without_a_plan_the_majority_decides_what_a_name_means() {
    let folder = saved(&usual_plan(), |_| true);
    fs::remove_file(folder.path().join(PLAN_FILE)).unwrap();
    // The first file that is read, so that it takes more than being first.
    let odd = json_files(&folder.path().join(CELLS_FOLDER)).unwrap()[0].clone();
    let text = fs::read_to_string(&odd).unwrap();
    fs::write(&odd, sealed_again(&text.replace("text of pair", "another"))).unwrap();
    let set = load_one(folder.path());
    let expected = "is a result of a different array that is also named `pair`".to_owned();
    assert_eq!(set.skipped, [Skipped { path: odd, reason: expected }]);
    assert_eq!(set.study.cells.len(), 17);
}

#[test]
fn a_missing_repeat_costs_nothing_else() {
    let folder = saved(&usual_plan(), |cell| cell.policy != "b/y" || cell.repeat != 1);
    let set = load_one(folder.path());
    assert_eq!(set.study.cells.len(), 16);
    let note =
        "16 of 18 cells are saved; the command in plan.json, run again, simulates the others";
    assert_eq!(set.notes, [note]);
    let row = |policy: &str| set.study.jobs[0].rows.iter().find(|row| row.policy == policy);
    assert_eq!(row("b/y").unwrap().sections[0].figures.iops.value, 72.0, "of seeds 1 and 3");
}

/// The plan is run job by job: the last job lacks most policies, so it goes and they stay.
#[test]
fn an_interrupted_run_is_reported_as_far_as_it_goes() {
    let folder = saved(&usual_plan(), |cell| cell.job_index == 0 || cell.policy == "a/xx");
    let set = load_one(folder.path());
    let left_out = "job `k` is left out: 1 of 3 policies have cells";
    let note =
        "12 of 18 cells are saved; the command in plan.json, run again, simulates the others";
    assert_eq!(set.notes, [note, left_out]);
    assert_eq!(set.study.matrix.jobs, ["j"]);
    assert_eq!((set.study.matrix.rows.len(), set.cells.len()), (3, 9));
    let without_oracle = saved(&usual_plan(), |cell| cell.policy != ORACLE);
    let set = load_one(without_oracle.path());
    assert_eq!(set.notes[1], "`oracle` is left out: it has cells under 0 of 2 jobs");
    assert_eq!(set.study.jobs[0].rows[0].fraction_of_oracle, None);
}

#[test]
fn what_holds_nothing_is_refused_and_the_rest_is_reported() {
    let (empty, whole) = (TempDir::new().unwrap(), saved(&usual_plan(), |_| true));
    let absent = empty.path().join("absent");
    let paths = [empty.path().to_owned(), whole.path().to_owned(), absent.clone()];
    let loaded = load(&paths, &criteria());
    assert_eq!(loaded.sets.len(), 1);
    let reasons: Vec<(&Path, &str)> =
        loaded.refused.iter().map(|one| (&*one.path, &*one.reason)).collect();
    assert_eq!(reasons[0].0, empty.path());
    assert!(reasons[0].1.starts_with("holds no saved results\n  help: give a folder"));
    assert_eq!(reasons[1].0, absent);
    assert!(reasons[1].1.starts_with("cannot be read: No such file"), "{}", reasons[1].1);
    assert_eq!(reasons.len(), 2);
    fs::create_dir_all(empty.path().join("run/cells")).unwrap();
    let reason = load(&[empty.path().to_owned()], &criteria()).refused.remove(0).reason;
    assert!(reason.starts_with("holds no saved results itself, but 1 of its folders do\n"));
    let oracle_only = saved(&usual_plan(), |cell| cell.policy == ORACLE);
    let loaded = load(&[oracle_only.path().to_owned()], &criteria());
    assert_eq!(loaded.refused[0].reason, "holds results of the oracle only");
}

#[test]
fn sets_of_one_name_get_different_labels() {
    let above = TempDir::new().unwrap();
    let paths = ["a/run", "b/run"].map(|name| above.path().join(name));
    for path in &paths {
        let plan = usual_plan();
        let results = Results::open(path, &plan).unwrap();
        plan.cells().iter().for_each(|cell| results.save(cell, &made_up(cell)).unwrap());
    }
    let labels: Vec<String> =
        load(&paths, &criteria()).sets.into_iter().map(|set| set.label).collect();
    assert_eq!(labels, paths.each_ref().map(|path| path.display().to_string()));
    let same = [paths[0].clone(), paths[0].clone()];
    let labels: Vec<String> =
        load(&same, &criteria()).sets.into_iter().map(|set| set.label).collect();
    assert_eq!(labels, [paths[0].display().to_string(), format!("{} (2)", paths[0].display())]);
}

/// What remains when only the cells of `mask` are there: the set, if it can be reported.
fn of_mask(plan: &Plan, mask: &[bool]) -> Option<ResultSet> {
    let present = plan.cells().into_iter().zip(mask).filter(|(_, is_there)| **is_there);
    let cell = |(cell, _): (Cell<'_>, &bool)| (PathBuf::from(cell.file_name()), made_up(&cell));
    let cells = present.map(cell).collect();
    let found = Found { plan: Some(plan.clone()), cells, skipped: Vec::new() };
    into_set("set".to_owned(), Path::new("set"), found, &criteria()).ok()
}

/// Two places of a saved cell are overwritten with bytes that matter in JSON.
fn damaged_cell() -> impl Strategy<Value = Vec<u8>> {
    let plan = plan(&["j"], &["a/x"], 1);
    let whole = serde_json::to_vec(&made_up(&plan.cells()[0])).unwrap();
    let length = whole.len();
    let byte = prop::sample::select(b"0129-.e\"{}[],:nul\xff ".to_vec());
    let edits = prop::collection::vec((0..length, byte), 1..3);
    (edits, 0..3 * length).prop_map(move |(edits, end)| {
        let mut bytes = whole.clone();
        edits.into_iter().for_each(|(place, byte)| bytes[place] = byte);
        bytes.truncate(end.max(1));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whichever cells are missing, what is left is a study: every policy under every job.
    #[test]
    fn no_gap_is_a_panic(mask in prop::collection::vec(any::<bool>(), 18)) {
        let plan = usual_plan();
        let Some(set) = of_mask(&plan, &mask) else { return Ok(()) };
        let study = &set.study;
        let groups = study.plan.jobs.len() * study.plan.contenders().count();
        let rows: usize = study.jobs.iter().map(|job| job.rows.len()).sum();
        prop_assert_eq!(rows, groups);
        let there = mask.iter().filter(|is_there| **is_there).count();
        prop_assert!(set.cells.len() <= there && !set.cells.is_empty());
        prop_assert_eq!(set.notes.is_empty(), there == 18);
    }

    /// Whatever is read as sound can be studied.
    #[test]
    fn no_damage_to_a_cell_is_a_panic(bytes in damaged_cell()) {
        if let Ok(record) = parse_cell(&bytes) {
            let found = Found {
                cells: vec![(PathBuf::from("cell.json"), record)],
                ..Found::default()
            };
            let _ = into_set("set".to_owned(), Path::new("set"), found, &criteria());
        }
    }
}
