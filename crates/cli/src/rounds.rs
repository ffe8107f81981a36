//! Rounds of repeats: the first repeats of a plan, and more until they decide.

use crate::ending::Failure;
use crate::progress::{self, CellCounts, CellsBar};
use crate::screen;
use anyhow::anyhow;
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::plan::Plan;
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::run::{self, Ending, RunOptions};
use mirrorball_lab::experiment::simulate::SimExecutor;
use mirrorball_lab::experiment::study::CellSummary;
use std::num::NonZeroUsize;
use std::path::Path;

/// A plan whose repeats are run in rounds.
pub(crate) struct Rounds<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) round: usize,
    /// Cost of a cell of each job next to those of the others, if that is known.
    pub(crate) costs: &'a [u64],
    pub(crate) inputs: &'a Inputs,
    pub(crate) folder: &'a Path,
    pub(crate) threads: Option<NonZeroUsize>,
    /// Help for the user if the folder cannot be used.
    pub(crate) help: &'static str,
}

impl Rounds<'_> {
    /// Runs rounds until `is_settled` by the cells so far, and returns how the last one ended, with
    /// the plan of the repeats that were run. Fails if the folder holds something else, results
    /// cannot be written, or a cell fails.
    pub(crate) fn run(
        &self,
        is_settled: impl Fn(&Plan, &[CellSummary]) -> bool,
    ) -> Result<(Plan, Ending, CellCounts), Failure> {
        let all = self.plan.seeds.len();
        // What the folder holds beyond the first round is read again, and does not decide.
        let mut repeats = self.round.min(all);
        let cells = progress::Cells { count: self.plan.cells().len(), costs: self.costs };
        let message = "finishing the running cells";
        let bar = CellsBar::new(cells, repeats < all, message, self.threads);
        let bar = bar.map_err(Failure::Fault)?;
        loop {
            let plan = self.plan.clone().with_seeds(self.plan.seeds[..repeats].to_vec());
            let results = Results::open(self.folder, &plan)
                .map_err(|error| Failure::WrongUse(anyhow!("{error:#}\n  help: {}", self.help)))?;
            let work = |options: &RunOptions<'_>| {
                run::run(&plan, &SimExecutor::new(self.inputs, options.stop)?, &results, options)
            };
            let ending = bar.run(work).map_err(Failure::Fault)?;
            let is_last = match &ending {
                Ending::Complete(cells) => repeats == all || is_settled(&plan, cells),
                Ending::Interrupted { done, all } => {
                    let shown = self.folder.display();
                    let saved = format_args!("{done} of {all} cells are saved in {shown}");
                    screen::say(format_args!("interrupted: {saved}"));
                    screen::say("  run the same command again to continue");
                    true
                }
            };
            if is_last {
                return Ok((plan, ending, bar.counts()));
            }
            repeats = (repeats + self.round).min(all);
        }
    }
}

/// Says after the answer how many cells were reused.
pub(crate) fn say_counts(CellCounts { saved, run }: CellCounts) {
    screen::say_later(format_args!(
        "{} cells: {saved} reused from an earlier run, {run} simulated",
        saved + run
    ));
}
