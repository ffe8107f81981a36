//! The executor: runs a volume and its members, or the members alone, in real time.
//!
//! One thread owns it. Requests come with a buffer of the driver. The volume turns them into member
//! I/O, which goes to files and other machines through the driver, or to models, whose I/Os end
//! when the clock reaches the time that the model computed. A turn is: [`Executor::wait`], then
//! [`Executor::on_event`] for each event of a member, then [`Executor::turn`], then
//! [`Executor::poll_reply`] until there is none.
//!
//! **Emulated members.** A model computes when an I/O ends; its data are transferred meanwhile. The
//! I/O ends when both are done. The difference to the model's time is its *lateness*, recorded in a
//! histogram per member, because latencies of late I/Os say nothing about the model.
//!
//! **Time** is the time of the models ([`crate::clock`]), for the volume and the policies, too.
//!
//! Memory is reused: nothing is allocated per request in a steady state, but for operations on full
//! stripes.

pub(crate) mod block_status;
#[cfg(test)]
pub(crate) mod fault_tests;
mod member_fault;
mod member_io;
mod member_slot;
mod mirror_compare;
#[cfg(test)]
mod parity_tests;
mod precise_sleep;
mod range_hold;
mod replace;
mod request;
mod shared_flush;
mod stall;
mod stripe_buffers;
mod successor;
#[cfg(test)]
mod tests;

use crate::Volume;
use crate::clock::Clock;
use crate::driver::{Driver, Event, EventOwner, Output, Token};
use crate::member::remote::{self, RemoteReply};
use crate::member::{NewMember, Source, io_error};
pub use member_fault::{FailedIo, FaultCause, MemberFault};
use member_io::{ActiveIo, LateData, Origin};
use member_slot::MemberSlot;
pub use mirror_compare::BlockDifference;
use mirror_compare::MirrorCompare;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::{IoError, MemberIo, Op, RequestId, VolumeError};
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_disk::model::Completion;
use mirrorball_disk::model_array::ModelArray;
use mirrorball_store::StoreGate;
use precise_sleep::PreciseSleep;
use range_hold::RangeHold;
use request::{ActiveIoKey, RequestName};
pub use request::{FailedRequests, IoReply, IoRequest, SCRUB_BLOCK_BYTES, Target};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use stripe_buffers::StripeBuffers;

/// Statistics of a member since its executor started.
#[derive(Clone, Debug, Default)]
pub struct MemberStats {
    pub in_flight: u32,
    pub reads: u64,
    pub read_bytes: u64,
    /// Time from submission to completion of reads.
    pub read_wait: Histogram,
    pub writes: u64,
    pub written_bytes: u64,
    /// Time from submission to completion of writes.
    pub write_wait: Histogram,
    pub flushes: u64,
    /// Number of failed I/Os.
    pub errors: u64,
    /// Lateness of emulated I/Os, in real time.
    pub lateness: Histogram,
}

impl MemberStats {
    /// Clears the histograms of times. Counters are kept.
    fn reset_times(&mut self) {
        for times in [&mut self.read_wait, &mut self.write_wait, &mut self.lateness] {
            *times = Histogram::default();
        }
    }
}

/// A volume with its members, or members alone.
pub struct Executor {
    /// The driver. Exports and other parts of the service use it, too.
    pub driver: Driver,
    clock: Clock,
    /// The time of this turn. The volume and the models get no other, so it never decreases.
    now: Nanos,
    volume: Option<Volume>,
    slots: Vec<MemberSlot>,
    model_array: Option<ModelArray>,
    active: Slab<ActiveIoKey, ActiveIo>,
    /// Data in buffers of their own whose requests have not ended.
    late_data: Vec<LateData>,
    stripes: StripeBuffers,
    mirror_compare: MirrorCompare,
    ended: VecDeque<IoReply>,
    failed_requests: FailedRequests,
    /// The range that is changed in two steps.
    hold: Option<RangeHold>,
    completions: Vec<(MemberIndex, Completion)>,
    precise_sleep: PreciseSleep,
    /// Replies of remote members, and flushes of storage that was replaced, that were not handled
    /// yet.
    ended_parts: VecDeque<RemoteReply>,
}

