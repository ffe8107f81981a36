//! Updates of the dirty log: when records are written and regions leave.

use super::Volume;
use super::dirty_log::LogStep;
use super::durability::{MetadataJob, region_numbers};
use super::unsynced_regions::REGION_BYTES;
use crate::io::Op;
use crate::io::RequestKind;
use crate::member::{Member, MemberIndex, MemberState};
use crate::units::Nanos;
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

impl Volume {
    /// Number of regions in the dirty log; zero without labels.
    pub fn active_regions(&self) -> usize {
        self.log.as_deref().map_or(0, |log| log.active().len())
    }

    /// Bytes of the volume that a crash now would have synchronised: the regions in the dirty log,
    /// and all behind the place that the labels have of the first synchronisation; zero where there
    /// is a single copy.
    pub fn crash_resync_bytes(&self) -> u64 {
        let capacity_bytes = self.capacity_bytes();
        if self.map().tolerated_failures() == 0 {
            return 0;
        }
        let from = self.label().and_then(|label| label.resync_from).unwrap_or(capacity_bytes);
        let logged = self.log.as_deref().map_or(0, |log| {
            let begins = log.active().map(|region| u64::from(region) * REGION_BYTES);
            begins.filter(|&begin| begin < from).count() as u64
        });
        (logged * REGION_BYTES).min(from) + (capacity_bytes - from)
    }

    /// Starts a record with the regions of the writes that wait for one, unless the log is busy. A
    /// full set is emptied first.
    pub(super) fn start_record(&mut self) {
        let Some(log) = &mut self.log else { return };
        if !log.is_resting() || log.waiting.is_empty() {
            return;
        }
        let pieces = log.waiting.iter().map(|&key| self.pieces.get(key));
        let is_logged = |kind| [RequestKind::Write, RequestKind::Discard].contains(&kind);
        let writes = pieces.filter(|piece| is_logged(piece.kind));
        let mut wanted: Vec<u32> =
            writes.flat_map(|piece| region_numbers(&piece.plan.range())).collect();
        wanted.dedup();
        if log.is_full_for(&wanted) {
            match self.start_flush(true) {
                Leaving::Started => return,
                // With labels that cannot be written, the writes fail.
                Leaving::NotYet => return self.retry_log(),
                Leaving::Nothing => {}
            }
            let Some(log) = &mut self.log else { return };
            if log.is_stuck() {
                let waiting = std::mem::take(&mut log.waiting);
                return waiting.into_iter().for_each(|key| self.fail_piece(key));
            }
            if log.is_full() {
                // Every region is being written to. The end of a write comes back here.
                return;
            }
        }
        self.write_record(&wanted);
    }

    /// Writes a record with these regions, too, to all members, once their labels are current: a
    /// member that joins, with a record that is newer than its label, would make the others that
    /// have such a label seem to be old copies.
    pub(super) fn write_record(&mut self, wanted: &[u32]) {
        let members: Vec<MemberIndex> = self.states.active().collect();
        let (Some(labels), Some(log)) = (&self.labels, &mut self.log) else { return };
        if !labels.is_current(&self.states) {
            self.update_labels();
            return self.retry_log();
        }
        if members.is_empty() {
            let waiting = std::mem::take(&mut log.waiting);
            return waiting.into_iter().for_each(|key| self.fail_piece(key));
        }
        if log.stale.is_due() {
            log.start_map(members.clone(), false);
            return self.queue_metadata(members, Op::Write, MetadataJob::StaleMap);
        }
        log.start_record(wanted, members.clone());
        self.queue_metadata(members, Op::Write, MetadataJob::Log);
    }

    /// Lets regions leave that have been idle for a while, or writes another record if there are
    /// writes.
    pub(super) fn tick_log(&mut self, now: Nanos) {
        let Some(log) = &mut self.log else { return };
        if !log.is_due(now) || !log.is_resting() {
            return;
        }
        let has_writes = log.has_writes();
        let leaving = self.start_flush(false);
        self.write_idle_pages();
        if leaving != Leaving::Started && has_writes {
            self.write_record(&[]);
        }
    }

    /// Begins to let idle regions leave.
    fn start_flush(&mut self, at_once: bool) -> Leaving {
        if !self.update_stale_base() {
            return Leaving::NotYet;
        }
        let Some(log) = &mut self.log else { return Leaving::Nothing };
        if !log.choose_leaving(at_once) {
            return Leaving::Nothing;
        }
        if self.checksums.is_none() || !self.write_pages_before_leaving() {
            self.flush_before_leaving();
        }
        Leaving::Started
    }

    /// Flushes the members, so that the regions leave that were chosen.
    fn flush_before_leaving(&mut self) {
        let members: Vec<MemberIndex> = self.states.active().collect();
        let log = self.log.as_mut().expect("a volume with labels has a log");
        let (op, job) = match log.start_flush(members.clone()) {
            Op::Write => (Op::Write, MetadataJob::StaleMap),
            op => (op, MetadataJob::Log),
        };
        self.queue_metadata(members, op, job);
    }

