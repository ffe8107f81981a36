//! Runs that a results folder has from an earlier `bench`: one that was ended early goes on.
//!
//! A run that cannot be compared with others has its cell in `left-out/`, where no report finds it.
//! Next to the cell of each run, `runs/` has what no record has: how steady it was, which processes
//! read, how late this host was. `bench.json` has the conditions that are no part of a plan. Runs
//! under other conditions are refused, because tables would mix them.
//!
//! The settings of a round are compared with each other, because they met the same state of the
//! disks. So a round that lacks a run is measured again as a whole.

use super::design::BenchStep;
use super::outcome::{RunConditions, SavedRun};
use super::request::{Bench, DataPlace};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::format_bytes;
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::study::CellSummary;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// File of the conditions in a results folder, and folder of the runs.
const CONDITIONS_FILE: &str = "bench.json";
const FOLDER: &str = "runs";

/// Conditions that decide the figures of a run besides its plan, in words.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conditions {
    kernel: String,
    settle: String,
    size: String,
    place: String,
}

impl Conditions {
    fn of(bench: &Bench) -> Conditions {
        Conditions {
            kernel: bench.sysroot.text("/proc/version").unwrap_or_default(),
            settle: bench.times.settle.to_string(),
            size: format_bytes(bench.size_bytes),
            place: match &bench.place {
                DataPlace::Folder { above, .. } => format!("a file in {above}"),
                DataPlace::Device(device) => device.clone(),
            },
        }
    }

    /// The first difference of saved conditions from these.
    fn difference(&self, saved: &Conditions) -> Option<String> {
        let pairs = [
            ("kernel", &saved.kernel, &self.kernel),
            ("--settle", &saved.settle, &self.settle),
            ("--size", &saved.size, &self.size),
            ("data", &saved.place, &self.place),
        ];
        let mut pairs = pairs.into_iter().filter(|(_, saved, now)| saved != now);
        pairs.next().map(|(what, saved, now)| format!("{what}: saved {saved}; requested {now}"))
    }
}

impl Bench {
    /// Number of runs that `folder` has from an earlier bench with this plan, and that are not run
    /// again. Writes nothing. Fails if the folder cannot hold the results, because it has others.
    pub fn saved_runs(&self, folder: &Path) -> Result<usize, Diagnostic> {
        Results::check(folder, &self.plan).map_err(unusable)?;
        if !folder.join(CONDITIONS_FILE).exists() {
            return Ok(0);
        }
        self.check_conditions(folder)?;
        let results = Results::open(folder, &self.plan).map_err(unusable)?;
        Ok(self.kept_runs(&results).len())
    }

    /// Checks that runs in `folder` were made under the conditions of this one.
    fn check_conditions(&self, folder: &Path) -> Result<(), Diagnostic> {
        let path = folder.join(CONDITIONS_FILE);
        let text = fs::read_to_string(&path)
            .map_err(|error| unusable(format!("cannot read {}: {error}", path.display())))?;
        let Ok(saved) = serde_json::from_str::<Conditions>(&text) else {
            let path = path.display();
            return Err(unusable(format!("{path} was not written by this version of bench")));
        };
        let difference = Conditions::of(self).difference(&saved);
        difference.map_or(Ok(()), |difference| {
            let folder = folder.display();
            Err(unusable(format!("{folder} holds runs under other conditions: {difference}")))
        })
    }

    /// Opens the folder for runs of this benchmark. Fails if it holds others, or cannot be written.
    pub(super) fn open_results(&self, folder: &Path) -> Result<Results, Diagnostic> {
        let results = Results::open(folder, &self.plan).map_err(unusable)?;
        let path = folder.join(CONDITIONS_FILE);
        if path.exists() {
            self.check_conditions(folder)?;
        } else {
            let text = serde_json::to_string_pretty(&Conditions::of(self));
            let text = text.expect("conditions are plain data") + "\n";
            write(&path, &text)?;
        }
        let runs = folder.join(FOLDER);
        fs::create_dir_all(&runs)
            .map_err(|error| unusable(format!("cannot create {}: {error}", runs.display())))?;
        Ok(results)
    }

    /// The saved runs of whole rounds, in the order of the design.
    pub(super) fn kept_runs(&self, results: &Results) -> Vec<SavedRun> {
        let steps = self.steps();
        let found: Vec<Option<SavedRun>> =
            steps.iter().map(|step| self.load(results, step)).collect();
        let is_whole = |step: &BenchStep| {
            let of_round = steps.iter().zip(&found);
            let mut of_round =
                of_round.filter(|(other, _)| (other.round, other.job) == (step.round, step.job));
            of_round.all(|(_, run)| run.is_some())
        };
        let kept = steps.iter().zip(&found).filter(|(step, _)| is_whole(step));
        kept.filter_map(|(_, run)| run.clone()).collect()
    }

    fn load(&self, results: &Results, step: &BenchStep) -> Option<SavedRun> {
        let cell = self.cell(step);
        let record = results.load(&cell).or_else(|| results.load_left_out(&cell))?;
        let text = fs::read_to_string(run_path(results, &cell.file_name())).ok()?;
        let conditions: RunConditions = serde_json::from_str(&text).ok()?;
        let &BenchStep { job, arm, round } = step;
        let is_kept = conditions.lateness_ns <= self.lateness_max.0;
        let summary = CellSummary::new(record);
        is_kept.then_some(SavedRun { job, arm, round, summary, conditions })
    }
}

/// Saves what the cell of a run does not have.
pub(super) fn save(
    results: &Results,
    file_name: &str,
    conditions: &RunConditions,
) -> Result<(), Diagnostic> {
    let text = serde_json::to_string(conditions).expect("conditions are plain data");
    write(&run_path(results, file_name), &text)
}

fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    fs::write(path, text)
        .map_err(|error| unusable(format!("cannot write {}: {error}", path.display())))
}

/// Why a results folder cannot be used. Lists of differences are on lines of their own.
fn unusable(error: impl Display) -> Diagnostic {
    let mut lines =
        format!("{error:#}").lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let first = lines.remove(0);
    let message = match lines.is_empty() {
        true => first,
        false => format!("{first}: {}", lines.join("; ")),
    };
    Diagnostic::new(message).with_help("choose another folder with -o")
}

fn run_path(results: &Results, file_name: &str) -> PathBuf {
    results.folder().join(FOLDER).join(file_name)
}
