//! A machine with simulated disks, on which a volume is served, stopped, killed and started again.

mod damage;
mod finish;
mod identity;
mod start;

use super::Promises;
use super::history::{BLOCKS, End, ExtraFaults, Operation, extra_faults};
use super::model::{BLOCK_BYTES, Model, contents};
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use crate::driver::{EventOwner, Token};
use crate::executor::{Executor, IoReply, IoRequest, Target};
use crate::member::file::Occupied;
use crate::rebuild::{Rebuild, RebuildOpened, RebuildRequest};
use crate::reopen::MemberPlace;
use crate::scrub::{Scrub, ScrubRequest};
use identity::Snapshot;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::label::{LABEL_SLOTS, Label, Uuid};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use rustix::io::Errno;
use start::{disk_address, disk_at, new_label};
use std::collections::BTreeMap;
use std::time::Duration;

/// A run that needs more turns hangs.
const TURNS_MAX: u32 = 200_000;
pub(super) const VOLUME: Uuid = Uuid([0x77; 16]);

/// What happened in a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    pub(super) replies: u64,
    pub(super) power_cuts: u64,
    pub(super) kills: u64,
    pub(super) starts: u64,
    pub(super) failures: u64,
    pub(super) damages: u64,
    pub(super) refusals: u64,
    pub(super) unpromised: u64,
    pub(super) catch_ups: u64,
}

/// A request of a client.
pub(super) struct Pending {
    kind: RequestKind,
    block: u64,
    value: u64,
    buffer: Option<BufferKey>,
    /// What was acknowledged when it began.
    acknowledged: Vec<u64>,
    /// What the block could hold when it began.
    possible: Vec<u64>,
    /// Changes of anything that a read may depend on, when it began.
    changes: u64,
}

/// The volume while it is served.
pub(super) struct Served {
    pub(super) executor: Executor,
    pub(super) rebuild: Rebuild,
    pub(super) scrub: Scrub,
    pub(super) pending: BTreeMap<u32, Pending>,
    pub(super) next_key: u32,
}

/// A disk of the machine.
pub(super) struct Disk {
    pub(super) file: ObjectId,
    is_bad: bool,
    /// True until a label was found on it.
    pub(super) is_new: bool,
}

pub(super) struct Machine {
    pub(super) simulation: SimulatedWorld,
    /// All disks that there are, also those that are not members any more.
    pub(super) disks: Vec<Disk>,
    /// The disk of each member.
    pub(super) rows: Vec<ObjectId>,
    pub(super) label: Label,
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) model: Model,
    pub(super) served: Option<Served>,
    /// Counts writes and faults.
    pub(super) changes: u64,
    /// True once a copy was damaged.
    may_differ: bool,
    /// True if reads of damaged data are checked.
    checks_damage: bool,
    /// True once metadata were damaged.
    has_bad_metadata: bool,
    /// True if only the user can start the volume now.
    is_refused: bool,
    /// A copy of a member from earlier.
    snapshot: Option<Snapshot>,
    pub(super) tally: Tally,
}

/// The profile and the number of members of the volume of a seed.
pub(super) fn shape(seed: u64) -> (Profile, usize) {
    [(Profile::Raid1, 2), (Profile::Raid1c3, 3), (Profile::Raid10, 4), (Profile::Raid1, 3)]
        [(seed % 4) as usize]
}

/// Size of the members of a seed: in a fifth, the volume has enough regions that a member which
/// comes back lacks only some.
pub(super) fn member_bytes(seed: u64) -> u64 {
    if seed % 5 == 2 { 37 << 20 } else { 11 << 20 }
}

impl Machine {
    /// A machine with a new volume.
    pub(super) fn new(seed: u64, promises: Promises) -> Machine {
        let mut rng = Rng::stream(seed, "machine");
        let simulation = SimulatedWorld::new(SimOptions {
            seed,
            file_latency_max: Nanos(1 + rng.below(10_000_000)),
            partial_every: rng.below(20),
            ..SimOptions::default()
        });
        let (profile, count) = shape(seed);
        let label = new_label(profile, count, member_bytes(seed));
        let mut machine = Machine {
            simulation,
            disks: Vec::new(),
            rows: Vec::new(),
            label,
            seed,
            rng,
            model: Model::new(),
            served: None,
            changes: 0,
            may_differ: promises == Promises::FlushLies,
            checks_damage: promises == Promises::DamageIsChecked,
            has_bad_metadata: false,
            is_refused: false,
            snapshot: None,
            tally: Tally::default(),
        };
        for row in 0..count {
            let (file, slot) = (machine.add_disk(), LABEL_SLOTS[0]);
            machine.rows.push(file);
            let block = machine.label.encode(machine.label.members[row].uuid, slot);
            machine.simulation.write_file(file, slot, &block);
            if promises == Promises::FlushLies {
                machine.simulation.set_fault(file, FileFault::SyncsNothing);
                machine.disk(file).is_bad = true;
            }
        }
        machine
    }

