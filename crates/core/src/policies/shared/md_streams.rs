//! md's choice of the best disk of a raid1: streams first, then idle disks, queues or heads.
//!
//! What a queue counts is for the policy to say.
//!
//! Source: `choose_best_rdev` in Linux `drivers/md/raid1.c`.

use super::slot_order::slot_order;
use crate::member::{Member, MemberState, Members};
use crate::policy::{Mirror, MirrorScore, Read};

/// The streams that the members serve.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    any_non_rotational: bool,
    runs: Vec<Run>,
}

/// Reads given to one member, each of which began where the one before it ended.
#[derive(Clone, Debug, Default)]
struct Run {
    start: Option<u64>,
    next: u64,
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

impl Streams {
    /// Makes room for every member and looks at their kinds.
    pub(crate) fn update(&mut self, members: &Members) {
        self.runs.resize(members.len(), Run::default());
        self.any_non_rotational = members
            .iter()
            .any(|(_, member)| member.state != MemberState::Failed && !member.config.rotational);
    }

    /// Whether a disk of the array, not of the mirrors alone, is non-rotational.
    pub(crate) fn any_non_rotational(&self) -> bool {
        self.any_non_rotational
    }

    /// The place of the best mirror, which then has the read in its run. `pending` is what a member
    /// has in its queue, zero if and only if it is idle.
    #[inline]
    pub(crate) fn take_best(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        pending: impl Fn(&Member) -> u32,
    ) -> usize {
        let place = self.best(mirrors, members, pending);
        let chosen = &mirrors[place];
        let run = &mut self.runs[chosen.member.get()];
        if run.next != chosen.offset {
            run.start = Some(chosen.offset);
        }
        run.next = chosen.offset + read.length;
        place
    }

    /// What [`Streams::take_best`] would go by. A stream that stays beats all else; then it is by
    /// the queue or by the distance of the head, which the name of the score tells.
    pub(crate) fn reasons(
        &self,
        mirrors: &[Mirror],
        members: &Members,
        pending: impl Fn(&Member) -> u32,
    ) -> Vec<MirrorScore> {
        let run_of = |mirror: &Mirror| {
            let (run, member) = (&self.runs[mirror.member.get()], &members[mirror.member]);
            let distance = mirror.offset.abs_diff(member.completed_end);
            let continues = run.next == mirror.offset || distance == 0;
            (continues, continues && run.is_long(member), distance)
        };
        let queue = |mirror: &Mirror| {
            let (_, may_move, _) = run_of(mirror);
            pending(&members[mirror.member]) + u32::from(may_move)
        };
        let any_idle = mirrors.iter().any(|mirror| queue(mirror) == 0);
        let reason = |mirror: &Mirror| {
            let (continues, may_move, distance) = run_of(mirror);
            let reason = match (continues, may_move) {
                (true, false) => MirrorScore::new("stream", -2),
                (true, true) if !any_idle => MirrorScore::new("stream", -1),
                _ if self.any_non_rotational || any_idle => {
                    MirrorScore::new("queue", queue(mirror))
                }
                _ => MirrorScore::new("distance_bytes", distance),
            };
            let in_flight = pending(&members[mirror.member]);
            reason.with("in_flight", in_flight).with("distance_bytes", distance)
        };
        mirrors.iter().map(reason).collect()
    }

    #[inline]
    fn best(
        &self,
        mirrors: &[Mirror],
        members: &Members,
        pending: impl Fn(&Member) -> u32,
    ) -> usize {
        let mut sequential = None;
        let mut least_pending = (u32::MAX, 0);
        let mut nearest = (u64::MAX, 0);
        for place in slot_order(mirrors) {
            let mirror = &mirrors[place];
            let member = &members[mirror.member];
            let run = &self.runs[mirror.member.get()];
            let mut pending = pending(member);
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
