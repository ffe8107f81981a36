//! Second reads: several reads of one piece, of which one counts.
//!
//! A race begins with the first read and ends with the first good answer. Reads still in flight
//! then are *superseded*: they are accounted and the policy is notified of their ends, but their
//! request does not depend on them. A hedge and a tie name the reads that the executor may cancel;
//! where it cannot, they run on like those of a policy that reads all mirrors. A read that fails
//! leaves its race. After the race the piece is retried as any other, by one read at a time, even
//! if another mirror did answer: the mirror that failed is to be rewritten, and that takes data
//! read under the lock.
//!
//! A tied read wins its race when it is *next* on its member: when no I/O handed to the member
//! before it is in flight any more. The volume finds that out without the member's help. A member
//! that processes I/O in order begins the read at that moment; one that reorders may begin it
//! earlier, never later.

use super::gate::Gate;
use super::piece::{IoKey, PieceKey, RaceKey};
use super::plan::PlanTarget;
use super::{TargetIo, Volume, Work};
use crate::io::{IoId, MemberIo, Op, Purpose, ReadRole};
use crate::member::MemberIndex;
use crate::policy::{Choice, Mirror};
use crate::slab::Slab;
use crate::units::Nanos;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Names a race for good: the number distinguishes it from a later race under the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RaceId {
    number: u64,
    key: RaceKey,
}

#[derive(Debug, Default)]
pub(super) struct Races {
    races: Slab<RaceKey, Race>,
    begun: u64,
    /// Second reads to come: when, and of which race. The earliest is always of a race under way.
    timers: BinaryHeap<Reverse<(Nanos, RaceId)>>,
    /// Reads of ties that are not yet next on their member.
    queued: Vec<QueuedRead>,
    /// Reads that the executor may cancel.
    to_cancel: VecDeque<MemberIo>,
}

