//! A run together with the policies whose run would have been the same.

use super::{Engine, Simulation};
use crate::error::SimError;
use crate::lockstep::{Lockstep, SameChoices};
use crate::record::RunRecord;
use mirrorball_core::geometry::ChunkMap;
use std::sync::atomic::AtomicBool;

/// Runs a simulation as [`run_until`](super::run_until) does, on a `map` of its array that is made
/// once for many runs. Also returns those of the policies `others` whose run would have been the
/// same.
///
/// # Errors
/// As [`run_until`](super::run_until), and if one of the `others` does not fit the array.
///
/// # Panics
/// As [`run`](super::run).
pub fn run_alike(
    run: &Simulation<'_>,
    map: &ChunkMap,
    others: &[&str],
    stop: &AtomicBool,
) -> Result<(RunRecord, Vec<String>), SimError> {
    let (mut policy, forecast) = run.policy.build(&run.devids())?;
    let same = SameChoices::default();
    // An oracle knows what no policy does, so that no other need be asked.
    if forecast.is_none() && !others.is_empty() {
        policy = Box::new(Lockstep::new(policy, others, run.array, run.seed, same.clone())?);
    }
    let mut engine = Engine::new(run, map.clone(), policy, forecast, 0)?;
    engine.run_sections(run, stop)?;
    let record = engine.finish();
    Ok((record, same.take()))
}
