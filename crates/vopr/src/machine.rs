//! A machine with simulated disks, on which a volume is created, served, stopped, killed and
//! started again by the code of the product.

mod clients;
mod damage;
mod faults;
mod finish;
mod identity;
mod kept;
mod start;
mod user;

use crate::history::{End, ExtraFaults, HistoryStep};
use crate::oracle::BlockOracle;
use crate::server::MemberServer;
use crate::service::ServedVolume;
use crate::shape::{HistoryShape, Promises};
use clients::{ClientRequest, Requests};
use damage::DamageState;
use identity::Snapshot;
use kept::KeptMirrors;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::driver::FileId;
use mirrorball_io::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use mirrorball_io::service::ServiceState;
use mirrorball_store::label::{LABEL_SLOTS, METADATA_BYTES, MemberLabel, newest_label};
use std::ops::AddAssign;
use std::sync::Arc;

/// A run that needs more turns hangs: its time does not pass.
pub(crate) const TURNS_MAX: u32 = 1_000_000;

/// In the reply to a command that was carried out, but that a start may forget.
const LABELS_UNWRITABLE: &str = "the labels cannot be written";

/// Longest time in which a request or a command ends, whatever faults there were: a disk hangs for
/// at most 8.2 s, and a server may owe a reply for 5 s.
pub(crate) const REQUEST_TIME_MAX: Nanos = Nanos::from_secs(60);
/// Longest time in which a volume without faults resyncs its mirrors, rebuilds all members or
/// scrubs all data, also while clients keep all their requests in flight.
pub(crate) const RECOVERY_TIME_MAX: Nanos = Nanos::from_secs(900);

/// Number of times that things happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) replies: u64,
    pub(crate) power_cuts: u64,
    pub(crate) kills: u64,
    pub(crate) starts: u64,
    /// Members out of sync at a start.
    pub(crate) failures: u64,
    /// Power cuts and kills while mirrors were synchronised or a member was rebuilt.
    pub(crate) recoveries_cut: u64,
    pub(crate) damages: u64,
    /// Clones, old copies and damaged metadata that were refused.
    pub(crate) refusals: u64,
    /// Starts with old copies that were too young to be noticed.
    pub(crate) unnoticed: u64,
    pub(crate) spares_used: u64,
    /// Halves that had been written to without each other.
    pub(crate) divergences: u64,
    /// Hash of everything that happened.
    pub(crate) trace: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.operations += other.operations;
        self.replies += other.replies;
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.starts += other.starts;
        self.failures += other.failures;
        self.recoveries_cut += other.recoveries_cut;
        self.damages += other.damages;
        self.refusals += other.refusals;
        self.unnoticed += other.unnoticed;
        self.spares_used += other.spares_used;
        self.divergences += other.divergences;
        self.trace = self.trace.rotate_left(7) ^ other.trace;
    }
}

/// A disk of the machine, or of the machine of a remote member.
pub(crate) struct Disk {
    pub(crate) file: ObjectId,
    pub(crate) address: DeviceAddress,
    pub(crate) server: Option<Arc<MemberServer>>,
    is_bad: bool,
}

pub(crate) struct Machine {
    pub(crate) shape: HistoryShape,
    pub(crate) world: SimulatedWorld,
    pub(crate) rng: Rng,
    pub(crate) oracle: BlockOracle,
    pub(crate) map: ChunkMap,
    /// All disks that there are, also those that are not members any more.
    pub(crate) disks: Vec<Disk>,
    next_disk: usize,
    /// The disk of each member.
    pub(crate) rows: Vec<ObjectId>,
    pub(crate) served: Option<ServedVolume>,
    pub(crate) requests: Requests,
    /// Disks that hang, and until when.
    hanging: Vec<(Nanos, ObjectId)>,
    /// Counts writes and faults.
    pub(crate) changes: u64,
    /// True if a member had a fault since the volume was started.
    pub(crate) had_fault: bool,
    pub(crate) damage: DamageState,
    kept: KeptMirrors,
    /// True if the service ended in good order, with all data durable.
    was_stopped: bool,
    /// The disks of members that were in sync when the service ended.
    pub(crate) in_sync_at_end: Vec<ObjectId>,
    /// True if only the user can start the volume now.
    pub(crate) is_refused: bool,
    /// A copy of a member from earlier.
    pub(crate) snapshot: Option<Snapshot>,
    /// True while the user starts the volume without members that are in sync.
    pub(crate) allows_degraded: bool,
    /// True if `create` was cut, and repeated.
    pub(crate) is_cut: bool,
    /// True while clients keep all their requests in flight.
    pub(crate) is_loaded: bool,
    /// Disks whose data the user gives up at the next start.
    pub(crate) discarded: Vec<ObjectId>,
    pub(crate) tally: Tally,
}

