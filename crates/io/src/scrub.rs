//! Scrub: reads all mirrors of the volume while it is in use, and compares them.
//!
//! A step takes the lock of its range, so no write is in flight there, reads every mirror in sync
//! and compares the bytes. A mirror whose medium cannot be read is rewritten from another one, as
//! after any read. Blocks that differ are counted. Which of the mirrors is right is not known
//! without checksums, so they are left as they are unless the user asked for a repair; then the
//! region is resynchronised: copied from the mirror that it is read from meanwhile, which is the
//! first one, to the others.
//!
//! A scrub waits while a member is rebuilt or regions are resynchronised, and pauses after each
//! step for as long as the step took while clients use the volume. The progress is kept on the
//! members once a minute, and when the state changes; a scrub that ran when the service ended goes
//! on when it is started again.

use crate::driver::buffers::BufferKey;
use crate::driver::{EventOwner, Token};
use crate::executor::{Executor, IoReply, IoRequest, SCRUB_BLOCK_BYTES, Target};
use mirrorball_core::io::RequestKind;
use mirrorball_core::label::{ScrubProgress, ScrubState};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::{REGION_BYTES, Volume};
use std::ops::Range;

/// Bytes that one step reads of each mirror: about 10 ms of a hard disk.
const STEP_BYTES: u64 = 1 << 20;
/// Interval at which the members keep the progress.
const KEEP_INTERVAL: Nanos = Nanos::from_secs(60);
/// Stream of the scrub's requests, for policies.
const STREAM: u64 = 2;

/// Why a scrub cannot do what it is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScrubError {
    /// The members are served without a volume.
    #[error("cannot scrub: the members are served as separate disks, without a volume")]
    NoVolume,
    /// The profile has no redundancy.
    #[error(
        "the profile of the volume keeps a single copy of the data: there is nothing to compare"
    )]
    NoCopy,
    /// It has parity.
    #[error("the volume keeps parity, and a scrub compares only mirrors")]
    Parity,
    /// It is read-only.
    #[error(
        "the volume is read-only, so a scrub cannot repair it\n  help: start it without --repair"
    )]
    ReadOnly,
    /// A scrub is under way.
    #[error(
        "a scrub is already under way\n  help: `ctl scrub status` shows it, `ctl scrub cancel` \
         ends it"
    )]
    UnderWay,
    /// No scrub runs.
    #[error("no scrub is running")]
    NotRunning,
    /// No scrub is paused.
    #[error("no scrub is paused")]
    NotPaused,
}

/// The scrub of a volume.
pub struct Scrub {
    /// The last scrub, if there was one.
    progress: Option<ScrubProgress>,
    /// The progress when nothing that it counts was left to repair: what the members keep.
    kept: Option<ScrubProgress>,
    /// Where blocks of the region under way differ that are to be repaired.
    to_repair: Option<Range<u64>>,
    buffer: Option<BufferKey>,
    /// When the step in flight began, and its length.
    step_in_flight: Option<(Nanos, u64)>,
    /// True if the step in flight is of a scrub that ended meanwhile.
    is_superseded: bool,
    /// When the next step may begin.
    next_step: Nanos,
    /// When the progress was last kept.
    kept_at: Nanos,
    /// Steps up to this offset are single blocks, to find those that cannot be read.
    single_until: u64,
    is_stopping: bool,
}

impl Scrub {
    /// The scrub of the executor's volume, which goes on with what the members kept.
    pub fn new(executor: &Executor) -> Scrub {
        let progress = executor.volume().and_then(Volume::kept_scrub);
        Scrub {
            progress,
            kept: progress,
            to_repair: None,
            buffer: None,
            step_in_flight: None,
            is_superseded: false,
            next_step: Nanos::ZERO,
            kept_at: Nanos::ZERO,
            single_until: 0,
            is_stopping: false,
        }
    }

    /// The progress of the last scrub, if there was one.
    pub fn progress(&self) -> Option<&ScrubProgress> {
        self.progress.as_ref()
    }

    /// Starts a scrub from the beginning of the volume.
    ///
    /// # Errors
    /// If one is under way, or the volume has nothing to compare.
    pub fn start(
        &mut self,
        repairs: bool,
        rate: Option<u64>,
        executor: &mut Executor,
    ) -> Result<(), ScrubError> {
        let volume = executor.volume().ok_or(ScrubError::NoVolume)?;
        if volume.map().parities() > 0 {
            return Err(ScrubError::Parity);
        }
        if volume.map().copies() == 1 {
            return Err(ScrubError::NoCopy);
        }
        if volume.is_read_only() && repairs {
            return Err(ScrubError::ReadOnly);
        }
        if matches!(self.state(), Some(ScrubState::Running | ScrubState::Paused)) {
            return Err(ScrubError::UnderWay);
        }
        self.progress = Some(ScrubProgress::begin(repairs, rate));
        (self.kept, self.to_repair, self.single_until) = (None, None, 0);
        self.is_superseded = self.step_in_flight.is_some();
        self.next_step = executor.driver.now();
        self.keep(executor);
        Ok(())
    }

