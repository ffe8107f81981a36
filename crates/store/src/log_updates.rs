//! Updates of the dirty log: when records are written and regions leave.

use crate::StoreGate;
use crate::dirty_log::LogStep;
use crate::metadata::MetadataJob;
use crate::unsynced_regions::{REGION_BYTES, region_numbers};
use mirrorball_core::io::Op;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::PieceKey;
use mirrorball_core::volume::gate::{Array, Released};
use std::ops::Range;

/// Whether regions leave the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    /// They will, after a flush.
    Started,
    /// None can.
    Nothing,
    /// Not before the labels are current.
    NotYet,
}

impl StoreGate {
    pub fn active_regions(&self) -> usize {
        self.log.active().len()
    }

    /// Bytes of the volume that a crash now would have synchronised: the regions in the dirty log,
    /// and all behind the place that the labels have of the first synchronisation; zero where there
    /// is a single copy.
    pub fn crash_resync_bytes(&self) -> u64 {
        if self.label().array.profile.rules().copies == 1 {
            return 0;
        }
        let from = self.label().resync_from.unwrap_or(self.capacity_bytes);
        let begins = self.log.active().map(|region| u64::from(region) * REGION_BYTES);
        let logged = begins.filter(|&begin| begin < from).count() as u64;
        assert!(from <= self.capacity_bytes, "{from} of {} bytes", self.capacity_bytes);
        (logged * REGION_BYTES).min(from) + (self.capacity_bytes - from)
    }

    /// Starts a record with the regions of the writes that wait for one, unless the log is busy. A
    /// full set is emptied first.
    pub(crate) fn start_record(&mut self, array: &mut Array<'_>) {
        if !self.log.is_resting() || self.log.waiting.is_empty() {
            return;
        }
        let ranges = self.log.waiting.iter().map(|(_, range)| range);
        let mut wanted: Vec<u32> = ranges.flat_map(region_numbers).collect();
        wanted.dedup();
        if self.log.is_full_for(&wanted) {
            match self.start_flush(true, array) {
                Leaving::Started => return,
                // With labels that cannot be written, the writes fail.
                Leaving::NotYet => return self.retry_log(),
                Leaving::Nothing => {}
            }
            if self.log.is_stuck() {
                return self.fail_log();
            }
            if self.log.is_full() {
                // Every region is being written to. The end of a write comes back here.
                return;
            }
        }
        self.write_record(&wanted, array);
    }

    /// Writes a record with these regions, too, to all members, once their labels are current: a
    /// member that joins, with a record that is newer than its label, would make the others that
    /// have such a label seem to be old copies.
    pub(crate) fn write_record(&mut self, wanted: &[u32], array: &mut Array<'_>) {
        if !self.labels.is_current(array.states) {
            self.update_labels(array);
            return self.retry_log();
        }
        assert!(!self.is_read_only, "a read-only volume records nothing");
        let members: Vec<MemberIndex> = array.states.active().collect();
        if members.is_empty() {
            return self.fail_log();
        }
        if self.log.stale.is_due() {
            self.log.start_map(members.clone(), false);
            return self.queue_metadata(members, Op::Write, MetadataJob::StaleMap);
        }
        self.log.start_record(wanted, members.clone());
        self.queue_metadata(members, Op::Write, MetadataJob::Log);
    }

    /// Lets regions leave that have been idle for a while, or writes another record if there are
    /// writes.
    pub(crate) fn tick_log(&mut self, now: Nanos, array: &mut Array<'_>) {
        if !self.log.take_tick(now) || !self.log.is_resting() {
            return;
        }
        let has_writes = self.log.has_writes();
        let leaving = self.start_flush(false, array);
        self.write_idle_pages(array);
        if leaving != Leaving::Started && has_writes {
            self.write_record(&[], array);
        }
    }

    /// Begins to let idle regions leave.
    fn start_flush(&mut self, at_once: bool, array: &mut Array<'_>) -> Leaving {
        assert!(self.log.is_resting(), "regions leave when nothing else is under way");
        if !self.update_stale_base(array) {
            return Leaving::NotYet;
        }
        if !self.log.choose_leaving(at_once) {
            return Leaving::Nothing;
        }
        if !self.write_pages_before_leaving(array) {
            self.flush_before_leaving(array);
        }
        Leaving::Started
    }

