//! The league: the matrix of arrays and jobs on which policies are judged.
//!
//! Every job runs on every array (a *pairing*), under every policy and the oracle. [`matrix`] knows
//! the arrays and jobs, `prepare` sets rates and lengths by a few runs of their own, the plan,
//! the run and the study are those of every experiment (one plan an array), and [`standings`] makes
//! one table of the studies.
//!
//! Honesty while a policy is being developed: half of the pairings, by a fixed hash of their names,
//! are for design; the other half is looked at only for the final table, with seeds that no design
//! saw, and both are told apart.

pub mod ablation;
pub mod csv;
mod files;
pub mod matrix;
pub mod page;
mod prepare;
pub mod standings;
pub mod text;

use crate::experiment::hash::stable_hash;
use crate::experiment::plan::{Choices, Plan};
use crate::experiment::run::{Ending, RunOptions, run_unsaved};
use crate::experiment::simulate::SimExecutor;
use crate::experiment::study::Study;
use anyhow::Result;
use matrix::{ArrayEntry, Half, Matrix};
use mirrorball_core::policies::{self, Spec};
use standings::Standings;

/// Policies that are instruments or candidates and no rivals: our own.
const OWN_FAMILY: &str = "mirrorball";

/// The rivals of a quick league: a dozen of which the best comes within 5 % of the best of all,
/// under every pairing of the design half.
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

/// How much shorter the runs of a quick league are.
const QUICK_LENGTH: f64 = 0.4;

/// What a league is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
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
    /// What the seeds of all arrays are made from.
    pub seed: u64,
    /// Whether runs are short.
    pub quick: bool,
    /// A command that runs it again.
    pub command: String,
}

/// How a league ended.
#[derive(Debug)]
pub enum Outcome {
    /// Every cell is done.
    Complete(Standings),
    /// It was told to stop.
    Interrupted,
}

/// Every policy that is a rival, in the order of the table.
pub fn all_rivals() -> Vec<String> {
    let rivals = policies::all().filter(|info| info.family() != OWN_FAMILY);
    rivals.map(|info| Spec::new(info).to_string()).collect()
}

impl Asked {
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
pub fn run(asked: &Asked, options: &RunOptions<'_>) -> Result<Outcome> {
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
        let plan = Plan::new(source, sources, choices, asked.command.clone());
        match run_unsaved(&plan, &SimExecutor { inputs: &inputs }, options)? {
            Ending::Complete(summaries) => {
                // Array by array: the histograms of all cells at once would be gigabytes.
                let study = Study::new(plan, summaries);
                pairings.extend(standings::pairings(&study, &asked.rivals));
            }
            Ending::Interrupted { .. } => return Ok(Outcome::Interrupted),
        }
    }
    Ok(Outcome::Complete(Standings::new(asked, pairings)))
}

/// The seed of an array's first repeat: the last digits of a hash, for the last bytes that go into
/// FNV-1a hardly reach the first ones.
fn seed_of(array: &str, seed: u64) -> u64 {
    let hash = stable_hash(["league", array, &*seed.to_string()]);
    u64::from_str_radix(&hash[hash.len() - 8..], 16).expect("eight hexadecimal digits")
}

#[cfg(test)]
mod tests;