#[derive(Debug)]
struct Race {
    number: u64,
    piece: PieceKey,
    kind: RaceKind,
    /// The target of the second read, until it is issued or given up.
    backup: Option<PlanTarget>,
    reads: SmallVec<[IoKey; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RaceKind {
    Hedge,
    Tie,
    All,
}

/// A tied read with I/O before it on its member.
#[derive(Clone, Copy, Debug)]
struct QueuedRead {
    race: RaceKey,
    read: IoKey,
    member: MemberIndex,
    /// Number of the read in the order of issue.
    number: u32,
    /// Number of I/Os in flight that were handed to the member before it.
    ahead: u32,
}

impl Races {
    /// When the next second read is due.
    #[inline]
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    #[inline]
    pub(super) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Returns true if a tied read is not yet next on its member. If not, completions need not be
    /// looked at.
    #[inline]
    pub(super) fn has_queued_reads(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Removes and returns the next second read that is due.
    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<Work> {
        let Reverse((at, race)) = *self.timers.peek()?;
        if at > now {
            return None;
        }
        self.timers.pop();
        assert!(self.is_under_way(race), "timers of races that ended are dropped");
        self.drop_stale_timers();
        let target = self.races.get(race.key).backup;
        let target = target.expect("timers of races without a second read are dropped");
        Some(Work::SecondRead { race, target })
    }

    fn begin(&mut self, piece: PieceKey, kind: RaceKind, backup: Option<PlanTarget>) -> RaceId {
        self.begun += 1;
        let number = self.begun;
        let race = Race { number, piece, kind, backup, reads: SmallVec::new() };
        RaceId { number, key: self.races.insert(race) }
    }

    fn is_under_way(&self, race: RaceId) -> bool {
        self.races.find(race.key).is_some_and(|found| found.number == race.number)
    }

    fn drop_stale_timers(&mut self) {
        while let Some(&Reverse((_, race))) = self.timers.peek() {
            let is_due = self.is_under_way(race) && self.races.get(race.key).backup.is_some();
            if is_due {
                return;
            }
            self.timers.pop();
        }
    }

    /// Removes a read from its race and returns the number of reads left.
    fn remove_read(&mut self, race: RaceKey, read: IoKey) -> u8 {
        self.queued.retain(|queued| queued.read != read);
        let reads = &mut self.races.get_mut(race).reads;
        let index = reads.iter().position(|&other| other == read);
        reads.swap_remove(index.expect("a read of a race ends once"));
        reads.len() as u8
    }

    /// Ends a race. Its second read is given up.
    fn end(&mut self, key: RaceKey) -> Race {
        let race = self.races.remove(key).expect("a race ends once");
        self.queued.retain(|queued| queued.race != key);
        self.drop_stale_timers();
        race
    }
}

impl<G: Gate> Volume<G> {
    /// The next read that the executor may cancel; to be called until it returns `None`, whenever
    /// I/O was handed out or completed. The executor need not cancel; if it does, it reports the
    /// end as [`IoError::Cancelled`](crate::io::IoError::Cancelled).
    pub fn poll_cancel(&mut self) -> Option<MemberIo> {
        while let Some(io) = self.races.to_cancel.pop_front() {
            if self.in_flight.find(io.id).is_some() {
                return Some(io);
            }
        }
        None
    }

    /// Returns true if [`Volume::poll_cancel`] may have a read.
    #[inline]
    pub fn has_reads_to_cancel(&self) -> bool {
        !self.races.to_cancel.is_empty()
    }

    /// Starts the race that the policy chose, and issues its first read.
    pub(super) fn start_race(
        &mut self,
        key: PieceKey,
        choice: Choice,
        ways: &[Mirror],
        now: Nanos,
    ) -> MemberIo {
        assert!(ways.len() > 1, "a race is between mirrors: {choice:?}");
        assert!(self.requests.piece(key).race.is_none(), "a piece has one race at a time");
        let target = |index: usize| PlanTarget::of(&ways[index]);
        let (kind, backup, after) = match choice {
            Choice::Hedge { backup, after, .. } => (RaceKind::Hedge, Some(target(backup)), after),
            Choice::Tied { second, after, .. } => (RaceKind::Tie, Some(target(second)), after),
            _ => (RaceKind::All, None, Nanos::ZERO),
        };
        let race = self.races.begin(key, kind, backup);
        self.requests.piece_mut(key).race = Some(race.key);
        match (backup, choice) {
            (Some(_), _) if after > Nanos::ZERO => {
                self.races.timers.push(Reverse((now.saturating_add(after), race)));
            }
            (Some(target), _) => self.work.push_front(Work::SecondRead { race, target }),
            (None, Choice::All(set)) => {
                for other in set.iter().rev().filter(|&index| index != choice.first()) {
                    self.work.push_front(Work::SecondRead { race, target: target(other) });
                }
            }
            (None, _) => {}
        }
        self.issue_race_read(race.key, target(choice.first()), ReadRole::First, now)
    }

    /// Issues a further read of a race, if the race is still under way and the target can serve.
    pub(super) fn issue_second_read(
        &mut self,
        race: RaceId,
        target: PlanTarget,
        now: Nanos,
    ) -> Option<MemberIo> {
        if !self.races.is_under_way(race) {
            return None;
        }
        let found = self.races.races.get_mut(race.key);
        let piece = found.piece;
        let is_given_up = found.kind != RaceKind::All && found.backup.take().is_none();
        let ways = self.ways(piece);
        let can_serve = ways.as_slice().iter().any(|way| PlanTarget::of(way) == target);
        let issues = can_serve && !is_given_up;
        issues.then(|| self.issue_race_read(race.key, target, ReadRole::Extra, now))
    }

    /// Handles the end of a read of a race that was not over. If it is the answer, the other reads
    /// are superseded. Returns the number of reads of the piece that still count.
    pub(super) fn on_race_read(&mut self, race: RaceKey, read: IoKey, is_answer: bool) -> u8 {
        let left = self.races.remove_read(race, read);
        if !is_answer && left > 0 {
            return left;
        }
        let ended = self.races.end(race);
        let piece_race = self.requests.piece_mut(ended.piece).race.take();
        assert_eq!(piece_race, Some(race), "a race and its piece name each other");
        for &other in &ended.reads {
            let superseded = self.in_flight.get_mut(other);
            superseded.superseded = true;
            if ended.kind != RaceKind::All {
                self.races.to_cancel.push_back(superseded.io);
            }
        }
        0
    }

    /// Handles the end of an I/O that tied reads may be queued behind.
    pub(super) fn advance_queued_reads(&mut self, ended: &MemberIo) {
        let ended_number = issue_number(ended.id);
        // At most one read becomes next: of two on one member, one is behind the other.
        let mut next = None;
        for queued in &mut self.races.queued {
            // The issue number wraps; half of its range is far more than is ever in flight.
            let is_before = queued.number.wrapping_sub(ended_number).cast_signed() > 0;
            if queued.member == ended.member && is_before {
                assert!(queued.ahead > 0, "a read that is next is not queued");
                queued.ahead -= 1;
                if queued.ahead == 0 {
                    next = Some(*queued);
                }
            }
        }
        if let Some(queued) = next {
            self.decide_tie(queued.race, queued.read);
        }
    }

    fn issue_race_read(
        &mut self,
        key: RaceKey,
        target: PlanTarget,
        role: ReadRole,
        now: Nanos,
    ) -> MemberIo {
        let &Race { piece, kind, .. } = self.races.races.get(key);
        self.requests.piece_mut(piece).pending += 1;
        let (op, purpose) = (Op::Read, Purpose::User);
        let io = self.issue(TargetIo { piece, target, op, purpose, role }, now);
        self.races.races.get_mut(key).reads.push(IoKey::of(io.id));
        if kind == RaceKind::Tie {
            self.queue_tied_read(key, &io);
        }
        io
    }

    fn queue_tied_read(&mut self, race: RaceKey, io: &MemberIo) {
        let read = IoKey::of(io.id);
        let in_flight = self.members()[io.member].in_flight();
        assert!(in_flight > 0, "the read itself is in flight");
        let ahead = in_flight - 1;
        if ahead == 0 {
            return self.decide_tie(race, read);
        }
        let number = issue_number(io.id);
        self.races.queued.push(QueuedRead { race, read, member: io.member, number, ahead });
    }

    /// Decides a tie for the read that is next on its member: the other is withdrawn, or never
    /// issued. It still counts if the executor cannot cancel it.
    fn decide_tie(&mut self, race: RaceKey, winner: IoKey) {
        self.races.queued.retain(|queued| queued.race != race);
        let found = self.races.races.get_mut(race);
        assert!(found.reads.contains(&winner), "the winner is of the race");
        found.backup = None;
        for &other in found.reads.iter().filter(|&&read| read != winner) {
            let io = self.in_flight.get(other).io;
            self.races.to_cancel.push_back(io);
        }
        self.races.drop_stale_timers();
    }
}

/// The number of an I/O in the order of issue.
fn issue_number(id: IoId) -> u32 {
    (id.0 >> 32) as u32
}
