//! Runs that follow one another on one array.
//!
//! A run begins with the caches in front of members, and the one in front of the array, as the run
//! before it left them. All else starts afresh: the heads and buffers of disks, the cache of a
//! controller, and the clock. What was in flight when a run ended is over.
//!
//! The runs of a series have one seed, so that sections make the same requests in each, as fio does
//! with `randrepeat`. With `randrepeat=0` they draw from the seed of the run within the series, as
//! disks, policies and background work always do.

use super::{Engine, Simulation};
use crate::error::SimError;
use crate::record::RunRecord;
use mirrorball_core::rng::Rng;
use mirrorball_disk::cache_contents::CacheContents;
use std::sync::atomic::AtomicBool;

/// The state in which a run leaves an array to the next one.
#[derive(Debug, Default)]
pub struct ArrayState {
    runs: u64,
    /// Contents of the caches in front of members, in the order of members.
    caches: Vec<Option<CacheContents>>,
    array_cache: Option<CacheContents>,
}

/// Runs a simulation on an array in the state in which earlier runs left it, all with the same
/// array and seed, and updates the state.
///
/// # Errors
/// As [`run`](super::run).
///
/// # Panics
/// As [`run`](super::run).
pub fn run_next(run: &Simulation<'_>, state: &mut ArrayState) -> Result<RunRecord, SimError> {
    let mut engine = Engine::with_policy(run, state.runs)?;
    engine.model_array.set_cache_contents(std::mem::take(&mut state.caches));
    if let (Some(caches), Some(contents)) = (&mut engine.caches, state.array_cache.take()) {
        caches.set_contents(contents);
    }
    engine.run_sections(run, &AtomicBool::new(false))?;
    state.runs += 1;
    state.caches = engine.model_array.cache_contents();
    state.array_cache = engine.caches.as_ref().and_then(|caches| caches.contents());
    Ok(engine.finish(run))
}

/// The seed of a run after so many others. The first one has that of the series.
pub(crate) fn seed_of(seed: u64, runs_before: u64) -> u64 {
    match runs_before {
        0 => seed,
        _ => Rng::stream(seed, &format!("run {runs_before}")).next_u64(),
    }
}
