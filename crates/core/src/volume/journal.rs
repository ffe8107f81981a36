//! The journal of a running volume with parity (see [`crate::label::JournalEntry`]): which entries
//! are live, and who waits for it.
//!
//! An entry is *open* from the time that it has a number until its rows are written in place,
//! *ended* then, and *torn* if that failed on a member that stays. Ended ones leave after a flush
//! of all members, but not before older ones that have rows of theirs. Torn ones are *void* when
//! their rows are torn no more, as are those of which nothing was written in place; void ones leave
//! when they are the oldest. The ring has as many slots as the oldest live entry leaves free, so
//! with torn entries it fills up, and writes fail. A resync mends torn rows, and so does a write,
//! which comes after the torn entry at a restart: it has all columns, because those that it does
//! not cover have to be as its parities say then. Other writes to torn rows are refused.
//!
//! An entry is *repeatable* (`repairs`) until a durable entry says that it is void, or older than
//! the oldest live one: a start after a crash writes it again. A repair, rebuild or resync has no
//! entry. It waits until no repeatable entry has its rows, because a start would undo it there,
//! though later writes rely on it. So entries that leave are void at first.
//!
//! If a member that stays loses entries with the end of its device, a checkpoint ends those that it
//! had, though nothing waits for it: a start after a crash does not know whether they were written.

mod repairs;
mod torn;

use super::keys::{PieceKey, StripeKey};
use super::torn_rows::TornRows;
use crate::geometry::FullStripe;
use crate::label::JOURNAL_SLOTS;
use crate::member::MemberIndex;
pub(super) use repairs::RepairWait;
use repairs::StripeRows;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What is known of a live entry.
#[derive(Clone, PartialEq, Debug)]
enum Stage {
    /// It is written, or its rows are.
    Open,
    /// Its rows were written.
    Ended,
    /// Its rows could not be written.
    Torn(FullStripe, Range<u64>),
    /// It must not be written again.
    Void,
}

/// A flush of all members, after which entries leave.
struct JournalFlush {
    /// Number of members that it waits for.
    left: usize,
    /// The entries.
    covered: Vec<u64>,
    has_failed: bool,
}

/// How far a checkpoint is, after which members that joined may be rebuilt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Checkpoint {
    /// None is needed.
    Durable,
    /// One is to be written once the entries before this number left.
    Due { before: u64 },
    /// It is being written.
    Writing(CheckpointWrite),
}

/// A checkpoint that is being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CheckpointWrite {
    pub(super) sequence: u64,
    /// The oldest live entry when it began.
    pub(super) oldest: u64,
    /// The void entries then, a bit for each from the oldest on.
    pub(super) void: u64,
    /// Number of members on which it is not known to be durable.
    left: usize,
    has_failed: bool,
    /// It ends a wait only if the entries before this number left before it began.
    before: u64,
}

/// See the page of this module.
pub(super) struct Journal {
    /// Where it begins on each member.
    begins: Vec<u64>,
    /// The number of the next entry.
    next: u64,
    /// The oldest live entry that a durable entry names. Later ones may be written again, so their
    /// slots are in use.
    durable_oldest: u64,
    live: BTreeMap<u64, Stage>,
    /// The rows of the repeatable entries.
    repeatable: BTreeMap<u64, StripeRows>,
    /// True if an entry is torn.
    has_torn: bool,
    flush: Option<JournalFlush>,
    checkpoint: Checkpoint,
    /// The number of the last checkpoint, if it failed and no entry began since. The next one takes
    /// it again, because the next slot may be that of an entry which is needed. Some members may
    /// have the first, so no entry gets the number.
    failed_checkpoint: Option<u64>,
    /// True if a member may lack entries that were durable on it, until a checkpoint ends them.
    lacks_entries: bool,
    /// Operations that wait for a slot.
    pub(super) waiting: VecDeque<StripeKey>,
    /// Operations that wait for the labels, with an entry or before it.
    pub(super) held: Vec<StripeKey>,
    /// Rebuilds that wait for a checkpoint.
    pub(super) rebuilds: Vec<PieceKey>,
    /// Operations that wait until no repeatable entry has their rows.
    repairs: Vec<(StripeKey, StripeRows)>,
}

