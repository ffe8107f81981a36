//! Creates a volume, and starts it from what its members hold: the assembly of the product decides.

use super::{Disk, Machine};
use crate::history::ExtraFaults;
use crate::server::MemberServer;
use crate::service::ServedVolume;
use crate::shape::HistoryShape;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_io::assemble::{self, Assembly, CreateOptions, LabelledError, LabelledOptions};
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::driver::Platform;
use mirrorball_io::driver::sim::{FileFault, ObjectId, SimulatedWorld};
use mirrorball_io::examine::{ExaminedVolume, examine_on, volumes};
use mirrorball_io::kept_policy::KeptPolicy;
use mirrorball_io::member::file::{Caching, MemberAccess, Occupied, OpenOptions};
use mirrorball_store::label::{Lineage, MemberLabel};
use std::sync::Arc;

const OPTIONS: OpenOptions = OpenOptions {
    access: MemberAccess::ReadWrite,
    caching: Caching::Direct,
    occupied: Occupied::Refuse,
    report_wait: |_| {},
};

/// Policies that read one mirror, two, all, or a part of each.
const POLICIES: [&str; 7] = [
    "round-robin",
    "random",
    "crucible/read-all-first",
    "random+hedge",
    "random+tied",
    "gmirror/split",
    "mirrorball/auto",
];

/// An empty disk, with a path or a server.
pub(super) fn new_disk(
    world: &SimulatedWorld,
    shape: &HistoryShape,
    number: usize,
    is_remote: bool,
) -> Disk {
    let file = world.add_file(shape.member_bytes);
    let address = match is_remote {
        true => format!("nbd://machine-{number}/disk"),
        false => format!("/simulated/disk-{number}"),
    };
    let server = is_remote.then(|| Arc::new(MemberServer::new(file, shape.member_bytes)));
    match &server {
        Some(server) => world.add_server(&address, server.clone()),
        None => world.set_path(&address, file),
    }
    let address = DeviceAddress::parse(&address).expect("a path or a URI");
    Disk { file, address, server, is_bad: false }
}

/// Creates the volume of a shape, and returns how it is laid out. If `cut`, all disks lose power
/// after so many writes, and it is created again; returns whether there were as many.
pub(crate) fn create(
    shape: &HistoryShape,
    world: &SimulatedWorld,
    disks: &[Disk],
    cut: Option<u64>,
) -> Result<(ChunkMap, bool), String> {
    if cut.is_none() {
        return Ok((create_once(shape, world, disks, Occupied::Refuse)?, false));
    }
    world.limit_writes(cut);
    let is_cut = create_once(shape, world, disks, Occupied::Refuse).is_err();
    world.limit_writes(None);
    disks.iter().for_each(|disk| world.lose_unsynced(disk.file));
    Ok((create_once(shape, world, disks, Occupied::Allow)?, is_cut))
}

fn create_once(
    shape: &HistoryShape,
    world: &SimulatedWorld,
    disks: &[Disk],
    occupied: Occupied,
) -> Result<ChunkMap, String> {
    let mut text = format!("name = 'volume'\nprofile = '{}'\n", shape.profile.name());
    for (row, disk) in disks.iter().enumerate() {
        let table = if row < shape.members { "member" } else { "spare" };
        let key = if disk.server.is_some() { "uri" } else { "path" };
        text += &format!("[[{table}]]\n{key} = '{}'\n", disk.address);
    }
    let array = ArrayFile::parse(&text, "volume.toml").map_err(|error| error.to_string())?.spec;
    let created = assemble::create(&CreateOptions {
        array: &array,
        name: "volume".to_owned(),
        policy: KeptPolicy { policy: "first".to_owned(), program: None },
        checksums: shape.has_checksums,
        options: OpenOptions { occupied, ..OPTIONS },
        platform: Platform::Simulated(world.clone()),
    });
    Ok(created.map_err(|error| error.to_string())?.map)
}

/// Returns true if more than half of the members are in sync.
fn has_majority(assembly: &Assembly) -> bool {
    let members = assembly.executor.volume().expect("it has labels").members();
    let in_sync = members.iter().filter(|(_, member)| member.state == MemberState::InSync);
    2 * in_sync.count() > members.len()
}

/// Returns true if a disk with this fault cannot be read.
fn is_lost(fault: FileFault) -> bool {
    matches!(fault, FileFault::Fails(_) | FileFault::Hangs)
}

impl Machine {
    /// Starts the volume from the members that work and are not left out. Disks that are no members
    /// any more are there, too, or not.
    pub(crate) fn start(&mut self, without: u8) -> Result<(), String> {
        let has_others = self.rng.below(2) == 0;
        self.start_from(without, has_others)
    }