    /// Pauses the scrub.
    ///
    /// # Errors
    /// If none is running.
    pub fn pause(&mut self, executor: &mut Executor) -> Result<(), ScrubError> {
        self.change(ScrubState::Running, ScrubState::Paused, executor)
            .map_err(|()| ScrubError::NotRunning)
    }

    /// Goes on with a scrub that was paused.
    ///
    /// # Errors
    /// If none is paused.
    pub fn resume(&mut self, executor: &mut Executor) -> Result<(), ScrubError> {
        self.next_step = executor.driver.now();
        self.change(ScrubState::Paused, ScrubState::Running, executor)
            .map_err(|()| ScrubError::NotPaused)
    }

    /// Gives up the scrub.
    ///
    /// # Errors
    /// If none is under way.
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
        let now = executor.driver.now();
        if now < self.next_step {
            return Some(self.next_step - now);
        }
        if self.to_repair.is_none() {
            self.kept = self.progress;
        }
        let offset = progress.checked_bytes;
        let rest = executor.size_bytes(Target::Volume).saturating_sub(offset);
        if rest == 0 {
            let _ = self.change(ScrubState::Running, ScrubState::Finished, executor);
            return None;
        }
        let is_single = offset < self.single_until;
        let length = if is_single { SCRUB_BLOCK_BYTES } else { STEP_BYTES }.min(rest);
        let driver = &mut executor.driver;
        let buffer = *self.buffer.get_or_insert_with(|| driver.acquire(STEP_BYTES as usize));
        self.step_in_flight = Some((now, length));
        executor.submit(IoRequest {
            token: Token::new(EventOwner::Scrub, 0),
            target: Target::Volume,
            kind: RequestKind::Scrub,
            offset,
            length,
            buffer: Some(buffer),
            stream: STREAM,
        });
        None
    }

    /// Handles the end of a step.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let (began, length) = self.step_in_flight.take().expect("a step was under way");
        let differences = executor.take_differences();
        if std::mem::take(&mut self.is_superseded) {
            return;
        }
        let Some(progress) = &mut self.progress else { return };
        let now = executor.driver.now();
        if ended.result.is_err() && length > SCRUB_BLOCK_BYTES {
            self.single_until = progress.checked_bytes + length;
            return;
        }
        progress.unreadable_blocks += u64::from(ended.result.is_err());
        progress.checked_bytes += length;
        let volume = executor.volume().expect("its mirrors are compared");
        for offset in differences {
            let block = offset..offset + SCRUB_BLOCK_BYTES;
            if !volume.may_differ(&block) {
                progress.differing_blocks += 1;
                let first = self.to_repair.as_ref().map_or(offset, |range| range.start);
                self.to_repair = Some(first..block.end).filter(|_| progress.repairs);
            }
        }
        let is_end = progress.checked_bytes == volume.capacity_bytes();
        if is_end || progress.checked_bytes.is_multiple_of(REGION_BYTES) {
            self.repair(executor);
        }
        let rate = self.progress.and_then(|progress| progress.rate);
        let least = rate.map_or(Nanos::ZERO, |rate| crate::rebuild::pace(length, rate));
        let next_step = if executor.is_idle() { now } else { now + (now - began) };
        self.next_step = next_step.max(began + least);
        if now >= self.kept_at + KEEP_INTERVAL {
            self.keep(executor);
        }
    }

    /// Starts no more steps, and keeps the progress.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.is_stopping = true;
        if self.state() == Some(ScrubState::Running) {
            self.keep(executor);
        }
    }

    /// Has the region copied from one mirror to the others, if blocks in it differ.
    fn repair(&mut self, executor: &mut Executor) {
        if let (Some(range), Some(volume)) = (self.to_repair.take(), executor.volume_mut()) {
            volume.add_unsynced(range);
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
        self.repair(executor);
        if to != ScrubState::Running
            && self.step_in_flight.is_none()
            && let Some(buffer) = self.buffer.take()
        {
            executor.driver.release(buffer);
        }
        self.keep(executor);
        Ok(())
    }

    fn keep(&mut self, executor: &mut Executor) {
        self.kept_at = executor.driver.now();
        let (Some(progress), Some(volume)) = (self.progress, executor.volume_mut()) else { return };
        if self.to_repair.is_none() && volume.unsynced_bytes() == 0 {
            self.kept = self.progress;
        }
        let kept = self.kept.unwrap_or(ScrubProgress::begin(progress.repairs, progress.rate));
        volume.keep_scrub(ScrubProgress { state: progress.state, rate: progress.rate, ..kept });
    }
}

/// Returns true if a member is rebuilt or regions are resynchronised.
fn has_other_work(executor: &Executor) -> bool {
    let Some(volume) = executor.volume() else { return false };
    let is_rebuilt = |state| matches!(state, MemberState::Rebuilding { .. });
    volume.unsynced_bytes() > 0 || volume.members().iter().any(|(_, it)| is_rebuilt(it.state))
}
