//! Rebuild: copies stale members from their mirrors while the volume is in use.
//!
//! Regions whose mirrors may differ are resynced first: copied from the mirror that they are read
//! from to the others, a region at a time.
//!
//! Every member in the state `Rebuilding` is copied, one after the other, in steps from its
//! recovery offset to its end; then it is in sync. While client requests are in flight, the rebuild
//! pauses after each step for as long as the step took, so it uses at most half of the disks' time.
//! A rate limit applies in either case.
//!
//! A member that failed is rebuilt from its beginning, on request. Its path may name another file,
//! device or server than the open one, so it is opened again first ([`crate::reopen`]); if that
//! fails, nothing changes. A request may name another device, which takes the place of the member
//! from then on. Emulated members have no path and are used as they are.
//!
//! The recovery offset is kept by the volume, so a rebuild continues there after an error and a
//! pause.

mod copies;
mod error;
mod refusals;

use crate::device_address::DeviceAddress;
use crate::driver::buffers::BufferKey;
use crate::driver::{EventOwner, Token};
use crate::executor::{Executor, IoReply, IoRequest, SCRUB_BLOCK_BYTES, Target};
use crate::reopen::{MemberPlace, OpenRequest, OpenedMember, ReopenedMember, Reopener};
pub use copies::MemberCopy;
use copies::can_copy;
pub use error::{RebuildError, RebuildTask};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_store::REGION_BYTES;
use mirrorball_store::StoreGate;
pub(crate) use refusals::member_at;
use refusals::{is_failed, refuse_member, refuse_needed, refuse_remote, refuse_unreachable_source};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuildRequest {
    pub devid: u64,
    /// The device that replaces it: a new one or a spare.
    pub replacement: Option<MemberPlace>,
    /// Rate limit of all rebuilds from now on, in bytes per second.
    pub rate: Option<u64>,
    /// The client that a later reply is for.
    pub client: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RebuildStart {
    Started,
    /// It runs already, and has the requested rate limit from now on.
    Continued,
    /// The member is being opened; the reply comes from [`Rebuild::poll_reply`].
    Opening,
}

/// A member that was opened for a rebuild, which has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuildOpened {
    pub devid: u64,
    /// Where it is, or will be.
    pub place: MemberPlace,
    /// True if the member is copied to the device and stays in use until then.
    pub is_copied: bool,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
}

/// The reply to a client whose member had to be opened first.
pub type DelayedReply = (u32, Result<RebuildOpened, RebuildError>);

/// Bytes that one step copies: about 10 ms of a hard disk.
const STEP_BYTES: u64 = 1 << 20;
/// Pause after a flush that was to record progress and failed.
const FLUSH_PAUSE: Nanos = Nanos::from_secs(60);
/// Pause after a step that failed.
const ERROR_PAUSE: Nanos = Nanos::from_secs(10);
/// Stream of the rebuild's requests, for policies.
const STREAM: u64 = 1;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: RequestKind,
    began: Nanos,
    length: u64,
}

/// A rebuild whose last step failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled {
    pub member: MemberIndex,
    pub error: VolumeError,
    /// When the step is tried again.
    retry_at: Nanos,
    /// True if what could not be read for the first time may be read then.
    is_passing: bool,
}

pub struct Rebuild {
    buffer: BufferKey,
    /// Where the last resync ended.
    resynced_to: u64,
    step_in_flight: Option<Step>,
    /// Rate limit in bytes per second.
    rate: Option<u64>,
    /// When the next step may begin.
    next_step: Nanos,
    /// When the next flush may begin that records progress.
    next_flush: Nanos,
    /// When the next resync may begin, after one that failed.
    next_resync: Nanos,
    /// The members whose last step failed.
    stalled: Vec<Stalled>,
    stopping: bool,
    /// Opens members again; `None` if they are emulated.
    reopener: Option<Reopener>,
    /// Requests whose members are being opened.
    requests: Vec<(MemberIndex, RebuildRequest)>,
    /// Members to start with when no step is in flight.
    starting: Vec<(MemberIndex, Option<u64>)>,
    replies: Vec<DelayedReply>,
    /// Members that are copied to other devices.
    copies: Vec<MemberCopy>,
    /// Members whose places were taken by their successors.
    replaced: Vec<RebuildOpened>,
}

