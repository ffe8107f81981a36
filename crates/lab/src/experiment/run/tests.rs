//! Order, resumption, refusals and independence from threads, with made-up runs.

use super::*;
use crate::experiment::build::BuildIdentity;
use crate::experiment::executor::CellExecutor;
use crate::experiment::record::RunRecord;
use crate::fixtures::{MockExecutor, plan};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn threads(count: usize) -> Option<NonZeroUsize> {
    Some(NonZeroUsize::new(count).unwrap())
}

fn run_all(plan: &Plan, folder: &Path, count: usize, executor: &MockExecutor) -> Result<Ending> {
    let stop = AtomicBool::new(false);
    let options =
        RunOptions { threads: threads(count), stop: &stop, costs: &[], on_cell: &|_, _| {} };
    run(plan, executor, &Results::open(folder, plan)?, &options)
}

/// Every file of a folder with its bytes, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            files.push((name, fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn cells_start_in_the_order_of_the_plan() {
    let plan = plan(&["j", "k"], &["a/x", "b/y"], 3);
    let (folder, executor) = (TempDir::new().unwrap(), MockExecutor::default());
    run_all(&plan, folder.path(), 1, &executor).unwrap();
    let expected: Vec<String> = plan.cells().iter().map(Cell::file_name).collect();
    assert_eq!(*executor.runs.lock().unwrap(), expected);
}

#[test]
fn threads_do_not_show_in_any_byte() {
    let plan = plan(&["j", "k"], &["a/x", "b/y"], 3);
    let run_with = |count| {
        let folder = TempDir::new().unwrap();
        let ending = run_all(&plan, folder.path(), count, &MockExecutor::default()).unwrap();
        (ending, contents(folder.path()))
    };
    let one = run_with(1);
    assert_eq!(one.1.len(), 18 + 1, "a file per cell and the plan");
    assert!(one == run_with(4));
}

#[test]
fn an_interrupted_run_is_resumed_where_it_stopped() {
    let plan = plan(&["j", "k"], &["a/x"], 2);
    let folder = TempDir::new().unwrap();
    let first = MockExecutor::default();
    let stop = AtomicBool::new(false);
    let stop_after_three = |_: CellSource, _: u64| {
        if first.run_count() == 3 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let options =
        RunOptions { threads: threads(1), stop: &stop, costs: &[], on_cell: &stop_after_three };
    let results = Results::open(folder.path(), &plan).unwrap();
    let ending = run(&plan, &first, &results, &options).unwrap();
    assert_eq!(ending, Ending::Interrupted { done: 3, all: 8 });

    let second = MockExecutor::default();
    let resumed = run_all(&plan, folder.path(), 1, &second).unwrap();
    let expected: Vec<String> = plan.cells()[3..].iter().map(Cell::file_name).collect();
    assert_eq!(*second.runs.lock().unwrap(), expected, "finished cells are not run again");

    let fresh = TempDir::new().unwrap();
    let at_once = run_all(&plan, fresh.path(), 1, &MockExecutor::default()).unwrap();
    assert!(resumed == at_once, "a resumed run ends as one in a single go");
}

#[test]
fn a_damaged_cell_is_run_again() {
    let plan = plan(&["j"], &["a/x"], 2);
    let folder = TempDir::new().unwrap();
    run_all(&plan, folder.path(), 1, &MockExecutor::default()).unwrap();
    let before = contents(folder.path());
    let cell_path =
        |index: usize| folder.path().join("cells").join(plan.cells()[index].file_name());
    let text = fs::read_to_string(cell_path(0)).unwrap();
    fs::write(cell_path(0), &text[..text.len() / 2]).unwrap();
    let of_old_schema = fs::read_to_string(cell_path(1)).unwrap();
    let of_old_schema = of_old_schema.replace("\"schema_version\":4", "\"schema_version\":0");
    fs::write(cell_path(1), of_old_schema).unwrap();

    let again = MockExecutor::default();
    run_all(&plan, folder.path(), 1, &again).unwrap();
    assert_eq!(again.run_count(), 2);
    assert!(before == contents(folder.path()));
}

/// As after an edit of a policy: the same plan, made by another executable.
#[test]
fn another_build_reuses_no_cell() {
    let here = plan(&["j"], &["a/x"], 2);
    let mut rebuilt = here.clone();
    rebuilt.build = BuildIdentity::with_hash("another");
    let folder = TempDir::new().unwrap();
    run_all(&here, folder.path(), 1, &MockExecutor::default()).unwrap();
    let same = MockExecutor::default();
    run_all(&here, folder.path(), 1, &same).unwrap();
    assert_eq!(same.run_count(), 0, "the same build reuses every cell");

    let error = Results::open(folder.path(), &rebuilt).unwrap_err().to_string();
    assert!(error.contains("(tests); requested") && error.contains("(another)"), "{error}");
    assert!(error.contains("of this comparison by another build"), "{error}");
    // A plan that was lost, or copied by hand, makes no older cell count either.
    fs::remove_file(folder.path().join("plan.json")).unwrap();
    let plan_text = serde_json::to_string(&rebuilt).unwrap();
    fs::write(folder.path().join("plan.json"), plan_text).unwrap();
    let other = MockExecutor::default();
    run_all(&rebuilt, folder.path(), 1, &other).unwrap();
    assert_eq!(other.run_count(), 4, "two repeats of the policy and of the oracle");
}

#[test]
fn a_folder_of_another_plan_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let here = plan(&["j"], &["a/x"], 2);
    run_all(&here, folder.path(), 1, &MockExecutor::default()).unwrap();
    let before = contents(folder.path());
    let other = here.clone().with_seeds(vec![2, 3]);
    let error = Results::open(folder.path(), &other).unwrap_err().to_string();
    assert!(error.contains("seeds: saved [1, 2]; requested [2, 3]"), "{error}");
    assert!(before == contents(folder.path()));
}

