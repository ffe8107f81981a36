//! The volume: a state machine that turns requests into member I/O and outcomes into replies.
//!
//! It owns no buffer, knows no clock and waits for nothing. An executor calls [`Volume::submit`],
//! takes member I/O from [`Volume::poll_io`] until there is none, reports each end to
//! [`Volume::complete`], and takes replies from [`Volume::poll_reply`]. A simulator and a server
//! drive this same code.
//!
//! **Decisions are late.** A read asks its policy when its I/O is handed out, not when it is
//! submitted, so that a policy sees every I/O handed out before it, those of the same request
//! included.
//!
//! **Failures.** A failed read goes to another eligible mirror; when one answers, the copies that
//! failed are rewritten before the request is replied to, so the executor need keep only the
//! request's one buffer. What no copy could give whole is tried again by halves, down to a sector.
//! A copy that cannot be written fails its member. If the others cannot do without that member, or
//! no copy that can be read was written, it stays and the write fails instead. The retry, the
//! rewriting and every rebuild and scrub hold a lock on their range: overlapping writes and
//! discards wait, so that old data never overwrites new.
//!
//! **Second reads.** A policy may have a piece read from several mirrors; the first good answer
//! counts (see `race`). A retry and a rebuild read once.
//!
//! **Rebuilding.** The stale part of a member being rebuilt is never read but written like any
//! other, so its recovery offset is all there is to know.

mod backoff;
mod eligibility;
mod lifecycle;
mod piece;
mod race;
mod rebuild;
#[cfg(test)]
mod tests;

pub use eligibility::Eligible;

use crate::geometry::ChunkMap;
use crate::io::{IoError, IoId, MemberIo, Op, Outcome, Purpose, ReadRole, Reply};
use crate::io::{Request, RequestKind, VolumeError};
use crate::member::{MemberIndex, MemberState, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, MirrorScore, MirrorSet, Read, ReadPolicy};
use crate::rng::Rng;
use crate::slab::{Slab, SlabKey};
use crate::units::{BLOCK_BYTES, Nanos};
use backoff::Backoff;
use piece::{Piece, PieceKey, RequestKey};
use race::{RaceId, Races};
use rebuild::Progress;
use std::collections::VecDeque;

crate::slab_key! {
    /// Names a member I/O in flight: the lower half of its [`IoId`].
    struct IoKey;
}

impl IoKey {
    #[inline]
    fn of(id: IoId) -> IoKey {
        IoKey::from_slot(id.0 as u32)
    }
}

/// A mirrored volume over an array of members.
pub struct Volume {
    map: ChunkMap,
    members: Members,
    backoffs: Vec<Backoff>,
    progress: Vec<Progress>,
    /// Whether no member needs the tiers of eligibility.
    plain: bool,
    policy: Box<dyn ReadPolicy>,
    /// How many policies came before: what one of those was told of, this one does not hear the end
    /// of, or what it counts itself would go below nothing.
    policy_number: u32,
    rng: Rng,
    requests: Slab<RequestKey, Pending>,
    pieces: Slab<PieceKey, Piece>,
    in_flight: Slab<IoKey, InFlight>,
    ios_issued: u32,
    ready: VecDeque<Step>,
    /// Pieces that wait for overlapping ones: writes for locks, locks for writes.
    waiting: Vec<PieceKey>,
    /// Pieces that hold a lock on their range.
    locked: Vec<PieceKey>,
    races: Races,
    replies: VecDeque<Reply>,
}

/// A request not yet replied to.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: Request,
    pieces_left: u32,
    result: Result<(), VolumeError>,
}

/// A member I/O handed out and not completed.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    io: MemberIo,
    piece: PieceKey,
    copy: u8,
    /// Whether its race is over, and its piece perhaps gone.
    superseded: bool,
    /// The policy that was told of it.
    policy_number: u32,
}

