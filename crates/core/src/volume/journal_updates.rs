//! What the volume does with its journal: entries before rows are written in place, the flushes
//! after which they leave, and checkpoints.

use super::column_rows::{ColumnRows, joined};
use super::durability::MetadataJob;
use super::journal::{CheckpointStep, CheckpointWrite, Journal, RepairWait};
use super::keys::{PieceKey, StripeKey};
use super::stripe_ops::{EntryWrite, StripeOp, StripeWork};
use super::stripe_steps::{BufferRows, StripeBuffer};
use super::{Volume, Work};
use crate::column_set::ColumnSet;
use crate::io::{MemberIo, Op, Purpose, VolumeError};
use crate::label::{JournalEntry, JournalPart, Uuid};
use crate::member::MemberIndex;
use crate::slab::SlabKey;

/// An entry of the journal, whose data are in the buffer of a stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalWrite {
    /// The buffer; none for a checkpoint.
    pub buffer: Option<StripeBuffer>,
    /// The data, one after the other.
    pub data: Vec<BufferRows>,
    entry: JournalEntry,
    begin: u64,
    volume: Uuid,
    member: Uuid,
}

impl JournalWrite {
    /// The bytes to write, with these data.
    pub fn encode(&self, data: &[u8]) -> Box<[u8]> {
        self.entry.encode(self.begin, data, self.volume, self.member)
    }
}

impl Volume {
    /// Goes on with an operation that waited for the labels.
    pub(super) fn resume_entry(&mut self, key: StripeKey) {
        match self.stripes().ops.get(key).entry {
            Some(_) => self.write_in_place(key),
            None => self.journal_stripe(key),
        }
    }

    /// Has an operation wait until the labels are current, and returns true, if they are not.
    fn waits_for_labels(&mut self, key: StripeKey) -> bool {
        let labels = self.labels.as_ref().expect("a volume with a journal has labels");
        let waits = !labels.is_current(&self.states);
        if waits {
            let journal = self.journal.as_mut().expect("the volume has a journal");
            journal.held.push(key);
            self.update_labels();
        }
        waits
    }

    /// Takes that a flush failed on a member that stays.
    pub(super) fn on_failed_flush_of_journal(&mut self, member: MemberIndex) {
        let Some(journal) = &mut self.journal else { return };
        journal.on_failed_flush();
        let ops = self.stripes.iter_mut().flat_map(|stripes| stripes.ops.iter_mut());
        for entry in ops.filter_map(|op| op.entry.as_mut()).filter(|entry| entry.left > 0) {
            entry.has_failed |= entry.participants & 1 << member.get() != 0;
        }
    }

    /// Enters what is to be written to a stripe, or waits for a slot. A member that does not get it
    /// must not be called in sync, because it would not be missed after a crash.
    pub(super) fn journal_stripe(&mut self, key: StripeKey) {
        if self.waits_for_labels(key) {
            return;
        }
        let journal = self.journal.as_mut().expect("the volume has a journal");
        if !journal.has_slot() {
            journal.waiting.push_back(key);
            return self.advance_journal();
        }
        let op = self.stripes.as_ref().expect("the volume has parity").ops.get(key);
        let sequence = journal.open(&op.stripe, &op.window());
        let (oldest, void) = (journal.oldest(), journal.void());
        let op = self.stripes().ops.get(key);
        let mut columns = self.journal_columns(op);
        columns.retain(|(_, member)| !self.states.is_failed(*member));
        let participants = columns.iter().fold(0, |set, (_, member)| set | 1 << member.get());
        let left = columns.len();
        let entry = EntryWrite {
            sequence,
            oldest,
            void,
            participants,
            left,
            has_failed: columns.is_empty(),
        };
        self.stripes_mut().ops.get_mut(key).entry = Some(entry);
        for (column, member) in columns {
            let job = MetadataJob::Journal { op: key, column };
            self.queue_metadata(vec![member], Op::Write, job);
        }
        if left == 0 {
            self.abandon_entry(key);
        }
    }

    /// The columns that an operation writes, and their members.
    fn journal_columns(&self, op: &StripeOp) -> Vec<(u8, MemberIndex)> {
        let columns = op.plans.iter().fold(ColumnSet::default(), |all, plan| all.or(plan.writes));
        columns.iter().map(|it| (it, self.layout.map().column(&op.stripe, it).0)).collect()
    }

