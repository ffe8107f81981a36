//! Running the cells of a plan, as a user sees it.

use crate::{progress, screen};
use anyhow::Result;
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::plan::{Cell, Plan};
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::run::{self, CellSource, RunOptions};
use mirrorball_lab::experiment::simulate::SimExecutor;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the cells of a plan with a bar of progress, and says how many were reused. A first Ctrl-C
/// lets the cells that are running finish, a second one ends the program at once.
pub(crate) fn run_cells(
    threads: Option<NonZeroUsize>,
    plan: &Plan,
    inputs: &Inputs,
    results: &Results,
) -> Result<run::Ending> {
    let stop = progress::stop_at_ctrl_c("finishing the running cells")?;
    let bar = progress::bar(plan.cells().len() as u64, "cells");
    let [reused, fresh] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let on_cell = |_: &Cell<'_>, origin: CellSource| {
        match origin {
            CellSource::Saved => {
                let reused = reused.fetch_add(1, Ordering::Relaxed) + 1;
                bar.set_message(format!("({reused} reused from an earlier run)"));
            }
            CellSource::Run => _ = fresh.fetch_add(1, Ordering::Relaxed),
        }
        bar.inc(1);
    };
    let options = RunOptions { threads, stop, on_cell: &on_cell };
    let ending = run::run(plan, &SimExecutor::new(inputs, stop)?, results, &options);
    bar.finish_and_clear();
    let [reused, fresh] = [reused.into_inner(), fresh.into_inner()];
    screen::say(format_args!(
        "{} cells: {reused} reused from an earlier run, {fresh} simulated",
        reused + fresh
    ));
    ending
}
