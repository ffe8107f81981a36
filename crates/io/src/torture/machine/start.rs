//! Starting a tortured volume from what its members hold, as a service does it.

use super::{MEMBER_BYTES, Machine, Served, VOLUME};
use crate::clock::{Clock, Speed};
use crate::driver::Driver;
use crate::driver::FileId;
use crate::driver::sim::{FileFault, ObjectId, SimulatedWorld};
use crate::executor::Executor;
use crate::member::{MemberFile, NewMember, Source};
use crate::rebuild::Rebuild;
use crate::reopen::{OpenMember, OpenedMember, PathState, Reopener};
use crate::scrub::Scrub;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::label::assembly::{ArrayVerdict, FoundMember, LabelAssembly, assemble};
use mirrorball_core::label::{
    DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, DataId, LABEL_SLOTS, Label, LabelledArray, LabelledMember,
    Lineage, METADATA_BYTES, SCRUB_BYTES, SCRUB_OFFSET, Uuid, map_checksum, newest_label,
    newest_record, newest_scrub,
};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::Spec;
use mirrorball_core::volume::{Volume, VolumeLabels};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

const POLICIES: [&str; 4] = ["round-robin", "random", "crucible/read-all-first", "mirrorball/auto"];

/// Opens members again, as they are.
struct Opener {
    simulation: SimulatedWorld,
    files: Vec<ObjectId>,
}

impl Opener {
    /// What a member holds, if it has a label.
    fn found(&self, member: usize) -> Option<FoundMember> {
        let file = self.files[member];
        let read = |offset, length| self.simulation.read_file(file, offset, length);
        let slots = LABEL_SLOTS.map(|slot| read(slot, METADATA_BYTES));
        let newest = newest_label([&slots[0], &slots[1]]).ok()?;
        let log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
        let record = newest_record(&log, VOLUME, newest.found.member);
        let scrub = read(SCRUB_OFFSET, SCRUB_BYTES as usize);
        let scrub = newest_scrub(&scrub, VOLUME, newest.found.member);
        Some(FoundMember { newest, record, scrub })
    }

    fn source(&self, member: usize) -> Source {
        Source::Real(MemberFile {
            file: self.simulation.endpoint(self.files[member]),
            begin_bytes: 0,
            least_bytes: Some(MEMBER_BYTES),
        })
    }
}

impl OpenMember for Opener {
    fn open_again(&self, member: MemberIndex, _: u64) -> Result<OpenedMember, String> {
        self.simulation.sync_file(self.files[member.get()]);
        let (source, found) = (self.source(member.get()), self.found(member.get()));
        Ok(OpenedMember { source, found, notes: Vec::new() })
    }

    fn path_state(&self, _: MemberIndex, _: Option<FileId>) -> PathState {
        PathState::Same
    }
}

impl Machine {
    /// What the members with these indexes hold.
    fn assembled(&self, present: &[usize]) -> Option<(LabelAssembly, Vec<FoundMember>)> {
        let opener = self.opener();
        let found = present.iter().map(|&index| opener.found(index));
        let found = found.collect::<Option<Vec<FoundMember>>>()?;
        let assembly = (!found.is_empty()).then(|| assemble(&found, &[]))?;
        Some((assembly, found))
    }

    fn opener(&self) -> Opener {
        Opener { simulation: self.simulation.clone(), files: self.files.clone() }
    }

    /// Starts the volume from the members that work and are not left out. Without the newest data
    /// it may only start if the user says so, which this user does not.
    pub(super) fn start(&mut self, without: u8) -> Result<(), String> {
        let is_there = |index: &usize| {
            let is_gone =
                self.simulation.fault(self.files[*index]) == FileFault::Fails(Errno::NODEV);
            without >> index & 1 == 0 && !is_gone
        };
        let present: Vec<usize> = (0..self.files.len()).filter(is_there).collect();
        // The service flushes members before it reads their labels.
        present.iter().for_each(|&index| self.simulation.sync_file(self.files[index]));
        let all: Vec<usize> = (0..self.files.len()).collect();
        let Some((assembly, found)) = self.assembled(&present) else {
            return if present.is_empty() { Ok(()) } else { Err("a label is lost".to_owned()) };
        };
        let (whole, _) = self.assembled(&all).ok_or("a label is lost")?;
        let map = self.map();
        let has_newest = whole.newest.lineage == assembly.newest.lineage
            && whole.newest.generation == assembly.newest.generation;
        match assembly.verdict(&map) {
            ArrayVerdict::Start => {}
            ArrayVerdict::NeedsDegraded { .. } if has_newest => {}
            ArrayVerdict::NeedsDegraded { .. } | ArrayVerdict::Incomplete { .. } => return Ok(()),
            ArrayVerdict::Doubtful => {
                return Err(format!("members seem to be in doubt: {:?}", assembly.standings));
            }
        }
        self.tally.starts += 1;
        self.changes += 1;
        self.model.forget_reads();
        self.serve(&assembly, &found, &present)
    }

    fn serve(
        &mut self,
        assembly: &LabelAssembly,
        found: &[FoundMember],
        present: &[usize],
    ) -> Result<(), String> {
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
        let members = Members::new(configs.iter().cloned());
        let volume = Volume::new(map, members, policy, self.seed).with_labels(labels);
        let opener = Arc::new(self.opener());
        let member = |(index, config): (usize, &MemberConfig)| {
            let is_here = present.contains(&index) && config.state != MemberState::Failed;
            let source = if is_here { opener.source(index) } else { Source::Absent };
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
pub(super) fn new_label(profile: Profile, count: usize) -> Label {
    let member = |devid: u64| LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes: MEMBER_BYTES,
        state: MemberState::InSync,
        write_mostly: false,
        rotational: None,
        optimal_io_bytes: None,
        priority: 0,
    };
    let configs: Vec<MemberConfig> =
        (1..=count as u64).map(|devid| MemberConfig::new(devid, MEMBER_BYTES)).collect();
    let map = ChunkMap::allocate(profile, None, &configs);
    let map = map.expect("the members of a new volume fit its profile");
    Label {
        array: LabelledArray {
            uuid: VOLUME,
            name: "volume".to_owned(),
            profile,
            layout: map.layout(),
            stripe_width_max: None,
            block_bytes: 512,
            map_checksum: map_checksum(&map),
        },
        generation: 2,
        lineage: Lineage::new(DataId(1)),
        is_clean: true,
        resync_from: None,
        policy: "first".to_owned(),
        members: (1..=count as u64).map(member).collect(),
        is_read_only: false,
    }
}
