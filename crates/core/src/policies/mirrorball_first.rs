//! # Idea
//! Always takes the first eligible mirror. It decides nothing, so it shows what a decision is
//! worth.
//!
//! # State
//! None.
//!
//! # Cost
//! Nothing to compute.
//!
//! # Good at
//! Measuring the overhead of everything but the policy; a sequential stream on one fast member.
//!
//! # Bad at
//! Using more than one member. The first stripe is the member that was emptiest when its chunk was
//! allocated, so on members of equal size the load still moves from chunk to chunk.
//!
//! # Origin
//! Ours: the null policy.

use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct First;

impl ReadPolicy for First {
    fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(0)
    }
}