    /// Adds an empty disk.
    fn add_disk(&mut self) -> ObjectId {
        let file = self.simulation.add_file(member_bytes(self.seed));
        self.disks.push(Disk { file, is_bad: false, is_new: true });
        file
    }

    pub(super) fn disk(&mut self, file: ObjectId) -> &mut Disk {
        let disk = self.disks.iter_mut().find(|disk| disk.file == file);
        disk.expect("the machine knows its disks")
    }

    /// Runs a history, and then checks what is left.
    pub(super) fn run(mut self, operations: &[Operation]) -> Result<Tally, String> {
        self.start(0)?;
        for &operation in operations {
            self.perform(operation)?;
            if self.is_refused {
                return Ok(self.tally);
            }
            let turns = self.rng.below(12);
            for _ in 0..turns {
                self.turn(Nanos::from_millis(1))?;
            }
        }
        self.finish()?;
        Ok(self.tally)
    }

    fn perform(&mut self, operation: Operation) -> Result<(), String> {
        let count = self.rows.len();
        match operation {
            Operation::Write { block } => self.submit(RequestKind::Write, block),
            Operation::Read { block } => self.submit(RequestKind::Read, block),
            Operation::Flush => self.submit(RequestKind::Flush, 0),
            Operation::Lose { member } => {
                self.set_fault(member % count, FileFault::Fails(Errno::NODEV));
            }
            Operation::SpoilReads { member } => {
                self.set_fault(member % count, FileFault::FailsReads(3));
            }
            Operation::Mend { member } => self.set_fault(member % count, FileFault::None),
            Operation::Rebuild { member } => self.begin_rebuild(member % count, None),
            Operation::Remove { member } => self.remove(MemberIndex((member % count) as u16)),
            Operation::Replace { member } => {
                let disk = self.add_disk();
                self.begin_rebuild(member % count, Some(disk));
            }
            Operation::Wait { millis } => {
                let until = self.simulation.now() + Nanos::from_millis(millis);
                while self.served.is_some() && self.simulation.now() < until {
                    self.turn(until - self.simulation.now())?;
                }
            }
            Operation::Scrub => {
                if let Some(Served { executor, scrub, .. }) = &mut self.served {
                    // It is refused while one is under way.
                    let request = ScrubRequest { repairs: true, from: Some(1), rate: None };
                    let _ = scrub.start(request, executor);
                }
            }
            Operation::Settle => return self.settle(),
            Operation::Damage(damage) => self.damage(damage),
            Operation::Shrink { member } => {
                let end = FileFault::Ends(member_bytes(self.seed) / 2);
                self.set_fault(member % count, end);
            }
            Operation::Snapshot { member } => self.take_snapshot(member % count),
            Operation::RestoreSnapshot { end } => return self.try_snapshot(end),
            Operation::Clone { end, member } => return self.try_clone(end, member % count),
            Operation::Restart { end, without } => {
                self.end(end)?;
                return self.start(without);
            }
        }
        Ok(())
    }

    fn set_fault(&mut self, member: usize, fault: FileFault) {
        self.changes += 1;
        self.model.forget_reads();
        let file = self.rows[member];
        self.disk(file).is_bad = fault != FileFault::None;
        self.simulation.set_fault(file, fault);
    }

    fn begin_rebuild(&mut self, member: usize, disk: Option<ObjectId>) {
        let Some(served) = &mut self.served else { return };
        let has_device = served
            .executor
            .volume()
            .is_some_and(|volume| volume.has_device(MemberIndex(member as u16)));
        if !has_device {
            // A disk that was removed and is put back is a new one.
            let file = self.rows[member];
            self.disk(file).is_new = true;
        }
        let Some(served) = &mut self.served else { return };
        let replacement = disk.map(|disk| (disk_address(disk), Occupied::Refuse));
        let (devid, client) = (member as u64 + 1, member as u32);
        let request = RebuildRequest { devid, replacement, rate: None, client };
        // It is refused while the member is in sync, or its mirrors are gone.
        let _ = served.rebuild.begin(request, &mut served.executor);
    }