    /// Goes on when the pages of the regions that are to leave are written. If they are not, or a
    /// member failed meanwhile, the regions leave another time; writes for which there is no space
    /// until then fail.
    pub(super) fn on_pages_written_for_log(&mut self, is_good: bool) {
        let log = self.log.as_mut().expect("a volume with labels has a log");
        log.end_paging();
        if !is_good && log.is_full() {
            let waiting = std::mem::take(&mut log.waiting);
            return waiting.into_iter().for_each(|key| self.fail_piece(key));
        }
        let has_member = self.states.active().next().is_some();
        match is_good && has_member && self.update_stale_base() {
            true => self.flush_before_leaving(),
            false => self.retry_log(),
        }
    }

    /// Sees to it that pages of checksums are written though no region is active.
    pub(super) fn arm_for_pages(&mut self, now: Nanos) {
        let has_dirty = self.has_dirty_pages() && !self.is_read_only;
        if let Some(log) = self.log.as_mut().filter(|_| has_dirty) {
            log.arm_anyway(now);
        }
    }

    /// Has the stale map count from the time that the labels say. Returns false if a member failed
    /// and they do not say so yet: then no region may leave the log.
    fn update_stale_base(&mut self) -> bool {
        let is_in_sync = |(_, member): (_, &Member)| member.state == MemberState::InSync;
        let is_complete = self.states.members().iter().all(is_in_sync);
        let (Some(labels), Some(log)) = (&mut self.labels, &mut self.log) else { return false };
        if !labels.is_current(&self.states) {
            if !self.is_read_only {
                self.update_labels();
            }
            return is_complete;
        }
        let base = labels.committed().lineage.complete_id();
        log.stale.set_base(base.filter(|_| !is_complete));
        true
    }

    /// Adds a range to the stale map that is to be repaired; returns true if that is durable, or no
    /// member is missing.
    pub(super) fn records_as_stale(&mut self, range: &Range<u64>) -> bool {
        self.update_stale_base();
        let log = self.log.as_mut().expect("a volume with labels has a log");
        region_numbers(range).for_each(|region| log.stale.insert(region));
        log.stale.is_durable()
    }

    /// Takes that a member failed, which may lack repairs: all of it is copied when it comes back.
    pub(super) fn note_lost_repairs(&mut self, member: MemberIndex) {
        let may_be_lost = self.log.as_ref().is_some_and(|log| log.repairs.may_be_lost());
        if let Some(labels) = self.labels.as_mut().filter(|_| may_be_lost) {
            labels.on_repairs_lost(member);
        }
    }

    /// Takes the end of the log's I/O on a member.
    pub(super) fn on_log_io(&mut self, member: MemberIndex, is_durable: bool, now: Nanos) {
        let log = self.log.as_mut().expect("a volume with labels has a log");
        log.arm(now);
        match log.on_io(member, is_durable) {
            None => {}
            Some(LogStep::Recorded) => {
                // Until the labels are current, they may call a member in sync that failed.
                if self.labels.as_ref().is_some_and(|labels| labels.is_current(&self.states)) {
                    log.on_recorded_by_all();
                }
                let waiting = std::mem::take(&mut log.waiting);
                waiting.into_iter().for_each(|key| self.issue_first(key));
            }
            Some(LogStep::Mapped { then_flush: true }) => {
                let members: Vec<MemberIndex> = self.states.active().collect();
                if !members.is_empty() {
                    log.continue_flush(members.clone());
                    self.queue_metadata(members, Op::Flush, MetadataJob::Log);
                }
            }
            Some(LogStep::Mapped { then_flush: false }) if log.waiting.is_empty() => {
                self.write_record(&[]);
            }
            Some(LogStep::Mapped { then_flush: false }) => self.start_record(),
            Some(LogStep::Flushed) if log.waiting.is_empty() => self.write_record(&[]),
            Some(LogStep::Flushed) => self.start_record(),
            Some(LogStep::Unwritable(members)) => {
                members.iter().for_each(|&member| self.lose_member(member));
                if members.iter().all(|&member| self.states.is_failed(member)) {
                    return self.retry_log();
                }
                let log = self.log.as_mut().expect("it was there before");
                let waiting = std::mem::take(&mut log.waiting);
                waiting.into_iter().for_each(|key| self.fail_piece(key));
            }
        }
    }

    /// Starts the pieces that wait for the log again: members failed, so they wait for the labels
    /// first.
    fn retry_log(&mut self) {
        let log = self.log.as_mut().expect("a volume with labels has a log");
        let waiting = std::mem::take(&mut log.waiting);
        waiting.into_iter().for_each(|key| self.issue_first(key));
    }

    /// Takes the end of a write or a repair that was counted in the log.
    pub(super) fn on_logged_end(&mut self, kind: RequestKind, range: &Range<u64>) {
        let Some(log) = &mut self.log else { return };
        match kind {
            RequestKind::Repair(_) => log.repairs.end(),
            _ => log.end_write(region_numbers(range)),
        }
        self.start_record();
    }
}
