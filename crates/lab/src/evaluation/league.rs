//! The league: a matrix of arrays and jobs on which policies are compared.
//!
//! Every job runs on every array (a *pairing*), under every policy and the oracle. [`matrix`] lists
//! the arrays and jobs, `prepare` sets rates and lengths by a few calibration runs, each array is
//! one plan that is run and studied like any experiment, and [`standings`] makes one table of the
//! studies.
//!
//! Half of the pairings, by a fixed hash of their names, are the *design half*: policies may be
//! tuned on them. The *held-out half* is run only for the final table, with other seeds, and is
//! shown in a table of its own.

pub mod ablation;
pub mod csv;
mod files;
pub mod matrix;
pub mod page;
mod prepare;
pub mod standings;
pub mod text;

use crate::experiment::build::BuildIdentity;
use crate::experiment::hash::stable_hash;
use crate::experiment::plan::{Choices, Plan};
use crate::experiment::run::{Ending, RunOptions, run_unsaved};
use crate::experiment::simulate::SimExecutor;
use crate::experiment::study::{Criteria, Study};
use anyhow::Result;
use matrix::{ArrayEntry, Half, Matrix};
use mirrorball_core::policies::{self, Spec};
use standings::Standings;

/// Family of policies that are not rivals: this project's own.
const OWN_FAMILY: &str = "mirrorball";

/// The rivals of a quick league. In every pairing of the design half the best of them is within
/// 5 % of the best of all rivals.
pub const QUICK_RIVALS: [&str; 12] = [
    "btrfs/pid",
    "btrfs/rostecki",
    "crucible/read-all-first",
    "gmirror/split",
    "md/raid1",
    "md/raid1-2010",
    "md/raid10",
    "raidframe/idle",
    "research/nq",
    "research/peak-ewma",
    "research/sed",
    "solaris/geometric",
];

/// Length of a quick league's runs, as a fraction of the full length.
const QUICK_LENGTH: f64 = 0.4;

/// The options of a league.
#[derive(Clone, Debug)]
pub struct LeagueRequest {
    /// Which pairings.
    pub matrix: Matrix,
    /// Canonical strings of the policies to be judged.
    pub subjects: Vec<String>,
    /// Canonical strings of those they are judged against.
    pub rivals: Vec<String>,
    /// Which half, or both.
    pub halves: Vec<Half>,
    /// How often each cell is run.
    pub repeats: u32,
    /// Base of the seeds of all arrays.
    pub seed: u64,
    /// Whether runs are short.
    pub quick: bool,
    /// The command that repeats it.
    pub command: String,
}

/// How a league ended.
#[derive(Debug)]
pub enum LeagueOutcome {
    /// Every cell is done.
    Complete(Standings),
    /// It was interrupted.
    Interrupted,
}

/// Every policy that is a rival, in the order of the table.
pub fn all_rivals() -> Vec<String> {
    let rivals = policies::all().filter(|info| info.family() != OWN_FAMILY);
    rivals.map(|info| Spec::new(info).to_string()).collect()
}

impl LeagueRequest {
    /// How many cells will be run, the oracle's among them.
    pub fn cell_count(&self) -> usize {
        let pairings: usize =
            self.matrix.arrays.iter().map(|array| self.jobs_of(array).count()).sum();
        pairings * (self.contenders().len() + 1) * self.repeats as usize
    }

    fn contenders(&self) -> Vec<String> {
        let rivals = self.rivals.iter().filter(|rival| !self.subjects.contains(rival));
        self.subjects.iter().chain(rivals).cloned().collect()
    }

    fn jobs_of(&self, array: &ArrayEntry) -> impl Iterator<Item = &matrix::JobEntry> {
        let array = array.name.clone();
        let is_asked =
            move |job: &&matrix::JobEntry| self.halves.contains(&Half::of(&array, &job.name));
        self.matrix.jobs.iter().filter(is_asked)
    }

    fn length(&self) -> f64 {
        if self.quick { QUICK_LENGTH } else { 1.0 }
    }
}

/// Runs a league; `options` are those of every plan in it.
///
/// # Errors
/// If a cell cannot be run.
pub fn run(asked: &LeagueRequest, options: &RunOptions<'_>) -> Result<LeagueOutcome> {
    let mut pairings = Vec::new();
    for array in &asked.matrix.arrays {
        let jobs: Vec<&matrix::JobEntry> = asked.jobs_of(array).collect();
        if jobs.is_empty() {
            continue;
        }
        let inputs = prepare::inputs(array, &jobs, asked.length())?;
        let choices = Choices {
            policies: asked.contenders(),
            repeats: asked.repeats,
            seed: seed_of(&array.name, asked.seed),
            duration_ns: None,
        };
        let (source, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
        let build = BuildIdentity::current()?;
        let plan = Plan::new(build, source, sources, choices, asked.command.clone());
        match run_unsaved(&plan, &SimExecutor::new(&inputs, options.stop)?, options)? {
            Ending::Complete(summaries) => {
                // Array by array: the histograms of all cells at once would be gigabytes.
                let study = Study::new(plan, summaries, Criteria::default());
                pairings.extend(standings::pairings(&study, &asked.rivals));
            }
            Ending::Interrupted { .. } => return Ok(LeagueOutcome::Interrupted),
        }
    }
    Ok(LeagueOutcome::Complete(Standings::new(asked, pairings)))
}

/// The seed of an array's first repeat: the last digits of a hash, for the last bytes that go into
/// FNV-1a hardly reach the first ones.
fn seed_of(array: &str, seed: u64) -> u64 {
    let hash = stable_hash(["league", array, &*seed.to_string()]);
    u64::from_str_radix(&hash[hash.len() - 8..], 16).expect("eight hexadecimal digits")
}

#[cfg(test)]
mod tests;
