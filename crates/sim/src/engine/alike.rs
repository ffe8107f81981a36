//! A run together with the policies whose run would have been the same.

use super::{Engine, Simulation};
use crate::error::SimError;
use crate::lockstep::{AlikePolicies, Lockstep};
use crate::record::RunRecord;
use mirrorball_core::geometry::ChunkMap;
use std::sync::atomic::AtomicBool;

/// Runs a simulation as [`run_until`](super::run_until) does, on a `map` of its array that is made
/// once for many runs. `alike` loses the policies whose run would not have been the same, each as
/// soon as it chooses otherwise.
///
/// # Errors
/// As [`run_until`](super::run_until), and if one of the policies does not fit the array.
///
/// # Panics
/// As [`run`](super::run).
pub fn run_alike(
    run: &Simulation<'_>,
    map: &ChunkMap,
    alike: &AlikePolicies,
    stop: &AtomicBool,
) -> Result<RunRecord, SimError> {
    let (mut policy, forecast) = run.policy.build(&run.devids())?;
    if forecast.is_some() {
        // An oracle knows what no policy does, so that no other need be asked.
        alike.clear();
    } else if !alike.is_empty() {
        policy = Box::new(Lockstep::new(policy, run.array, run.seed, alike.clone())?);
    }
    let mut engine = Engine::new(run, map.clone(), policy, forecast, 0)?;
    engine.run_sections(run, stop)?;
    Ok(engine.finish(run))
}
