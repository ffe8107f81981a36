//! Scrub: reads all mirrors of the volume while it is in use, and compares them.
//!
//! A step takes the lock of its range, so no write is in flight there, reads every mirror in sync
//! and compares the bytes. A mirror whose medium cannot be read is rewritten from another one, as
//! after any read. With checksums, a block that does not match its own is rewritten from a mirror
//! that does, and a block with a single mirror is checked, too. Other blocks that differ are
//! counted, and left as they are unless the user asked for a repair. Then the data that more than
//! half of the mirrors have are copied to the others; where there are no such data, as with two
//! mirrors, those of the member that the user named, or none. What was found is recorded before it
//! is repaired: if the service ends before, it is found again, and not counted again.
//!
//! A scrub waits while a member is rebuilt or regions are resynchronised, and pauses after each
//! step for as long as the step took while clients use the volume. The progress is kept on the
//! members once a minute, and when the state changes; a scrub that ran when the service ended goes
//! on when it is started again.

mod bad_ranges;
mod check;
mod counts;
mod error;
mod faults;

use crate::Volume;
use crate::driver::buffers::BufferKey;
use crate::driver::{EventOwner, Token};
use crate::executor::{BlockDifference, Executor, IoReply, IoRequest, SCRUB_BLOCK_BYTES, Target};
use counts::{count_uncompared, count_wrong, end_counted};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use mirrorball_store::label::{LABELLED_MEMBERS_MAX, ScrubProgress, ScrubState};
use std::collections::{BTreeSet, VecDeque};

use bad_ranges::BadRanges;
pub use bad_ranges::{BadRange, RangeProblem};
use check::{check, has_other_work};
pub use error::ScrubError;
pub use faults::ServiceFaults;

/// Bytes that one step reads of each mirror: about 10 ms of a hard disk.
const STEP_BYTES: u64 = 1 << 20;
const KEEP_INTERVAL: Nanos = Nanos::from_secs(60);
/// Stream of the scrub's requests, for policies.
const STREAM: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrubRequest {
    /// Makes blocks equal that differ, where it is known which mirror is right.
    pub repairs: bool,
    /// The devid of the member that is right where no data are on most mirrors.
    pub from: Option<u64>,
    /// Rate limit in bytes of the volume per second.
    pub rate: Option<u64>,
}

#[derive(Default)]
pub struct Scrub {
    progress: Option<ScrubProgress>,
    /// Offset before which everything is repaired as far as it can be.
    settled_bytes: u64,
    /// Blocks to repair: the offset of each, and the member whose data are right.
    to_repair: VecDeque<(u64, MemberIndex)>,
    /// Blocks behind those that were checked which did not match their checksums: each is counted
    /// once, though a step may read it again.
    mismatched: BTreeSet<(u64, MemberIndex)>,
    /// Where blocks are left without a right copy.
    bad: BadRanges,
    /// True if blocks were repaired since the last flush.
    needs_flush: bool,
    buffer: Option<BufferKey>,
    step_in_flight: Option<Step>,
    /// True if the step in flight is of a scrub that ended meanwhile.
    is_superseded: bool,
    /// When the next step may begin.
    next_step: Nanos,
    /// When the progress was last kept.
    kept_at: Nanos,
    /// Steps up to this offset are single blocks, to find those that cannot be read.
    single_until: u64,
    /// Counts of faults when the last scrub finished, but for the wrong blocks that it found.
    faults_before: ServiceFaults,
    /// Blocks of each member that did not match their checksums before the scrub.
    mismatched_at_start: Vec<u64>,
    /// Those that the scrub found, since the start of the service.
    mismatched_found: [u64; LABELLED_MEMBERS_MAX],
    is_stopping: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: RequestKind,
    began: Nanos,
    length: u64,
}

impl Scrub {
    /// The scrub of the executor's volume, which goes on with what the members kept.
    pub fn new(executor: &Executor) -> Scrub {
        let progress = executor.records().and_then(StoreGate::kept_scrub);
        Scrub {
            progress,
            settled_bytes: progress.map_or(0, |progress| progress.checked_bytes),
            needs_flush: progress.is_some_and(|progress| progress.repaired_blocks > 0),
            ..Scrub::default()
        }
    }

