//! The executor that simulates each cell on a virtual clock.
//!
//! Policies that choose alike under a job have the same run, which is simulated once: see
//! [`engine::run_alike`]. A record does not depend on which of them was run, so neither does
//! it depend on the number of threads. A thread waits for a run that is under way in another thread
//! while the policies choose alike.

use crate::experiment::executor::CellExecutor;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::Cell;
use crate::experiment::record::{FAIR_ORACLE, ORACLE, RunRecord};
use anyhow::{Context, Result};
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::policies::Spec;
use mirrorball_core::units::Nanos;
use mirrorball_sim::engine::{self, AlikePolicies, Checks, PolicyUnderTest, Simulation};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples that are kept of each cell: enough for a picture, a quarter of the file.
const SAMPLES_KEPT: usize = 384;

/// Simulates each cell on a virtual clock.
#[derive(Debug)]
pub struct SimExecutor<'a> {
    /// The array and the jobs of the plan, parsed.
    inputs: &'a Inputs,
    /// Ends a cell that is running with an error.
    stop: &'a AtomicBool,
    /// The layout of the array, which all cells share.
    map: ChunkMap,
    shared: Mutex<SharedRuns>,
}

/// Runs that threads share: ended, and under way.
#[derive(Debug, Default)]
struct SharedRuns {
    /// Records of cells that have not been asked for: the run of another policy was the same.
    found: BTreeMap<CellKey, RunRecord>,
    /// Runs under way, with the policies whose run may be the same.
    under_way: Vec<(CellKey, AlikePolicies)>,
}

/// Place of the job, seed and policy.
type CellKey = (usize, u64, String);

impl<'a> SimExecutor<'a> {
    /// An executor for plans of these inputs. Once `stop` is set, a cell that is running ends with
    /// an error.
    pub fn new(inputs: &'a Inputs, stop: &'a AtomicBool) -> Result<SimExecutor<'a>> {
        let map = inputs.array.chunk_map()?;
        Ok(SimExecutor { inputs, stop, map, shared: Mutex::default() })
    }

    fn shared(&self) -> MutexGuard<'_, SharedRuns> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a cell if the run of another policy was the same. Waits for a run that
    /// is under way while it may be. `None` begins the run of the cell.
    fn find_or_begin(&self, cell: &Cell<'_>, alike: &AlikePolicies) -> Option<RunRecord> {
        let key = key(cell, cell.policy);
        loop {
            let mut shared = self.shared();
            if let Some(found) = shared.found.remove(&key) {
                return Some(found);
            }
            let is_twin = |it: &&(CellKey, AlikePolicies)| (it.0.0, it.0.1) == (key.0, key.1);
            let twins: Vec<_> = shared.under_way.iter().filter(is_twin).collect();
            if let Some((_, run)) = twins.iter().find(|(_, run)| run.contains(cell.policy)) {
                let run = run.clone();
                drop(shared);
                run.wait_without(cell.policy);
                continue;
            }
            twins.iter().for_each(|((.., policy), _)| alike.remove(policy));
            shared.under_way.push((key, alike.clone()));
            return None;
        }
    }

    fn simulate(&self, cell: &Cell<'_>, alike: &AlikePolicies) -> Result<RunRecord> {
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
            duration: cell.duration_ns().map(Nanos),
            // The checkers have watched every policy in the simulator's own tests.
            checks: Checks::Off,
        };
        let ran = engine::run_alike(&run, &self.map, alike, self.stop);
        let mut record = ran.with_context(|| {
            format!("job `{}`, policy `{}`, seed {}", cell.job().name, cell.policy, cell.seed)
        })?;
        record.samples.thin(SAMPLES_KEPT);
        Ok(record)
    }
}

/// A run under way. Ends on drop, so that no thread waits for one that panicked.
struct RunUnderWay<'a> {
    executor: &'a SimExecutor<'a>,
    key: CellKey,
    alike: &'a AlikePolicies,
}

impl Drop for RunUnderWay<'_> {
    fn drop(&mut self) {
        self.executor.shared().under_way.retain(|(key, _)| *key != self.key);
        self.alike.clear();
    }
}

/// The key of the cell of `policy` with the job and seed of `cell`.
fn key(cell: &Cell<'_>, policy: &str) -> CellKey {
    (cell.job_index, cell.seed, policy.to_owned())
}

impl CellExecutor for SimExecutor<'_> {
    fn run(&self, cell: &Cell<'_>) -> Result<RunRecord> {
        // The cells of the policies behind this one come later. Neither an oracle nor a program is
        // a policy of the table.
        let later = cell.plan.policies.iter().skip_while(|it| *it != cell.policy).skip(1);
        let later = later.filter(|it| Spec::parse(it).is_ok()).cloned();
        let alike = AlikePolicies::new(later.collect());
        if let Some(found) = self.find_or_begin(cell, &alike) {
            return Ok(found);
        }
        let (executor, own) = (self, key(cell, cell.policy));
        let _under_way = RunUnderWay { executor, key: own, alike: &alike };
        let record = self.simulate(cell, &alike)?;
        let found = alike.policies().into_iter().map(|it| (key(cell, &it), record.clone()));
        self.shared().found.extend(found);
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::build::BuildIdentity;
    use crate::experiment::plan::{Choices, Plan};

    fn inputs() -> Inputs {
        Inputs::load("two-ssd-raid1", &["rand-4k-qd1".to_owned()]).unwrap()
    }

    fn plan(inputs: &Inputs, policies: &[&str], duration_ns: u64) -> Plan {
        let choices = Choices {
            policies: policies.iter().map(|&policy| policy.to_owned()).collect(),
            seeds: vec![7],
            duration_ns: Some(duration_ns),
        };
        let (array, jobs) = (inputs.array_source.clone(), inputs.job_sources.clone());
        Plan::new(BuildIdentity::with_hash("test"), array, jobs, choices, "test".to_owned())
    }

    #[test]
    fn the_run_of_a_policy_that_chooses_alike_is_its_own() {
        let (inputs, stop) = (inputs(), AtomicBool::new(false));
        let policies = ["first", "drbd/prefer-local", "gmirror/prefer", FAIR_ORACLE, "random"];
        let plan = plan(&inputs, &policies, 20_000_000);
        let executor = SimExecutor::new(&inputs, &stop).unwrap();
        let mut most_found = 0;
        for cell in plan.cells() {
            let own = SimExecutor::new(&inputs, &stop).unwrap().run(&cell).unwrap();
            assert_eq!(executor.run(&cell).unwrap(), own, "{}", cell.policy);
            most_found = most_found.max(executor.shared().found.len());
        }
        assert!(most_found > 0, "no two policies chose alike");
        assert!(executor.shared().found.is_empty(), "each was asked for");
    }

    #[test]
    fn a_run_under_way_in_another_thread_is_not_simulated_again() {
        let (inputs, stop) = (inputs(), AtomicBool::new(false));
        let plan = plan(&inputs, &["first", "drbd/prefer-local"], 2_000_000_000);
        let executor = SimExecutor::new(&inputs, &stop).unwrap();
        let [first, twin, _oracle] = &plan.cells()[..] else { panic!("two policies, one repeat") };
        let (first, twin) = std::thread::scope(|scope| {
            let running = scope.spawn(|| executor.run(first).unwrap());
            while executor.shared().under_way.is_empty() && !running.is_finished() {
                std::thread::yield_now();
            }
            (executor.run(twin).unwrap(), running.join().unwrap())
        });
        assert_eq!(first, twin);
        assert!(executor.shared().found.is_empty(), "the second thread has the run of the first");
    }
}
