//! Decisions: a read asks the policy and is issued by its choice.
//!
//! The policy is asked about the mirrors that may serve. One that is not in sync for the range, or
//! that failed in this request, cannot. Then two preferences, each of which is dropped if no mirror
//! would be left: not in back-off after errors, and not write-mostly.

use super::gate::Gate;
use super::piece::{Piece, PieceKey};
use super::plan::{EligibleMirrors, PlanTarget, TargetSet};
use super::{NextChoice, TargetIo, Volume, Work};
use crate::io::{MemberIo, Op, ReadRole, Request, RequestKind};
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, MirrorSet, Read};
use crate::units::Nanos;

impl<G: Gate> Volume<G> {
    /// The choice that the next [`Volume::poll_io`] asks the policy for, or `None` if it asks for
    /// none. For the simulator's oracle, which is given more information than a policy.
    pub fn next_choice(&mut self) -> Option<NextChoice> {
        loop {
            let key = match *self.work.front()? {
                Work::Decide(key) => key,
                Work::Start(key) => {
                    self.work.pop_front();
                    self.start_granted(key);
                    continue;
                }
                _ => return None,
            };
            let mirrors = self.ways(key);
            match mirrors.as_slice().len() {
                0 => {
                    self.work.pop_front();
                    self.give_up(key);
                }
                1 => return None,
                _ => {
                    let (piece, request) = self.requests.piece_and_request(key);
                    return Some(NextChoice { read: read_of(piece, request), mirrors });
                }
            }
        }
    }

    /// The policy's score of each mirror in a choice that [`Volume::next_choice`] returned.
    pub fn explain_choice(&self, choice: &NextChoice, now: Nanos) -> Vec<MirrorScore> {
        let rng = &mut self.decider.rng.clone();
        let ctx = &Ctx { now, members: self.members(), rng };
        self.decider.policy.explain(&choice.read, choice.mirrors.as_slice(), ctx)
    }

    /// Issues a read of the piece by the policy's choice; `None` if no mirror can serve it.
    #[inline]
    pub(super) fn decide(&mut self, key: PieceKey, now: Nanos) -> Option<MemberIo> {
        let (piece, request) = self.requests.piece_and_request(key);
        let read = read_of(piece, request);
        let tiered;
        // Nearly every read has nothing to filter: then its mirrors are not even copied.
        let has_all = self.states.all_eligible() && piece.failed.is_empty();
        let is_plain = has_all && piece.doubted.is_empty();
        let is_plain = is_plain && !self.reads_first_only(&piece.plan);
        let mirrors = match is_plain && self.lacking(&piece.plan).is_empty() {
            true => piece.plan.mirrors(),
            false => {
                tiered = self.ways(key);
                tiered.as_slice()
            }
        };
        let choice = match mirrors {
            [] => {
                self.give_up(key);
                return None;
            }
            [_] => Choice::Mirror(0),
            _ => {
                self.decider.choices += 1;
                let members = self.states.members();
                let ctx = &mut Ctx { now, members, rng: &mut self.decider.rng };
                let choice = self.decider.policy.choose(&read, mirrors, ctx);
                choice.check(mirrors.len());
                choice
            }
        };
        let way = &mirrors[choice.first()];
        debug_assert!(piece.pending == 0 && piece.race.is_none(), "{piece:?} is not read yet");
        assert!(
            !G::EXISTS || self.states.is_in_sync(way.member, way.offset, read.length),
            "a read goes to a member in sync: {way:?}"
        );
        let first = PlanTarget::of(way);
        let may_race = piece.kind == RequestKind::Read && !piece.has_lock;
        match choice {
            Choice::Mirror(_) => {}
            Choice::Split(set) => {
                let ways = self.ways(key);
                self.split(key, ways.as_slice(), set);
            }
            Choice::Hedge { .. } | Choice::Tied { .. } | Choice::All(_) => {
                if may_race {
                    let ways = self.ways(key);
                    return Some(self.start_race(key, choice, ways.as_slice(), now));
                }
            }
        }
        let piece = self.requests.piece_mut(key);
        (piece.pending, piece.doubted) = (1, TargetSet::default());
        let purpose = piece.read_purpose();
        let role = ReadRole::Only;
        Some(self.issue(TargetIo { piece: key, target: first, op: Op::Read, purpose, role }, now))
    }

    /// The ways of reading a piece now.
    #[inline]
    pub(super) fn ways(&self, key: PieceKey) -> EligibleMirrors {
        let piece = self.requests.piece(key);
        let unusable = piece.failed.or(self.lacking(&piece.plan));
        let ways = match self.reads_first_only(&piece.plan) {
            true => piece.plan.source(&self.states, unusable),
            false => piece.plan.ways(&self.states, unusable),
        };
        if piece.doubted.is_empty() { ways } else { ways.preferring(piece.doubted) }
    }

    /// Cuts a piece into one part for each mirror of `set`. The piece itself becomes the first
    /// part; the others are issued next, in order.
    fn split(&mut self, key: PieceKey, mirrors: &[Mirror], set: MirrorSet) {
        let whole = self.requests.piece(key).clone();
        let length = whole.plan.length;
        let parts = set.iter().count();
        let share = length.div_ceil(parts as u64).next_multiple_of(self.options.block_bytes);
        assert!(parts > 0 && share * parts as u64 >= length, "the parts are the whole");
        self.requests.piece_mut(key).plan.length = share.min(length);
        for (index, mirror) in (1..parts).rev().zip(set.iter().rev()) {
            let skip = share * index as u64;
            if skip >= length {
                continue;
            }
            let mut part = whole.clone();
            part.plan = whole.plan.part(skip, share.min(length - skip));
            part.pending = 1;
            let (op, purpose, role) = (Op::Read, part.read_purpose(), ReadRole::Only);
            let piece = self.add_part(part);
            let target = PlanTarget::of(&mirrors[mirror]);
            self.work.push_front(Work::Issue(TargetIo { piece, target, op, purpose, role }));
        }
    }
}

/// The read of a piece, as the policy is shown it.
#[inline]
fn read_of(piece: &Piece, request: &Request) -> Read {
    Read {
        offset: piece.plan.offset,
        length: piece.plan.length,
        stream: request.stream,
        cpu: request.cpu,
        background: request.background,
        copies: piece.plan.copies(),
    }
}
