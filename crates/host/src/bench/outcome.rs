//! Needs of a benchmark from outside, its reports while it runs, and its result.

use super::measured_cell::MemberWindow;
use super::restore::RestoreReport;
use super::stability::Steadiness;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;
use mirrorball_lab::experiment::study::{CellSummary, Goal, Scoring};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;

/// Needs of a benchmark from outside.
pub struct BenchControl<'a> {
    pub results: &'a Path,
    /// The command of the watchdog, to which the path of the journal is added.
    pub watchdog: Vec<OsString>,
    /// True once the benchmark is to end early.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Called before each run, and for what else happens.
    pub on_event: &'a mut dyn FnMut(BenchEvent<'_>),
}

/// Something to report while runs go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BenchEvent<'a> {
    /// The file is being written.
    WritesData {
        bytes: u64,
        /// Number of bytes written so far.
        written: u64,
    },
    Run {
        /// Number, from one.
        number: usize,
        of: usize,
        job: &'a str,
        policy: &'a str,
    },
    /// A run is refused, because the host was late.
    Late {
        /// The slowest hundredth of the wake-ups was later than this.
        lateness: Nanos,
        /// True if the run is repeated.
        is_repeated: bool,
    },
}

#[derive(Clone, Debug, Default)]
pub struct BenchOutcome {
    pub runs: Vec<SavedRun>,
    /// Runs that were refused: what they were, and why.
    pub refused: Vec<String>,
    /// True if it was stopped early.
    pub is_interrupted: bool,
    /// Why it could not go on, if it could not.
    pub failure: Option<Diagnostic>,
    pub restored: RestoreReport,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SavedRun {
    /// Job, by its place in the plan.
    pub job: usize,
    /// Setting, by its place in the plan.
    pub arm: usize,
    /// Round, from zero.
    pub round: usize,
    /// Results, section by section.
    pub summary: CellSummary,
    /// Conditions, which are saved next to the cell.
    pub conditions: RunConditions,
}

/// Conditions of a run that its cell does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConditions {
    pub window: MemberWindow,
    /// The remainder of each process that read, that of the first one first, if the choice follows
    /// from them.
    pub remainders: Vec<u32>,
    /// Bytes that the members read, as a part of those that fio read; none if not known.
    pub part_from_disks: Option<f64>,
    /// Whether the rates of the members kept their level within the window.
    pub steadiness: Steadiness,
    /// The slowest hundredth of the wake-ups of this host was later than this.
    pub lateness_ns: u64,
}

/// Least part of the bytes read that members must have read.
const FROM_DISKS_MIN: f64 = 0.8;

impl SavedRun {
    /// True if it read from a cache of this host.
    pub fn is_cached(&self) -> bool {
        self.conditions.part_from_disks.is_some_and(|part| part < FROM_DISKS_MIN)
    }

    /// True if it takes part in the comparison of settings.
    pub fn is_compared(&self) -> bool {
        self.conditions.steadiness != Steadiness::Unsteady && !self.is_cached()
    }
}

impl BenchOutcome {
    /// How the runs of a job are scored: as the report scores them. None without runs.
    pub(super) fn scoring(&self, job: usize) -> Option<Scoring> {
        let cells = self.runs.iter().filter(|run| run.job == job).map(|run| &run.summary);
        cells.clone().next()?;
        Some(Scoring::new(&Goal::default(), cells))
    }
}
