//! Starting a tortured volume from what its members hold, as a service does it.

use super::super::history::{ExtraFaults, extra_faults};
use super::{Machine, Served, VOLUME};
use crate::clock::{Clock, Speed};
use crate::device_address::DeviceAddress;
use crate::driver::Driver;
use crate::driver::FileId;
use crate::driver::sim::{FileFault, ObjectId, SimulatedWorld};
use crate::examine::standing_text;
use crate::executor::Executor;
use crate::member::{MemberFile, NewMember, Source};
use crate::rebuild::Rebuild;
use crate::reopen::{MemberPlace, OpenMember, OpenRequest, OpenedMember, PathState, Reopener};
use crate::scrub::Scrub;
use mirrorball_core::checksum::CHECKSUM_BLOCK_BYTES;
use mirrorball_core::geometry::{ArrayLayout, Profile, RESERVED_BYTES};
use mirrorball_core::label::assembly::{ArrayVerdict, FoundMember, LabelAssembly, assemble};
use mirrorball_core::label::{
    DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, DataId, LABEL_SLOTS, Label, LabelledArray, LabelledMember,
    Lineage, METADATA_BYTES, SCRUB_BYTES, SCRUB_OFFSET, STALE_MAP_BYTES, STALE_MAP_OFFSET, Uuid,
    map_checksum, newest_label, newest_record, newest_scrub, stale_maps,
};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::Spec;
use mirrorball_core::volume::{Volume, VolumeLabels};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

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

/// Disks with labels, and how they relate.
struct Assembled {
    assembly: LabelAssembly,
    found: Vec<FoundMember>,
    disks: Vec<ObjectId>,
}

/// Opens the disks of members.
pub(super) struct Opener {
    simulation: SimulatedWorld,
    /// The disk of each member at the start.
    rows: Vec<ObjectId>,
    /// Size of a member.
    member_bytes: u64,
}

impl Opener {
    /// What a disk holds, if it has a label.
    pub(super) fn found(&self, disk: ObjectId) -> Option<FoundMember> {
        let read = |offset, length| self.simulation.read_file(disk, offset, length);
        let slots = LABEL_SLOTS.map(|slot| read(slot, METADATA_BYTES));
        let newest = newest_label([&slots[0], &slots[1]]).ok()?;
        let log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
        let record = newest_record(&log, VOLUME, newest.found.member);
        let scrub = read(SCRUB_OFFSET, SCRUB_BYTES as usize);
        let scrub = newest_scrub(&scrub, VOLUME, newest.found.member);
        let maps = read(STALE_MAP_OFFSET, STALE_MAP_BYTES as usize);
        let stale_maps = stale_maps(&maps, VOLUME, newest.found.member);
        Some(FoundMember { newest, record, scrub, stale_maps })
    }

    fn source(&self, disk: ObjectId) -> Source {
        Source::Real(MemberFile {
            file: self.simulation.endpoint(disk),
            begin_bytes: 0,
            least_bytes: Some(self.member_bytes),
        })
    }
}

impl OpenMember for Opener {
    fn open_again(&self, request: &OpenRequest) -> Result<OpenedMember, String> {
        let disk = match &request.place {
            MemberPlace::Original => self.rows[request.member.get()],
            MemberPlace::Moved(address) | MemberPlace::New(address, _) => disk_at(address),
        };
        if matches!(self.simulation.fault(disk), FileFault::Ends(_)) {
            return Err("the disk is too small".to_owned());
        }
        self.simulation.sync_file(disk);
        let found = self.found(disk);
        let found = found.filter(|it| Some(it.newest.found.member) == request.own_uuid);
        if found.is_none() {
            let area = vec![0; (RESERVED_BYTES - LABEL_SLOTS[0]) as usize];
            self.simulation.write_file(disk, LABEL_SLOTS[0], &area);
        }
        Ok(OpenedMember { source: self.source(disk), found, notes: Vec::new() })
    }

    fn path_state(&self, _: MemberIndex, _: &MemberPlace, _: Option<FileId>) -> PathState {
        PathState::Same
    }
}

impl Machine {
    pub(super) fn opener(&self) -> Opener {
        let member_bytes = self.member_bytes();
        Opener { simulation: self.simulation.clone(), rows: self.rows.clone(), member_bytes }
    }

