//! The executor: drives a volume and its members, or the members alone, on the real clock.
//!
//! One thread owns it. Requests come in with a buffer of the driver; the volume makes member I/O
//! of them, which goes to files and to other machines through the driver, or to models whose ends
//! come when the clock reaches them. A turn is: [`Executor::wait`] until something ends or is due,
//! give what belongs to members to [`Executor::on_event`], then [`Executor::turn`], then take the
//! ends of requests from [`Executor::poll_reply`].
//!
//! **Emulated members.** A model tells when an I/O ends; its data is stored and fetched meanwhile.
//! The I/O ends when both are done, and the difference to what the model said is its *lateness*,
//! kept as a histogram for each member: figures from late completions say nothing about the model.
//!
//! **Time** is that of the models ([`crate::clock`]): volume, policies and models agree on it.
//!
//! Nothing is allocated per request once the busiest moment was seen.
//!
//! Non-goals: who sends the requests, and how.

mod active_io;
pub(crate) mod block_status;
mod member_slot;
mod precise_sleep;
mod replace;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Event, EventOwner, Output, Token};
use crate::member::remote::{self, RemoteReply};
use crate::member::{NewMember, Source, Store, io_error};
use active_io::{ActiveIo, Origin, RaceWinner};
use member_slot::MemberSlot;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::{
    IoError, MemberIo, Op, ReadRole, Request, RequestId, RequestKind, VolumeError,
};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState};
use mirrorball_core::slab::Slab;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::model::Completion;
use mirrorball_disk::model_array::ModelArray;
use precise_sleep::PreciseSleep;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The volume.
    Volume,
    /// One member, past the volume.
    Member(MemberIndex),
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// Given back with its end.
    pub token: Token,
    /// What it is for.
    pub target: Target,
    /// What is asked; of a member alone a read, write, flush or discard.
    pub kind: RequestKind,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Whose data, from its first byte on, is read or written; `None` where there is none.
    pub buffer: Option<BufferKey>,
    /// Who asks, as policies see it.
    pub stream: u64,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoReply {
    /// As given with the request.
    pub token: Token,
    /// Whether it succeeded.
    pub result: Result<(), VolumeError>,
}

/// What an executor counts of a member, from its start.
#[derive(Clone, Debug, Default)]
pub struct MemberStats {
    /// I/Os in io.
    pub in_flight: u32,
    /// Reads that ended well.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// How long they took.
    pub read_wait: Histogram,
    /// Writes that ended well.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// How long they took.
    pub write_wait: Histogram,
    /// Flushes that ended well.
    pub flushes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// How much later than the model said emulated I/Os ended, in real time.
    pub lateness: Histogram,
}

impl MemberStats {
    /// Begins to measure times anew; what is counted goes on.
    fn forget_times(&mut self) {
        for times in [&mut self.read_wait, &mut self.write_wait, &mut self.lateness] {
            *times = Histogram::default();
        }
    }
}

/// See the page of this module.
pub struct Executor {
    /// The kernel: for those who send requests, too.
    pub driver: Driver,
    clock: Clock,
    /// The time of this turn: volume and models see no other, so it never goes back.
    now: Nanos,
    volume: Option<Volume>,
    slots: Vec<MemberSlot>,
    model_array: Option<ModelArray>,
    requests: Slab<u32, IoRequest>,
    active: Slab<u32, ActiveIo>,
    /// Reads that brought what their requests want, until those end.
    race_winners: Vec<RaceWinner>,
    ended: VecDeque<IoReply>,
    completions: Vec<(MemberIndex, Completion)>,
    precise_sleep: PreciseSleep,
    /// Requests to other machines that ended.
    remote_ended: Vec<RemoteReply>,
}

