//! Starting a tortured volume from what its members hold, as a service does it.

use super::super::history::{ExtraFaults, extra_faults, has_service};
use super::front::{Front, Parts, ServiceFront};
use super::{Machine, Served, VOLUME};
use crate::Volume;
use crate::assemble::durable_label::writes_before_use;
use crate::assemble::replacement::check;
use crate::assemble::spare::refusal;
use crate::clock::{Clock, Speed};
use crate::device_address::DeviceAddress;
use crate::driver::Driver;
use crate::driver::sim::{FileFault, ObjectId, SimulatedWorld};
use crate::examine::{metadata_from, spare_block, standing_text};
use crate::executor::Executor;
use crate::member::{NewMember, Source};
use crate::reopen::{MemberPlace, OpenMember, OpenRequest, OpenedMember, SpareRequest};
use crate::spares::FoundSpare;
use mirrorball_core::geometry::{ArrayLayout, Profile, RESERVED_BYTES};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::BLOCK_BYTES;
use mirrorball_store::StoreGate;
use mirrorball_store::VolumeLabels;
use mirrorball_store::checksum::CHECKSUM_BLOCK_BYTES;
use mirrorball_store::label::assembly::{ArrayVerdict, FoundMember, LabelAssembly, assemble};
use mirrorball_store::label::{
    DataId, LABEL_SLOTS, Label, LabelledArray, LabelledMember, LabelledSpare, Lineage,
    SPARE_OFFSET, SpareBlock, Uuid, map_checksum,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const POLICIES: [&str; 4] = ["round-robin", "random", "crucible/read-all-first", "mirrorball/auto"];

/// The address of a disk: its number.
pub(super) fn disk_address(disk: ObjectId) -> DeviceAddress {
    DeviceAddress::Path(PathBuf::from(disk.number().to_string()))
}

/// The disk at an address.
pub(super) fn disk_at(address: &DeviceAddress) -> ObjectId {
    let number = address.to_string().parse();
    ObjectId::from_number(number.expect("disks have numbers as addresses"))
}

/// Makes a spare of the volume of a disk.
pub(super) fn make_spare(simulation: &SimulatedWorld, disk: ObjectId) {
    let area = vec![0; (RESERVED_BYTES - LABEL_SLOTS[0]) as usize];
    simulation.write_file(disk, LABEL_SLOTS[0], &area);
    let (uuid, name) = (spare_uuid(disk), "volume".to_owned());
    let block = SpareBlock { volume: VOLUME, uuid, name };
    simulation.write_file(disk, SPARE_OFFSET, &block.encode());
}

/// Marks the UUIDs of spares.
const SPARE_UUIDS: u128 = 0x5a5a << 64;

/// The UUID of a disk that is or was a spare.
pub(super) fn spare_uuid(disk: ObjectId) -> Uuid {
    Uuid((SPARE_UUIDS | u128::from(disk.number())).to_be_bytes())
}

/// The disk with a UUID, if it was a spare.
pub(super) fn disk_of_spare(uuid: Uuid) -> Option<ObjectId> {
    let number = u128::from_be_bytes(uuid.0);
    (number >> 64 << 64 == SPARE_UUIDS).then(|| ObjectId::from_number(number as u64 as usize))
}

/// Disks with labels, and how they relate.
pub(super) struct Assembled {
    pub(super) assembly: LabelAssembly,
    pub(super) found: Vec<FoundMember>,
    pub(super) disks: Vec<ObjectId>,
}

/// Opens the disks of members.
pub(super) struct Opener {
    simulation: SimulatedWorld,
    /// The disk at the path of each member.
    paths: Vec<ObjectId>,
    /// True if some paths name other disks than when the members were found.
    are_swapped: bool,
    /// Disks from which labels were removed.
    cleared: Arc<Mutex<Vec<ObjectId>>>,
    /// Size of a member.
    member_bytes: u64,
}

impl Opener {
    /// What a disk holds, if it has a label.
    pub(super) fn found(&self, disk: ObjectId) -> Option<FoundMember> {
        metadata_from(|offset, length| self.read(disk, offset, length)).ok()
    }

    /// Returns true if no power cut takes the label of a disk.
    fn has_durable_label(&self, disk: ObjectId) -> bool {
        let read = |offset, length| Ok(self.simulation.read_durable(disk, offset, length as usize));
        metadata_from(read).is_ok()
    }

    /// Writes the label of a disk again, as the service does before it relies on it.
    fn make_label_durable(&self, disk: ObjectId, found: &FoundMember) {
        let read = |offset, length| self.read(disk, offset, length);
        let writes = writes_before_use(&found.newest, read);
        for (offset, bytes) in writes.expect("simulated disks are read") {
            self.simulation.write_file(disk, offset, &bytes);
            self.simulation.sync_file(disk);
        }
    }

    fn read(&self, disk: ObjectId, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        Ok(self.simulation.read_file(disk, offset, length as usize))
    }

    /// Returns true if a disk has no label and is a spare.
    fn is_spare(&self, disk: ObjectId) -> bool {
        spare_block(|offset, length| self.read(disk, offset, length)).is_some()
            && self.found(disk).is_none()
    }

    fn source(&self, disk: ObjectId) -> Source {
        Source::Real(self.simulation.endpoint(disk))
    }
}

impl OpenMember for Opener {
    fn open_again(&self, request: &OpenRequest) -> Result<OpenedMember, String> {
        let disk = match &request.place {
            MemberPlace::Original => self.paths[request.member.get()],
            MemberPlace::Moved(address)
            | MemberPlace::New(address, _)
            | MemberPlace::Spare(address, _) => disk_at(address),
        };
        self.simulation.sync_file(disk);
        let read = |offset, length| self.read(disk, offset, length);
        let found = check(request, read, || None)?;
        found.iter().for_each(|found| self.make_label_durable(disk, found));
        if found.is_none() && self.are_swapped && request.place == MemberPlace::Original {
            // It may be in use as another member, which the lock of a file would show.
            return Err("the disk is not this member".to_owned());
        }
        if found.is_none() && !matches!(request.place, MemberPlace::Spare(..)) {
            self.cleared.lock().expect("nothing panics with it").push(disk);
            let area = vec![0; (RESERVED_BYTES - LABEL_SLOTS[0]) as usize];
            self.simulation.write_file(disk, LABEL_SLOTS[0], &area);
        }
        Ok(OpenedMember { source: self.source(disk), found, notes: Vec::new() })
    }

    fn prepare_spare(&self, request: &SpareRequest) -> Result<LabelledSpare, String> {
        let disk = disk_at(&request.address);
        let read = |offset, length| self.read(disk, offset, length);
        match refusal(&request.label, read, || None)? {
            Some(what) => Err(format!("the disk contains {what}")),
            None => {
                make_spare(&self.simulation, disk);
                Ok(LabelledSpare { uuid: spare_uuid(disk), size_bytes: self.member_bytes })
            }
        }
    }

    fn device(&self, _: MemberIndex) -> Option<DeviceAddress> {
        None
    }
}

impl Machine {
    pub(super) fn opener(&self) -> Opener {
        Opener {
            simulation: self.simulation.clone(),
            paths: self.rows.clone(),
            are_swapped: false,
            cleared: Arc::clone(&self.cleared),
            member_bytes: self.member_bytes(),
        }
    }

    /// Those of these disks that have a label, what they hold, and how they relate if the data of
    /// some are given up. A disk may lack a label only until the first was durable on it.
    fn assembled(
        &mut self,
        disks: &[ObjectId],
        left_out: &[ObjectId],
    ) -> Result<Option<Assembled>, String> {
        let opener = self.opener();
        let cleared = std::mem::take(&mut *self.cleared.lock().expect("nothing panics with it"));
        cleared.into_iter().for_each(|disk| self.disk(disk).is_new = true);
        let (mut labelled, mut found) = (Vec::new(), Vec::new());
        for &file in disks {
            let disk = self.disk(file);
            match opener.found(file) {
                Some(member) => {
                    // What a kill left may be lost by a power cut, until the disk is flushed, and
                    // where a flush failed, also after a later one.
                    disk.is_new &= !opener.has_durable_label(file);
                    labelled.push(file);
                    found.push(member);
                }
                None if disk.is_new => {}
                None if self.has_bad_metadata => self.is_refused = true,
                None => return Err("a label is lost".to_owned()),
            }
        }
        let is_left_out = |&index: &usize| left_out.contains(&labelled[index]);
        let left_out: Vec<usize> = (0..labelled.len()).filter(is_left_out).collect();
        let assembly = (!found.is_empty()).then(|| assemble(&found, &left_out));
        Ok(assembly.map(|assembly| Assembled { assembly, found, disks: labelled }))
    }

    /// Starts the volume from the members that work and are not left out. Disks that are no members
    /// any more are there, too, or not.
    pub(super) fn start(&mut self, without: u8) -> Result<(), String> {
        let has_others = self.rng.below(2) == 0;
        self.start_from(without, has_others)
    }

    /// Starts the volume, from disks that are no members any more as well if `has_others`. Without
    /// the newest label it may only start if the user says so, which this user does not.
    pub(super) fn start_from(&mut self, without: u8, has_others: bool) -> Result<(), String> {
        let all: Vec<ObjectId> = self.disks.iter().map(|disk| disk.file).collect();
        let is_there = |file: &ObjectId| {
            let row = self.rows.iter().position(|member| member == file);
            let is_left_out = row.map_or(!has_others, |row| without >> row & 1 == 1);
            let fault = self.simulation.fault(*file);
            let is_gone = matches!(fault, FileFault::Fails(Errno::NODEV));
            !is_left_out && !is_gone
        };
        let mut present: Vec<ObjectId> = all.iter().copied().filter(is_there).collect();
        if extra_faults(self.seed) == ExtraFaults::Identity {
            // Disks may be found in any order.
            for index in (1..present.len()).rev() {
                present.swap(index, self.rng.below(index as u64 + 1) as usize);
            }
        }
        // The service flushes members before it reads their labels.
        present.iter().for_each(|&file| self.simulation.sync_file(file));
        let discarded = self.discarded.clone();
        let Some(found) = self.assembled(&present, &discarded)? else { return Ok(()) };
        let whole = self.assembled(&all, &discarded)?.ok_or("a label is lost")?.assembly.newest;
        if self.is_refused {
            self.tally.refusals += 1;
            return Ok(());
        }
        let newest = &found.assembly.newest;
        let has_newest = whole.lineage == newest.lineage && whole.generation == newest.generation;
        match found.assembly.verdict(&self.map()) {
            ArrayVerdict::Start => {}
            ArrayVerdict::NeedsDegraded { .. } if has_newest || self.allows_degraded => {}
            ArrayVerdict::NeedsDegraded { .. }
            | ArrayVerdict::Incomplete { .. }
            | ArrayVerdict::Announced { .. } => return Ok(()),
            ArrayVerdict::Doubtful if self.has_bad_metadata => {
                self.tally.refusals += 1;
                self.is_refused = true;
                return Ok(());
            }
            ArrayVerdict::Doubtful => {
                let standings: Vec<String> =
                    found.assembly.standings.iter().copied().map(standing_text).collect();
                let standings = standings.join("; ");
                return Err(format!(
                    "the labels do not tell which members are up to date; in order: {standings}"
                ));
            }
        }
        self.start_assembled(&found, &present)
    }

    /// Starts the volume from what was found on these disks.
    fn start_assembled(&mut self, found: &Assembled, present: &[ObjectId]) -> Result<(), String> {
        self.tally.starts += 1;
        self.changes += 1;
        self.model.forget_reads();
        let opener = self.opener();
        for (row, member) in found.assembly.members.iter().enumerate() {
            if let Some(index) = member.found {
                self.rows[row] = found.disks[index];
                opener.make_label_durable(found.disks[index], &found.found[index]);
            }
        }
        let spares = present.iter().filter(|&&disk| opener.is_spare(disk)).map(|&disk| {
            let (address, size_bytes) = (disk_address(disk), self.member_bytes());
            FoundSpare { address, uuid: spare_uuid(disk), size_bytes }
        });
        let spares = spares.collect();
        self.serve(found, spares)
    }

    fn serve(&mut self, assembled: &Assembled, spares: Vec<FoundSpare>) -> Result<(), String> {
        let Assembled { assembly, found, .. } = assembled;
        let map = self.map();
        let mut configs = self.label.map_configs();
        let mut lost = Vec::new();
        for (index, (config, row)) in configs.iter_mut().zip(&assembly.members).enumerate() {
            config.state = row.state;
            self.tally.failures += u64::from(row.state != MemberState::InSync);
            lost.extend((row.state != MemberState::InSync).then_some(index));
        }
        lost.into_iter().for_each(|index| self.on_others_lost(index));
        let policy = POLICIES[self.rng.below(POLICIES.len() as u64) as usize];
        let devids: Vec<u64> = configs.iter().map(|config| config.devid).collect();
        let policy = Spec::parse(policy).and_then(|spec| spec.build(&devids));
        let policy = policy.map_err(|error| error.to_string())?;
        let seed = self.rng.next_u64();
        let labels = VolumeLabels::of(assembly, found, map.capacity_bytes(), seed);
        self.tally.catch_ups += labels.catching_up.len() as u64;
        let members = Members::new(configs.iter().cloned());
        let volume = Volume::with_gate(map, members, policy, self.seed, |map, states| {
            Some(StoreGate::new(labels, map, states, false))
        });
        let block_bytes = if self.has_checksums { CHECKSUM_BLOCK_BYTES } else { BLOCK_BYTES };
        let mut volume = volume.with_block_bytes(block_bytes).with_one_buffer();
        volume.change_gate(StoreGate::commit_announcement);
        self.has_lost_good |= configs.iter().any(|config| config.state != MemberState::InSync);
        if volume.gate().map_or(0, StoreGate::unsynced_bytes) > 0 && self.has_lost_good {
            // Where a checksum is a hint, a damaged mirror counts that is the only one.
            std::mem::take(&mut self.rotten).into_iter().for_each(|it| self.model.damage(it));
        }
        let mut opener = self.opener();
        if has_service(self.seed) && self.rng.below(4) == 0 {
            // A path names another disk than it did when the members were found.
            opener.paths.rotate_left(1);
            opener.are_swapped = true;
        }
        let opener = Arc::new(opener);
        let member = |(index, config): (usize, &MemberConfig)| {
            let is_here = assembly.members[index].found.is_some();
            let source = if is_here { opener.source(self.rows[index]) } else { Source::Absent };
            NewMember { config: config.clone(), source }
        };
        let members = configs.iter().enumerate().map(member).collect();
        let driver = Driver::simulated(&self.simulation);
        let clock = Clock::new(Speed::REAL);
        let executor = Executor::new(driver, clock, members, None, Some(volume));
        let executor = executor.map_err(|error| error.to_string())?;
        let front = match has_service(self.seed) {
            true => {
                let block_bytes = self.label.array.block_bytes;
                let opening = (opener as Arc<dyn OpenMember>, spares);
                let front = ServiceFront::new(executor, opening, &self.simulation, block_bytes);
                front.map(|front| Front::Service(Box::new(front)))
            }
            false => Parts::new(executor, opener).map(|parts| Front::Parts(Box::new(parts))),
        };
        let front = front.map_err(|error| error.to_string())?;
        self.had_fault = false;
        self.served = Some(Served { front, pending: BTreeMap::new(), next_key: 0 });
        Ok(())
    }
}

/// The label of a new volume.
pub(super) fn new_label(
    profile: Profile,
    count: usize,
    member_bytes: u64,
    has_checksums: bool,
) -> Label {
    let member = |devid: u64| LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes: member_bytes,
        state: MemberState::InSync,
        lacks_repairs: false,
        is_kept_out: false,
        write_mostly: false,
        rotational: None,
        optimal_io_bytes: None,
        priority: 0,
    };
    let configs: Vec<MemberConfig> =
        (1..=count as u64).map(|devid| MemberConfig::new(devid, member_bytes)).collect();
    let mut array = LabelledArray {
        uuid: VOLUME,
        name: "volume".to_owned(),
        profile,
        layout: ArrayLayout::BTRFS,
        stripe_width_max: None,
        block_bytes: if has_checksums { CHECKSUM_BLOCK_BYTES } else { 512 },
        has_checksums,
        map_checksum: 0,
    };
    let map = array.chunk_map(&configs).expect("the members of a new volume fit its profile");
    array.map_checksum = map_checksum(&map);
    Label {
        array,
        generation: 2,
        lineage: Lineage::new(DataId(1)),
        is_clean: true,
        resync_from: None,
        policy: "first".to_owned(),
        program: None,
        members: (1..=count as u64).map(member).collect(),
        spares: Vec::new(),
        is_read_only: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_store::label::{METADATA_BYTES, newest_label};

    #[test]
    fn the_newest_label_is_written_again_and_a_part_of_another_removed() {
        let label = new_label(Profile::Raid1, 2, 11 << 20, false);
        let block = label.encode(label.members[0].uuid, LABEL_SLOTS[1]);
        let torn = [&[0; 512][..], &block[512..]].concat();
        for (other, writes_other) in [(vec![0; METADATA_BYTES], false), (torn, true)] {
            let newest = newest_label([&other, &block]).unwrap();
            let read = |offset, _| {
                Ok(if offset == LABEL_SLOTS[1] { block.to_vec() } else { other.clone() })
            };
            let mut expected = vec![(LABEL_SLOTS[1], block.to_vec())];
            let zeroes = (LABEL_SLOTS[0], vec![0; METADATA_BYTES]);
            expected.extend(writes_other.then_some(zeroes));
            assert_eq!(writes_before_use(&newest, read).unwrap(), expected);
        }
    }
}
