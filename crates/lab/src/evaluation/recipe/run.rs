//! Runs the cells of a recipe, each once, on all CPUs.
//!
//! Rows that share array, job, policy and seeds share their runs: `iostat` shows one run in a row
//! per disk. Nothing is saved: all recipes together take about a minute.

use super::pool::Pool;
use super::read::{Recipe, RecipeRow, RecipeTable};
use anyhow::{Context, Result};
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::record::RunRecord;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// What decides a run.
type Key<'a> = (&'a str, &'a str, &'a str, u64);

/// The runs of a recipe.
#[derive(Debug)]
pub struct Runs<'a> {
    records: BTreeMap<Key<'a>, RunRecord>,
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