impl Executor {
    /// An executor of these members. `volume` lies over them, if there is one; `model_array` holds
    /// the models of the emulated ones, in the same request, if there are any.
    ///
    /// # Errors
    /// If the driver cannot take the files over.
    ///
    /// # Panics
    /// If there are emulated members without a model.
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
            let real = matches!(source, Source::Real(_) | Source::Remote(_));
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
            requests: Slab::default(),
            active: Slab::default(),
            race_winners: Vec::new(),
            ended: VecDeque::new(),
            completions: Vec::new(),
            precise_sleep: PreciseSleep::default(),
            remote_ended: Vec::new(),
        })
    }

    /// The clock that everything here goes by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The time of the models now.
    pub fn time(&self) -> Nanos {
        self.clock.model(self.driver.now())
    }

    /// The real time until an instant of the models' time.
    fn real_until(&self, until: Nanos) -> Nanos {
        self.clock.real(until.saturating_sub(self.time()))
    }

    /// The volume, if there is one.
    pub fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// The volume, to change its policy or the state of a member.
    pub fn volume_mut(&mut self) -> Option<&mut Volume> {
        self.volume.as_mut()
    }

    /// Each member with what was counted of it.
    pub fn members(&self) -> impl Iterator<Item = (&MemberConfig, &MemberStats)> {
        self.slots.iter().map(|slot| (&slot.config, &slot.stats))
    }

    /// Begins to measure anew how long the I/O of members takes, and how late it is.
    pub fn forget_times(&mut self) {
        for slot in &mut self.slots {
            slot.stats.forget_times();
        }
    }

    /// The size of a target in bytes.
    ///
    /// # Panics
    /// If it is not there.
    pub fn size_bytes(&self, target: Target) -> u64 {
        match target {
            Target::Volume => self.volume.as_ref().expect("there is a volume").capacity_bytes(),
            Target::Member(member) => self.slots[member.get()].config.size_bytes,
        }
    }

    /// Whether every request has ended.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.active.is_empty()
    }

    /// Takes a request in. Its end comes from [`Executor::poll_reply`] after a later
    /// [`Executor::turn`]; until then its buffer is not looked at.
    pub fn submit(&mut self, request: IoRequest) {
        let key = self.requests.insert(request);
        let IoRequest { kind, offset, length, stream, .. } = request;
        match request.target {
            Target::Volume => {
                let id = RequestId(key.into());
                let volume = self.volume.as_mut().expect("there is a volume");
                let background = matches!(kind, RequestKind::Rebuild(_));
                volume.submit(Request { id, kind, offset, length, stream, cpu: 0, background });
            }
            Target::Member(member) => self.submit_to_member(key, member, &request),
        }
    }

    /// Lets happen what is due, and hands out what follows from it.
    pub fn turn(&mut self) {
        self.now = self.time();
        let now = self.now;
        self.advance_models();
        let Some(volume) = &mut self.volume else { return };
        if volume.poll_timeout().is_some_and(|at| at <= now) {
            volume.on_timeout(now);
        }
        loop {
            while let Some(io) = self.volume.as_mut().and_then(|volume| volume.poll_io(now)) {
                self.launch_for_volume(&io);
            }
            // What is taken back may let something else go.
            let Some(io) = self.volume.as_mut().and_then(Volume::poll_cancel) else { break };
            self.cancel(&io);
        }
        while let Some(reply) = self.volume.as_mut().and_then(Volume::poll_reply) {
            self.end_request(reply.request.0 as u32, reply.result);
        }
    }

    /// The next end of a request, if there is one.
    pub fn poll_reply(&mut self) -> Option<IoReply> {
        self.ended.pop_front()
    }

    /// Waits until something ends or is due, but at most for `patience`, and appends the ends of
    /// operations; those of members belong to [`Executor::on_event`].
    ///
    /// # Errors
    /// If the driver fails.
    pub fn wait(&mut self, patience: Option<Duration>, done: &mut Vec<Event>) -> io::Result<()> {
        let due = self.volume.as_ref().and_then(Volume::poll_timeout);
        let mut due = due.map(|due| self.real_until(due));
        for slot in &mut self.slots {
            if let Store::Remote(remote) = &mut slot.store {
                remote.flush(&mut self.driver);
                let timer = remote.on_time(self.driver.now(), &mut self.driver);
                due = due.into_iter().chain(timer).min();
            }
        }
        let patience = due.map(|due| Duration::from_nanos(due.0)).into_iter().chain(patience).min();
        self.wait_beside_models(patience, done)?;
        self.now = self.time();
        Ok(())
    }

    /// The end of an operation that a member I/O started.
    pub fn on_event(&mut self, done: &Event) {
        if done.token.owner() != EventOwner::MemberFile {
            return self.on_remote_event(done);
        }
        let key = done.token.key();
        let io = self.active.get(key);
        let slot = &mut self.slots[io.member.get()];
        let is_whole = slot.is_whole(self.now, &self.driver);
        let result = match done.result {
            // Advice that a filesystem or device has no means to take.
            Err(Errno::OPNOTSUPP) if io.op == Op::Discard => {
                slot.discards = false;
                Ok(())
            }
            Err(errno) => Err(io_error(errno)),
            Ok(_) if !is_whole => Err(IoError::Gone),
            // The file ended before the read did: it is not what it was.
            Ok(Output::Bytes(bytes)) if moves(io.op) && (bytes as u64) < io.length => {
                Err(IoError::Gone)
            }
            Ok(_) => Ok(()),
        };
        self.end_part(key, result);
    }

    fn on_remote_event(&mut self, done: &Event) {
        let slot = &mut self.slots[remote::member_of(done.token).get()];
        let Store::Remote(remote) = &mut slot.store else {
            unreachable!("only a remote member starts such an operation")
        };
        remote.on_event(done, &mut self.driver, &mut self.remote_ended);
        let is_lost = remote.is_lost();
        self.end_remote();
        if is_lost {
            self.fail(remote::member_of(done.token));
        }
    }

    /// Fails a member that is lost, though nobody may request for it for a long time: its owner
    /// wants to know.
    fn fail(&mut self, member: MemberIndex) {
        if let Some(volume) = &mut self.volume
            && volume.members()[member].state != MemberState::Failed
        {
            volume.set_member_state(member, MemberState::Failed);
        }
    }

    fn submit_to_member(&mut self, key: u32, member: MemberIndex, request: &IoRequest) {
        let size_bytes = self.slots[member.get()].config.size_bytes;
        let op = match request.kind {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Discard => Op::Discard,
            RequestKind::Scrub | RequestKind::Rebuild(_) => {
                return self.end_request(key, Err(VolumeError::NotRebuilding));
            }
        };
        if request.offset.checked_add(request.length).is_none_or(|end| end > size_bytes) {
            return self.end_request(key, Err(VolumeError::OutOfRange));
        }
        self.now = self.time();
        self.advance_models();
        self.launch(ActiveIo {
            origin: Origin::Direct,
            request: key,
            member,
            op,
            offset: request.offset,
            length: request.length,
            within: 0,
            own_buffer: None,
            submitted_at: self.now,
            due: None,
            parts_left: 0,
            result: Ok(()),
        });
    }

    fn launch_for_volume(&mut self, io: &MemberIo) {
        let request = io.request.0 as u32;
        let within = self.place_in_buffer(io);
        let races = io.op == Op::Read && io.role != ReadRole::Only;
        let own_buffer = races.then(|| self.driver.buffers.acquire(io.length as usize));
        self.launch(ActiveIo {
            origin: Origin::Volume(io.id),
            request,
            member: io.member,
            op: io.op,
            offset: io.offset,
            length: io.length,
            within,
            own_buffer,
            submitted_at: self.now,
            due: None,
            parts_left: 0,
            result: Ok(()),
        });
    }

    /// Where the data of a member I/O begins in that of its request.
    fn place_in_buffer(&self, io: &MemberIo) -> usize {
        let request = self.requests.get(io.request.0 as u32);
        let begin = match request.kind {
            // The offset of such a request counts on the member that is rebuilt.
            RequestKind::Rebuild(member) => {
                let map = self.volume.as_ref().expect("the volume asked for it").map();
                let extent = map.map(io.volume_offset, io.length);
                let target = extent.mirrors().iter().find(|mirror| mirror.member == member);
                target.expect("a rebuild touches only what its member holds").offset
            }
            _ => io.volume_offset,
        };
        // A flush has no place on the volume.
        begin.saturating_sub(request.offset) as usize
    }

    /// Takes back a read that is not wanted any more, where the member is a model that can: what
    /// the kernel has runs on.
    fn cancel(&mut self, io: &MemberIo) {
        let origin = Origin::Volume(io.id);
        let found = self.active.iter().find(|(_, active)| active.origin == origin);
        let Some((key, active)) = found else { return };
        if active.parts_left > 1 || active.due.is_some() {
            return;
        }
        if let Some(model_array) = &mut self.model_array
            && model_array.cancel(self.now, io.member, key.into())
        {
            self.end_part(key, Err(IoError::Cancelled));
        }
    }

    fn advance_models(&mut self) {
        let Some(model_array) = &mut self.model_array else { return };
        let mut completions = std::mem::take(&mut self.completions);
        model_array.advance(self.now, &mut completions);
        for (_, Completion { tag, at, result }) in completions.drain(..) {
            let key = tag as u32;
            self.active.get_mut(key).due = Some(at);
            self.end_part(key, result);
        }
        self.completions = completions;
    }

    fn end_request(&mut self, key: u32, result: Result<(), VolumeError>) {
        if !self.race_winners.is_empty() {
            self.collect(key);
        }
        let request = self.requests.remove(key).expect("a request ends once");
        self.ended.push_back(IoReply { token: request.token, result });
    }

    /// Brings into the buffer of a request that ends what its races race_winners.
    fn collect(&mut self, key: u32) {
        let (buffers, requests) = (&mut self.driver.buffers, &self.requests);
        self.race_winners.retain(|RaceWinner { buffer, io }| {
            if io.request != key {
                return true;
            }
            let target = requests.get(key).buffer.expect("a read has a buffer");
            let length = io.length as usize;
            let from = Slice::data(*buffer, 0, length);
            buffers.copy(from, Slice::data(target, io.within, length));
            buffers.release(*buffer);
            false
        });
    }
}

/// Whether the operation moves as many bytes as its length says.
fn moves(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}
