//! What a start does with the journals of members, before the volume is served.

use super::Machine;
use super::start::{Assembled, disk_address};
use crate::assemble::journal::{checkpoints, labels_before_recovery, needs_absence, recovery};
use crate::assemble::labelled::{LabelledError, starts, without_unreadable};
use crate::driver::sim::ObjectId;
use crate::examine::{ExaminedDevice, volumes};
use crate::member::file::MemberAccess;
use mirrorball_core::label::assembly::FoundMember;
use mirrorball_core::label::{DataId, JournalRecovery};
use mirrorball_core::member::MemberIndex;

impl Machine {
    /// The disks whose data are given up because their journals cannot be used, and those of which
    /// the user gives them up; `None` if the volume cannot do without one.
    pub(super) fn unusable(&self, assembled: &Assembled) -> Result<Option<Vec<ObjectId>>, String> {
        let Assembled { found, disks, left_out, .. } = assembled;
        let device = |(&disk, found): (&ObjectId, &FoundMember)| {
            ExaminedDevice::new(disk_address(disk), Ok(found.clone()))
        };
        let devices: Vec<ExaminedDevice> = disks.iter().zip(found).map(device).collect();
        let volume = volumes(&devices, left_out).pop().ok_or("all disks are given up")?;
        let read = |index: usize, offset, length: u32| {
            Ok(self.simulation.read_file(disks[index], offset, length as usize))
        };
        let (access, mut notes) = (MemberAccess::ReadWrite, Vec::new());
        match without_unreadable(volume, left_out, &devices, access, read, starts, &mut notes) {
            Ok((_, left_out)) => Ok(Some(left_out.into_iter().map(|it| disks[it]).collect())),
            Err(LabelledError::Journal { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes labels without the members that are missing, before entries of the journal are
    /// written again; now and then only some, until the power fails. Returns false if there is no
    /// need.
    pub(super) fn record_absence(&mut self, assembled: &Assembled) -> bool {
        let Assembled { assembly, found, left_out, .. } = assembled;
        if !needs_absence(&self.recovery(assembled), left_out) {
            return false;
        }
        let id = DataId(self.rng.next_u64().max(1));
        let writes = labels_before_recovery(assembly, found, id);
        let interrupted = self.rng.below(2 * writes.len() as u64 + 1) as usize;
        for (member, offset, bytes) in writes.iter().take(interrupted) {
            let disk = self.rows[member.get()];
            self.simulation.write_file(disk, *offset, bytes);
            self.simulation.sync_file(disk);
        }
        !writes.is_empty()
    }

    /// What the journals say.
    fn recovery(&self, assembled: &Assembled) -> JournalRecovery {
        let read = |member: MemberIndex, offset, length: u32| {
            Ok(self.simulation.read_file(self.rows[member.get()], offset, length as usize))
        };
        recovery(&assembled.assembly, read).expect("simulated disks are read")
    }

    /// Writes again what a crash interrupted. Now and then the power fails midway, and it is begun
    /// again.
    pub(super) fn replay(&mut self, assembled: &Assembled) -> JournalRecovery {
        let mut recovery = self.recovery(assembled);
        self.tally.replays += u64::from(!recovery.replays.is_empty());
        let count = recovery.replays.len();
        let interrupted = self.rng.below(count as u64 + 1) as usize;
        for replay in recovery.replays[..interrupted].iter().chain(&recovery.replays) {
            let disk = self.rows[replay.member.get()];
            self.simulation.write_file(disk, replay.offset, &replay.data);
            self.simulation.sync_file(disk);
        }
        recovery.torn.clear();
        let checkpoints = checkpoints(&assembled.assembly, &mut recovery);
        let interrupted = self.rng.below(4 * checkpoints.len() as u64 + 1) as usize;
        for (member, offset, bytes) in checkpoints.iter().take(interrupted) {
            let disk = self.rows[member.get()];
            self.simulation.write_file(disk, *offset, bytes);
            self.simulation.sync_file(disk);
        }
        recovery
    }
}
