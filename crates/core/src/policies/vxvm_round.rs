//! # Idea
//! Mirrors take turns, but a read that begins where the one before it ended stays on its mirror.
//!
//! # State
//! Where the last read of the volume ended, which member served it, and the round-robin position.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Random reads on equal members, and one sequential stream: it stays on one member, whose
//! read-ahead serves it.
//!
//! # Bad at
//! - Two sequential streams at once: each interrupts the other, so the reads of both take turns.
//! - Unequal members: each has the same number of turns.
//! - A stream never uses a second member.
//!
//! # Origin
//! Veritas Volume Manager, `vxvol rdpol round`: its administrator's guides (4.1, 5.0, 5.1) say that
//! it reads each plex in turn for each nonsequential I/O detected, and that sequential access
//! causes only one plex to be accessed. How it detects sequential access is not published. Added
//! here: one read is remembered for the whole volume, a read continues it if it begins exactly at
//! its end, and turns are in the order of the members. Defined in Administrator's Guide, vxvol
//! rdpol.

use super::shared::round_robin::MemberCursor;
use crate::member::MemberIndex;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Round {
    last: Option<LastRead>,
    cursor: MemberCursor,
}

/// The last read of the volume: where it ended, and the member that served it.
struct LastRead {
    end: u64,
    member: MemberIndex,
}

impl ReadPolicy for Round {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let continued = self.last.as_ref().filter(|last| last.end == read.offset);
        let same =
            continued.and_then(|last| mirrors.iter().position(|it| it.member == last.member));
        let place = same.unwrap_or_else(|| self.cursor.advance(mirrors));
        self.last =
            Some(LastRead { end: read.offset + read.length, member: mirrors[place].member });
        Choice::Mirror(place)
    }
}