#[test]
fn a_folder_takes_more_repeats_of_its_plan_and_gives_fewer() {
    let folder = TempDir::new().unwrap();
    let (few, many) = (plan(&["j"], &["a/x"], 2), plan(&["j"], &["a/x"], 3));
    for (plan, new_cells) in [(&few, 4), (&many, 2), (&few, 0)] {
        let executor = MockExecutor::default();
        run_all(plan, folder.path(), 1, &executor).unwrap();
        assert_eq!(executor.run_count(), new_cells);
    }
}

#[test]
fn a_folder_that_holds_something_else_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
    let error = Results::open(folder.path(), &plan(&["j"], &["a/x"], 1)).unwrap_err();
    assert!(error.to_string().contains("is not empty and is not a results folder"), "{error}");
    assert_eq!(contents(folder.path()).len(), 1);
}

#[test]
fn checking_a_folder_writes_nothing() {
    let folder = TempDir::new().unwrap();
    let absent = folder.path().join("not/there");
    Results::check(&absent, &plan(&["j"], &["a/x"], 1)).unwrap();
    assert!(contents(folder.path()).is_empty());
    assert!(!absent.exists());
}

#[test]
fn a_failing_cell_ends_the_run_and_keeps_what_is_done() {
    let plan = plan(&["j"], &["a/x", "b/y"], 1);
    let folder = TempDir::new().unwrap();
    let failing = MockExecutor { failing_policy: Some("b/y"), ..MockExecutor::default() };
    let error = run_all(&plan, folder.path(), 1, &failing).unwrap_err();
    assert!(error.to_string().contains("fails as configured"), "{error}");
    assert_eq!(failing.run_count(), 2, "the oracle is not started any more");
    let again = MockExecutor::default();
    run_all(&plan, folder.path(), 1, &again).unwrap();
    assert_eq!(again.run_count(), 2, "the first cell was kept");
}

#[test]
fn a_record_survives_its_file() {
    let plan = plan(&["j"], &["a/x"], 1);
    let cells = plan.cells();
    let made_up = crate::fixtures::measurement(crate::fixtures::Achieved::reads(700));
    let record = cells[0].record(made_up);
    let folder = TempDir::new().unwrap();
    let results = Results::open(folder.path(), &plan).unwrap();
    results.save(&cells[0], &record).unwrap();
    assert_eq!(results.load(&cells[0]), Some(record));
    assert_eq!(results.load(&cells[1]), None);
}

#[test]
fn a_cell_that_was_changed_by_a_digit_runs_again() {
    let plan = plan(&["j"], &["a/x"], 1);
    let folder = TempDir::new().unwrap();
    let first = MockExecutor::default();
    run_all(&plan, folder.path(), 1, &first).unwrap();
    let path = folder.path().join("cells").join(plan.cells()[0].file_name());
    let text = std::fs::read_to_string(&path).unwrap();
    let edited = text.replacen("\"measured_ns\":1", "\"measured_ns\":2", 1);
    assert_ne!(edited, text, "the record has a window to change");
    std::fs::write(&path, edited).unwrap();
    let again = MockExecutor::default();
    run_all(&plan, folder.path(), 1, &again).unwrap();
    assert_eq!(again.run_count(), 1, "the other cell, the oracle's, is reused");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

/// An executor whose stop flag is set while it runs a cell.
struct GivesUp<'a>(&'a AtomicBool);

impl CellExecutor for GivesUp<'_> {
    fn run(&self, _cell: &Cell<'_>) -> Result<RunRecord> {
        self.0.store(true, Ordering::Relaxed);
        anyhow::bail!("stopped")
    }
}

#[test]
fn a_cell_given_up_on_interruption_is_no_failure() {
    let plan = plan(&["j"], &["a/x"], 2);
    let (folder, stop) = (TempDir::new().unwrap(), AtomicBool::new(false));
    let options = RunOptions { threads: threads(1), stop: &stop, costs: &[], on_cell: &|_, _| {} };
    let results = Results::open(folder.path(), &plan).unwrap();
    let ending = run(&plan, &GivesUp(&stop), &results, &options).unwrap();
    assert_eq!(ending, Ending::Interrupted { done: 0, all: plan.cells().len() });
}
