//! The work loop: runs units of work on several threads, in order, and cells of a plan by it.
//!
//! A *unit* is what one thread runs without a pause: a cell of a comparison, a pairing of a league,
//! a pair and a repeat of a sweep. Each thread takes the next unit. Units are therefore started in
//! order with any number of threads, and an interrupted run lacks its last ones. A cell shares no
//! state with another: saved files do not depend on the number of threads or on the order in which
//! cells end.

use crate::experiment::executor::CellExecutor;
use crate::experiment::plan::{Cell, Plan};
use crate::experiment::results::Results;
use crate::experiment::study::CellSummary;
use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub struct RunOptions<'a> {
    /// Number of threads; none for one per CPU.
    pub threads: Option<NonZeroUsize>,
    /// Once set, no further unit is started, and the executor gives up the cells that are running.
    pub stop: &'a AtomicBool,
    /// Cost of a cell of each job of a plan next to those of the others; all cost the same if there
    /// is none. The most costly are run first.
    pub costs: &'a [u64],
    /// Called after each cell with its cost, by the thread that ran it.
    pub on_cell: &'a (dyn Fn(CellSource, u64) + Sync),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellSource {
    Run,
    /// An earlier run saved it.
    Saved,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every cell is done: their summaries in the order of the plan.
    Complete(Vec<CellSummary>),
    /// It was stopped before.
    Interrupted { done: usize, all: usize },
}

impl RunOptions<'_> {
    /// True if the run is to end now.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Cost of a cell of a job.
    fn cost(&self, job: usize) -> u64 {
        self.costs.get(job).copied().unwrap_or(1)
    }

    /// Runs `units` on threads and returns the results of those that are done, in order. `run` has
    /// no result for a unit that was given up after a stop. Fewer results than units: the run was
    /// stopped.
    ///
    /// # Errors
    /// The first failure in the order of the units. No unit is started after a failure.
    pub fn run_units<U: Sync, T: Send + Sync>(
        &self,
        units: &[U],
        run: impl Fn(&U) -> Result<Option<T>> + Sync,
    ) -> Result<Vec<T>> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let slots: Vec<OnceLock<Result<T>>> = units.iter().map(|_| OnceLock::new()).collect();
        let work = || {
            while !self.is_stopped() && !failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(unit) = units.get(index) else { break };
                let Some(outcome) = run(unit).transpose() else { break };
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                let is_first = slots[index].set(outcome).is_ok();
                assert!(is_first, "an index is handed out once");
            }
        };
        if cfg!(target_family = "wasm") {
            // A browser starts no threads for a module: it runs several modules, each with a share.
            work();
        } else {
            // Zero is one per CPU; more threads than units would only be started and ended.
            let threads = self.threads.map_or(0, NonZeroUsize::get).min(units.len());
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            pool.context("cannot start threads")?.broadcast(|_| work());
        }
        slots.into_iter().filter_map(OnceLock::into_inner).collect()
    }
}

/// Runs the cells of `plan` that `results` does not hold yet.
///
/// # Errors
/// The first failure in the order of the runs: of a cell, or to save one. No cell is started after
/// a failure; those that are done stay saved.
pub fn run(
    plan: &Plan,
    executor: &dyn CellExecutor,
    results: &Results,
    options: &RunOptions<'_>,
) -> Result<Ending> {
    let cells = plan.cells();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|&place| Reverse(options.cost(cells[place].job_index)));
    let run = |&place: &usize| run_cell(&cells[place], executor, results, options);
    let summaries = options.run_units(&order, run)?;
    let (done, all) = (summaries.len(), cells.len());
    if done < all {
        return Ok(Ending::Interrupted { done, all });
    }
    let mut placed: Vec<(usize, CellSummary)> = order.into_iter().zip(summaries).collect();
    placed.sort_by_key(|(place, _)| *place);
    Ok(Ending::Complete(placed.into_iter().map(|(_, summary)| summary).collect()))
}

fn run_cell(
    cell: &Cell<'_>,
    executor: &dyn CellExecutor,
    results: &Results,
    options: &RunOptions<'_>,
) -> Result<Option<CellSummary>> {
    let cost = options.cost(cell.job_index);
    if let Some(saved) = results.load(cell) {
        (options.on_cell)(CellSource::Saved, cost);
        return Ok(Some(CellSummary::new(saved)));
    }
    let measured = match executor.run(cell) {
        Err(_) if options.is_stopped() => return Ok(None),
        measured => measured?,
    };
    let record = cell.record(measured);
    results.save(cell, &record)?;
    (options.on_cell)(CellSource::Run, cost);
    Ok(Some(CellSummary::new(record)))
}

#[cfg(test)]
mod tests;