    pub fn progress(&self) -> Option<&ScrubProgress> {
        self.progress.as_ref()
    }

    /// Returns true if a scrub that runs waits for a rebuild or a resync.
    pub fn waits(&self, executor: &Executor) -> bool {
        self.step_in_flight.is_none() && has_other_work(executor)
    }

    /// The counts of faults when the last scrub finished, or the service started.
    pub fn faults_before(&self) -> &ServiceFaults {
        &self.faults_before
    }

    /// The first ranges that it found, since the start of the service, and leaves without a right
    /// copy; and whether there are more.
    pub fn bad_ranges(&self) -> (&[BadRange], bool) {
        self.bad.list()
    }

    /// Starts a scrub from the beginning of the volume. Fails if one is under way, the volume has
    /// nothing to compare, or nothing can be repaired.
    pub fn start(
        &mut self,
        request: ScrubRequest,
        executor: &mut Executor,
    ) -> Result<(), ScrubError> {
        check(request, executor)?;
        if matches!(self.state(), Some(ScrubState::Running | ScrubState::Paused)) {
            return Err(ScrubError::UnderWay);
        }
        let ScrubRequest { repairs, from, rate } = request;
        let left_blocks = self.progress.as_ref().map_or(0, ScrubProgress::bad_blocks);
        let begun = ScrubProgress::begin(repairs, from, rate);
        let follows_finished = self.progress.is_some_and(|it| it.has_finished());
        self.progress = Some(ScrubProgress { left_blocks, follows_finished, ..begun });
        // A repair of the scrub before may be in flight.
        self.needs_flush = self.step_in_flight.is_some();
        (self.settled_bytes, self.single_until) = (0, 0);
        self.to_repair.clear();
        self.mismatched.clear();
        self.mismatched_at_start = ServiceFaults::now(executor).mismatched_blocks;
        self.mismatched_found = Default::default();
        self.bad = BadRanges::default();
        self.is_superseded = self.step_in_flight.is_some();
        self.next_step = executor.driver.now();
        self.keep(executor);
        Ok(())
    }

    /// Pauses the scrub. Fails if none is running.
    pub fn pause(&mut self, executor: &mut Executor) -> Result<(), ScrubError> {
        let refused = match self.state() {
            Some(ScrubState::Paused) => ScrubError::Paused,
            _ => ScrubError::NotRunning,
        };
        self.change(ScrubState::Running, ScrubState::Paused, executor).map_err(|()| refused)
    }

    /// Goes on with a scrub that was paused. Fails if none is paused.
    pub fn resume(&mut self, executor: &mut Executor) -> Result<(), ScrubError> {
        self.next_step = executor.driver.now();
        self.change(ScrubState::Paused, ScrubState::Running, executor)
            .map_err(|()| ScrubError::NotPaused)
    }

    /// Gives up the scrub, and what is not repaired yet. Fails if none is under way.
    pub fn cancel(&mut self, executor: &mut Executor) -> Result<(), ScrubError> {
        let running = self.change(ScrubState::Running, ScrubState::Cancelled, executor);
        running
            .or_else(|()| self.change(ScrubState::Paused, ScrubState::Cancelled, executor))
            .map_err(|()| ScrubError::NotRunning)
    }

    /// Starts the next step, or returns how long until it may begin.
    pub fn step(&mut self, executor: &mut Executor) -> Option<Nanos> {
        let progress = self.progress.filter(|it| it.state == ScrubState::Running)?;
        if self.step_in_flight.is_some() || self.is_stopping || has_other_work(executor) {
            return None;
        }
        let is_recorded = executor.records().is_some_and(StoreGate::is_scrub_recorded);
        if !self.to_repair.is_empty() && !is_recorded {
            return None;
        }
        let now = executor.driver.now();
        if now < self.next_step {
            return Some(self.next_step - now);
        }
        let volume_bytes = executor.size_bytes(Target::Volume);
        let next = match self.to_repair.front() {
            Some(&(offset, source)) => (RequestKind::Repair(source), offset, SCRUB_BLOCK_BYTES),
            None if progress.checked_bytes < volume_bytes => {
                let is_single = progress.checked_bytes < self.single_until;
                let length = if is_single { SCRUB_BLOCK_BYTES } else { STEP_BYTES };
                (RequestKind::Scrub, progress.checked_bytes, length)
            }
            None if self.needs_flush => (RequestKind::Flush, 0, 0),
            None => {
                let _ = self.change(ScrubState::Running, ScrubState::Finished, executor);
                return None;
            }
        };
        let (kind, offset, length) = next;
        let length = length.min(volume_bytes - offset);
        let driver = &mut executor.driver;
        let mut acquire = || driver.acquire(STEP_BYTES as usize);
        let buffer = (length > 0).then(|| *self.buffer.get_or_insert_with(&mut acquire));
        self.step_in_flight = Some(Step { kind, began: now, length });
        executor.submit(IoRequest {
            token: Token::new(EventOwner::Scrub, 0),
            target: Target::Volume,
            kind,
            offset,
            length,
            buffer,
            stream: STREAM,
        });
        None
    }

