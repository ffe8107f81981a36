//! The league: policies compared on arrays and jobs drawn at random.
//!
//! A *pairing* is one drawn array and one drawn job. Pairing K of a seed is the same in a sample of
//! any size, so a larger sample contains a smaller one. Several pairings in a row may share an
//! array. `array`, `disk` and `job` draw, `sizing` sets rates and lengths by a few runs, every
//! pairing runs under all policies and the oracles, [`record`] saves the outcome of each pairing,
//! and [`standings`] makes one table of them.
//!
//! A pairing is a unit of the work loop ([`RunOptions::run_units`]). One that was interrupted keeps
//! the policies that were done.

mod array;
mod bootstrap;
pub mod class;
mod disk;
mod draw;
mod job;
pub mod record;
mod sizing;
pub mod standings;
pub mod text;

use crate::experiment::build::BuildIdentity;
use crate::experiment::executor::CellExecutor;
use crate::experiment::hash::stable_hash;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::{Choices, Plan};
use crate::experiment::record::{FAIR_ORACLE, ORACLE};
use crate::experiment::run::{CellSource, RunOptions};
use crate::experiment::simulate::SimExecutor;
use crate::experiment::study::CellSummary;
use anyhow::{Context, Result};
use array::DrawnArray;
use job::DrawnJob;
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::policies::{self, Registry, Spec};
use record::{EntryRecord, Folder, PairingRecord};
use sizing::Bounds;
use standings::Standings;
use std::collections::BTreeMap;

/// Largest number of pairings of a sample.
pub const SIZE_MAX: u32 = 100_000;

/// The policies that are shown for reference, and take no part in the ranking.
pub const REFERENCES: [&str; 2] = [ORACLE, FAIR_ORACLE];

/// Family of policies that are not rivals: this project's own.
const OWN_FAMILY: &str = "mirrorball";

/// Rivals of a quick league: fast policies of different kinds.
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