/// What follows the end of an I/O of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CheckpointStep {
    /// Others are in flight.
    Wait,
    /// Rebuilds may start.
    Release,
    /// A member joined meanwhile: another one is due.
    Again,
    /// It could not be written.
    Fail,
}

impl Journal {
    /// A journal that begins at these offsets of the members, and goes on with this number. With
    /// `has_joined`, members are to be rebuilt.
    pub(super) fn new(begins: Vec<u64>, next: u64, has_joined: bool) -> Journal {
        let checkpoint = match has_joined {
            true => Checkpoint::Due { before: next },
            false => Checkpoint::Durable,
        };
        Journal {
            begins,
            next,
            durable_oldest: 0,
            live: BTreeMap::new(),
            repeatable: BTreeMap::new(),
            has_torn: false,
            flush: None,
            checkpoint,
            failed_checkpoint: None,
            lacks_entries: false,
            waiting: VecDeque::new(),
            held: Vec::new(),
            rebuilds: Vec::new(),
            repairs: Vec::new(),
        }
    }

    /// Where the journal of a member begins.
    pub(super) fn begin(&self, member: MemberIndex) -> u64 {
        self.begins[member.get()]
    }

    /// The oldest live entry, or the next one.
    pub(super) fn oldest(&self) -> u64 {
        self.live.keys().next().copied().unwrap_or(self.next)
    }

    /// Returns true if there is a slot for another entry.
    pub(super) fn has_slot(&self) -> bool {
        self.free_slots() > 0
    }

    /// Number of entries that can begin now.
    pub(super) fn free_slots(&self) -> usize {
        JOURNAL_SLOTS.saturating_sub(self.next - self.durable_oldest) as usize
    }

    /// Returns true if there is no slot only because no durable entry names the oldest live one. A
    /// checkpoint may take the slot of the entry that is the oldest of all then: those behind it
    /// are right without it. Of several at once, those behind one that a crash tore would be
    /// written again, and it would not.
    fn needs_new_oldest(&self) -> bool {
        !self.has_slot() && self.checkpoint_number() < self.oldest() + JOURNAL_SLOTS
    }

    /// The number of the next checkpoint.
    fn checkpoint_number(&self) -> u64 {
        self.failed_checkpoint.unwrap_or(self.next)
    }

    /// Takes that an entry is durable which names this one as the oldest, and calls these void.
    pub(super) fn on_durable(&mut self, oldest: u64, void: u64) {
        self.durable_oldest = self.durable_oldest.max(oldest);
        self.forget_repeatable(oldest, void);
    }

    /// Returns true if half of the slots are in use.
    pub(super) fn is_half_full(&self) -> bool {
        self.next - self.oldest() >= JOURNAL_SLOTS / 2
    }

    /// Returns true if there is no slot, and none will be.
    pub(super) fn is_stuck(&self) -> bool {
        let oldest = self.live.values().next();
        let is_full = self.checkpoint_number() >= self.oldest() + JOURNAL_SLOTS;
        is_full && matches!(oldest, Some(Stage::Torn(..))) && self.flush.is_none()
    }

    /// Begins an entry for some rows of a stripe.
    pub(super) fn open(&mut self, stripe: &FullStripe, rows: &Range<u64>) -> u64 {
        let sequence = self.next;
        self.take_slot(sequence);
        self.repeatable.insert(sequence, (stripe.volume_offset, rows.clone()));
        sequence
    }