    /// Those of these disks that have a label, what they hold, and how they relate. A disk may lack
    /// one only until the first was found on it.
    fn assembled(
        &mut self,
        disks: &[ObjectId],
        are_flushed: bool,
    ) -> Result<Option<Assembled>, String> {
        let opener = self.opener();
        let (mut labelled, mut found) = (Vec::new(), Vec::new());
        for &file in disks {
            let disk = self.disk(file);
            match opener.found(file) {
                Some(member) => {
                    // What a kill left may be lost by a power cut, until the disk is flushed.
                    disk.is_new &= !are_flushed;
                    labelled.push(file);
                    found.push(member);
                }
                None if disk.is_new => {}
                None if self.has_bad_metadata => self.is_refused = true,
                None => return Err("a label is lost".to_owned()),
            }
        }
        let assembly = (!found.is_empty()).then(|| assemble(&found, &[]));
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
            let is_gone = matches!(fault, FileFault::Fails(Errno::NODEV) | FileFault::Ends(_));
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
        let Some(found) = self.assembled(&present, true)? else { return Ok(()) };
        let whole = self.assembled(&all, false)?.ok_or("a label is lost")?.assembly.newest;
        if self.is_refused {
            self.tally.refusals += 1;
            return Ok(());
        }
        let newest = &found.assembly.newest;
        let has_newest = whole.lineage == newest.lineage && whole.generation == newest.generation;
        match found.assembly.verdict(&self.map()) {
            ArrayVerdict::Start => {}
            ArrayVerdict::NeedsDegraded { .. } if has_newest => {}
            ArrayVerdict::NeedsDegraded { .. } | ArrayVerdict::Incomplete { .. } => return Ok(()),
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
        self.tally.starts += 1;
        self.changes += 1;
        self.model.forget_reads();
        for (row, member) in found.assembly.members.iter().enumerate() {
            if let Some(index) = member.found {
                self.rows[row] = found.disks[index];
            }
        }
        self.serve(&found)
    }

    fn serve(&mut self, assembled: &Assembled) -> Result<(), String> {
        let Assembled { assembly, found, .. } = assembled;
        let map = self.map();
        let mut configs = self.label.map_configs();
        for (config, row) in configs.iter_mut().zip(&assembly.members) {
            config.state = row.state;
            self.tally.failures += u64::from(row.state != MemberState::InSync);
        }
        let policy = POLICIES[self.rng.below(POLICIES.len() as u64) as usize];
        let devids: Vec<u64> = configs.iter().map(|config| config.devid).collect();
        let policy = Spec::parse(policy).and_then(|spec| spec.build(&devids));
        let policy = policy.map_err(|error| error.to_string())?;
        let seed = self.rng.next_u64();
        let labels = VolumeLabels::of(assembly, found, map.capacity_bytes(), seed);
        self.tally.catch_ups += labels.catching_up.len() as u64;
        let members = Members::new(configs.iter().cloned());
        let mut volume = Volume::new(map, members, policy, self.seed).with_labels(labels);
        if self.has_checksums {
            volume = volume.with_block_bytes(CHECKSUM_BLOCK_BYTES).with_checksums();
        }
        self.has_lost_good |= configs.iter().any(|config| config.state != MemberState::InSync);
        if volume.unsynced_bytes() > 0 && self.has_lost_good {
            // Where a checksum is a hint, a damaged mirror counts that is the only one.
            std::mem::take(&mut self.rotten).into_iter().for_each(|it| self.model.damage(it));
        }
        let opener = Arc::new(self.opener());
        let member = |(index, config): (usize, &MemberConfig)| {
            let is_here = assembly.members[index].found.is_some();
            let source = if is_here { opener.source(self.rows[index]) } else { Source::Absent };
            NewMember { config: config.clone(), source }
        };
        let members = configs.iter().enumerate().map(member).collect();
        let driver = Driver::simulated(&self.simulation);
        let clock = Clock::new(Speed::REAL);
        let executor = Executor::new(driver, clock, members, None, Some(volume));
        let mut executor = executor.map_err(|error| error.to_string())?;
        let reopener = Reopener::new(opener, &mut executor.driver);
        let reopener = reopener.map_err(|error| error.to_string())?;
        let rebuild = Rebuild::new(&mut executor).with_reopener(Some(reopener));
        let (scrub, pending) = (Scrub::new(&executor), BTreeMap::new());
        self.served = Some(Served { executor, rebuild, scrub, pending, next_key: 0 });
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
        is_read_only: false,
    }
}