/// Every policy that is a rival, in the order of the table.
pub fn all_rivals() -> Vec<String> {
    let rivals = policies::all().filter(|info| info.family() != OWN_FAMILY);
    rivals.map(|info| Spec::new(info).to_string()).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeagueRequest {
    pub size: u32,
    pub seed: u64,
    /// Canonical strings of the policies to be judged.
    pub subjects: Vec<String>,
    /// Canonical strings of those they are judged against.
    pub rivals: Vec<String>,
    /// Whether runs are short.
    pub quick: bool,
    /// Whether saved results of rivals and references count if another build made them.
    pub keeps_rivals: bool,
    pub command: String,
    /// The programs among the policies.
    pub registry: Registry,
    /// Policy strings of the programs as they were written, by canonical string.
    pub written: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct LeagueOutcome {
    /// Number of pairings that are done; fewer than the request has if it was interrupted.
    pub done: usize,
    pub standings: Option<Standings>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingFiles {
    /// Name of both files, without their endings.
    pub name: String,
    pub array: String,
    pub job: String,
    pub seed: u64,
}

impl LeagueRequest {
    /// How many cells a pairing has, the references' among them.
    pub fn cells_per_pairing(&self) -> usize {
        self.contenders().len()
    }

    /// Subjects, rivals and references.
    pub fn contenders(&self) -> Vec<String> {
        let rivals = self.rivals.iter().filter(|rival| !self.subjects.contains(rival));
        let references = REFERENCES.map(str::to_owned);
        self.subjects.iter().chain(rivals).cloned().chain(references).collect()
    }

    /// The contenders but the oracle, which every plan adds.
    fn planned(&self) -> Vec<String> {
        self.contenders().into_iter().filter(|policy| policy != ORACLE).collect()
    }

    fn bounds(&self) -> Bounds {
        if self.quick { Bounds::SHORT } else { Bounds::FULL }
    }

    fn drawn(&self, number: u32) -> (DrawnArray, DrawnJob) {
        let array = DrawnArray::new(self.seed, number);
        let job = DrawnJob::new(self.seed, number, &array);
        (array, job)
    }

    /// The command that runs a pairing under `policies` by its files.
    pub fn compare_command<'a>(
        &self,
        number: u32,
        policies: impl IntoIterator<Item = &'a str>,
    ) -> String {
        let as_written = |policy| self.written.get(policy).map_or(policy, String::as_str);
        let policies: Vec<&str> = policies.into_iter().map(as_written).collect();
        let (name, seed) = (self.pairing_name(number), cell_seed(self.seed, number));
        let list = quoted(&policies.join(","));
        let inputs = format!("{name}.toml {name}.fio");
        format!("mirrorball compare {inputs} --repeats 1 --seed {seed} --policy {list}")
    }

    /// The commands that write the files of a pairing, and run it under `policies`.
    fn replay_command(&self, number: u32, policies: [&str; 2]) -> String {
        let mut words = format!("mirrorball league --seed {}", self.seed);
        words += if self.quick { " --quick" } else { "" };
        let compare = self.compare_command(number, policies);
        format!("{words} --pairing {number} && {compare}")
    }

    fn pairing_name(&self, number: u32) -> String {
        format!("sample-{}-{number}", self.seed)
    }
}

/// The pairings of a request, without outcomes.
pub fn list(request: &LeagueRequest) -> Vec<PairingRecord> {
    (1..=request.size).map(|number| empty_record(request, number)).collect()
}

/// A pairing of a request as files. Fails if it cannot be sized, which is a defect of the draws.
pub fn files(request: &LeagueRequest, number: u32) -> Result<PairingFiles> {
    let (_, plan) = prepare(request, number)?;
    Ok(PairingFiles {
        name: request.pairing_name(number),
        array: plan.array.text.clone(),
        job: plan.jobs[0].text.clone(),
        seed: plan.seeds[0],
    })
}

/// Runs the pairings that `folder` does not hold yet.
///
/// # Errors
/// The first failure in the order of the pairings: of a cell, or to save one.
pub fn run(
    request: &LeagueRequest,
    folder: &Folder,
    options: &RunOptions<'_>,
) -> Result<LeagueOutcome> {
    let numbers: Vec<u32> = (1..=request.size).collect();
    let done =
        options.run_units(&numbers, |&number| run_pairing(request, number, folder, options))?;
    let standings = (!done.is_empty()).then(|| Standings::new(request, &done));
    Ok(LeagueOutcome { done: done.len(), standings })
}

/// The record of a pairing that has no outcome.
fn empty_record(request: &LeagueRequest, number: u32) -> PairingRecord {
    let (array, job) = request.drawn(number);
    let (array, job) = (array.classes, job.classes);
    PairingRecord { key: String::new(), number, array, job, entries: Vec::new(), last: Vec::new() }
}

/// A pairing, ready to run.
fn prepare(request: &LeagueRequest, number: u32) -> Result<(Inputs, Plan)> {
    let name = request.pairing_name(number);
    let (array, job) = request.drawn(number);
    let inputs = sizing::sized(&array, &job, &name, &request.bounds())
        .with_context(|| format!("cannot size pairing {number} of the sample"))?;
    let choices = Choices {
        policies: request.planned(),
        seeds: vec![cell_seed(request.seed, number)],
        duration_ns: None,
    };
    let (source, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
    let build = BuildIdentity::current();
    let plan = Plan::new(build, source, sources, choices, request.command.clone());
    let plan = plan.with_programs(request.registry.programs());
    Ok((inputs.with_registry(request.registry.clone()), plan))
}

/// The seed of a pairing's cells: the last digits of a hash, for the last bytes that go into FNV-1a
/// hardly reach the first ones.
fn cell_seed(seed: u64, number: u32) -> u64 {
    let hash = stable_hash(["sample", &*number.to_string(), &*seed.to_string()]);
    u64::from_str_radix(&hash[hash.len() - 8..], 16).expect("eight hexadecimal digits")
}

/// The record of a pairing with an outcome of every contender; none if it was given up.
fn run_pairing(
    request: &LeagueRequest,
    number: u32,
    folder: &Folder,
    options: &RunOptions<'_>,
) -> Result<Option<PairingRecord>> {
    let (inputs, plan) = prepare(request, number)?;
    let mut record = folder.load(number, &plan).unwrap_or_else(|| PairingRecord {
        key: record::key(&plan),
        ..empty_record(request, number)
    });
    let has_new_last = record.set_last(request, &plan.build);
    let is_usable = |entry: &EntryRecord| {
        let is_subject = request.subjects.contains(&entry.policy);
        entry.build == plan.build || (request.keeps_rivals && !is_subject)
    };
    record.entries.retain(is_usable);
    let (saved, missing): (Vec<_>, Vec<_>) =
        plan.cells().into_iter().partition(|cell| record.entry(cell.policy).is_some());
    saved.iter().for_each(|_| (options.on_cell)(CellSource::Saved, 1));
    let executor = SimExecutor::new(&inputs, options.stop)?;
    let result = missing.iter().try_for_each(|cell| {
        let summary = CellSummary::new(cell.record(executor.run(cell)?));
        record.entries.push(EntryRecord::new(&plan.build, &summary));
        (options.on_cell)(CellSource::Run, 1);
        Ok(())
    });
    if has_new_last || !missing.is_empty() {
        // Also after a stop, which ends a cell with an error.
        folder.save(&record)?;
    }
    match result {
        Err(_) if options.is_stopped() => Ok(None),
        result => result.map(|()| Some(record)),
    }
}

#[cfg(test)]
mod tests;
