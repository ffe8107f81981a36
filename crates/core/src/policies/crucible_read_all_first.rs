//! # Idea
//! Every read goes to every mirror at once. The first good answer counts; the others are waited for
//! by nobody, and run on.
//!
//! # State
//! None.
//!
//! # Cost
//! As many member reads as there are mirrors, for each read.
//!
//! # Good at
//! Latency at low load: the wait is the least of all mirrors', and no stall of one is felt.
//!
//! # Bad at
//! Load: each mirror serves all reads, so adding mirrors adds no throughput, and every member's
//! head follows every stream.
//!
//! # Origin
//! Oxide's Crucible, `upstairs/`: a read is sent to all three downstairs and the first that answers
//! acknowledges it. There a repair in progress narrows who may answer; here the volume's rules of
//! eligibility do.

use super::Build;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, MirrorSet, Read, ReadPolicy};

struct ReadAllFirst;

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(ReadAllFirst))
}

impl ReadPolicy for ReadAllFirst {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::All(MirrorSet::all(mirrors))
    }
}
