//! Faults of disks that they report, and their end.

use super::Machine;
use crate::history::{BLOCKS, DiskFault};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_io::driver::sim::{FileFault, ObjectId};
use mirrorball_store::label::{BAD_BLOCKS_BYTES, BAD_BLOCKS_OFFSET};
use rustix::io::Errno;

impl Machine {
    pub(super) fn break_member(&mut self, row: usize, fault: DiskFault) {
        let file = self.rows[row];
        if let DiskFault::Sectors { block } = fault {
            return self.lose_sectors(row, block);
        }
        self.on_member_lost();
        self.disk_mut(file).is_bad = true;
        if fault == DiskFault::Reads {
            self.damage.lost.extend(0..BLOCKS);
        }
        let server = self.disk(file).server.clone();
        if let (Some(server), DiskFault::Gone) = (&server, fault) {
            server.set_gone(true);
            server.shut_down(&self.world);
            self.world.lose_unsynced(file);
            if self.served.is_none() && !self.was_stopped {
                // The mirrors may be synchronised from this one, as it was the first.
                self.oracle.end_run(false);
            }
        }
        if let DiskFault::Hangs { millis } = fault {
            self.hanging.push((self.world.now() + Nanos::from_millis(millis), file));
        }
        self.world.set_fault(
            file,
            match fault {
                DiskFault::Gone => FileFault::Fails(Errno::NODEV),
                DiskFault::Reads => FileFault::FailsReads(3),
                DiskFault::Flush => FileFault::FailsNextSync,
                DiskFault::Write => FileFault::FailsNextWrite(0, u64::MAX),
                DiskFault::ReadOnly => FileFault::FailsWrites,
                DiskFault::BadBlocks => {
                    let end = BAD_BLOCKS_OFFSET + u64::from(BAD_BLOCKS_BYTES);
                    FileFault::FailsNextWrite(BAD_BLOCKS_OFFSET, end)
                }
                DiskFault::Hangs { .. } => FileFault::Hangs,
                DiskFault::Sectors { .. } => unreachable!("it ends with a write"),
            },
        );
    }

    /// Ends the faults of a disk. One that was gone without power lost what it had not flushed; the
    /// service knows that it was gone if it failed.
    pub(super) fn mend(&mut self, file: ObjectId) {
        if self.world.fault(file) == FileFault::SyncsNothing {
            return;
        }
        let row = self.rows.iter().position(|&other| other == file);
        let is_failed = row.is_some_and(|row| self.state(row) == Some(MemberState::Failed));
        let is_gone = matches!(self.world.fault(file), FileFault::Fails(_));
        if is_gone && is_failed && self.rng.below(2) == 0 {
            self.world.lose_unsynced(file);
        }
        self.changes += 1;
        let disk = self.disk_mut(file);
        disk.is_bad = false;
        disk.server.iter().for_each(|server| server.set_gone(false));
        self.world.set_fault(file, FileFault::None);
    }

    /// Ends the faults of all disks, but for flushes that lie.
    pub(crate) fn mend_all(&mut self) {
        for file in self.disks.iter().map(|disk| disk.file).collect::<Vec<_>>() {
            self.world.misdirect(file, None);
            self.mend(file);
        }
    }

    pub(super) fn disconnect(&mut self, row: usize) {
        if let Some(server) = &self.disk(self.rows[row]).server {
            server.disconnect(&self.world);
            self.on_member_lost();
        }
    }

    /// Notes that a member may be lost, or serve other data than before where writes were not
    /// flushed.
    pub(crate) fn on_member_lost(&mut self) {
        self.changes += 1;
        (self.damage.has_lost_good, self.had_fault) = (true, true);
        self.oracle.forget_reads();
        self.on_records_lost();
    }

    /// Ends the faults of disks that hung for long enough.
    pub(super) fn end_hangs(&mut self) {
        let now = self.world.now();
        for (_, file) in self.hanging.extract_if(.., |(at, _)| *at <= now) {
            if self.world.fault(file) == FileFault::Hangs {
                self.world.set_fault(file, FileFault::None);
                let disk = self.disks.iter_mut().find(|disk| disk.file == file);
                disk.into_iter().for_each(|disk| disk.is_bad = false);
            }
        }
    }
}