    /// The entry of an operation for the member of a column, and its rows there.
    fn journal_entry(&self, key: StripeKey, column: u8) -> (JournalEntry, Vec<ColumnRows>) {
        let op = self.stripes().ops.get(key);
        let entry = op.entry.as_ref().expect("it is being written");
        let places = joined(&op.plans, |plan| plan.writes);
        let places: Vec<ColumnRows> = places.into_iter().filter(|it| it.column == column).collect();
        let (_, start) = self.layout.map().column(&op.stripe, column);
        let part = |place: &ColumnRows| JournalPart {
            offset: start + place.rows.start,
            length: (place.rows.end - place.rows.start) as u32,
        };
        let entry = JournalEntry {
            sequence: entry.sequence,
            oldest: entry.oldest,
            void: entry.void,
            participants: entry.participants,
            stripe_offset: op.stripe.volume_offset,
            rows: op.window(),
            parts: places.iter().map(part).collect(),
        };
        (entry, places)
    }

    /// A checkpoint.
    fn checkpoint_entry(&self) -> JournalEntry {
        let journal = self.journal.as_ref().expect("the volume has a journal");
        let CheckpointWrite { sequence, oldest, void, .. } = *journal.checkpoint();
        JournalEntry::checkpoint(sequence, oldest, void)
    }

    /// Where an entry is written on a member, and its length.
    pub(super) fn journal_place(&self, job: MetadataJob, member: MemberIndex) -> (u64, u64) {
        let journal = self.journal.as_ref().expect("the volume has a journal");
        let entry = match job {
            MetadataJob::Journal { op, column } => self.journal_entry(op, column).0,
            _ => self.checkpoint_entry(),
        };
        (entry.offset(journal.begin(member)), entry.length())
    }

    /// What a member I/O of [`Purpose::Metadata`] writes to the journal; `None` if it writes other
    /// metadata, which [`Volume::metadata_bytes`] has.
    pub fn journal_write(&self, io: &MemberIo) -> Option<JournalWrite> {
        let journal = self.journal.as_ref().filter(|_| io.purpose == Purpose::Metadata)?;
        let (entry, buffer, data) = match self.metadata_job(io) {
            MetadataJob::Journal { op: key, column } => {
                let (entry, places) = self.journal_entry(key, column);
                let rows = |it: ColumnRows| self.local_rows(key, &it.rows);
                let data = places.into_iter().map(|it| BufferRows { column, rows: rows(it) });
                (entry, Some(StripeBuffer(key.slot())), data.collect())
            }
            MetadataJob::Checkpoint => (self.checkpoint_entry(), None, Vec::new()),
            _ => return None,
        };
        let labels = self.labels.as_ref().expect("a volume with a journal has labels");
        let (volume, member) = (labels.committed().array.uuid, labels.uuid(io.member));
        Some(JournalWrite { buffer, data, entry, begin: journal.begin(io.member), volume, member })
    }

    /// Takes the end of an entry on a member. Once all have it, its rows are written in place.
    pub(super) fn on_journal_io(&mut self, key: StripeKey, member: MemberIndex, is_durable: bool) {
        if !is_durable {
            self.lose_member(member);
        }
        let stays = !self.states.is_failed(member);
        let entry = self.stripes_mut().ops.get_mut(key).entry.as_mut();
        let entry = entry.expect("it is being written");
        entry.left -= 1;
        entry.has_failed |= !is_durable && stays;
        match entry {
            EntryWrite { left: 0, has_failed: true, .. } => self.abandon_entry(key),
            EntryWrite { left: 0, oldest, void, .. } => {
                let (oldest, void) = (*oldest, *void);
                let journal = self.journal.as_mut().expect("the volume has a journal");
                journal.on_durable(oldest, void);
                // It may be what they wait for; those that have to wait longer do so again.
                let repairs = journal.take_repairs();
                self.write_in_place(key);
                repairs.for_each(|key| self.write_stripe(key));
            }
            _ => {}
        }
    }

    /// Writes rows whose entry is durable, once the labels say which members do not have it.
    pub(super) fn write_in_place(&mut self, key: StripeKey) {
        if self.waits_for_labels(key) {
            return;
        }
        let writes = joined(&self.stripes().ops.get(key).plans, |plan| plan.writes);
        self.queue_stripe_ios(key, writes, Op::Write, Purpose::User);
    }

