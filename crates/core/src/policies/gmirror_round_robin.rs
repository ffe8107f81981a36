//! # Idea
//! Each request goes to the next disk of the list, whatever its size.
//!
//! # State
//! The order of the members and one position in it, for the whole volume.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Random reads on equal members: it cannot alias with the size of the requests.
//!
//! # Bad at
//! - A sequential stream: each member gets single requests with gaps between them, so none streams
//!   (44 MB/s against 60.5 from one disk in the measurement of a 7.1 rebuild).
//! - Unequal members.
//!
//! # Origin
//! FreeBSD gmirror, `sys/geom/mirror/g_mirror.c`. There every disk holds every block. Here chunks
//! may have their mirrors on different members: they share the position, and a chunk takes its
//! first mirror at or after it. The original is by Pawel Jakub Dawidek <pjd@FreeBSD.org>.

use super::shared::list_order::ListPointer;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct RoundRobin {
    pointer: ListPointer,
}

impl ReadPolicy for RoundRobin {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(self.pointer.next(mirrors))
    }

    fn on_members_change(&mut self, members: &Members) {
        self.pointer.update(members);
    }
}