/// Something to hand out.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Read this piece from the mirror that the policy chooses.
    Decide(PieceKey),
    /// Do this.
    Issue(Task),
    /// Read this copy as well, if the race is still under way.
    Second { race: RaceId, copy: u8 },
}

/// Something to be done to one copy of a piece.
#[derive(Clone, Copy, Debug)]
struct Task {
    piece: PieceKey,
    copy: u8,
    op: Op,
    purpose: Purpose,
    role: ReadRole,
}

/// A choice that the policy is about to be asked for.
pub struct NextChoice {
    /// The read.
    pub read: Read,
    /// Its eligible mirrors.
    pub mirrors: Eligible,
}

impl Volume {
    /// A volume over `members`, laid out by `map`, read by `policy`; `seed` feeds the generator
    /// that the policy is given.
    pub fn new(map: ChunkMap, members: Members, policy: Box<dyn ReadPolicy>, seed: u64) -> Volume {
        let mut volume = Volume {
            map,
            backoffs: vec![Backoff::default(); members.len()],
            progress: vec![Progress::default(); members.len()],
            members,
            plain: false,
            policy,
            policy_number: 0,
            rng: Rng::stream(seed, "policy"),
            requests: Slab::default(),
            pieces: Slab::default(),
            in_flight: Slab::default(),
            ios_issued: 0,
            ready: VecDeque::new(),
            waiting: Vec::new(),
            locked: Vec::new(),
            races: Races::default(),
            replies: VecDeque::new(),
        };
        volume.members_changed();
        volume
    }