    /// Flushes the members, so that the regions leave that were chosen.
    fn flush_before_leaving(&mut self, array: &Array<'_>) {
        let members: Vec<MemberIndex> = array.states.active().collect();
        assert!(!members.is_empty(), "a flush makes something durable");
        let (op, job) = match self.log.start_flush(members.clone()) {
            Op::Write => (Op::Write, MetadataJob::StaleMap),
            op => (op, MetadataJob::Log),
        };
        self.queue_metadata(members, op, job);
    }

    /// Continues when the pages of the regions that are to leave are written. If they are not, or a
    /// member failed meanwhile, the regions leave another time; writes for which there is no space
    /// until then fail.
    pub(crate) fn on_pages_written_for_log(&mut self, is_good: bool, array: &mut Array<'_>) {
        self.log.end_paging();
        if !is_good && self.log.is_full() {
            return self.fail_log();
        }
        let has_member = array.states.active().next().is_some();
        match is_good && has_member && self.update_stale_base(array) {
            true => self.flush_before_leaving(array),
            false => self.retry_log(),
        }
    }

    /// Has the stale map count from the time that the labels say. Returns false if a member failed
    /// and they do not say so yet: then no region may leave the log.
    fn update_stale_base(&mut self, array: &mut Array<'_>) -> bool {
        let is_complete = StoreGate::is_complete(array.states);
        if !self.labels.is_current(array.states) {
            if !self.is_read_only {
                self.update_labels(array);
            }
            return is_complete;
        }
        let base = self.labels.committed().lineage.complete_id();
        self.log.stale.set_base(base.filter(|_| !is_complete));
        true
    }

    /// Adds a range to the stale map that is to be repaired; returns true if that is durable, or no
    /// member is missing.
    pub(crate) fn record_as_stale(&mut self, range: &Range<u64>, array: &mut Array<'_>) -> bool {
        self.update_stale_base(array);
        region_numbers(range).for_each(|region| self.log.stale.insert(region));
        self.log.stale.is_durable()
    }

    /// Handles the end of the log's I/O on a member.
    pub(crate) fn on_log_io(
        &mut self,
        member: MemberIndex,
        is_durable: bool,
        now: Nanos,
        array: &mut Array<'_>,
    ) {
        self.log.arm(now);
        match self.log.on_io(member, is_durable) {
            None => {}
            Some(LogStep::Recorded) => {
                assert!(self.log.is_resting(), "the record is the last that was under way");
                // Until the labels are current, they may call a member in sync that failed.
                if self.labels.is_current(array.states) {
                    self.log.on_recorded_by_all();
                }
                self.retry_log();
            }
            Some(LogStep::Mapped { then_flush: true }) => {
                let members: Vec<MemberIndex> = array.states.active().collect();
                if !members.is_empty() {
                    self.log.continue_flush(members.clone());
                    self.queue_metadata(members, Op::Flush, MetadataJob::Log);
                }
            }
            Some(LogStep::Mapped { then_flush: false } | LogStep::Flushed) => {
                match self.log.waiting.is_empty() {
                    true => self.write_record(&[], array),
                    false => self.start_record(array),
                }
            }
            Some(LogStep::Unwritable(members)) => {
                members.iter().for_each(|&member| self.lose_member(member, array));
                match members.iter().all(|&member| array.states.is_failed(member)) {
                    // What waits for the log waits for the labels first.
                    true => self.retry_log(),
                    false => self.fail_log(),
                }
            }
        }
    }

    /// Has the pieces that wait for the log ask again.
    fn retry_log(&mut self) {
        let pieces = self.take_log_waiters();
        self.release(pieces);
    }

    /// Fails the pieces that wait for the log.
    fn fail_log(&mut self) {
        let pieces = self.take_log_waiters();
        self.released.extend(pieces.into_iter().map(Released::Fail));
    }

    fn take_log_waiters(&mut self) -> Vec<PieceKey> {
        let waiting = std::mem::take(&mut self.log.waiting);
        waiting.into_iter().map(|(piece, _)| piece).collect()
    }
}
