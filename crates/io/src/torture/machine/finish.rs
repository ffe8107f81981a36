//! The end of a history: the volume recovers, and all that it holds is compared.

use super::super::history::{BLOCKS, End, Operation};
use super::clients::ClientRequest;
use super::{Machine, TURNS_MAX};
use crate::driver::sim::FileFault;
use crate::executor::SCRUB_BLOCK_BYTES;
use crate::scrub::ScrubRequest;
use mirrorball_core::member::MemberState;
use mirrorball_core::policy::Mirror;
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use mirrorball_store::label::{ScrubProgress, ScrubState};

impl Machine {
    /// Mends everything, lets the volume recover, and compares the mirrors.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.end(End::Stop)?;
        self.mend_all();
        self.start(0)?;
        if self.is_refused {
            return Ok(());
        }
        if self.served.is_none() {
            // A disk that was replaced while its mirror was gone may be the only one that has the
            // newest label.
            self.start_from(0, true)?;
        }
        if self.served.is_none() {
            return Err("the volume does not start with all disks".to_owned());
        }
        for block in (0..BLOCKS).chain(0..BLOCKS) {
            self.submit(ClientRequest::Read, block);
            self.settle()?;
        }
        for turn in 0.. {
            self.turn(Nanos::from_secs(1))?;
            let Some(volume) = self.volume() else { break };
            let states: Vec<MemberState> =
                volume.members().iter().map(|(_, member)| member.state).collect();
            let all_in_sync = states.iter().all(|&state| state == MemberState::InSync);
            if all_in_sync && volume.gate().map_or(0, StoreGate::unsynced_bytes) == 0 {
                break;
            }
            // A disk that failed before it had its first label has to be replaced again.
            let failed = states.iter().position(|&state| state == MemberState::Failed);
            if let Some(member) = failed.filter(|_| !self.has_commands()) {
                self.perform(Operation::Replace { member })?;
            }
            if turn == TURNS_MAX {
                return Err("the volume does not recover".to_owned());
            }
        }
        for block in 0..BLOCKS {
            self.submit(ClientRequest::Read, block);
            self.settle()?;
        }
        // Where the good mirror was lost, the user has another copy.
        for block in 0..if self.has_checksums { BLOCKS } else { 0 } {
            if self.has_bad_metadata || !self.is_promised(block) {
                self.submit(ClientRequest::Write, block);
                self.settle()?;
            }
        }
        if self.tally.damages > 0 {
            self.repair_damage()?;
        }
        self.scrub()?;
        self.end(End::Stop)?;
        self.compare()
    }

    /// Ends the faults of all disks, but for flushes that lie.
    fn mend_all(&mut self) {
        for file in self.disks.iter().map(|disk| disk.file).collect::<Vec<_>>() {
            self.simulation.misdirect(file, None);
            if self.simulation.fault(file) != FileFault::SyncsNothing {
                self.disk(file).is_bad = false;
                self.simulation.set_fault(file, FileFault::None);
            }
        }
    }

    /// Damages a copy of some data without an error, and has it found and repaired: from most
    /// mirrors, or from the other one of two, which the user names.
    fn scrub(&mut self) -> Result<(), String> {
        self.end_scrub()?;
        let map = self.map();
        let offset = self.rng.below(map.capacity_bytes() / SCRUB_BLOCK_BYTES) * SCRUB_BLOCK_BYTES;
        let mapped = map.map(offset, SCRUB_BLOCK_BYTES);
        let mirror = mapped.mirrors()[self.rng.below(mapped.mirrors().len() as u64) as usize];
        let other = mapped.mirrors().iter().find(|it| it.member != mirror.member);
        let other = other.ok_or("a block has a single mirror")?;
        let file = self.rows[mirror.member.get()];
        let good = self.simulation.read_file(file, mirror.offset, 1);
        let bad = [good[0] ^ 1 << self.rng.below(8)];
        self.simulation.write_file(file, mirror.offset, &bad);
        self.may_differ = true;
        for repairs in [false, true] {
            let from = Some(u64::from(other.member.0) + 1).filter(|_| repairs);
            let progress = self.scrub_to_end(repairs, from)?;
            // With a checksum, the block is repaired as soon as it is found.
            let by_checksum = (progress.mismatched_blocks, repairs) == (1, false);
            let is_found = by_checksum
                || progress.differing_blocks == 1 && progress.repaired_blocks == u64::from(repairs);
            if !is_found {
                return Err(format!("a scrub found {progress:?}, not the block that was damaged"));
            }
            if by_checksum {
                break;
            }
        }
        match self.simulation.read_file(file, mirror.offset, 1) == good {
            true => Ok(()),
            false => Err("a repair kept the damaged copy".to_owned()),
        }
    }

    /// Ends the scrub that goes on, if there is one, and waits for its step in flight: it could
    /// repair what is damaged before another scrub starts.
    fn end_scrub(&mut self) -> Result<(), String> {
        self.cancel_scrub()?;
        for _ in 0..TURNS_MAX {
            if self.served.as_ref().is_none_or(|served| served.front.executor().is_idle()) {
                return Ok(());
            }
            self.turn(Nanos::from_millis(1))?;
        }
        Err("a scrub that was cancelled does not end".to_owned())
    }

    /// Runs a scrub, in the place of one that goes on.
    fn scrub_to_end(&mut self, repairs: bool, from: Option<u64>) -> Result<ScrubProgress, String> {
        self.restart_scrub(ScrubRequest { repairs, from, rate: None })?;
        for _ in 0..TURNS_MAX {
            self.turn(Nanos::from_secs(1))?;
            let served = self.served.as_ref();
            let progress = served.and_then(|served| served.front.scrub_progress());
            if let Some(progress) = progress.filter(|it| it.state == ScrubState::Finished) {
                return Ok(progress);
            }
        }
        Err("a scrub does not end".to_owned())
    }

    /// All mirrors hold the same.
    fn compare(&self) -> Result<(), String> {
        const STEP_BYTES: u64 = 1 << 20;
        let map = self.map();
        let mut offset = 0;
        while offset < map.capacity_bytes() {
            let mapped = map.map(offset, STEP_BYTES.min(map.capacity_bytes() - offset));
            let copy = |mirror: &Mirror| (self.rows[mirror.member.get()], mirror.offset);
            let (first, others) = mapped.mirrors().split_first().ok_or("a block has no mirror")?;
            let is_equal = |other: &Mirror| {
                self.simulation.holds_same(copy(first), copy(other), mapped.length)
            };
            if !others.iter().all(is_equal) {
                return Err(format!("mirrors differ in the MiB at offset {offset}"));
            }
            offset += mapped.length;
        }
        Ok(())
    }
}
