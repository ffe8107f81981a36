//! # Idea
//! A read that continues a stream stays on its disk. Otherwise an idle disk serves; if none is
//! idle, the shortest queue where the array has a non-rotational disk, else the nearest head. A
//! non-rotational disk loses its stream to an idle one once the run reaches its optimal I/O size.
//!
//! # State
//! Per member: where the last read given to it ended, and where the run of reads before it began.
//! The head position is the end of the last I/O completed.
//!
//! # Cost
//! One scan of the mirrors in slot order.
//!
//! # Good at
//! A few sequential streams on rotational disks; random reads on non-rotational ones.
//!
//! # Bad at
//! A busy or slow disk keeps its stream: position is looked at before load. A device that reports
//! no optimal I/O size never gives a stream up. One stream per disk is remembered.
//! On rotational disks at depth the nearest head wins even where its queue is long.
//! Unequal disks: an idle slow one is taken before a fast one with one request.
//!
//! # Origin
//! Linux md 6.9 and later, `choose_best_rdev` in `drivers/md/raid1.c`. Its other stages are the
//! volume's eligibility here: the first usable disk while a resync has not passed, disks with bad
//! blocks, and write-mostly disks as the last resort. The slot is the member's index. Sectors are
//! bytes of the member here; in md all disks of an array share one address. A read that had no
//! other mirror is not seen.

use super::Build;
use super::shared::slot_order::slot_order;
use super::spec::PolicyError;
use crate::member::{Member, MemberState, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Raid1 {
    any_non_rotational: bool,
    runs: Vec<Run>,
}

/// Reads given to one member, each of which began where the one before it ended.
#[derive(Clone)]
struct Run {
    start: Option<u64>,
    next: u64,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Raid1 { any_non_rotational: false, runs: Vec::new() }))
}

impl Run {
    /// Whether the stream may be moved to an idle disk.
    fn is_long(&self, member: &Member) -> bool {
        let optimal = member.config.optimal_io_bytes;
        !member.config.rotational
            && optimal > 0
            && self.start.is_some_and(|start| self.next > optimal && self.next - optimal >= start)
    }
}

impl Raid1 {
    fn best(&self, mirrors: &[Mirror], members: &Members) -> usize {
        let mut sequential = None;
        let mut least_pending = (u32::MAX, 0);
        let mut nearest = (u64::MAX, 0);
        for place in slot_order(mirrors) {
            let mirror = &mirrors[place];
            let member = &members[mirror.member];
            let run = &self.runs[mirror.member.get()];
            let mut pending = member.in_flight();
            let distance = mirror.offset.abs_diff(member.completed_end);
            if run.next == mirror.offset || distance == 0 {
                if !run.is_long(member) {
                    return place;
                }
                // An idle disk is then preferred to this one; a busy one is not.
                pending += 1;
                sequential = Some(place);
            }
            if pending < least_pending.0 {
                least_pending = (pending, place);
            }
            if distance < nearest.0 {
                nearest = (distance, place);
            }
        }
        match sequential {
            Some(place) if least_pending.0 > 0 => place,
            _ if self.any_non_rotational || least_pending.0 == 0 => least_pending.1,
            _ => nearest.1,
        }
    }
}

impl ReadPolicy for Raid1 {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let place = self.best(mirrors, members);
        let chosen = &mirrors[place];
        let run = &mut self.runs[chosen.member.get()];
        if run.next != chosen.offset {
            run.start = Some(chosen.offset);
        }
        run.next = chosen.offset + read.length;
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.runs.resize(members.len(), Run { start: None, next: 0 });
        self.any_non_rotational = members
            .iter()
            .any(|(_, member)| member.state != MemberState::Failed && !member.config.rotational);
    }
}