    /// Gives up rows of which nothing was written in place.
    pub(super) fn abandon_entry(&mut self, key: StripeKey) {
        let op = self.stripes_mut().ops.get_mut(key);
        let plans = std::mem::take(&mut op.plans);
        let failed = plans.into_iter().map(|plan| (plan.rows, VolumeError::Unwritable));
        op.failures.extend(failed);
        if let Some(entry) = op.entry.take() {
            let journal = self.journal.as_mut().expect("the volume has a journal");
            journal.abandon(entry.sequence);
        }
        self.end_window(key);
        self.advance_journal();
    }

    /// Takes that the rows of an operation were written in place; with `is_torn`, not on all
    /// members that stay.
    pub(super) fn end_entry(&mut self, key: StripeKey, is_torn: bool) {
        let op = self.stripes_mut().ops.get_mut(key);
        let (stripe, rows) = (op.stripe, op.window());
        let Some(entry) = op.entry.take() else { return };
        let journal = self.journal.as_mut().expect("the volume has a journal");
        match is_torn {
            true => {
                journal.tear(entry.sequence, stripe, rows);
                self.add_unsynced(stripe.volume_offset..stripe.volume_offset + stripe.length());
            }
            false => journal.end(entry.sequence),
        }
        if is_torn {
            // What they wait for may stay now.
            let journal = self.journal.as_mut().expect("the volume has a journal");
            journal.take_repairs().for_each(|key| self.write_stripe(key));
        }
        self.advance_journal();
    }

    /// Flushes the members if that makes space, or something waits for it.
    pub(super) fn advance_journal(&mut self) {
        let journal = self.journal.as_mut().expect("the volume has a journal");
        let resumed = journal.waiting.len().min(journal.free_slots());
        self.work.extend(journal.waiting.drain(..resumed).map(Work::Journal));
        if journal.is_half_full() || journal.is_waited_for() {
            self.flush_journal();
        }
        self.start_checkpoint();
        self.fail_if_journal_is_stuck();
    }

    /// Lets torn entries leave whose rows were mended.
    pub(super) fn release_mended(&mut self) {
        let (Some(journal), Some(stripes)) = (&self.journal, &self.stripes) else { return };
        if journal.has_mended(&stripes.torn) {
            self.flush_journal();
        }
    }

    /// Flushes all members, so that entries leave, unless that is under way or none can.
    fn flush_journal(&mut self) {
        let members: Vec<MemberIndex> = self.states.active().collect();
        let torn = &self.stripes.as_ref().expect("a volume with a journal has parity").torn;
        let journal = self.journal.as_mut().expect("the volume has a journal");
        if journal.start_flush(members.len(), torn) {
            self.queue_metadata(members, Op::Flush, MetadataJob::JournalFlush);
        }
    }

    /// Takes the end of the flush of a member.
    pub(super) fn on_journal_flushed(&mut self, member: MemberIndex, is_good: bool) {
        if !is_good {
            self.lose_member(member);
        }
        let is_good = is_good || self.states.is_failed(member);
        let journal = self.journal.as_mut().expect("the volume has a journal");
        if journal.on_flushed(is_good) {
            let has_lost_writes = self.has_lost_writes();
            let labels = self.labels.as_ref().expect("a volume with a journal has labels");
            let is_current = labels.is_current(&self.states);
            let journal = self.journal.as_mut().expect("the volume has a journal");
            if !is_current && !has_lost_writes {
                // A member that the labels call in sync may lack what the entries have.
                journal.drop_flush();
                return self.update_labels();
            }
            if journal.end_flush(has_lost_writes) {
                return self.advance_journal();
            }
            self.fail_journal_waiters();
        }
    }

    /// Number of writes with parity that failed in place, on a member that the volume cannot do
    /// without. The next start repeats them, unless all data of their rows can be read, or are
    /// written, before. Until then no member is rebuilt, and with many of them nothing can be
    /// written.
    pub fn unfinished_writes(&self) -> usize {
        self.journal.as_deref().map_or(0, Journal::torn_count)
    }

    /// Fails operations for which there will be no slot, and rebuilds before which there will be no
    /// checkpoint.
    fn fail_if_journal_is_stuck(&mut self) {
        let journal = self.journal.as_mut().expect("the volume has a journal");
        if journal.is_checkpoint_stuck() {
            let rebuilds = std::mem::take(&mut journal.rebuilds);
            rebuilds.into_iter().for_each(|key| self.fail_piece(key));
        }
        if self.journal.as_deref().is_some_and(Journal::is_stuck) {
            self.fail_waiting_entries();
            self.fail_waiting_repairs();
        }
    }

