//! # Idea
//! Splits a read longer than the slice into as many pieces as there are mirrors; each mirror reads
//! one. Shorter reads take turns as in `gmirror/round-robin`. The slice is a threshold, not the
//! size of a piece.
//!
//! # State
//! The slice, the order of the members and the round-robin position.
//!
//! # Cost
//! One comparison for a long read, one per mirror for a short one. The volume submits several I/O
//! for a long read.
//!
//! # Good at
//! Large reads on idle non-rotational members: each reads its share at the same time.
//!
//! # Bad at
//! Rotational members: each seeks for a piece, and the read waits for the slowest of them. A
//! sequential stream of 128 KiB became pieces of 42 KiB on three disks and lost a quarter against
//! one disk (the measurement of a 7.1 rebuild).
//!
//! # Origin
//! FreeBSD gmirror, `sys/geom/mirror/g_mirror.c`; slice 4096 by default. There the pieces go to the
//! disks in list order. Here the volume splits in the order of the chunk's stripes, so which mirror
//! reads the first piece may differ, and pieces are whole blocks of 512 bytes instead of the
//! provider's blocks. The original is by Pawel Jakub Dawidek <pjd@FreeBSD.org>.

use super::shared::list_order::ListPointer;
use super::{Build, Built};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, MirrorSet, Read, ReadPolicy};

struct Split {
    pointer: ListPointer,
    slice_bytes: u64,
}

/// Builds the policy from the slice in bytes.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Split { pointer: ListPointer::default(), slice_bytes: build.values[0] }))
}

impl ReadPolicy for Split {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        if read.length <= self.slice_bytes {
            Choice::Mirror(self.pointer.next(mirrors))
        } else {
            Choice::Split(MirrorSet::all(mirrors))
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.pointer.update(members);
    }
}
