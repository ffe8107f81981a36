//! # Idea
//! Mirrors take turns, but a read that begins where the one before it ended stays on its mirror.
//!
//! # State
//! Where the last read of the volume ended, which member served it, and whose turn is next.
//!
//! # Cost
//! One comparison a mirror.
//!
//! # Good at
//! Random reads on equal members, and one sequential stream: it stays on one member, whose
//! read-ahead serves it.
//!
//! # Bad at
//! Two sequential streams at once: each breaks the other's run, so both are dealt out in turns.
//! Unequal members: each has the same number of turns. A stream never uses a second member.
//!
//! # Origin
//! Veritas Volume Manager, `vxvol rdpol round`: its administrator's guides (4.1, 5.0, 5.1) say that
//! it reads each plex in turn for each nonsequential I/O detected, and that sequential access
//! causes only one plex to be accessed. How it detects is not published. Ours: one run is
//! remembered for the whole volume, a read continues it if it begins exactly at its end, and turns
//! go in the order of the members.

use super::Build;
use super::shared::cycle::MemberTurn;
use super::spec::PolicyError;
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
struct Round {
    run: Option<Run>,
    turn: MemberTurn,
}

/// The last read: where it ended, on the volume, and who served it.
struct Run {
    end: u64,
    member: MemberIndex,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Round::default()))
}

impl ReadPolicy for Round {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let runs_on = self.run.as_ref().filter(|run| run.end == read.offset);
        let same = runs_on.and_then(|run| mirrors.iter().position(|it| it.member == run.member));
        let place = same.unwrap_or_else(|| self.turn.turn(mirrors));
        self.run = Some(Run { end: read.offset + read.length, member: mirrors[place].member });
        Choice::Mirror(place)
    }
}