impl Rebuild {
    /// Rebuilds of all members in the state `Rebuilding`.
    pub fn new(executor: &mut Executor) -> Rebuild {
        let buffer = executor.driver.acquire(REGION_BYTES as usize);
        Rebuild {
            buffer,
            resynced_to: 0,
            step_in_flight: None,
            rate: None,
            next_step: Nanos::ZERO,
            next_flush: Nanos::ZERO,
            next_resync: Nanos::ZERO,
            stalled: Vec::new(),
            stopping: false,
            reopener: None,
            requests: Vec::new(),
            starting: Vec::new(),
            replies: Vec::new(),
            copies: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Opens members with this before they are rebuilt.
    pub fn with_reopener(self, reopener: Option<Reopener>) -> Rebuild {
        Rebuild { reopener, ..self }
    }

    /// True if the members have no device.
    pub fn is_emulated(&self) -> bool {
        self.reopener.is_none()
    }

    /// The rate limit in bytes per second.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Starts to rebuild a member. Fails if the member needs no rebuild, or has no mirror in sync.
    /// Nothing has changed then.
    pub fn begin(
        &mut self,
        request: RebuildRequest,
        executor: &mut Executor,
    ) -> Result<RebuildStart, RebuildError> {
        let RebuildRequest { devid, rate, .. } = request;
        let has_place = request.replacement.is_some();
        let is_replaced =
            request.replacement.as_ref().is_some_and(|place| place.new_device().is_some());
        let task = if is_replaced { RebuildTask::Replace } else { RebuildTask::Rebuild };
        let volume = executor.volume().ok_or(RebuildError::NoVolume(task))?;
        if volume.is_read_only() {
            return Err(RebuildError::ReadOnly(task));
        }
        if has_place && self.reopener.is_none() {
            return Err(RebuildError::Emulated);
        }
        let member = volume.members().find(devid).ok_or(RebuildError::NoSuchMember(devid))?;
        if volume.map().tolerated_failures() == 0 {
            return Err(RebuildError::NoCopy);
        }
        if self.is_opening(member) {
            return Err(RebuildError::Opening(devid));
        }
        let state = volume.members()[member].state;
        if let Some(address) = request.replacement.as_ref().and_then(MemberPlace::new_device) {
            refuse_member(member, address, executor)?;
        }
        if !is_replaced && !volume.gate().is_none_or(|store| store.has_device(member)) {
            return Err(RebuildError::Removed(devid));
        }
        if state == MemberState::Failed {
            if !volume.is_complete() {
                return Err(RebuildError::NoSource);
            }
            refuse_unreachable_source(executor)?;
            if let Err(why) = executor.detach(member)
                && !self.is_other_disk(member, &request, executor)
            {
                return Err(RebuildError::NotBack { devid, why: why.to_owned() });
            }
            if self.reopener.is_none() {
                // A step in flight, begun before it failed, would advance its recovery offset.
                self.starting.push((member, rate));
                return Ok(RebuildStart::Started);
            }
            return self.open(member, request, executor);
        }
        if has_place && !is_replaced {
            return Err(RebuildError::Works(devid));
        }
        if is_replaced {
            self.refuse_copied(member, devid)?;
            refuse_needed(member, executor)?;
            request.replacement.iter().try_for_each(|to| refuse_remote(member, to, executor))?;
            return self.open(member, request, executor);
        }
        if state == MemberState::InSync && !self.is_copying(member) {
            return Err(RebuildError::InSync(devid));
        }
        (self.rate, self.next_step) = (rate, executor.driver.now());
        Ok(RebuildStart::Continued)
    }

    /// True while a member is opened for a rebuild, or that waits for a step in flight.
    pub fn is_opening(&self, member: MemberIndex) -> bool {
        self.requests.iter().any(|(opening, _)| *opening == member)
            || self.starting.iter().any(|(starting, _)| *starting == member)
    }

    /// The next reply to a client whose member had to be opened first.
    pub fn poll_reply(&mut self) -> Option<DelayedReply> {
        self.replies.pop()
    }

    /// Path or URI of the device of a member; `None` if it has none, or it is emulated.
    pub fn device(&self, member: MemberIndex, executor: &Executor) -> Option<DeviceAddress> {
        self.reopener.as_ref().filter(|_| !executor.is_missing(member))?.device(member)
    }

    /// True if a request names another device than the file or disk of a member, so that what is
    /// in flight there, perhaps until the kernel gives up, cannot reach it.
    fn is_other_disk(
        &self,
        member: MemberIndex,
        request: &RebuildRequest,
        executor: &Executor,
    ) -> bool {
        let new = request.replacement.as_ref().and_then(MemberPlace::new_device);
        let own = self.device(member, executor).filter(|_| executor.file_id(member).is_some());
        let named = new.zip(own);
        named
            .is_some_and(|(new, own)| !own.is_same(new) && member_at(new, executor) != Some(member))
    }

    fn open(
        &mut self,
        member: MemberIndex,
        request: RebuildRequest,
        executor: &Executor,
    ) -> Result<RebuildStart, RebuildError> {
        let volume = executor.volume().expect("a member of it is rebuilt");
        let reopener = self.reopener.as_mut().expect("only a member with an address is opened");
        let replacement = request.replacement.clone();
        let begun = reopener.open(OpenRequest {
            member,
            size_bytes: executor.size_bytes(Target::Member(member)),
            place: replacement.unwrap_or_else(|| reopener.place(member)),
            is_copied: volume.members()[member].state == MemberState::InSync,
            label: volume.gate().map(StoreGate::label).cloned(),
            own_uuid: volume.gate().and_then(|store| store.own_uuid(member, volume.states())),
        });
        let devid = request.devid;
        begun.map_err(|error| RebuildError::NotBack { devid, why: error.to_string() })?;
        self.requests.push((member, request));
        Ok(RebuildStart::Opening)
    }

    /// Attaches the members that were opened, or begins to copy those that work. No step is in
    /// flight, so none that wrote to the old storage is counted for the new one.
    fn install(&mut self, executor: &mut Executor) {
        while let Some(reopener) = &mut self.reopener
            && let Some(ReopenedMember { member, place, result }) = reopener.poll()
        {
            let asked = self.requests.iter().position(|(opening, _)| *opening == member);
            let (_, request) = self.requests.remove(asked.expect("a member is opened on request"));
            let devid = request.devid;
            let installed = match result {
                Err(why) if request.replacement.is_some() => {
                    Err(RebuildError::Unfit { devid, why })
                }
                Err(why) => Err(RebuildError::NotBack { devid, why }),
                Ok(opened) => self.put_in_place(member, place, opened, &request, executor),
            };
            if installed.as_ref().is_ok_and(|opened| !opened.is_copied) {
                self.start(member, request.rate, executor);
            }
            self.replies.push((request.client, installed));
        }
    }

    /// Attaches a member that was opened, or begins to copy it.
    fn put_in_place(
        &mut self,
        member: MemberIndex,
        place: MemberPlace,
        opened: OpenedMember,
        request: &RebuildRequest,
        executor: &mut Executor,
    ) -> Result<RebuildOpened, RebuildError> {
        // Another member may have failed since the request, or this one be in sync.
        if !is_failed(member, executor) {
            refuse_needed(member, executor)?;
            refuse_remote(member, &place, executor)?;
        }
        if can_copy(member, &opened.source, executor) {
            return self.begin_copy(member, place, opened, request.rate, executor);
        }
        let OpenedMember { source, found, notes, .. } = opened;
        let devid = request.devid;
        let attached = executor.attach(member, source);
        attached.map_err(|error| RebuildError::NotBack { devid, why: error.to_string() })?;
        let volume = executor.volume_mut().expect("a member of it is rebuilt");
        volume.change_gate(|store, array| match place {
            MemberPlace::Spare(_, uuid) => store.on_spare_used(member, uuid, array),
            _ => store.on_storage_replaced(member, found.as_ref(), array),
        });
        let reopener = self.reopener.as_mut().expect("it was opened");
        reopener.on_attached(member, place.clone());
        Ok(RebuildOpened { devid, place, is_copied: false, notes })
    }

    fn start(&mut self, member: MemberIndex, rate: Option<u64>, executor: &mut Executor) {
        (self.rate, self.next_step) = (rate, executor.driver.now());
        self.stalled.retain(|stalled| stalled.member != member);
        let volume = executor.volume_mut().expect("its member is rebuilt");
        volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
    }

    /// Starts the next step, or returns how long until it may begin.
    pub fn step(&mut self, executor: &mut Executor) -> Option<Nanos> {
        if self.step_in_flight.is_some() || self.stopping {
            return None;
        }
        for (member, rate) in std::mem::take(&mut self.starting) {
            self.start(member, rate, executor);
        }
        self.install(executor);
        self.end_copies(executor);
        let (kind, from, until) = self.next(executor)?;
        let now = executor.driver.now();
        let is_urgent = executor.records().is_some_and(StoreGate::waits_for_resync);
        let earliest = match kind {
            RequestKind::Flush => self.next_flush,
            RequestKind::Resync if is_urgent => self.next_resync,
            RequestKind::Resync => self.next_step.max(self.next_resync),
            RequestKind::Rebuild(member) => self.next_step.max(self.retry_at(member)),
            _ => self.next_step,
        };
        if now < earliest {
            return Some(earliest - now);
        }
        let length = match kind {
            RequestKind::Resync => {
                self.resynced_to = until;
                until - from
            }
            _ => STEP_BYTES.min(until - from),
        };
        self.step_in_flight = Some(Step { kind, began: now, length });
        executor.submit(IoRequest {
            token: Token::new(EventOwner::Rebuild, 0),
            target: Target::Volume,
            kind,
            offset: from,
            length,
            buffer: Some(self.buffer).filter(|_| length > 0),
            stream: STREAM,
        });
        None
    }

    /// The range that the next step copies; or the flush that records progress.
    fn next(&self, executor: &Executor) -> Option<(RequestKind, u64, u64)> {
        let volume = executor.volume().filter(|volume| !volume.is_read_only())?;
        let store = volume.gate();
        let wants_flush = store.is_some_and(StoreGate::wants_resync_flush);
        let flush = wants_flush.then_some((RequestKind::Flush, 0, 0));
        let is_urgent = store.is_some_and(StoreGate::waits_for_resync);
        let is_due = executor.driver.now() >= self.next_flush && !is_urgent;
        if let Some(flush) = flush.filter(|_| is_due) {
            return Some(flush);
        }
        let resync = volume
            .gate()
            .and_then(|store| store.next_unsynced(self.resynced_to))
            .map(|range| (RequestKind::Resync, range.start, range.end));
        if resync.is_some() && executor.driver.now() >= self.next_resync {
            return resync;
        }
        let rebuilt = volume.members().iter().filter_map(|(index, member)| match member.state {
            MemberState::Rebuilding { recovered_bytes } => {
                // Of one that has all data, the last block is copied again, which records that.
                let until = member.config.size_bytes;
                let from = recovered_bytes.min(until.saturating_sub(SCRUB_BLOCK_BYTES));
                Some((index, from, until))
            }
            MemberState::InSync | MemberState::Failed => None,
        });
        // The first one, but of those whose last step failed the one that waits longest.
        let copied = rebuilt.chain(self.uncopied(executor));
        let rebuild = copied.min_by_key(|(member, ..)| self.retry_at(*member));
        let rebuild =
            rebuild.map(|(member, from, until)| (RequestKind::Rebuild(member), from, until));
        // A resync whose last step failed does not hold up rebuilds, which may bring what it lacks.
        rebuild.or(resync).or(flush)
    }

    /// When the next step of the rebuild of a member may begin, as far as errors matter.
    fn retry_at(&self, member: MemberIndex) -> Nanos {
        let stalled = self.stalled.iter().find(|stalled| stalled.member == member);
        stalled.map_or(Nanos::ZERO, |stalled| stalled.retry_at)
    }

    /// Handles the end of a step.
    pub fn on_reply(&mut self, ended: IoReply, executor: &Executor) {
        let step = self.step_in_flight.take().expect("a step was under way");
        let Step { kind, began, length } = step;
        let now = executor.driver.now();
        if length == 0 {
            // Of a flush. A rebuild may be what lets the next one succeed.
            self.next_flush = if ended.result.is_err() { now + FLUSH_PAUSE } else { now };
            return;
        }
        if let RequestKind::Rebuild(member) = kind {
            if ended.result.is_ok() {
                self.on_copied(member, length);
            }
            let before = self.stalled.len();
            self.stalled.retain(|stalled| stalled.member != member);
            let (is_first, retry_at) = (self.stalled.len() == before, now + ERROR_PAUSE);
            // One that failed meanwhile has an event of its own.
            let error = ended.result.err().filter(|error| *error != VolumeError::NotRebuilding);
            self.stalled.extend(error.map(|error| {
                let is_passing = is_first && error == VolumeError::Unreadable;
                Stalled { member, error, retry_at, is_passing }
            }));
        }
        let least = self.rate.map_or(Nanos::ZERO, |rate| pace(length, rate));
        let next_step = match ended.result {
            Err(_) if kind == RequestKind::Resync => {
                self.next_resync = now + ERROR_PAUSE;
                now
            }
            _ if executor.is_idle() => now,
            _ => now + (now - began),
        };
        self.next_step = next_step.max(began + least);
    }

    /// The rebuilds that do not go on, because their last steps failed.
    pub fn stalled(&self) -> impl Iterator<Item = &Stalled> {
        self.stalled.iter().filter(|stalled| !stalled.is_passing)
    }

    /// True while a step that failed waits to be tried again.
    pub fn waits_after_error(&self, now: Nanos) -> bool {
        let retries = self.stalled.iter().map(|stalled| stalled.retry_at);
        retries.chain([self.next_flush, self.next_resync]).any(|retry_at| now < retry_at)
    }

    /// Starts no more steps.
    pub fn stop(&mut self) {
        self.stopping = true;
    }
}

/// How long a step of this length takes at a rate in bytes a second; at most a day.
pub(crate) fn pace(length: u64, rate: u64) -> Nanos {
    const DAY: Nanos = Nanos::from_secs(86_400);
    let nanos = u128::from(length) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(nanos).map_or(DAY, |nanos| Nanos(nanos).min(DAY))
}

#[cfg(test)]
mod tests;