    /// Has a disk removed that failed.
    fn remove(&mut self, member: MemberIndex) {
        let Some(Served { executor, rebuild, .. }) = &mut self.served else { return };
        let has_failed = executor.volume().is_some_and(|volume| {
            volume.members()[member].state == MemberState::Failed && volume.has_device(member)
        });
        if !has_failed || rebuild.is_opening(member) || executor.remove(member).is_err() {
            return;
        }
        let is_removed = executor.volume_mut().is_some_and(|it| it.remove_device(member));
        assert!(is_removed, "a member that has failed can be removed");
    }

    fn submit(&mut self, kind: RequestKind, block: u64) {
        let Some(served) = &mut self.served else { return };
        let executor = &mut served.executor;
        let has_data = kind != RequestKind::Flush;
        let buffer = has_data.then(|| executor.driver.acquire(BLOCK_BYTES));
        let acknowledged = self.model.acknowledged();
        let possible = self.model.possible(block);
        let mut value = 0;
        if let (RequestKind::Write, Some(buffer)) = (kind, buffer) {
            self.changes += 1;
            value = self.model.begin_write(block);
            let slice = Slice::data(buffer, 0, BLOCK_BYTES);
            executor.driver.bytes_mut(slice).copy_from_slice(&contents(block, value));
        }
        let offset = offset_of(executor.size_bytes(Target::Volume), block);
        let key = served.next_key;
        served.next_key += 1;
        let changes = self.changes;
        let pending = Pending { kind, block, value, buffer, acknowledged, possible, changes };
        served.pending.insert(key, pending);
        executor.submit(IoRequest {
            token: Token::new(EventOwner::NbdRequest, key),
            target: Target::Volume,
            kind,
            offset: if has_data { offset } else { 0 },
            length: if has_data { BLOCK_BYTES as u64 } else { 0 },
            buffer,
            stream: 7,
        });
    }

    /// One turn of the service.
    fn turn(&mut self, timeout: Nanos) -> Result<(), String> {
        let Some(served) = &mut self.served else { return Ok(()) };
        let Served { executor, rebuild, scrub, .. } = served;
        let timer = rebuild.step(executor).into_iter().chain(scrub.step(executor)).min();
        executor.turn();
        let mut replies = Vec::new();
        while let Some(reply) = executor.poll_reply() {
            match reply.token.owner() {
                EventOwner::Rebuild => {
                    rebuild.on_reply(reply, executor);
                    // What it copied may change what is read where mirrors differed.
                    self.changes += 1;
                }
                EventOwner::Scrub => scrub.on_reply(reply, executor),
                _ => replies.push(reply),
            }
        }
        if scrub.progress().is_some_and(|scrub| scrub.differing_blocks > 0) && !self.may_differ {
            return Err("a scrub found mirrors that differ".to_owned());
        }
        while let Some((member, opened)) = rebuild.poll_reply() {
            let volume = executor.volume().filter(|_| opened.is_ok());
            let is_catching_up =
                volume.is_some_and(|it| it.is_catching_up(MemberIndex(member as u16)));
            self.tally.catch_ups += u64::from(is_catching_up);
            if let Ok(RebuildOpened { place: MemberPlace::New(address, _), .. }) = opened {
                self.rows[member as usize] = disk_at(&address);
                self.changes += 1;
            }
        }
        let timeout = timer.map_or(timeout, |timer| timer.min(timeout));
        let mut events = Vec::new();
        let timeout = Some(Duration::from_nanos(timeout.0));
        executor.wait(timeout, &mut events).map_err(|error| error.to_string())?;
        if extra_faults(self.seed) == ExtraFaults::Damage {
            self.take_misdirected();
        }
        let Some(Served { executor, .. }) = &mut self.served else { return Ok(()) };
        for event in events {
            if event.token.owner() == EventOwner::MemberFile {
                executor.on_event(&event);
            }
        }
        replies.into_iter().try_for_each(|reply| self.on_reply(reply))
    }