    fn take_slot(&mut self, sequence: u64) {
        assert!(sequence < self.oldest() + JOURNAL_SLOTS, "an entry needs a slot");
        self.live.insert(sequence, Stage::Open);
        self.next = sequence + 1;
        self.failed_checkpoint = None;
    }

    /// Takes that nothing of an entry was written in place, nor will be.
    pub(super) fn abandon(&mut self, sequence: u64) {
        self.live.insert(sequence, Stage::Void).expect("an open entry is live");
        self.forget_void();
    }

    /// Forgets void entries before the others.
    fn forget_void(&mut self) {
        while let Some(first) = self.live.first_entry().filter(|it| *it.get() == Stage::Void) {
            first.remove();
        }
    }

    /// The void entries, a bit for each from the oldest live one on.
    pub(super) fn void(&self) -> u64 {
        let oldest = self.oldest();
        let is_void = |(_, stage): &(&u64, &Stage)| **stage == Stage::Void;
        let void = self.live.iter().filter(is_void);
        void.fold(0, |set, (sequence, _)| set | 1 << (sequence - oldest))
    }

    /// Takes that the rows of an entry were written.
    pub(super) fn end(&mut self, sequence: u64) {
        self.live.insert(sequence, Stage::Ended).expect("an open entry is live");
    }

    /// Begins a flush of this many members, after which entries leave. Returns false if one is
    /// under way, or none can leave.
    pub(super) fn start_flush(&mut self, members: usize, torn: &TornRows) -> bool {
        if self.flush.is_some() || members == 0 {
            return false;
        }
        let staying = self.staying(torn);
        let can_leave = |(sequence, stage): &(&u64, &Stage)| match stage {
            Stage::Open | Stage::Void => false,
            Stage::Ended | Stage::Torn(..) => !staying.contains(*sequence),
        };
        let covered: Vec<u64> = self.live.iter().filter(can_leave).map(|(&it, _)| it).collect();
        let is_started = !covered.is_empty();
        if is_started {
            self.flush = Some(JournalFlush { left: members, covered, has_failed: false });
        }
        is_started
    }

    /// Takes the end of the flush of a member; returns true if it was the last.
    pub(super) fn on_flushed(&mut self, is_good: bool) -> bool {
        let flush = self.flush.as_mut().expect("a flush is under way");
        flush.left -= 1;
        flush.has_failed |= !is_good;
        flush.left == 0
    }

    /// Ends the flush of all members: entries leave if all is durable, and then true is returned.
    pub(super) fn end_flush(&mut self, has_lost_writes: bool) -> bool {
        let flush = self.flush.take().expect("a flush is under way");
        let is_durable = !flush.has_failed && !has_lost_writes;
        if is_durable {
            for sequence in flush.covered {
                // Of a torn one the next ones rely on what mended it.
                if let Some(stage) = self.live.get_mut(&sequence) {
                    *stage = Stage::Void;
                }
            }
            self.forget_void();
            self.has_torn = self.live.values().any(|it| matches!(it, Stage::Torn(..)));
        }
        is_durable
    }

    /// Gives up the flush of all members: entries leave another time.
    pub(super) fn drop_flush(&mut self) {
        self.flush.take().expect("a flush is under way");
    }

    /// Takes that a member joined, which is to be rebuilt.
    pub(super) fn on_joined(&mut self) {
        if let Checkpoint::Durable | Checkpoint::Due { .. } = self.checkpoint {
            self.checkpoint = Checkpoint::Due { before: self.next };
        } else if let Checkpoint::Writing(write) = &mut self.checkpoint {
            write.before = self.next;
        }
    }

    /// Takes that a member that stays and joins again may lack entries that it had.
    pub(super) fn on_entries_lost(&mut self) {
        self.on_joined();
        self.lacks_entries = true;
    }

    /// Returns true if a member may lack entries that it had, and no checkpoint has ended them.
    pub(super) fn lacks_entries(&self) -> bool {
        self.lacks_entries
    }

