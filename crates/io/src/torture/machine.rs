//! A machine with simulated disks, on which a volume is served, stopped, killed and started again.

mod clients;
mod damage;
mod finish;
mod identity;
mod start;

use super::Promises;
use super::history::{BLOCKS, End, ExtraFaults, Operation, extra_faults};
use super::model::{BLOCK_BYTES, Model};
use crate::driver::EventOwner;
use crate::driver::buffers::BufferKey;
use crate::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use crate::executor::Executor;
use crate::member::file::Occupied;
use crate::rebuild::{Rebuild, RebuildOpened, RebuildRequest};
use crate::reopen::MemberPlace;
use crate::scrub::{Scrub, ScrubRequest};
use identity::Snapshot;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::io::RequestKind;
use mirrorball_core::label::{LABEL_SLOTS, Label, Uuid};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use rustix::io::Errno;
use start::{disk_address, disk_at, new_label};
use std::collections::{BTreeMap, BTreeSet};
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
    /// True if data have checksums.
    has_checksums: bool,
    /// Blocks with a bit that changed on one mirror and was not written since.
    rotten: BTreeSet<u64>,
    /// True if a good mirror of those may be gone.
    has_lost_good: bool,
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
/// comes back lacks only some. With tables of checksums, each of three members has to have a chunk.
fn member_bytes(seed: u64, has_checksums: bool) -> u64 {
    match (seed % 5, has_checksums && seed % 4 == 3) {
        (2, _) => 37 << 20,
        (_, true) => 21 << 20,
        (_, false) => 11 << 20,
    }
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
        let has_checksums = promises == Promises::KeptWithChecksums;
        let label = new_label(profile, count, member_bytes(seed, has_checksums), has_checksums);
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
            has_checksums,
            rotten: BTreeSet::new(),
            has_lost_good: false,
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

    pub(super) fn member_bytes(&self) -> u64 {
        member_bytes(self.seed, self.has_checksums)
    }

    /// Adds an empty disk.
    fn add_disk(&mut self) -> ObjectId {
        let file = self.simulation.add_file(self.member_bytes());
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
        if self.has_checksums {
            self.write_all()?;
        }
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
            Operation::Damage(damage) => return self.damage(damage),
            Operation::Shrink { member } => {
                let end = FileFault::Ends(self.member_bytes() / 2);
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
        self.has_lost_good = true;
        self.on_member_lost();
        self.model.forget_reads();
        let file = self.rows[member];
        self.disk(file).is_bad = fault != FileFault::None;
        self.simulation.set_fault(file, fault);
    }

    fn begin_rebuild(&mut self, member: usize, disk: Option<ObjectId>) {
        self.has_lost_good = true;
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
        let volume = executor.volume().expect("a volume is served");
        let mut members = (0..volume.members().len()).map(|row| MemberIndex(row as u16));
        if members.any(|member| volume.mismatched_blocks(member) > 0) && !self.may_differ {
            return Err("undamaged data do not match their checksums".to_owned());
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