impl Executor {
    /// An executor of these members, and of the volume on them if there is one; `model_array` holds
    /// the models of the emulated members, in the same order, if there are any. Fails if the driver
    /// cannot adopt the files. Panics if there are emulated members without a model.
    pub fn new(
        mut driver: Driver,
        clock: Clock,
        members: Vec<NewMember>,
        model_array: Option<ModelArray>,
        volume: Option<Volume>,
    ) -> io::Result<Executor> {
        let mut slots = Vec::new();
        for NewMember { config, source } in members {
            let modelled =
                model_array.as_ref().is_some_and(|model_array| slots.len() < model_array.len());
            let real = matches!(source, Source::Real(_) | Source::Remote(_) | Source::Absent);
            let index = MemberIndex(slots.len() as u16);
            assert!(real || modelled, "an emulated member has a model");
            let store = replace::store(index, source, &mut driver)?;
            slots.push(MemberSlot::new(config, store));
        }
        let now = driver.now();
        Ok(Executor {
            driver,
            clock,
            now: clock.model(now),
            volume,
            slots,
            model_array,
            active: Slab::default(),
            late_data: Vec::new(),
            stripes: StripeBuffers::default(),
            mirror_compare: MirrorCompare::default(),
            ended: VecDeque::new(),
            failed_requests: FailedRequests::default(),
            hold: None,
            completions: Vec::new(),
            precise_sleep: PreciseSleep::default(),
            ended_parts: VecDeque::new(),
        })
    }

