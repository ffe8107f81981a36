//! Second reads: several reads of one piece, of which one counts.
//!
//! A race begins with the first read and ends with the first good answer. Reads still on their way
//! then are *lost*: the books and the policy hear of their ends, nobody else does. A hedge and a
//! tie name those that the executor may cancel; where it cannot, they run on like those of a policy
//! that reads everything. A read that fails leaves its race; when the race is over the piece is
//! retried as any other, by one read at a time, even if another mirror did answer: the copy that
//! failed is to be rewritten, and that takes data read under a lock.
//!
//! *Next in line* is told without the member's help: a read is, once nothing that was handed to its
//! member before it is in flight any more. On a member that takes its queue in order that is when
//! it begins; one that reorders may begin it earlier, never later.

use super::piece::PieceKey;
use super::{InFlight, IoKey, Step, Task, Volume};
use crate::geometry::MAX_COPIES;
use crate::io::{MemberIo, Op, Purpose, ReadRole};
use crate::member::MemberIndex;
use crate::policy::{Choice, Mirror};
use crate::slab::{Slab, SlabKey};
use crate::units::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

crate::slab_key! {
    /// Names a race while it is under way.
    pub(super) struct RaceKey;
}

/// Names a race; the number tells it from a later one under the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RaceId {
    number: u64,
    key: RaceKey,
}

/// All races of a volume.
#[derive(Debug, Default)]
pub(super) struct Races {
    list: Slab<RaceKey, Race>,
    begun: u64,
    /// Second reads to come: when, and of which race. The earliest is always of a race under way.
    timers: BinaryHeap<Reverse<(Nanos, RaceId)>>,
    /// Reads of ties that are not yet next in line.
    lines: Vec<Line>,
    /// Reads that the executor may cancel.
    withdrawn: VecDeque<MemberIo>,
}

/// One race.
#[derive(Clone, Copy, Debug)]
struct Race {
    number: u64,
    piece: PieceKey,
    kind: RaceKind,
    /// The copy of the second read, until it is handed out or given up.
    backup: Option<u8>,
    /// Reads in flight, by their slots.
    runners: [IoKey; MAX_COPIES],
    count: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RaceKind {
    Hedge,
    Tie,
    All,
}

/// A read in line behind others on its member.
#[derive(Clone, Copy, Debug)]
struct Line {
    race: RaceKey,
    slot: IoKey,
    member: MemberIndex,
    /// In which place it was issued.
    issued: u32,
    /// How many in flight were handed to the member before it.
    ahead: u32,
}

impl Races {
    /// When the next second read is due.
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next second read that is due.
    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<RaceId> {
        let Reverse((at, race)) = *self.timers.peek()?;
        if at > now {
            return None;
        }
        self.timers.pop();
        self.drop_stale_timers();
        Some(race)
    }

    /// Whether nobody is in any line: then completions need not be looked at.
    #[inline]
    pub(super) fn no_lines(&self) -> bool {
        self.lines.is_empty()
    }

    fn begin(&mut self, piece: PieceKey, kind: RaceKind, backup: Option<u8>) -> RaceId {
        self.begun += 1;
        let number = self.begun;
        let race = Race {
            number,
            piece,
            kind,
            backup,
            runners: [IoKey::from_slot(0); MAX_COPIES],
            count: 0,
        };
        RaceId { number, key: self.list.insert(race) }
    }

    fn is_under_way(&self, race: RaceId) -> bool {
        self.list.find(race.key).is_some_and(|found| found.number == race.number)
    }

    fn drop_stale_timers(&mut self) {
        while let Some(&Reverse((_, race))) = self.timers.peek() {
            let due = self.is_under_way(race) && self.list.get(race.key).backup.is_some();
            if due {
                return;
            }
            self.timers.pop();
        }
    }

    /// Takes a read out of its race; says whether it was the last.
    fn leave(&mut self, race: RaceKey, slot: IoKey) -> bool {
        self.lines.retain(|line| line.slot != slot);
        let race = self.list.get_mut(race);
        let runners = &mut race.runners[..usize::from(race.count)];
        let place = runners.iter().position(|&runner| runner == slot);
        runners.swap(place.expect("a read of a race is one of its runners"), runners.len() - 1);
        race.count -= 1;
        race.count == 0
    }

    /// Ends a race; its second read is given up, its lines dissolve.
    fn end(&mut self, key: RaceKey) -> Race {
        let race = self.list.remove(key).expect("a race ends once");
        self.lines.retain(|line| line.race != key);
        self.drop_stale_timers();
        race
    }
}

impl Volume {
    /// The next read that the executor may cancel. To be asked until there is none, whenever I/O
    /// was handed out or completed. The executor need not cancel; if it does, it reports the end as
    /// [`IoError::Cancelled`](crate::io::IoError::Cancelled).
    pub fn poll_cancel(&mut self) -> Option<MemberIo> {
        while let Some(io) = self.races.withdrawn.pop_front() {
            let in_flight = self.in_flight.find(IoKey::of(io.id));
            if in_flight.is_some_and(|found| found.io.id == io.id) {
                return Some(io);
            }
        }
        None
    }

