//! # Idea
//! Draws one of the eligible mirrors for each read, all with equal probability.
//!
//! # State
//! None; the draw comes from the volume's seeded generator.
//!
//! # Cost
//! One random number.
//!
//! # Good at
//! A baseline: it shares evenly in the long run, and aliases with no pattern of requests, as a
//! counter might.
//!
//! # Bad at
//! Everything that depends on state: it breaks up sequential runs, gives a slow member as much as a
//! fast one, and lets queues differ by chance.
//!
//! # Origin
//! Ours: the baseline.

use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Random;

impl ReadPolicy for Random {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(ctx.rng.below(mirrors.len() as u64) as usize)
    }
}
