//! Runs the cells of a recipe, each once, on all CPUs.
//!
//! Rows that share array, job, policy, seeds and series share their runs: `iostat` shows one run in
//! a row per disk. The runs of a series follow one another, up to the last that a row shows.
//! Nothing is saved: all recipes together take about a minute.

use super::pool::Pool;
use super::read::{Recipe, RecipeRow, RecipeTable};
use anyhow::{Context, Result};
use mirrorball_sim::engine::{self, ArrayState, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::record::{IntervalsRecord, RunRecord, SamplesRecord};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// What decides a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key<'a> {
    array: &'a str,
    /// The series that the run is of; none if it runs alone.
    series: Option<&'a str>,
    seed: u64,
    policy: &'a str,
    job: &'a str,
}

#[derive(Debug)]
pub struct Runs<'a> {
    records: BTreeMap<Key<'a>, RunRecord>,
}

pub fn count(recipe: &Recipe) -> usize {
    let keys = keys(recipe);
    sequences(recipe, &keys).iter().map(Vec::len).sum()
}

/// Runs a recipe and calls `on_run` after each run. Fails if a run cannot start; the message names
/// it.
pub fn run<'a>(recipe: &'a Recipe, on_run: &(dyn Fn() + Sync)) -> Result<Runs<'a>> {
    let keys = keys(recipe);
    let records = sequences(recipe, &keys).into_par_iter().map(|sequence| {
        let mut state = ArrayState::default();
        let mut records = Vec::new();
        for key in sequence {
            let Key { array, policy, job, .. } = key;
            let record = run_next(recipe, key, &mut state);
            let mut record = record.with_context(|| format!("{array}, {job}, {policy}"))?;
            // Many runs are held at once, and no measure is taken over time.
            record.intervals = IntervalsRecord::default();
            record.samples = SamplesRecord::default();
            on_run();
            records.push((key, record));
        }
        Ok(records)
    });
    let records: Vec<_> = records.collect::<Result<_>>()?;
    Ok(Runs { records: records.into_iter().flatten().collect() })
}

fn run_next(recipe: &Recipe, key: Key<'_>, state: &mut ArrayState) -> Result<RunRecord> {
    let run = Simulation {
        array: &recipe.arrays[key.array],
        job: &recipe.jobs[key.job],
        policy: PolicyUnderTest::Policy(key.policy),
        seed: key.seed,
        duration: None,
        checks: Checks::Off,
    };
    Ok(engine::run_next(&run, state)?)
}

/// The runs that rows show.
fn keys(recipe: &Recipe) -> Vec<Key<'_>> {
    let rows = recipe.tables.iter().flat_map(|table| &table.rows);
    let mut keys: Vec<Key<'_>> = rows.flat_map(row_keys).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The runs that follow one another, each series up to the last of `keys`, which are in order.
fn sequences<'a>(recipe: &'a Recipe, keys: &[Key<'a>]) -> Vec<Vec<Key<'a>>> {
    let is_of_one = |one: &Key<'_>, other: &Key<'_>| {
        one.series.is_some()
            && (one.array, one.series, one.seed) == (other.array, other.series, other.seed)
    };
    let sequences = keys.chunk_by(is_of_one).map(|shown| {
        let Some(name) = shown[0].series else { return shown.to_vec() };
        let found = recipe.series.iter().find(|series| series.name == name);
        let runs = found.expect("the series of a row is there").runs();
        let mut all: Vec<Key<'a>> =
            runs.map(|(policy, job)| Key { policy, job, ..shown[0] }).collect();
        let last = all.iter().rposition(|key| shown.contains(key));
        all.truncate(last.map_or(0, |last| last + 1));
        all
    });
    sequences.collect()
}

fn row_keys(row: &RecipeRow) -> impl Iterator<Item = Key<'_>> {
    let RecipeRow { array, series, policy, job, .. } = row;
    row.seeds.iter().map(move |&seed| Key { array, series: series.as_deref(), seed, policy, job })
}

impl Runs<'_> {
    pub(super) fn pool<'b>(&'b self, table: &'b RecipeTable, row: &'b RecipeRow) -> Pool<'b> {
        let records = row_keys(row).map(|key| {
            let found = self.records.iter().find(|(known, _)| **known == key);
            found.expect("every row of the recipe was run").1
        });
        Pool { records: records.collect(), section: table.section.as_deref() }
    }
}