    /// Begins the race that the policy chose, and hands out its first read.
    pub(super) fn race(
        &mut self,
        key: PieceKey,
        choice: Choice,
        mirrors: &[Mirror],
        now: Nanos,
    ) -> MemberIo {
        let (kind, backup, after) = match choice {
            Choice::Hedge { backup, after, .. } => (RaceKind::Hedge, Some(backup), after),
            Choice::Tied { second, after, .. } => (RaceKind::Tie, Some(second), after),
            _ => (RaceKind::All, None, Nanos::ZERO),
        };
        assert!(backup != Some(choice.first()), "a second read goes to another mirror");
        let race = self.races.begin(key, kind, backup.map(|place| mirrors[place].copy));
        self.pieces.get_mut(key).race = Some(race.key);
        let second = |place: usize| Step::Second { race, copy: mirrors[place].copy };
        match (backup, choice) {
            (Some(_), _) if after > Nanos::ZERO => {
                self.races.timers.push(Reverse((now.saturating_add(after), race)));
            }
            (Some(place), _) => self.ready.push_front(second(place)),
            (None, Choice::All(places)) => {
                let others = places.iter().rev().filter(|&place| place != choice.first());
                others.for_each(|place| self.ready.push_front(second(place)));
            }
            (None, _) => {}
        }
        let copy = mirrors[choice.first()].copy;
        self.run(race.key, copy, ReadRole::First, now)
    }

    /// Hands out a further read of a race, if that is still under way and the mirror can serve.
    pub(super) fn second(&mut self, race: RaceId, copy: u8, now: Nanos) -> Option<MemberIo> {
        if !self.races.is_under_way(race) {
            return None;
        }
        let found = self.races.list.get_mut(race.key);
        let piece = found.piece;
        let given_up = found.kind != RaceKind::All && found.backup.take().is_none();
        let eligible = self.eligible(piece);
        let can_serve = eligible.as_slice().iter().any(|mirror| mirror.copy == copy);
        (can_serve && !given_up).then(|| self.run(race.key, copy, ReadRole::Extra, now))
    }

    /// Queues the second reads that are due.
    pub(super) fn second_reads_due(&mut self, now: Nanos) {
        while let Some(race) = self.races.pop_due(now) {
            let copy = self.races.list.get(race.key).backup;
            let copy = copy.expect("timers of races without a second read are dropped");
            self.ready.push_back(Step::Second { race, copy });
        }
    }

    /// A read of a race that was not over ended, well or not: those that now lost are withdrawn.
    /// Gives the number of reads of the piece that still count.
    pub(super) fn on_runner(&mut self, race: RaceKey, slot: IoKey, answered: bool) -> u8 {
        let last = self.races.leave(race, slot);
        if !answered && !last {
            return self.races.list.get(race).count;
        }
        let ended = self.races.end(race);
        self.pieces.get_mut(ended.piece).race = None;
        for &runner in &ended.runners[..usize::from(ended.count)] {
            let loser = self.in_flight.get_mut(runner);
            loser.superseded = true;
            if ended.kind != RaceKind::All {
                self.races.withdrawn.push_back(loser.io);
            }
        }
        0
    }

    /// An I/O left its member: those behind it in a line move up.
    pub(super) fn move_up(&mut self, ended: &MemberIo) {
        let issued = (ended.id.0 >> 32) as u32;
        // At most one: of two in a line, one is behind the other.
        let mut first = None;
        for line in &mut self.races.lines {
            // The count of what was issued may wrap: half of it is far more than is in flight.
            let is_before = line.issued.wrapping_sub(issued).cast_signed() > 0;
            if line.member == ended.member && is_before {
                line.ahead -= 1;
                if line.ahead == 0 {
                    first = Some(*line);
                }
            }
        }
        if let Some(line) = first {
            self.win_line(line.race, line.slot);
        }
    }

    /// Hands out one read of a race.
    fn run(&mut self, race: RaceKey, copy: u8, role: ReadRole, now: Nanos) -> MemberIo {
        let Race { piece, kind, .. } = *self.races.list.get(race);
        self.pieces.get_mut(piece).pending += 1;
        let task = Task { piece, copy, op: Op::Read, purpose: Purpose::User, role };
        let io = self.issue(task, now);
        let slot = IoKey::of(io.id);
        let found = self.races.list.get_mut(race);
        found.runners[usize::from(found.count)] = slot;
        found.count += 1;
        if kind == RaceKind::Tie {
            self.stand_in_line(race, &io);
        }
        io
    }

    fn stand_in_line(&mut self, race: RaceKey, io: &MemberIo) {
        let slot = IoKey::of(io.id);
        let ahead = self.members[io.member].in_flight() - 1;
        if ahead == 0 {
            return self.win_line(race, slot);
        }
        let issued = (io.id.0 >> 32) as u32;
        self.races.lines.push(Line { race, slot, member: io.member, issued, ahead });
    }

    /// A read of a tie is next in line: the others of its race are withdrawn, or never sent. They
    /// still count where they cannot be cancelled.
    fn win_line(&mut self, race: RaceKey, slot: IoKey) {
        self.races.lines.retain(|line| line.race != race);
        let found = self.races.list.get_mut(race);
        found.backup = None;
        for &runner in found.runners[..usize::from(found.count)].iter().filter(|&&it| it != slot) {
            let InFlight { io, .. } = self.in_flight.get(runner);
            self.races.withdrawn.push_back(*io);
        }
        self.races.drop_stale_timers();
    }
}