    /// Returns true if something waits for a flush or a checkpoint.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
            || !self.rebuilds.is_empty()
            || self.has_repairs()
            || self.lacks_entries
    }

    /// Returns true if rebuilds have to wait.
    pub(super) fn needs_checkpoint(&self) -> bool {
        self.checkpoint != Checkpoint::Durable
    }

    /// Begins a checkpoint on this many members: one that is due for rebuilds or because entries
    /// were lost, if nothing is before it, one that makes space for operations that wait, or one
    /// after which entries are repeatable no more whose rows are to be repaired.
    pub(super) fn start_checkpoint(&mut self, members: usize) -> bool {
        let is_due = match self.checkpoint {
            Checkpoint::Due { before } => {
                let is_wanted = !self.rebuilds.is_empty() || self.lacks_entries;
                is_wanted && self.oldest() >= before
            }
            Checkpoint::Durable => false,
            Checkpoint::Writing(_) => return false,
        };
        let makes_space = self.needs_new_oldest() && !self.waiting.is_empty();
        let can_begin = self.has_slot() || self.needs_new_oldest();
        let is_wanted = is_due || makes_space || self.frees_repair();
        if members == 0 || !can_begin || !is_wanted {
            return false;
        }
        let before = match self.checkpoint {
            Checkpoint::Due { before } => before,
            _ => 0,
        };
        let sequence = self.checkpoint_number();
        self.take_slot(sequence);
        let (oldest, void, has_failed) = (self.oldest(), self.void(), false);
        let left = members;
        let write = CheckpointWrite { sequence, oldest, void, left, has_failed, before };
        self.checkpoint = Checkpoint::Writing(write);
        true
    }

    /// Returns true if the checkpoint that is due waits for rows that cannot be written.
    pub(super) fn is_checkpoint_stuck(&self) -> bool {
        let Checkpoint::Due { before } = self.checkpoint else { return false };
        self.live.range(..before).any(|(_, stage)| matches!(stage, Stage::Torn(..)))
    }

    /// The checkpoint under way.
    pub(super) fn checkpoint(&self) -> &CheckpointWrite {
        match &self.checkpoint {
            Checkpoint::Writing(write) => write,
            _ => unreachable!("a checkpoint is written"),
        }
    }

    /// Takes the end of the I/O of a checkpoint on a member.
    pub(super) fn on_checkpoint_io(&mut self, is_good: bool) -> CheckpointStep {
        let Checkpoint::Writing(write) = &mut self.checkpoint else {
            unreachable!("a checkpoint is written")
        };
        write.left -= 1;
        write.has_failed |= !is_good;
        if write.left > 0 {
            return CheckpointStep::Wait;
        }
        let step = match (write.has_failed, write.oldest < write.before) {
            (true, _) => CheckpointStep::Fail,
            (false, true) => CheckpointStep::Again,
            (false, false) => CheckpointStep::Release,
        };
        let CheckpointWrite { sequence, oldest, void, before, .. } = *write;
        self.live.remove(&sequence);
        self.forget_void();
        match step {
            CheckpointStep::Fail if self.next == sequence + 1 => {
                self.failed_checkpoint = Some(sequence);
            }
            CheckpointStep::Fail => {}
            _ => self.on_durable(oldest, void),
        }
        self.lacks_entries &= step != CheckpointStep::Release;
        self.checkpoint = match step {
            CheckpointStep::Release => Checkpoint::Durable,
            _ => Checkpoint::Due { before },
        };
        step
    }

    /// Takes that a flush failed on a member that stays: what was written before is not durable,
    /// whatever later flushes say.
    pub(super) fn on_failed_flush(&mut self) {
        if let Checkpoint::Writing(write) = &mut self.checkpoint {
            write.has_failed = true;
        }
        if let Some(flush) = &mut self.flush {
            flush.has_failed = true;
        }
    }
}

#[cfg(test)]
mod tests;
