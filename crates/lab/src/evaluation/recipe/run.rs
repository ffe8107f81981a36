//! Runs the cells of a recipe, each once, on all CPUs.
//!
//! Rows that share array, job, policy and seeds share their runs: `iostat` shows one run in a row
//! per disk. Nothing is saved: all recipes together take less time than a cup of tea.

use super::read::{Recipe, RecipeRow, RecipeTable};
use anyhow::{Context, Result};
use mirrorball_core::histogram::Histogram;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::record::{MemberResult, RunRecord, SectionResult};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// What decides a run.
type Key<'a> = (&'a str, &'a str, &'a str, u64);

/// The runs of a recipe.
#[derive(Debug)]
pub struct Runs<'a> {
    records: BTreeMap<Key<'a>, RunRecord>,
}

/// The repeats of one row, and which section of the job is measured.
pub(super) struct Pool<'a> {
    records: Vec<&'a RunRecord>,
    section: Option<&'a str>,
}

/// How many runs a recipe takes.
pub fn count(recipe: &Recipe) -> usize {
    keys(recipe).len()
}

/// Runs a recipe and calls `on_run` after each run.
///
/// # Errors
/// If a run cannot start; the message names it.
pub fn run<'a>(recipe: &'a Recipe, on_run: &(dyn Fn() + Sync)) -> Result<Runs<'a>> {
    let pictured = recipe.tables.iter().filter(|table| table.pictures);
    let drawn: Vec<Key<'_>> = pictured.flat_map(|table| &table.rows).flat_map(row_keys).collect();
    let records = keys(recipe).into_par_iter().map(|key| {
        let (array, job, policy, seed) = key;
        let run = Simulation {
            array: &recipe.arrays[array],
            job: &recipe.jobs[job],
            policy: PolicyUnderTest::Policy(policy),
            seed,
            duration: None,
            checks: Checks::Off,
        };
        let record = engine::run(&run);
        let mut record = record.with_context(|| format!("{array}, {job}, {policy}"))?;
        // Many runs are held at once, and few are drawn over time.
        if !drawn.contains(&key) {
            record.intervals = Vec::new();
            record.samples = Vec::new();
        }
        on_run();
        Ok((key, record))
    });
    Ok(Runs { records: records.collect::<Result<_>>()? })
}

fn keys(recipe: &Recipe) -> Vec<Key<'_>> {
    let rows = recipe.tables.iter().flat_map(|table| &table.rows);
    let mut keys: Vec<Key<'_>> = rows.flat_map(row_keys).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn row_keys(row: &RecipeRow) -> impl Iterator<Item = Key<'_>> {
    row.seeds.iter().map(|&seed| (&*row.array, &*row.job, &*row.policy, seed))
}

impl Runs<'_> {
    /// The first repeat of a row.
    pub(super) fn first(&self, row: &RecipeRow) -> &RunRecord {
        let key = row_keys(row).next().expect("a row has a repeat");
        let found = self.records.iter().find(|(known, _)| **known == key);
        found.expect("every row of the recipe was run").1
    }

    pub(super) fn pool<'b>(&'b self, table: &'b RecipeTable, row: &'b RecipeRow) -> Pool<'b> {
        let records = row_keys(row).map(|key| {
            let found = self.records.iter().find(|(known, _)| **known == key);
            found.expect("every row of the recipe was run").1
        });
        Pool { records: records.collect(), section: table.section.as_deref() }
    }
}

impl Pool<'_> {
    fn jobs<'b>(&'b self, record: &'b RunRecord) -> impl Iterator<Item = &'b SectionResult> {
        let wanted = |job: &&SectionResult| self.section.is_none_or(|name| job.name == name);
        record.sections.iter().filter(wanted)
    }

    /// The mean over the repeats of something in each.
    fn mean(&self, of: impl Fn(&RunRecord) -> f64) -> f64 {
        self.records.iter().map(|record| of(record)).sum::<f64>() / self.records.len() as f64
    }

    /// What the measured sections count in a second, together.
    pub(super) fn job_rate(&self, count: impl Fn(&SectionResult) -> u64) -> f64 {
        let rate = |job: &SectionResult| count(job) as f64 / job.measured.as_secs_f64().max(1e-9);
        self.mean(|record| self.jobs(record).map(rate).sum())
    }

    /// How long the longest of the measured sections took.
    pub(super) fn job_seconds(&self) -> f64 {
        self.mean(|record| {
            self.jobs(record).map(|job| job.measured.as_secs_f64()).fold(0.0, f64::max)
        })
    }

    /// Latencies of the reads of all repeats.
    pub(super) fn read_latency(&self) -> Histogram {
        let mut merged = Histogram::default();
        for record in &self.records {
            self.jobs(record).for_each(|job| merged.merge(&job.read.latency));
        }
        merged
    }

    /// Something of one member.
    pub(super) fn member(&self, devid: u64, of: impl Fn(&MemberResult) -> u64) -> f64 {
        self.mean(|record| {
            let member = record.members.iter().find(|member| member.devid == devid);
            member.map_or(f64::NAN, |member| of(member) as f64)
        })
    }

    /// The same in a second.
    pub(super) fn member_rate(&self, devid: u64, of: impl Fn(&MemberResult) -> u64) -> f64 {
        self.member(devid, of) / self.mean(|record| record.measured.as_secs_f64())
    }

    /// Something of all members together.
    pub(super) fn all_members(&self, of: impl Fn(&MemberResult) -> u64) -> f64 {
        self.mean(|record| record.members.iter().map(|member| of(member) as f64).sum())
    }

    /// A counter that the policy keeps of a member.
    pub(super) fn counter(&self, devid: u64, name: &str) -> f64 {
        self.mean(|record| {
            let index = record.members.iter().position(|member| member.devid == devid);
            let of_member = |it: &&mirrorball_core::policy::Counter| {
                it.name == name && it.member.map(|member| member.get()) == index
            };
            record.counters.iter().find(of_member).map_or(f64::NAN, |it| it.value as f64)
        })
    }
}
