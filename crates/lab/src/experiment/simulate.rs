//! The executor that simulates each cell on a virtual clock.

use crate::experiment::executor::Executor;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::Cell;
use crate::experiment::record::ORACLE;
use anyhow::{Context, Result};
use mirrorball_core::units::Nanos;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::record::RunRecord;

/// Simulates each cell on a virtual clock.
#[derive(Debug)]
pub struct SimExecutor<'a> {
    /// The array and the jobs of the plan, understood.
    pub inputs: &'a Inputs,
}

impl Executor for SimExecutor<'_> {
    fn run(&self, cell: &Cell<'_>) -> Result<RunRecord> {
        let policy_under_test = match cell.policy {
            ORACLE => PolicyUnderTest::Oracle,
            policy => PolicyUnderTest::Policy(policy),
        };
        let run = Simulation {
            array: &self.inputs.array,
            job: &self.inputs.jobs[cell.job_index],
            policy: policy_under_test,
            seed: cell.seed,
            duration: cell.plan.duration_ns.map(Nanos),
            // The checkers have watched every policy in the simulator's own tests.
            checks: Checks::Off,
        };
        engine::run(&run).with_context(|| {
            format!("job `{}`, policy `{}`, seed {}", cell.job().name, cell.policy, cell.seed)
        })
    }
}