    /// Starts the volume, from disks that are no members any more as well if `has_others`. Without
    /// the newest label it may only start if the user says so, which this user does not.
    pub(crate) fn start_from(&mut self, without: u8, has_others: bool) -> Result<(), String> {
        let is_there = |file: &ObjectId| {
            let row = self.rows.iter().position(|member| member == file);
            row.map_or(has_others, |row| without >> row & 1 == 0)
        };
        let all: Vec<ObjectId> = self.disks.iter().map(|disk| disk.file).collect();
        let mut present: Vec<ObjectId> = all.iter().copied().filter(is_there).collect();
        if self.shape.extra == ExtraFaults::Identity {
            // Disks may be found in any order.
            for index in (1..present.len()).rev() {
                present.swap(index, self.rng.below(index as u64 + 1) as usize);
            }
        }
        let mut assembled = self.assemble_present(&present, &all);
        if let Err(LabelledError::Doubtful { .. }) = assembled
            && has_others
        {
            // A disk that is no member any more may have been used without one that was replaced
            // since. Where no majority is in sync, the user leaves it out.
            present.retain(|disk| self.rows.contains(disk));
            let again = self.assemble_present(&present, &all);
            if !again.as_ref().is_ok_and(has_majority) {
                assembled = again;
            }
        }
        if let Err(LabelledError::Doubtful { .. }) = assembled
            && let forgotten = self.forgotten(&present)
            && !forgotten.is_empty()
        {
            let before = self.discarded.clone();
            self.discarded.extend(forgotten);
            let again = self.assemble_present(&present, &all);
            self.discarded = before;
            if !again.as_ref().is_ok_and(has_majority) {
                assembled = again;
            }
        }
        let has_lost_label = self.has_lost_label();
        match assembled {
            Ok(assembly) => self.serve(assembly),
            Err(
                LabelledError::NeedsDegraded { .. }
                | LabelledError::Incomplete { .. }
                | LabelledError::Announced(_)
                | LabelledError::Nothing,
            ) if !has_lost_label => Ok(()),
            Err(LabelledError::NeedsDegraded { .. } | LabelledError::Incomplete { .. })
            | Err(LabelledError::Announced(_) | LabelledError::Nothing) => self.refuse(),
            Err(LabelledError::Doubtful { .. }) if self.damage.has_bad_metadata => self.refuse(),
            Err(error) => Err(format!("the volume does not start: {error}")),
        }
    }

    /// The disks of members that left before all departures which the newest label lists: without a
    /// majority it is not known whether they were used alone. The user knows that they were not.
    fn forgotten(&self, present: &[ObjectId]) -> Vec<ObjectId> {
        let members = self.rows.iter().filter(|disk| present.contains(disk));
        let labels = members.filter_map(|&disk| Some((disk, self.label(disk)?)));
        let labels: Vec<(ObjectId, MemberLabel)> = labels.collect();
        let newest = labels.iter().map(|(_, found)| &found.label).max_by_key(|it| it.generation);
        let Some(newest) = newest.filter(|label| label.lineage.may_have_forgotten()) else {
            return Vec::new();
        };
        let Lineage { id, history } = &newest.lineage;
        let is_before = |MemberLabel { member, label }: &MemberLabel| {
            let own = label.lineage.id;
            let is_known = own == *id || history.iter().any(|past| past.id == own);
            let is_older = history.iter().all(|past| label.generation < past.until);
            is_older && !is_known && !newest.calls_in_sync(*member)
        };
        labels.iter().filter(|(_, found)| is_before(found)).map(|(disk, _)| *disk).collect()
    }

    /// Assembles these disks of all, with `--degraded` if the user allows it.
    fn assemble_present(
        &mut self,
        present: &[ObjectId],
        all: &[ObjectId],
    ) -> Result<Assembly, LabelledError> {
        let assembled = self.assemble(&self.addresses(present), false);
        match assembled {
            Err(LabelledError::NeedsDegraded { .. })
                if self.allows_degraded
                    || match self.has_lost_label() {
                        true => self.was_in_sync(present),
                        false => self.have_newest_label(present, all),
                    } =>
            {
                self.assemble(&self.addresses(present), true)
            }
            assembled => assembled,
        }
    }

    /// Ends the history: only the user can start the volume.
    fn refuse(&mut self) -> Result<(), String> {
        self.tally.refusals += 1;
        self.is_refused = true;
        Ok(())
    }

    /// Returns true if a crash took the label of a member of which a slot was damaged. It may have
    /// been the only one that had the newest label.
    fn has_lost_label(&self) -> bool {
        let mut disks = self.rows.iter().filter(|disk| self.damage.bad_labels.contains(disk));
        disks.any(|&disk| !self.has_label(disk))
    }

    /// Returns true if one of these disks that work was in sync when the service ended.
    fn was_in_sync(&self, present: &[ObjectId]) -> bool {
        let works = |fault| !is_lost(fault) && fault != FileFault::FailsWrites;
        let has_all = |file: &&ObjectId| {
            self.in_sync_at_end.contains(file) && works(self.world.fault(**file))
        };
        present.iter().filter(has_all).any(|&file| self.has_label(file))
    }

