//! # Idea
//! The volume is striped over its mirrors, 2 MiB to each in turn.
//!
//! # State
//! None.
//!
//! # Cost
//! One division and one comparison per mirror.
//!
//! # Good at
//! Random reads at depth on equal members: it spreads them evenly without any state.
//!
//! # Bad at
//! - Unequal members: each serves its share at its own speed, so a stream is bound by the slowest.
//! - A sequential stream: every member skips what the others read. With two HDDs and an SSD, three
//!   `dd` read 95 MB/s, where load and locality read 284 (OpenZFS commit text).
//!
//! # Origin
//! ZFS since OpenSolaris, before load was considered: illumos and OpenZFS `vdev_mirror.c`, where
//! `vdev_mirror_shift` is 21. If the chosen child cannot be read, the next one that can serves, so
//! the share of a missing child goes to its successor. While a spare or a replacement resilvers,
//! the first child is read there. Added here: a chunk's copies are the children, in its own order,
//! and the offset is the volume's. The original is by Sun Microsystems.

use super::shared::offset_stripe::stripe_at;
use super::shared::round_robin::next_in_cycle;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Offset;

impl ReadPolicy for Offset {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let preferred = stripe_at(read.offset, u64::from(read.copies)) as u16;
        let copy = |mirror: &Mirror| u16::from(mirror.copy);
        Choice::Mirror(next_in_cycle(mirrors, preferred, copy, |_| true))
    }
}
