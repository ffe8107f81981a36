//! md's choice of the best disk of a raid1: by stream, then idle disks, queue lengths or head
//! positions.
//!
//! The policy passes the function that counts a queue.
//!
//! Source: `choose_best_rdev` of Linux 6.9 and `read_balance` of Linux 3.6 and 4.10, in
//! `drivers/md/raid1.c`.

use super::slot_order::order_by;
use crate::diagnostic::Diagnostic;
use crate::member::{Member, MemberIndex, MemberState, Members};
use crate::policies::Build;
use crate::policy::{Mirror, MirrorScore, Read};

/// The stream that each member serves.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    keeps_long_streams: bool,
    takes_first_idle: bool,
    /// The member in the first slot, if not that of the lowest index.
    first: Option<MemberIndex>,
    any_non_rotational: bool,
    streams: Vec<MemberStream>,
}

/// Reads given to one member, each of which began where the one before it ended.
#[derive(Clone, Debug, Default)]
struct MemberStream {
    start: Option<u64>,
    next: u64,
}

impl MemberStream {
    /// True if the stream may move to an idle disk.
    fn is_long(&self, member: &Member) -> bool {
        let optimal = member.config.optimal_io_bytes;
        !member.config.rotational
            && optimal > 0
            && self.start.is_some_and(|start| self.next > optimal && self.next - optimal >= start)
    }
}

impl Streams {
    /// As Linux 4.10 to 6.8 have it: a long stream stays on its disk too, whether or not another
    /// one is idle. If several long streams end at a read, it goes to the last.
    pub(crate) fn keeping_long_streams() -> Streams {
        Streams { keeps_long_streams: true, ..Streams::default() }
    }

    /// As Linux 3.6 to 4.9 have it: the first disk in slot order that is idle or has the stream
    /// serves, so an idle disk goes before the stream of a higher slot.
    pub(crate) fn taking_first_idle() -> Streams {
        Streams { takes_first_idle: true, ..Streams::default() }
    }

    /// The same for an array that was created with the member of the policy's value, if that is not
    /// zero, in the first slot. The others follow in the order of their indexes.
    pub(crate) fn in_order(self, build: &Build<'_>) -> Result<Streams, Diagnostic> {
        let first = match build.values {
            [] | [0] => None,
            [devid, ..] => Some(build.member(*devid)?),
        };
        Ok(Streams { first, ..self })
    }

    /// Adds new members, and checks whether any is non-rotational.
    pub(crate) fn update(&mut self, members: &Members) {
        self.streams.resize(members.len(), MemberStream::default());
        self.any_non_rotational = members
            .iter()
            .any(|(_, member)| member.state != MemberState::Failed && !member.config.rotational);
    }

    /// True if a disk of the array, not only of the mirrors, is non-rotational.
    pub(crate) fn any_non_rotational(&self) -> bool {
        self.any_non_rotational
    }

    /// Position of the best mirror; adds the read to its stream. `pending` is the length of a
    /// member's queue, zero if and only if it is idle.
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
        let stream = &mut self.streams[chosen.member.get()];
        if stream.next != chosen.offset {
            stream.start = Some(chosen.offset);
        }
        stream.next = chosen.offset + read.length;
        place
    }

    /// Scores by which [`Streams::take_best`] would choose. A stream that stays comes first; then
    /// the queue or the distance of the head decides, as the name of the score says.
    pub(crate) fn reasons(
        &self,
        mirrors: &[Mirror],
        members: &Members,
        pending: impl Fn(&Member) -> u32,
    ) -> Vec<MirrorScore> {
        let stream_of = |mirror: &Mirror| {
            let (stream, member) = (&self.streams[mirror.member.get()], &members[mirror.member]);
            let distance = mirror.offset.abs_diff(member.completed_end);
            let continues = stream.next == mirror.offset || distance == 0;
            (continues, continues && stream.is_long(member), distance)
        };
        let queue = |mirror: &Mirror| {
            let (_, may_move, _) = stream_of(mirror);
            pending(&members[mirror.member]) + u32::from(may_move)
        };
        let any_idle = mirrors.iter().any(|mirror| queue(mirror) == 0);
        let reason = |mirror: &Mirror| {
            let (continues, may_move, distance) = stream_of(mirror);
            let reason = match (continues, may_move) {
                (true, false) => MirrorScore::new("stream", -2),
                (false, _) if self.takes_first_idle && queue(mirror) == 0 => {
                    MirrorScore::new("idle", -2)
                }
                (true, true) if self.keeps_long_streams || !any_idle => {
                    MirrorScore::new("stream", -1)
                }
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
        let slot = |mirror: &Mirror| (Some(mirror.member) != self.first, mirror.member);
        for place in order_by(mirrors, slot) {
            let mirror = &mirrors[place];
            let member = &members[mirror.member];
            let stream = &self.streams[mirror.member.get()];
            let mut pending = pending(member);
            let distance = mirror.offset.abs_diff(member.completed_end);
            if stream.next == mirror.offset || distance == 0 {
                if !stream.is_long(member) {
                    return place;
                }
                // An idle disk is then preferred to this one; a busy one is not.
                pending += 1;
                sequential = Some(place);
            } else if self.takes_first_idle && pending == 0 {
                return place;
            }
            if pending < least_pending.0 {
                least_pending = (pending, place);
            }
            if distance < nearest.0 {
                nearest = (distance, place);
            }
        }
        match sequential {
            Some(place) if self.keeps_long_streams || least_pending.0 > 0 => place,
            _ if self.any_non_rotational || least_pending.0 == 0 => least_pending.1,
            _ => nearest.1,
        }
    }
}