    /// Size of the volume in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.map.capacity_bytes()
    }

    /// How its chunks lie.
    pub fn map(&self) -> &ChunkMap {
        &self.map
    }

    /// The members and their books.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The policy's own counters.
    pub fn counters(&self) -> Vec<Counter> {
        self.policy.counters()
    }

    /// Whether every request was replied to.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Reads by another policy from the next decision on; nothing in flight is touched, and the new
    /// policy hears nothing of it.
    pub fn set_policy(&mut self, policy: Box<dyn ReadPolicy>) {
        self.policy = policy;
        self.policy_number = self.policy_number.wrapping_add(1);
        self.policy.on_members_change(&self.members);
    }

    /// Tells the volume that a member failed, returned to be rebuilt, or is in sync.
    pub fn set_member_state(&mut self, member: MemberIndex, state: MemberState) {
        self.members.get_mut(member).state = state;
        self.backoffs[member.get()] = Backoff::default();
        self.progress[member.get()] = Progress::default();
        self.members_changed();
    }

    /// Takes a request in. Its member I/O follows from [`Volume::poll_io`], its end from
    /// [`Volume::poll_reply`].
    pub fn submit(&mut self, request: Request) {
        // The request counts as a piece of its own until it is cut, so that it cannot end early.
        let key = self.requests.insert(Pending { request, pieces_left: 1, result: Ok(()) });
        let cut = self.cut(key, &request);
        self.end_piece_of(key, cut);
    }

    /// The next I/O to hand to a member, or `None` until something else happens.
    #[inline]
    pub fn poll_io(&mut self, now: Nanos) -> Option<MemberIo> {
        loop {
            match self.ready.pop_front()? {
                Step::Issue(task) => return Some(self.issue(task, now)),
                Step::Decide(piece) => {
                    if let Some(io) = self.decide(piece, now) {
                        return Some(io);
                    }
                }
                Step::Second { race, copy } => {
                    if let Some(io) = self.second(race, copy, now) {
                        return Some(io);
                    }
                }
            }
        }
    }

    /// What the policy will be asked by the next [`Volume::poll_io`], if it will be asked. For
    /// executors that know more than a policy may: the simulator's oracle.
    pub fn next_choice(&mut self) -> Option<NextChoice> {
        while let Some(&Step::Decide(key)) = self.ready.front() {
            let mirrors = self.eligible(key);
            match mirrors.as_slice().len() {
                0 => {
                    self.ready.pop_front();
                    self.give_up(key);
                }
                1 => return None,
                _ => return Some(NextChoice { read: self.read_of(key), mirrors }),
            }
        }
        None
    }

    /// What the policy would go by in a choice that [`Volume::next_choice`] gave; nothing changes.
    pub fn explain_choice(&self, choice: &NextChoice, now: Nanos) -> Vec<MirrorScore> {
        self.policy.explain(&choice.read, choice.mirrors.as_slice(), &self.members, now)
    }

    /// Reports the end of a member I/O, and returns that I/O with its outcome.
    ///
    /// # Panics
    /// If `id` is not in flight.
    pub fn complete(
        &mut self,
        id: IoId,
        result: Result<(), IoError>,
        now: Nanos,
    ) -> (MemberIo, Outcome) {
        let InFlight { io, piece, copy, superseded, policy_number } =
            self.in_flight.remove(IoKey::of(id)).expect("a member I/O completes once");
        assert_eq!(io.id, id, "a member I/O completes once");
        let outcome =
            Outcome { result, completed_at: now, wait: now - io.submitted_at, superseded };
        self.members.get_mut(io.member).book_complete(&io, &outcome);
        if policy_number == self.policy_number {
            self.policy.on_complete(&io, &outcome, &mut Ctx { now, rng: &mut self.rng });
        }
        match result {
            Ok(()) => self.backoffs[io.member.get()].on_success(),
            Err(error) => self.on_error(io.member, error, now),
        }
        if !self.races.no_lines() {
            self.move_up(&io);
        }
        if !superseded {
            self.on_piece_io(piece, usize::from(copy), &io, result);
        }
        (io, outcome)
    }

    /// The next reply to give, if there is one.
    #[inline]
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// When [`Volume::on_timeout`] is due, if nothing happens before.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let second_read = self.races.next_timer();
        if self.plain {
            return second_read;
        }
        self.backoffs.iter().filter_map(Backoff::until).chain(second_read).min()
    }

    /// Lets what was waiting for `now` happen: members return from sitting out, second reads start.
    pub fn on_timeout(&mut self, now: Nanos) {
        self.second_reads_due(now);
        let ended = self.backoffs.iter_mut().filter_map(|b| b.end_if_over(now).then_some(()));
        if ended.count() > 0 {
            self.members_changed();
        }
    }

    /// Hands out a read of the piece, by the policy's choice; `None` if no mirror can serve it.
    #[inline]
    fn decide(&mut self, key: PieceKey, now: Nanos) -> Option<MemberIo> {
        let read = self.read_of(key);
        let piece = self.pieces.get(key);
        let tiered;
        // Nearly every read has nothing to filter: then its mirrors are not even copied.
        let mirrors = if self.plain && piece.failed.is_empty() {
            piece.mirrors()
        } else {
            tiered = Eligible::among(piece, &self.members, &self.backoffs);
            tiered.as_slice()
        };
        let choice = match mirrors {
            [] => {
                self.give_up(key);
                return None;
            }
            [_] => Choice::Mirror(0),
            _ => {
                let ctx = &mut Ctx { now, rng: &mut self.rng };
                self.policy.choose(&read, mirrors, &self.members, ctx)
            }
        };
        let may_race = piece.kind == RequestKind::Read && !piece.locked;
        let copy = match choice {
            Choice::Mirror(index) => mirrors[index].copy,
            Choice::Split(places) => {
                let eligible = self.eligible(key);
                self.split(key, eligible.as_slice(), places);
                eligible.as_slice()[choice.first()].copy
            }
            _ if may_race => {
                let eligible = self.eligible(key);
                return Some(self.race(key, choice, eligible.as_slice(), now));
            }
            Choice::Hedge { .. } | Choice::Tied { .. } | Choice::All(_) => {
                mirrors[choice.first()].copy
            }
        };
        let piece_read = self.pieces.get_mut(key);
        piece_read.pending = 1;
        let purpose = piece_read.read_purpose();
        let task = Task { piece: key, copy, op: Op::Read, purpose, role: ReadRole::Only };
        Some(self.issue(task, now))
    }

    #[inline]
    fn eligible(&self, key: PieceKey) -> Eligible {
        let piece = self.pieces.get(key);
        if self.plain && piece.failed.is_empty() {
            return Eligible::all(piece.mirrors());
        }
        Eligible::among(piece, &self.members, &self.backoffs)
    }

    fn read_of(&self, key: PieceKey) -> Read {
        let piece = self.pieces.get(key);
        let request = &self.requests.get(piece.request).request;
        Read {
            offset: piece.offset,
            length: piece.length,
            stream: request.stream,
            cpu: request.cpu,
            background: request.background,
            copies: piece.mirrors().len() as u8,
        }
    }

    /// Cuts a piece into one part for each of `places`; the piece itself becomes the first part,
    /// the others are handed out next, in order.
    fn split(&mut self, key: PieceKey, mirrors: &[Mirror], places: MirrorSet) {
        let whole = *self.pieces.get(key);
        let parts = places.iter().count();
        let share = whole.length.div_ceil(parts as u64).next_multiple_of(BLOCK_BYTES);
        self.pieces.get_mut(key).length = share.min(whole.length);
        for (index, place) in (1..parts).rev().zip(places.iter().rev()) {
            let mirror = &mirrors[place];
            let skip = share * index as u64;
            if skip >= whole.length {
                continue;
            }
            let mut part = whole.part(skip, share.min(whole.length - skip));
            part.pending = 1;
            let (op, purpose) = (Op::Read, part.read_purpose());
            let piece = self.pieces.insert(part);
            self.requests.get_mut(whole.request).pieces_left += 1;
            if whole.locked {
                self.locked.push(piece);
            }
            let task = Task { piece, copy: mirror.copy, op, purpose, role: ReadRole::Only };
            self.ready.push_front(Step::Issue(task));
        }
    }

    /// Makes the member I/O, books it and tells the policy.
    #[inline]
    fn issue(&mut self, task: Task, now: Nanos) -> MemberIo {
        let Task { piece: key, copy, op, purpose, role } = task;
        let piece = self.pieces.get(key);
        let mirror = piece.mirrors()[usize::from(copy)];
        let request = &self.requests.get(piece.request).request;
        self.ios_issued = self.ios_issued.wrapping_add(1);
        // The count in the upper half tells a late second completion from the slot's next tenant.
        let count = u64::from(self.ios_issued) << 32;
        let in_flight = self.in_flight.insert_with(|slot| {
            let io = MemberIo {
                id: IoId(count | u64::from(slot.slot())),
                request: request.id,
                member: mirror.member,
                op,
                purpose,
                offset: mirror.offset,
                length: piece.length,
                volume_offset: piece.offset,
                stream: request.stream,
                background: request.background,
                role,
                submitted_at: now,
            };
            InFlight { io, piece: key, copy, superseded: false, policy_number: self.policy_number }
        });
        let io = in_flight.io;
        self.members.get_mut(io.member).book_submit(&io);
        self.policy.on_submit(&io, &mut Ctx { now, rng: &mut self.rng });
        io
    }

    /// After a change of any member's state: whether tiers are needed, and the policy's notice.
    fn members_changed(&mut self) {
        let mut pairs = self.members.iter().zip(&self.backoffs);
        self.plain = pairs.all(|((_, member), backoff)| eligibility::is_plain(member, backoff));
        self.policy.on_members_change(&self.members);
    }

    fn on_error(&mut self, member: MemberIndex, error: IoError, now: Nanos) {
        match error {
            IoError::Cancelled => {}
            IoError::Gone => self.set_member_state(member, MemberState::Failed),
            IoError::Medium | IoError::Transport => {
                self.backoffs[member.get()].on_error(now);
                self.members_changed();
            }
        }
    }
}
