//! The executor that simulates each cell on a virtual clock.

use crate::experiment::executor::Executor;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::Cell;
use crate::experiment::record::ORACLE;
use anyhow::{Context, Result};
use mirrorball_core::units::Nanos;
use mirrorball_sim::engine::{self, Contender, Run, Watch};
use mirrorball_sim::record::Record;

/// Simulates each cell on a virtual clock.
#[derive(Debug)]
pub struct SimExecutor<'a> {
    /// The array and the jobs of the plan, understood.
    pub inputs: &'a Inputs,
}

impl Executor for SimExecutor<'_> {
    fn run(&self, cell: &Cell<'_>) -> Result<Record> {
        let contender = match cell.policy {
            ORACLE => Contender::Oracle,
            policy => Contender::Policy(policy),
        };
        let run = Run {
            array: &self.inputs.array,
            jobs: &self.inputs.jobs[cell.job_index],
            contender,
            seed: cell.seed,
            duration: cell.plan.duration_ns.map(Nanos),
            // The checkers have watched every policy in the simulator's own tests.
            watch: Watch::Unchecked,
        };
        engine::run(&run).with_context(|| {
            format!("job `{}`, policy `{}`, seed {}", cell.job().name, cell.policy, cell.seed)
        })
    }
}