    /// The conversion between real time and the models' time.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn time(&self) -> Nanos {
        self.clock.model(self.driver.now())
    }

    /// The real time until an instant of the models' time.
    fn real_until(&self, until: Nanos) -> Nanos {
        self.clock.real(until.saturating_sub(self.time()))
    }

    pub fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// The records of the volume on its members; `None` without labels.
    pub fn records(&self) -> Option<&StoreGate> {
        self.volume.as_ref()?.gate()
    }

    /// The volume, for changes of its policy or of the state of a member.
    pub fn volume_mut(&mut self) -> Option<&mut Volume> {
        self.volume.as_mut()
    }

    pub fn members(&self) -> impl Iterator<Item = (&MemberConfig, &MemberStats)> {
        self.slots.iter().map(|slot| (&slot.config, &slot.stats))
    }

    /// Clears the histograms of wait and lateness of all members. Counters are kept.
    pub fn reset_times(&mut self) {
        for slot in &mut self.slots {
            slot.stats.reset_times();
        }
    }

    /// The size of a target in bytes. Panics if there is no such target.
    pub fn size_bytes(&self, target: Target) -> u64 {
        match target {
            Target::Volume => self.volume.as_ref().expect("there is a volume").capacity_bytes(),
            Target::Member(member) => self.slots[member.get()].config.size_bytes,
        }
    }

    /// The requests of clients to the volume that failed since the start, because too few members
    /// could be read or written.
    pub fn failed_requests(&self) -> FailedRequests {
        self.failed_requests
    }

    /// True if no request and no member I/O is in flight.
    pub fn is_idle(&self) -> bool {
        self.volume.as_ref().is_none_or(Volume::is_idle)
            && self.active.is_empty()
            && self.hold.is_none()
    }

    /// Starts a request. Its reply comes from [`Executor::poll_reply`] after a later
    /// [`Executor::turn`]; its buffer must not be used until then.
    pub fn submit(&mut self, request: IoRequest) {
        if self.hold.is_none() || !self.delay_for_hold(&request) {
            self.submit_now(request);
        }
    }

    /// Starts a request, also in a range that is held.
    fn submit_now(&mut self, request: IoRequest) {
        match request.target {
            Target::Volume => self.submit_to_volume(&request),
            Target::Member(member) => self.submit_to_member(member, &request),
        }
    }

    /// Completes what is due, and starts the member I/O that follows from it.
    pub fn turn(&mut self) {
        self.now = self.time();
        let now = self.now;
        self.advance_models();
        self.end_parts();
        let Some(volume) = &mut self.volume else { return };
        if volume.poll_timeout().is_some_and(|at| at <= now) {
            volume.on_timeout(now);
        }
        self.run_volume();
    }

    /// Does what the volume asks to be computed in the buffers of stripes.
    fn do_stripe_steps(&mut self) {
        while let Some((buffer, step)) = self.volume.as_mut().and_then(Volume::poll_stripe_step) {
            self.do_stripe_step(buffer, step);
        }
    }

    /// Starts the member I/O of the volume, and takes its replies.
    fn run_volume(&mut self) {
        let now = self.now;
        loop {
            while let Some(io) = self.volume.as_mut().and_then(|volume| volume.poll_io(now)) {
                self.do_stripe_steps();
                self.launch_for_volume(&io);
            }
            self.do_stripe_steps();
            if self.volume.as_ref().is_some_and(Volume::has_work) {
                continue;
            }
            // A cancelled I/O may let another one start.
            let Some(io) = self.volume.as_mut().and_then(Volume::poll_cancel) else { break };
            self.cancel(&io);
        }
        while let Some(reply) = self.volume.as_mut().and_then(Volume::poll_reply) {
            self.end_request(reply.request, reply.result);
        }
    }

    pub fn poll_reply(&mut self) -> Option<IoReply> {
        self.ended.pop_front()
    }

    /// Waits until an operation ends or a timer is due, but at most for `timeout`, and appends the
    /// events of the driver; those of members belong to [`Executor::on_event`].
    pub fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let due = self.volume.as_ref().and_then(Volume::poll_timeout);
        let mut due = due.map(|due| self.real_until(due));
        for slot in &mut self.slots {
            for remote in slot.remotes() {
                remote.flush(&mut self.driver);
                let timer = remote.on_time(self.driver.now(), &mut self.driver);
                due = due.into_iter().chain(timer).min();
            }
        }
        let due = due.map(|due| Duration::from_nanos(due.0));
        let timeout = due.into_iter().chain(timeout).min();
        match self.model_array.as_ref().and_then(ModelArray::next_event) {
            None => self.driver.wait(timeout, events)?,
            Some(due) => self.wait_for_driver_or_model(timeout, due, events)?,
        }
        self.now = self.time();
        Ok(())
    }

    /// Handles an event of a member.
    pub fn on_event(&mut self, done: &Event) {
        match done.token.owner() {
            EventOwner::MemberFile => {}
            EventOwner::SuccessorFile => return self.on_successor_event(done),
            _ => return self.on_remote_event(done),
        }
        let key = ActiveIoKey::from_slot(done.token.key());
        let io = *self.active.get(key);
        let result = match done.result {
            Err(Errno::OPNOTSUPP) if io.op == Op::Discard => {
                self.on_refused_discard(&io);
                Ok(())
            }
            Err(errno) => Err(io_error(errno)),
            // The file or device ends before.
            Ok(Output::Bytes(bytes)) if moves(io.op) && (bytes as u64) < io.length => {
                Err(IoError::Gone)
            }
            Ok(_) => Ok(()),
        };
        // Of storage that was replaced meanwhile, an error says nothing of the member.
        if result.is_err() && io.attachment == self.slots[io.member.get()].attachment {
            self.note_file_error(io.member, io.failed(), done.result.err());
        }
        match io.op {
            Op::Flush => self.end_flush(key, result),
            _ => self.end_file_part(key, result),
        }
    }

    fn on_remote_event(&mut self, done: &Event) {
        let slot = &mut self.slots[remote::member_of(done.token).get()];
        let remote = slot.remotes().next().expect("only a remote member starts such operations");
        remote.on_event(done, &mut self.driver, &mut self.ended_parts);
        let is_lost = remote.is_lost();
        self.end_parts();
        if is_lost {
            self.note_fault(remote::member_of(done.token), MemberFault::LostServer);
            self.fail(remote::member_of(done.token));
        }
    }

    /// Marks a member as failed at once, so that the user sees it before the next I/O.
    fn fail(&mut self, member: MemberIndex) {
        if let Some(volume) = &mut self.volume {
            volume.lose_member(member);
        }
    }

    /// Cancels a read that is not needed any more, if the model has not started it. Operations of
    /// the driver are not cancelled.
    fn cancel(&mut self, io: &MemberIo) {
        let origin = Origin::Volume(io.id);
        let found = self.active.iter().find(|(_, active)| active.origin == origin);
        let Some((key, active)) = found else { return };
        if active.parts_left > 1 || active.due.is_some() {
            return;
        }
        if let Some(model_array) = &mut self.model_array
            && model_array.cancel(self.now, io.member, key.slot().into())
        {
            self.end_part(key, Err(IoError::Cancelled));
        }
    }

    fn advance_models(&mut self) {
        let Some(model_array) = &mut self.model_array else { return };
        let mut completions = std::mem::take(&mut self.completions);
        model_array.advance(self.now, &mut completions);
        for (_, Completion { tag, at, result }) in completions.drain(..) {
            let key = ActiveIoKey::from_slot(tag as u32);
            self.active.get_mut(key).due = Some(at);
            self.end_part(key, result);
        }
        self.completions = completions;
    }

    /// Ends a request to the volume.
    fn end_request(&mut self, id: RequestId, result: Result<(), VolumeError>) {
        if !self.late_data.is_empty() {
            self.copy_late_data(id);
        }
        if !self.mirror_compare.is_empty() {
            self.compare_mirrors(id);
        }
        self.reply(RequestName::of(id).token, result);
    }

    fn reply(&mut self, token: Token, result: Result<(), VolumeError>) {
        let reply = IoReply { token, result };
        self.failed_requests.count(&reply);
        self.ended.push_back(reply);
        if self.hold.is_some() {
            self.start_held();
        }
    }
}

/// True for operations that transfer their length in bytes.
fn moves(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}