impl Machine {
    pub(crate) fn new(shape: HistoryShape) -> Result<Machine, String> {
        Machine::after_cuts(shape, None)
    }

    /// A machine with a new volume. If `cut`, all disks lose power during `create` after so many
    /// writes, and it is repeated.
    pub(crate) fn after_cuts(shape: HistoryShape, cut: Option<u64>) -> Result<Machine, String> {
        let mut rng = Rng::stream(shape.seed, "machine");
        let world = SimulatedWorld::new(SimOptions {
            seed: shape.seed,
            file_latency_max: Nanos(1 + rng.below(10_000_000)),
            socket_latency_max: Nanos(1 + rng.below(500_000)),
            partial_every: rng.below(20),
            stall_every: rng.below(2) * 500,
            stall_max: Nanos::from_millis(50),
        });
        let mut disks = Vec::new();
        for row in 0..shape.members + shape.spares as usize {
            let disk = start::new_disk(&world, &shape, disks.len(), shape.remote == Some(row));
            if shape.promises == Promises::FlushLies {
                world.set_fault(disk.file, FileFault::SyncsNothing);
            }
            disks.push(Disk { is_bad: shape.promises == Promises::FlushLies, ..disk });
        }
        let rows = disks[..shape.members].iter().map(|disk| disk.file).collect();
        let (map, is_cut) = start::create(&shape, &world, &disks, cut)?;
        Ok(Machine {
            shape,
            world,
            rng,
            oracle: BlockOracle::new(),
            map,
            next_disk: disks.len(),
            disks,
            rows,
            served: None,
            requests: Requests::default(),
            hanging: Vec::new(),
            changes: 0,
            had_fault: false,
            damage: DamageState::default(),
            kept: KeptMirrors::new(shape.members),
            was_stopped: false,
            in_sync_at_end: Vec::new(),
            is_refused: false,
            snapshot: None,
            allows_degraded: false,
            is_loaded: false,
            is_cut,
            discarded: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// Runs a history, and then checks what is left.
    pub(crate) fn run(mut self, operations: &[HistoryStep]) -> Result<Tally, String> {
        self.start(0)?;
        if self.shape.has_checksums || self.shape.extra == ExtraFaults::Losses {
            self.write_all()?;
        }
        for &operation in operations {
            self.tally.operations += 1;
            self.perform(operation)?;
            if self.is_refused {
                break;
            }
            for _ in 0..self.rng.below(12) {
                self.turn(Nanos::from_millis(1))?;
            }
        }
        if !self.is_refused {
            self.finish()?;
        }
        Ok(Tally { trace: self.world.trace(), ..self.tally })
    }

    pub(crate) fn perform(&mut self, operation: HistoryStep) -> Result<(), String> {
        let count = self.rows.len();
        match operation {
            HistoryStep::Write { block } => self.write(block),
            HistoryStep::Read { block } => self.submit(ClientRequest::Read, block),
            HistoryStep::Flush => self.submit(ClientRequest::Flush, 0),
            HistoryStep::Reconnect { client } => self.reconnect(client),
            HistoryStep::Command(command) => self.command(command),
            HistoryStep::Fault { member, fault } => self.break_member(member % count, fault),
            HistoryStep::Mend { member } => self.mend(self.rows[member % count]),
            HistoryStep::Disconnect { member } => self.disconnect(member % count),
            HistoryStep::Fail { member } => self.fail(member % count),
            HistoryStep::Rebuild { member } => self.rebuild(member % count),
            HistoryStep::Replace { member } => self.replace(member % count),
            HistoryStep::Remove { member } => self.remove(member % count),
            HistoryStep::AddSpare => self.add_spare(),
            HistoryStep::Scrub => self.start_scrub(),
            HistoryStep::Wait { millis } => {
                let until = self.world.now() + Nanos::from_millis(millis);
                while self.served.is_some() && self.world.now() < until {
                    self.turn(until - self.world.now())?;
                }
            }
            HistoryStep::Settle => return self.settle(),
            HistoryStep::Restart { end, mends, without } => {
                self.end(end)?;
                if mends {
                    self.mend_all();
                }
                return self.start(without);
            }
            HistoryStep::Damage(damage) => return self.damage(damage),
            HistoryStep::Snapshot { member } => self.take_snapshot(member % count),
            HistoryStep::RestoreSnapshot { end } => return self.try_snapshot(end),
            HistoryStep::Clone { end, member } => return self.try_clone(end, member % count),
            HistoryStep::Halves { end, first } => return self.try_halves(end, first),
        }
        Ok(())
    }

    pub(crate) fn add_disk(&mut self, is_remote: bool) -> ObjectId {
        let disk = start::new_disk(&self.world, &self.shape, self.next_disk, is_remote);
        let file = disk.file;
        self.next_disk += 1;
        self.disks.push(disk);
        file
    }

    pub(crate) fn disk(&self, file: ObjectId) -> &Disk {
        self.disks.iter().find(|disk| disk.file == file).expect("the machine knows its disks")
    }

    fn disk_mut(&mut self, file: ObjectId) -> &mut Disk {
        self.disks.iter_mut().find(|disk| disk.file == file).expect("the machine knows its disks")
    }

    /// Returns true if no disk of a member has a fault.
    pub(crate) fn has_no_fault(&self) -> bool {
        !self.disks.iter().any(|disk| disk.is_bad && self.rows.contains(&disk.file))
    }

    /// Returns true if no member has a fault, and all are in sync.
    pub(crate) fn is_well(&self) -> bool {
        self.has_no_fault()
            && (0..self.rows.len()).all(|row| self.state(row) == Some(MemberState::InSync))
    }

    /// The state of a member while the volume is served.
    pub(crate) fn state(&self, row: usize) -> Option<MemberState> {
        let served = self.served.as_ref()?;
        Some(served.volume().members()[MemberIndex(row as u16)].state)
    }

    pub(crate) fn turn(&mut self, timeout: Nanos) -> Result<ServiceState, String> {
        if self.served.is_none() {
            return Ok(ServiceState::Stopped);
        }
        self.end_hangs();
        let served = self.served.as_mut().expect("it is served");
        let state = served.turn(timeout).map_err(|error| error.to_string())?;
        let (replies, ends) = (served.take_replies()?, served.take_command_ends()?);
        self.changes += u64::from(served.take_copied());
        self.find_rows();
        for (disk, result) in ends {
            // Thousands of disks that were refused would make each start slow.
            let is_refused = result.is_err_and(|error| !error.contains(LABELS_UNWRITABLE));
            if let Some(disk) = disk.filter(|&disk| is_refused && !self.has_label(disk)) {
                self.disks.retain(|it| it.file != disk);
            }
        }
        self.note_kept();
        self.check_found()?;
        self.take_damage();
        for (key, result, bytes) in replies {
            self.on_reply(key as u32, result, &bytes)?;
        }
        Ok(state)
    }

    /// Finds which disks are members now: another may have taken the place of one.
    pub(crate) fn find_rows(&mut self) {
        let Some(served) = &self.served else { return };
        let (executor, rebuild) = (served.service.executor(), served.service.rebuild());
        for row in 0..self.rows.len() {
            let member = MemberIndex(row as u16);
            let disk = match executor.file_id(member) {
                Some(FileId { inode, .. }) => {
                    let disk = self.disks.iter().find(|disk| disk.file.number() == inode);
                    Some(disk.expect("members are on disks of the machine"))
                }
                // Paths may be swapped, URIs are not.
                None => rebuild.device(member, executor).and_then(|address| {
                    self.disks.iter().find(|it| it.server.is_some() && it.address == address)
                }),
            };
            if let Some(file) = disk.map(|disk| disk.file).filter(|file| *file != self.rows[row]) {
                self.rows[row] = file;
                self.changes += 1;
                self.tally.spares_used += u64::from(!self.kept.is_replacing(row, file));
            }
        }
    }

    pub(crate) fn end(&mut self, end: End) -> Result<(), String> {
        if end == End::Stop {
            self.stop()?;
        }
        self.on_end();
        let Some(served) = &self.served else { return Ok(()) };
        let is_in_sync = |&row: &usize| self.state(row) == Some(MemberState::InSync);
        let in_sync = (0..self.rows.len()).filter(is_in_sync).map(|row| self.rows[row]).collect();
        self.in_sync_at_end = in_sync;
        self.was_stopped = end == End::Stop;
        if end != End::Stop {
            self.tally.recoveries_cut += u64::from(self.is_recovering());
        }
        let labelled: Vec<ObjectId> = self
            .disks
            .iter()
            .map(|disk| disk.file)
            .filter(|&file| self.is_labelled(file))
            .collect();
        let driver = &served.service.executor().driver;
        match end {
            End::Stop => {}
            End::Kill => {
                self.tally.kills += 1;
                driver.kill();
            }
            End::PowerCut => {
                self.tally.power_cuts += 1;
                driver.cut_power();
                let servers = self.disks.iter().flat_map(|disk| &disk.server);
                servers.for_each(|server| server.shut_down(&self.world));
            }
        }
        self.served = None;
        self.forget_requests();
        // The next service reads members past the page cache.
        self.disks.iter().for_each(|disk| self.world.drop_cache(disk.file));
        let is_kept = end != End::PowerCut && !self.had_fault;
        self.oracle.end_run(is_kept);
        let may_be_lost = |file: &ObjectId| self.damage.bad_labels.contains(file);
        match labelled.iter().all(|file| self.has_label(*file) || may_be_lost(file)) {
            true => Ok(()),
            false => Err("a label is lost".to_owned()),
        }
    }

    /// Returns true if a disk has a label that can be read.
    pub(crate) fn has_label(&self, file: ObjectId) -> bool {
        self.label(file).is_some()
    }

    /// The newest label of a disk that can be read.
    fn label(&self, file: ObjectId) -> Option<MemberLabel> {
        let read = |offset| self.world.read_file(file, offset, METADATA_BYTES);
        let newest = newest_label([&read(LABEL_SLOTS[0]), &read(LABEL_SLOTS[1])]);
        newest.ok().map(|newest| newest.found)
    }

    /// Returns true if a disk has a label that no power cut may take.
    fn is_labelled(&self, file: ObjectId) -> bool {
        let read = |offset| self.world.read_durable(file, offset, METADATA_BYTES);
        newest_label([&read(LABEL_SLOTS[0]), &read(LABEL_SLOTS[1])]).is_ok()
    }

    /// Returns true if mirrors are synchronised after a crash, or a member is rebuilt.
    fn is_recovering(&self) -> bool {
        let is_rebuilt = |row| matches!(self.state(row), Some(MemberState::Rebuilding { .. }));
        self.unsynced_bytes() > 0 || (0..self.rows.len()).any(is_rebuilt)
    }

    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.served.as_ref().map_or(0, |served| served.store().unsynced_bytes())
    }

    /// Stops in good order, if the members let it.
    fn stop(&mut self) -> Result<(), String> {
        self.settle()?;
        let Some(served) = &self.served else { return Ok(()) };
        served.stop();
        let deadline = self.world.now() + REQUEST_TIME_MAX;
        while self.world.now() < deadline {
            if self.turn(Nanos::from_millis(100))? == ServiceState::Stopped {
                return self.check_recorded();
            }
        }
        Err("the service does not stop".to_owned())
    }

    /// After a stop the labels say so, unless a member or the synchronisation of mirrors is not
    /// well.
    fn check_recorded(&self) -> Result<(), String> {
        let is_well = !self.had_fault && !self.damage.has_bad_metadata && self.is_well();
        let is_clean = self.served.as_ref().is_none_or(|it| it.store().label().is_clean);
        match is_well && self.unsynced_bytes() == 0 && !is_clean {
            true => Err("the end of the volume is not recorded".to_owned()),
            false => Ok(()),
        }
    }
}
