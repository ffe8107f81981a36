//! A machine with simulated disks, on which a volume is served, stopped, killed and started again.

mod clients;
mod commands;
mod damage;
mod finish;
mod front;
mod halves;
mod identity;
mod nbd_client;
mod start;
mod turns;

use super::Promises;
use super::history::{BLOCKS, Operation, spares};
use super::model::{BLOCK_BYTES, Model, ReadStart};
use crate::driver::buffers::BufferKey;
use crate::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use clients::ClientRequest;
use front::Front;
use identity::Snapshot;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_store::label::{LABEL_SLOTS, Label, LabelledSpare, Uuid};
use rustix::io::Errno;
use start::{make_spare, new_label, spare_uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

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
    pub(super) recoveries_cut: u64,
    pub(super) divergences: u64,
    pub(super) spares_used: u64,
}

/// A request of a client.
struct Pending {
    request: ClientRequest,
    /// The number of the client that sent it.
    client: u32,
    block: u64,
    value: u64,
    buffer: Option<BufferKey>,
    /// What was acknowledged when it began.
    acknowledged: Vec<u64>,
    /// What the block could hold when it began.
    read_start: ReadStart,
    /// Changes of anything that a read may depend on, when it began.
    changes: u64,
}

/// The volume while it is served.
struct Served {
    front: Front,
    pending: BTreeMap<u32, Pending>,
    next_key: u32,
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
    promises: Promises,
    pub(super) rng: Rng,
    pub(super) model: Model,
    served: Option<Served>,
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
    /// True once checksums were lost, because the only disk that had them did not return them.
    has_lost_checksums: bool,
    /// True if reads of damaged data are checked.
    checks_damage: bool,
    /// True once metadata were damaged.
    has_bad_metadata: bool,
    /// True once the bad disk lost a write of metadata.
    has_lost_metadata: bool,
    /// True if in this run of the service a write of metadata was lost on the only member in sync.
    has_lost_record: bool,
    /// True if only the user can start the volume now.
    is_refused: bool,
    /// A copy of a member from earlier.
    snapshot: Option<Snapshot>,
    /// True while the user starts the volume without members that are in sync.
    allows_degraded: bool,
    /// True if a member had a fault since the volume was started.
    had_fault: bool,
    /// Disks from which labels were removed, because they became other members or spares.
    cleared: Arc<Mutex<Vec<ObjectId>>>,
    /// Disks whose data the user gives up at the next start.
    discarded: Vec<ObjectId>,
    pub(super) tally: Tally,
}

/// The profile and the number of members of the volume of a seed.
pub(super) fn shape(seed: u64) -> (Profile, usize) {
    const MIRRORED: [(Profile, usize); 4] =
        [(Profile::Raid1, 2), (Profile::Raid1c3, 3), (Profile::Raid10, 4), (Profile::Raid1, 3)];
    MIRRORED[(seed % 4) as usize]
}

/// Size of the members of a seed: in a fifth, the volume has enough regions that a member which
/// comes back lacks only some. With tables of checksums, each of three members has to have a chunk.
fn member_bytes(seed: u64, promises: Promises) -> u64 {
    match (seed % 5, promises, seed % 4) {
        (2, _, _) => 37 << 20,
        (_, Promises::KeptWithChecksums, 3) => 21 << 20,
        _ => 11 << 20,
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
        let label = new_label(profile, count, member_bytes(seed, promises), has_checksums);
        let mut machine = Machine {
            simulation,
            disks: Vec::new(),
            rows: Vec::new(),
            label,
            seed,
            promises,
            rng,
            model: Model::new(),
            served: None,
            changes: 0,
            may_differ: promises == Promises::FlushLies,
            has_checksums,
            rotten: BTreeSet::new(),
            has_lost_good: false,
            has_lost_checksums: false,
            checks_damage: promises == Promises::DamageIsChecked,
            has_bad_metadata: false,
            has_lost_metadata: false,
            has_lost_record: false,
            is_refused: false,
            snapshot: None,
            allows_degraded: false,
            had_fault: false,
            cleared: Arc::default(),
            discarded: Vec::new(),
            tally: Tally::default(),
        };
        for _ in 0..spares(seed) {
            let disk = machine.add_disk();
            make_spare(&machine.simulation, disk);
            let (uuid, size_bytes) = (spare_uuid(disk), machine.member_bytes());
            machine.label.spares.push(LabelledSpare { uuid, size_bytes });
        }
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
        member_bytes(self.seed, self.promises)
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
            Operation::Write { block } => self.write(block),
            Operation::Read { block } => self.submit(ClientRequest::Read, block),
            Operation::Flush => self.submit(ClientRequest::Flush, 0),
            Operation::Command(command) => self.command(command),
            Operation::Fail { member } => self.fail(member % count),
            Operation::SpoilFlush { member } => {
                self.set_fault(member % count, FileFault::FailsNextSync);
            }
            Operation::SpoilWrite { member } => {
                self.set_fault(member % count, FileFault::FailsNextWrite);
            }
            Operation::Lose { member } => {
                self.set_fault(member % count, FileFault::Fails(Errno::NODEV));
            }
            Operation::SpoilReads { member } => {
                self.set_fault(member % count, FileFault::FailsReads(3));
            }
            Operation::Mend { member } => self.set_fault(member % count, FileFault::None),
            Operation::Rebuild { member } => self.begin_rebuild(member % count, None),
            Operation::AddSpare => self.add_spare(),
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
            Operation::Scrub => self.start_scrub(),
            Operation::Settle => return self.settle(),
            Operation::Damage(damage) => return self.damage(damage),
            Operation::Snapshot { member } => self.take_snapshot(member % count),
            Operation::RestoreSnapshot { end } => return self.try_snapshot(end),
            Operation::Clone { end, member } => return self.try_clone(end, member % count),
            Operation::Halves { end, first } => return self.try_halves(end, first),
            Operation::Restart { end, without } => {
                self.end(end)?;
                return self.start(without);
            }
        }
        Ok(())
    }

    fn set_fault(&mut self, member: usize, fault: FileFault) {
        self.changes += 1;
        (self.has_lost_good, self.had_fault) = (true, true);
        self.on_member_lost();
        self.on_others_lost(member);
        self.model.forget_reads();
        let file = self.rows[member];
        self.disk(file).is_bad = fault != FileFault::None;
        self.simulation.set_fault(file, fault);
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

/// Where a block is on a volume of this size.
fn offset_of(capacity_bytes: u64, block: u64) -> u64 {
    capacity_bytes / BLOCKS / BLOCK_BYTES as u64 * BLOCK_BYTES as u64 * block
}