    /// Handles the end of a step.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let step = self.step_in_flight.take().expect("a step was under way");
        let differences = executor.take_differences();
        let mismatched = executor.take_mismatched();
        // Also of a step of the scrub before: what it repaired is not found again.
        let is_read_only = executor.volume().is_some_and(Volume::is_read_only);
        let has_mismatched = self.count_mismatched(mismatched, is_read_only);
        if std::mem::take(&mut self.is_superseded) {
            return;
        }
        let Some(progress) = &mut self.progress else { return };
        let is_good = ended.result.is_ok();
        let is_repair = matches!(step.kind, RequestKind::Repair(_));
        match step.kind {
            RequestKind::Repair(_) => {
                // A scrub that was given up has nothing to repair.
                match self.to_repair.pop_front() {
                    Some(_) if is_good => progress.repaired_blocks += 1,
                    Some((offset, _)) => {
                        self.bad.add(offset, SCRUB_BLOCK_BYTES, RangeProblem::Differs);
                    }
                    None => {}
                }
                self.needs_flush = true;
            }
            RequestKind::Flush => self.needs_flush = false,
            _ if !is_good && step.length > SCRUB_BLOCK_BYTES => {
                self.single_until = progress.checked_bytes + step.length;
                return;
            }
            _ => {
                let is_counted = progress.checked_bytes < progress.counted_bytes;
                progress.unreadable_blocks += u64::from(!is_good && !is_counted);
                if !is_good {
                    let offset = progress.checked_bytes;
                    self.bad.add(offset, step.length, RangeProblem::Unreadable);
                }
                self.on_checked(step.length, &differences, executor);
            }
        }
        let checked_bytes = self.progress.map_or(0, |progress| progress.checked_bytes);
        let now = executor.driver.now();
        let is_repaired = is_repair && self.to_repair.is_empty();
        let has_news = !differences.is_empty() || is_repaired || has_mismatched;
        if self.to_repair.is_empty() {
            self.settled_bytes = checked_bytes;
        }
        let rate = self.progress.and_then(|progress| progress.rate);
        let least = rate.map_or(Nanos::ZERO, |rate| crate::rebuild::pace(step.length, rate));
        let next_step = if executor.is_idle() { now } else { now + (now - step.began) };
        self.next_step = next_step.max(step.began + least);
        if has_news || now >= self.kept_at + KEEP_INTERVAL {
            self.keep(executor);
        }
    }

    /// Counts blocks that did not match their checksums; returns true if there are new ones. A
    /// volume that is read-only leaves them as they are.
    fn count_mismatched(&mut self, found: Vec<(MemberIndex, u64)>, is_read_only: bool) -> bool {
        let Some(progress) = &mut self.progress else { return false };
        let before = progress.mismatched_blocks;
        for (member, offset) in found {
            if self.mismatched.insert((offset, member)) {
                progress.mismatched_blocks += 1;
                progress.differing_blocks += u64::from(is_read_only);
                if is_read_only {
                    self.bad.add(offset, SCRUB_BLOCK_BYTES, RangeProblem::Differs);
                }
                for blocks in [&mut progress.odd_blocks, &mut self.mismatched_found] {
                    blocks[member.get()] += 1;
                }
                self.needs_flush = true;
            }
        }
        progress.mismatched_blocks > before
    }

    /// Counts what a step found in the next bytes, and queues its repair.
    fn on_checked(&mut self, length: u64, differences: &[BlockDifference], executor: &Executor) {
        let volume = executor.volume().expect("its mirrors are compared");
        let Some(progress) = &mut self.progress else { return };
        let range = progress.checked_bytes..progress.checked_bytes + length;
        if !volume.has_checksums() {
            count_uncompared(progress, &range, volume);
        }
        progress.checked_bytes = range.end;
        self.mismatched = self.mismatched.split_off(&(range.end, MemberIndex(0)));
        let from = progress.from.and_then(|devid| volume.members().find(devid));
        for BlockDifference { offset, right, odd } in differences {
            let end = volume.capacity_bytes().min(offset + SCRUB_BLOCK_BYTES);
            let block = *offset..end;
            if volume.gate().is_some_and(|store| store.may_differ(&block)) {
                continue;
            }
            count_wrong(progress, *offset, odd);
            let source = right.or(from.filter(|&member| volume.holds(member, &block)));
            match source.filter(|_| progress.repairs) {
                Some(source) => self.to_repair.push_back((*offset, source)),
                None => self.bad.add(*offset, end - offset, RangeProblem::Differs),
            }
        }
        end_counted(progress);
    }

    /// Starts no more steps, and keeps the progress.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.is_stopping = true;
        if self.state() == Some(ScrubState::Running) {
            self.keep(executor);
        }
    }

    fn state(&self) -> Option<ScrubState> {
        self.progress.map(|progress| progress.state)
    }

    /// Changes the state, if it is `from`.
    fn change(
        &mut self,
        from: ScrubState,
        to: ScrubState,
        executor: &mut Executor,
    ) -> Result<(), ()> {
        let progress = self.progress.as_mut().filter(|progress| progress.state == from);
        progress.ok_or(())?.state = to;
        if to == ScrubState::Finished {
            self.faults_before = ServiceFaults::now(executor);
            self.faults_before.keep_mismatched(&self.mismatched_at_start, &self.mismatched_found);
        }
        if to == ScrubState::Cancelled {
            self.to_repair.clear();
        }
        if to != ScrubState::Running
            && self.step_in_flight.is_none()
            && let Some(buffer) = self.buffer.take()
        {
            executor.driver.release(buffer);
        }
        self.keep(executor);
        Ok(())
    }

    /// Has the members keep the progress. What is not settled is checked again after a restart.
    fn keep(&mut self, executor: &mut Executor) {
        self.kept_at = executor.driver.now();
        let (Some(progress), Some(volume)) = (self.progress, executor.volume_mut()) else { return };
        let progress = ScrubProgress {
            checked_bytes: self.settled_bytes,
            counted_bytes: progress.counted_bytes.max(progress.checked_bytes),
            pending_blocks: progress.pending_blocks + self.to_repair.len() as u64,
            ..progress
        };
        volume.change_gate(|store, array| store.keep_scrub(progress, array));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that could not be read ends, and its blocks are read again one by one.
    #[test]
    fn a_block_without_a_match_is_counted_once_for_each_member() {
        let progress = Some(ScrubProgress::begin(true, None, None));
        let mut scrub = Scrub { progress, ..Scrub::default() };
        let found = |member, offset| vec![(MemberIndex(member), offset)];
        assert!(scrub.count_mismatched(found(0, 4096), false), "the step");
        assert!(!scrub.count_mismatched(found(0, 4096), false), "the block");
        assert!(scrub.count_mismatched(found(1, 4096), false), "of another member");
        assert!(scrub.count_mismatched(found(0, 8192), false));
        let counts = |scrub: &Scrub| {
            let progress = scrub.progress().unwrap();
            let odd = (progress.odd_blocks[0], progress.odd_blocks[1]);
            (progress.mismatched_blocks, odd, progress.differing_blocks, scrub.needs_flush)
        };
        assert_eq!(counts(&scrub), (3, (2, 1), 0, true));
        // A volume that is read-only keeps them.
        assert!(scrub.count_mismatched(found(1, 12288), true));
        assert_eq!(counts(&scrub), (4, (2, 2), 1, true));
    }
}
