//! Runs the cells of a plan in parallel and saves each as soon as it is done.
//!
//! Each thread takes the next cell of the plan that is not done. Cells are therefore started in the
//! order of the plan with any number of threads, and an interrupted run lacks its last cells. A
//! cell shares no state with another: saved files do not depend on the number of threads or on the
//! order in which cells end.

use crate::experiment::executor::CellExecutor;
use crate::experiment::plan::{Cell, Plan};
use crate::experiment::results::Results;
use crate::experiment::study::CellSummary;
use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How to run a plan.
pub struct RunOptions<'a> {
    /// Number of threads; none for one per CPU.
    pub threads: Option<NonZeroUsize>,
    /// Once set, no further cell is started, and the executor gives up those that are running.
    pub stop: &'a AtomicBool,
    /// Called after each cell, by the thread that ran it.
    pub on_cell: &'a (dyn Fn(&Cell<'_>, CellSource) + Sync),
}

/// Where the record of a cell comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellSource {
    /// It was run now.
    Run,
    /// An earlier run saved it.
    Saved,
}

/// How a run of a plan ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every cell is done: their summaries in the order of the plan.
    Complete(Vec<CellSummary>),
    /// It was stopped before.
    Interrupted {
        /// Number of cells that are saved.
        done: usize,
        /// Number of cells of the plan.
        all: usize,
    },
}

/// Runs the cells of `plan` that `results` does not hold yet.
///
/// # Errors
/// The first failure in the order of the plan: of a cell, or to save one. No cell is started after
/// a failure; those that are done stay saved.
pub fn run(
    plan: &Plan,
    executor: &dyn CellExecutor,
    results: &Results,
    options: &RunOptions<'_>,
) -> Result<Ending> {
    let cells = plan.cells();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let slots: Vec<OnceLock<Result<CellSummary>>> = cells.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        while !options.stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(index) else { break };
            let outcome = run_cell(cell, executor, results, options);
            if outcome.is_err() && options.stop.load(Ordering::Relaxed) {
                // The executor gave up a cell that was running.
                break;
            }
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            slots[index].set(outcome).expect("an index is handed out once");
        }
    };
    // Zero is one per CPU; more threads than cells would only be started and ended.
    let threads = options.threads.map_or(0, NonZeroUsize::get).min(cells.len());
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.context("cannot start threads")?.broadcast(|_| work());

    let outcomes = slots.into_iter().filter_map(OnceLock::into_inner);
    let done: Vec<CellSummary> = outcomes.collect::<Result<_>>()?;
    let (done_count, all) = (done.len(), cells.len());
    if done_count == all {
        Ok(Ending::Complete(done))
    } else {
        Ok(Ending::Interrupted { done: done_count, all })
    }
}

fn run_cell(
    cell: &Cell<'_>,
    executor: &dyn CellExecutor,
    results: &Results,
    options: &RunOptions<'_>,
) -> Result<CellSummary> {
    if let Some(summary) = results.load(cell).as_ref().and_then(CellSummary::new) {
        (options.on_cell)(cell, CellSource::Saved);
        return Ok(summary);
    }
    let record = cell.record(executor.run(cell)?);
    results.save(cell, &record)?;
    (options.on_cell)(cell, CellSource::Run);
    Ok(CellSummary::new(&record).expect("a fresh record is whole"))
}

#[cfg(test)]
mod tests;