    /// Fails what waits for the journal, which cannot be written or flushed.
    pub(super) fn fail_journal_waiters(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let has_slot = journal.has_slot();
        let rebuilds = std::mem::take(&mut journal.rebuilds);
        rebuilds.into_iter().for_each(|key| self.fail_piece(key));
        self.fail_waiting_repairs();
        if !has_slot {
            self.fail_waiting_entries();
        }
    }

    fn fail_waiting_entries(&mut self) {
        let journal = self.journal.as_mut().expect("the volume has a journal");
        let waiting = std::mem::take(&mut journal.waiting);
        waiting.into_iter().for_each(|key| self.abandon_entry(key));
    }

    /// Begins a checkpoint if one is due, and something waits for it.
    pub(super) fn start_checkpoint(&mut self) {
        let members: Vec<MemberIndex> = self.states.active().collect();
        let labels = self.labels.as_ref().expect("a volume with a journal has labels");
        let journal = self.journal.as_mut().expect("the volume has a journal");
        if !journal.is_waited_for() {
            return;
        }
        if !labels.is_current(&self.states) {
            return self.update_labels();
        }
        if journal.start_checkpoint(members.len()) {
            self.queue_metadata(members, Op::Write, MetadataJob::Checkpoint);
        }
    }

    /// Takes the end of a checkpoint on a member.
    pub(super) fn on_checkpoint_io(&mut self, member: MemberIndex, is_durable: bool) {
        if !is_durable {
            self.lose_member(member);
        }
        let is_good = is_durable || self.states.is_failed(member);
        let journal = self.journal.as_mut().expect("the volume has a journal");
        let lacked_entries = journal.lacks_entries();
        let step = journal.on_checkpoint_io(is_good);
        if lacked_entries && !journal.lacks_entries() {
            self.record_begun_journals();
        }
        let journal = self.journal.as_mut().expect("the volume has a journal");
        let released = match step {
            CheckpointStep::Wait => return,
            CheckpointStep::Fail => return self.fail_journal_waiters(),
            CheckpointStep::Again => Vec::new(),
            CheckpointStep::Release => std::mem::take(&mut journal.rebuilds),
        };
        let repairs = journal.take_repairs();
        released.into_iter().for_each(|key| self.issue_first(key));
        repairs.for_each(|key| self.write_stripe(key));
        self.advance_journal();
    }

    /// Has the labels say that no journal lacks entries which count, if they do not yet.
    fn record_begun_journals(&mut self) {
        let labels = self.labels.as_mut().expect("a volume with a journal has labels");
        if !labels.has_begun_journals {
            labels.has_begun_journals = true;
            self.update_labels();
        }
    }

    /// Has an operation without an entry wait until no start undoes what it writes, and returns
    /// true; false if there is nothing to wait for.
    pub(super) fn waits_for_entries(&mut self, key: StripeKey) -> bool {
        let (Some(journal), Some(stripes)) = (&mut self.journal, &self.stripes) else {
            return false;
        };
        let op = stripes.ops.get(key);
        let (stripe, rows) = (op.stripe, op.window());
        match journal.repair_wait(&stripe, &rows, &stripes.torn) {
            RepairWait::Nothing => return false,
            RepairWait::Checkpoint => {
                journal.hold_repair(key, &stripe, rows);
                self.advance_journal();
            }
            RepairWait::Forever => self.abandon_repair(key),
        }
        true
    }

    fn fail_waiting_repairs(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        journal.take_repairs().for_each(|key| self.abandon_repair(key));
    }

    /// Gives up what an operation was to write. A read has its data all the same, and a rebuild
    /// goes on: what a start repeats is no older than what its member lacks.
    fn abandon_repair(&mut self, key: StripeKey) {
        let op = self.stripes_mut().ops.get_mut(key);
        match op.work {
            StripeWork::Read => {
                op.plans.iter_mut().for_each(|plan| plan.writes = ColumnSet::default());
                self.end_window(key);
            }
            StripeWork::Rebuild(_) => {
                let writes = joined(&op.plans, |plan| plan.writes);
                self.queue_stripe_ios(key, writes, Op::Write, Purpose::Rebuild);
            }
            _ => self.abandon_entry(key),
        }
    }

    /// Has a rebuild wait for a checkpoint, if one is needed; returns true then.
    pub(super) fn waits_for_checkpoint(&mut self, key: PieceKey) -> bool {
        let Some(journal) = self.journal.as_mut().filter(|it| it.needs_checkpoint()) else {
            return false;
        };
        journal.rebuilds.push(key);
        self.advance_journal();
        true
    }
}
