//! # Idea
//! Divides the address space into as many equal parts as there are mirrors; each mirror serves the
//! reads of one part.
//!
//! # State
//! None.
//!
//! # Cost
//! One division.
//!
//! # Good at
//! Random reads over the whole array, on equal rotational members: each head stays in its part and
//! seeks a half or a third as far.
//!
//! # Bad at
//! - Data in one place, such as an array that is half full: one member does all the work.
//! - One sequential stream, for the same reason.
//! - Unequal members: each gets the same part, whatever its load.
//!
//! # Origin
//! Solaris Volume Manager, the read option `geometric` of `metainit` and `metaparam` (`-g`);
//! `mirror.c` in the sources of illumos. There the address is that of the mirror, and the number of
//! parts is that of the running submirrors. Added here: the address is that of the first eligible
//! member by index, and the space is its size, because mirrors here differ in their offsets and a
//! policy does not have the volume's size; mirrors are in the order of their members. A read that
//! crosses into the next part goes where its first byte lies. The original is by Sun Microsystems.

use super::shared::address_partition::mirror_of_partition;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Geometric;

impl ReadPolicy for Geometric {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(mirror_of_partition(mirrors, ctx.members, mirrors.len()))
    }
}
