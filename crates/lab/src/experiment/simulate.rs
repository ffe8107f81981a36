//! The executor that simulates each cell on a virtual clock.
//!
//! `convert` makes a record of what the simulator hands out; `declared` reads from the job file
//! what a section declares about how it is judged.

mod convert;
mod declared;

pub use convert::measurement;
pub(crate) use declared::Declared;

use crate::experiment::executor::CellExecutor;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::Cell;
use crate::experiment::record::{FAIR_ORACLE, Measurement, ORACLE};
use anyhow::{Context, Result};
use mirrorball_core::units::Nanos;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use std::sync::atomic::AtomicBool;

/// Simulates each cell on a virtual clock.
#[derive(Debug)]
pub struct SimExecutor<'a> {
    /// The array and the jobs of the plan, parsed.
    pub inputs: &'a Inputs,
    /// Ends a cell that is running with an error.
    pub stop: &'a AtomicBool,
}

impl CellExecutor for SimExecutor<'_> {
    fn run(&self, cell: &Cell<'_>) -> Result<Measurement> {
        let spec;
        let policy_under_test = match cell.policy {
            ORACLE => PolicyUnderTest::Oracle,
            FAIR_ORACLE => PolicyUnderTest::FairOracle,
            policy => {
                spec = self.inputs.registry.parse(policy)?;
                PolicyUnderTest::Parsed(&spec)
            }
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
        let record = engine::run_until(&run, self.stop).with_context(|| {
            format!("job `{}`, policy `{}`, seed {}", cell.job().name, cell.policy, cell.seed)
        })?;
        Ok(measurement(run.array, run.job, &record))
    }
}