    fn on_reply(&mut self, reply: IoReply) -> Result<(), String> {
        self.tally.replies += 1;
        let served = self.served.as_mut().expect("a reply comes from a served volume");
        let pending = served.pending.remove(&reply.token.key()).expect("one reply to a request");
        let Pending { kind, block, value, buffer, acknowledged, possible, changes } = pending;
        let bytes = buffer.map(|buffer| {
            let driver = &mut served.executor.driver;
            let bytes = driver.bytes(Slice::data(buffer, 0, BLOCK_BYTES)).to_vec();
            driver.release(buffer);
            bytes
        });
        let is_well = !self.disks.iter().any(|disk| disk.is_bad && self.rows.contains(&disk.file));
        let states = served.executor.volume().into_iter().flat_map(|it| it.members().iter());
        let all_in_sync = states.into_iter().all(|(_, it)| it.state == MemberState::InSync);
        match (kind, reply.result) {
            (RequestKind::Write, result) => {
                self.changes += 1;
                self.model.end_write(block, value, result.is_ok());
                if result.is_ok() {
                    self.on_written();
                }
            }
            (RequestKind::Flush, Ok(())) => self.model.end_flush(&acknowledged),
            (RequestKind::Read, Ok(())) => {
                let bytes = bytes.expect("a read has a buffer");
                self.tally.unpromised += u64::from(self.model.is_damaged(block));
                let may_change = changes != self.changes || !is_well || !all_in_sync;
                let since = acknowledged[block as usize];
                self.model.end_read(block, since, &possible, &bytes, may_change)?;
            }
            _ => {}
        }
        match reply.result {
            Err(VolumeError::Unreadable) if is_well && all_in_sync && changes == self.changes => {
                Err(format!("{kind:?} of block {block} failed, though all members are well"))
            }
            _ => Ok(()),
        }
    }

    /// Lets the requests in flight end.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.served.as_ref().is_none_or(|served| served.pending.is_empty()) {
                return Ok(());
            }
            self.turn(Nanos::from_millis(100))?;
        }
        Err("requests do not end".to_owned())
    }

    /// Ends the service.
    fn end(&mut self, end: End) -> Result<(), String> {
        if end == End::Stop {
            self.stop()?;
        }
        self.on_end();
        let Some(served) = self.served.take() else { return Ok(()) };
        match end {
            End::Stop => {}
            End::Kill => {
                self.tally.kills += 1;
                served.executor.driver.kill();
            }
            End::PowerCut => {
                self.tally.power_cuts += 1;
                served.executor.driver.cut_power();
            }
        }
        self.model.crash();
        Ok(())
    }

    /// Stops in good order, if the members let it.
    fn stop(&mut self) -> Result<(), String> {
        self.settle()?;
        let Some(served) = &mut self.served else { return Ok(()) };
        served.rebuild.stop();
        served.scrub.stop(&mut served.executor);
        self.submit(RequestKind::Flush, 0);
        for turn in 0..TURNS_MAX {
            let Some(served) = &mut self.served else { return Ok(()) };
            if turn > 0 && served.pending.is_empty() && served.executor.is_idle() {
                break;
            }
            self.turn(Nanos::from_millis(100))?;
        }
        let Some(served) = &mut self.served else { return Ok(()) };
        let Some(volume) = served.executor.volume_mut() else { return Ok(()) };
        if volume.is_idle() {
            volume.record_stop();
        }
        for _ in 0..TURNS_MAX {
            self.turn(Nanos::from_millis(1))?;
            let Some(served) = &self.served else { break };
            let is_recorded = served.executor.volume().is_none_or(Volume::is_recorded);
            if is_recorded && served.executor.is_idle() {
                return Ok(());
            }
        }
        Err("the end of the volume is not recorded".to_owned())
    }

    /// Where a block of the clients is on the volume.
    fn block_offset(&self, map: &ChunkMap, block: u64) -> u64 {
        offset_of(map.capacity_bytes(), block)
    }

    pub(super) fn map(&self) -> ChunkMap {
        let map = self.label.array.chunk_map(&self.label.map_configs());
        map.expect("the members of a new volume fit its profile")
    }
}

fn offset_of(capacity_bytes: u64, block: u64) -> u64 {
    capacity_bytes / BLOCKS / BLOCK_BYTES as u64 * BLOCK_BYTES as u64 * block
}
