//! The executor that simulates each cell on a virtual clock.
//!
//! Policies that choose alike under a job have the same run, which is simulated once: see
//! [`engine::run_alike`]. A measurement does not depend on which of them was run, so neither does
//! it depend on the number of threads.
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
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::policies::Spec;
use mirrorball_core::units::Nanos;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Simulates each cell on a virtual clock.
#[derive(Debug)]
pub struct SimExecutor<'a> {
    /// The array and the jobs of the plan, parsed.
    inputs: &'a Inputs,
    /// Ends a cell that is running with an error.
    stop: &'a AtomicBool,
    /// The layout of the array, which all cells share.
    map: ChunkMap,
    /// Measurements of cells that have not been asked for, by job, seed and policy: the run of
    /// another policy was the same.
    found: Mutex<BTreeMap<(usize, u64, String), Measurement>>,
}

impl<'a> SimExecutor<'a> {
    /// An executor for plans of these inputs. Once `stop` is set, a cell that is running ends with
    /// an error.
    ///
    /// # Errors
    /// If the array cannot be simulated.
    pub fn new(inputs: &'a Inputs, stop: &'a AtomicBool) -> Result<SimExecutor<'a>> {
        let map = inputs.array.chunk_map()?;
        Ok(SimExecutor { inputs, stop, map, found: Mutex::default() })
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<(usize, u64, String), Measurement>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CellExecutor for SimExecutor<'_> {
    fn run(&self, cell: &Cell<'_>) -> Result<Measurement> {
        let key = |policy: &str| (cell.job_index, cell.seed, policy.to_owned());
        if let Some(found) = self.found().remove(&key(cell.policy)) {
            return Ok(found);
        }
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
        // The cells of the policies behind this one come later. Neither an oracle nor a program is
        // a policy of the table.
        let policies = cell.plan.policies.iter().map(String::as_str);
        let later = policies.skip_while(|it| *it != cell.policy).skip(1);
        let later: Vec<&str> = later.filter(|it| Spec::parse(it).is_ok()).collect();
        let ran = engine::run_alike(&run, &self.map, &later, self.stop);
        let (record, same) = ran.with_context(|| {
            format!("job `{}`, policy `{}`, seed {}", cell.job().name, cell.policy, cell.seed)
        })?;
        let measurement = measurement(run.array, run.job, &record);
        let found = same.iter().map(|policy| (key(policy), measurement.clone()));
        self.found().extend(found);
        Ok(measurement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::build::BuildIdentity;
    use crate::experiment::plan::{Choices, Plan};

    #[test]
    fn the_run_of_a_policy_that_chooses_alike_is_its_own() {
        let job = "rand-4k-qd1".to_owned();
        let inputs = Inputs::load("two-ssd-raid1", &[job]).unwrap();
        let policies = ["first", "drbd/prefer-local", "gmirror/prefer", FAIR_ORACLE, "random"];
        let choices = Choices {
            policies: policies.map(str::to_owned).to_vec(),
            repeats: 2,
            seed: 7,
            duration_ns: Some(20_000_000),
        };
        let (array, jobs) = (inputs.array_source.clone(), inputs.job_sources.clone());
        let build = BuildIdentity::current().unwrap();
        let plan = Plan::new(build, array, jobs, choices, "test".to_owned());
        let stop = AtomicBool::new(false);
        let executor = SimExecutor::new(&inputs, &stop).unwrap();
        let mut most_found = 0;
        for cell in plan.cells() {
            let own = SimExecutor::new(&inputs, &stop).unwrap().run(&cell).unwrap();
            assert_eq!(executor.run(&cell).unwrap(), own, "{}", cell.policy);
            most_found = most_found.max(executor.found().len());
        }
        assert!(most_found > 0, "no two policies chose alike");
        assert!(executor.found().is_empty(), "each was asked for");
    }
}