    pub(crate) fn addresses(&self, disks: &[ObjectId]) -> Vec<DeviceAddress> {
        disks.iter().map(|&file| self.disk(file).address.clone()).collect()
    }

    /// Assembles the volume as `serve --scan` does.
    pub(crate) fn assemble(
        &mut self,
        devices: &[DeviceAddress],
        degraded: bool,
    ) -> Result<Assembly, LabelledError> {
        let policy = POLICIES[self.rng.below(POLICIES.len() as u64) as usize];
        assemble::serve_labelled(LabelledOptions {
            devices: devices.to_vec(),
            is_scan: true,
            volume: None,
            discarded: self.addresses(&self.discarded),
            lost: Vec::new(),
            degraded,
            options: OPTIONS,
            peer_timeout: Nanos::from_secs(5),
            policy: Some(policy.to_owned()),
            registry: Registry::default(),
            platform: Platform::Simulated(self.world.clone()),
        })
    }

    /// The volume by the labels of disks, as if all worked.
    pub(crate) fn examine(&self, devices: &[DeviceAddress]) -> Option<ExaminedVolume> {
        let faults: Vec<FileFault> =
            self.disks.iter().map(|disk| self.world.fault(disk.file)).collect();
        let set_gone = |disk: &Disk, is_gone: bool| {
            disk.server.iter().for_each(|server| server.set_gone(is_gone));
        };
        for disk in &self.disks {
            self.world.set_fault(disk.file, FileFault::None);
            set_gone(disk, false);
        }
        let platform = Platform::Simulated(self.world.clone());
        let examined = examine_on(&platform, devices.to_vec());
        for (disk, &fault) in self.disks.iter().zip(&faults) {
            self.world.set_fault(disk.file, fault);
            set_gone(disk, matches!(fault, FileFault::Fails(_)));
        }
        let discarded: Vec<DeviceAddress> = self.addresses(&self.discarded);
        let is_discarded = |&index: &usize| discarded.contains(&examined[index].address);
        let discarded: Vec<usize> = (0..examined.len()).filter(is_discarded).collect();
        volumes(&examined, &discarded).pop()
    }

    /// Returns true if some of these disks that work have the newest label of all.
    fn have_newest_label(&self, present: &[ObjectId], all: &[ObjectId]) -> bool {
        let works = |&file: &ObjectId| !is_lost(self.world.fault(file));
        let present: Vec<ObjectId> = present.iter().copied().filter(works).collect();
        let newest = |disks: &[ObjectId]| {
            let volume = self.examine(&self.addresses(disks))?;
            let newest = volume.assembly.newest;
            Some((newest.lineage.clone(), newest.generation))
        };
        newest(&present) == newest(all)
    }

    fn serve(&mut self, assembly: Assembly) -> Result<(), String> {
        let opener = assembly.opener.clone().expect("members are real");
        let served = ServedVolume::new(assembly, &self.world);
        self.served = Some(served.map_err(|error| error.to_string())?);
        for row in 0..self.rows.len() {
            let address = opener.device(MemberIndex(row as u16));
            let disk = self.disks.iter().find(|disk| Some(&disk.address) == address.as_ref());
            if let Some(disk) = disk {
                self.rows[row] = disk.file;
            }
        }
        self.note_kept_at_start();
        self.tally.starts += 1;
        self.changes += 1;
        self.had_fault = !self.has_no_fault();
        self.oracle.forget_reads();
        let out_of_sync = (0..self.rows.len())
            .filter(|&row| self.state(row) != Some(MemberState::InSync))
            .count() as u64;
        self.tally.failures += out_of_sync;
        self.damage.has_lost_good |= out_of_sync > 0;
        if self.unsynced_bytes() > 0 && self.damage.has_lost_good {
            // Where a checksum is a hint, a damaged mirror counts that is the only one.
            self.give_up_rotten();
        }
        if self.rng.below(8) == 0 {
            self.swap_paths();
        }
        Ok(())
    }

    /// Has paths name other disks than when the members were found. The service that runs has them
    /// open, and a later one finds them by their labels.
    fn swap_paths(&mut self) {
        let local = |disk: &&mut Disk| disk.server.is_none();
        let mut locals: Vec<&mut Disk> = self.disks.iter_mut().filter(local).collect();
        let addresses: Vec<DeviceAddress> =
            locals.iter().map(|disk| disk.address.clone()).collect();
        for (index, disk) in locals.iter_mut().enumerate() {
            disk.address = addresses[(index + 1) % addresses.len()].clone();
            let path = disk.address.path().expect("a local disk has a path");
            self.world.set_path(path, disk.file);
        }
    }
}
