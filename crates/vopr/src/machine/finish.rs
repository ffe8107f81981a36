//! The end of a history: the volume recovers, and all that it holds is compared.

use super::clients::ClientRequest;
use super::{Machine, RECOVERY_TIME_MAX};
use crate::history::{BLOCKS, End};
use crate::service::ServedVolume;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::policy::Mirror;
use mirrorball_core::units::Nanos;
use mirrorball_io::executor::SCRUB_BLOCK_BYTES;
use std::ops::Range;

impl Machine {
    /// Mends everything, lets the volume recover, and compares the mirrors.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
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
        if self.is_refused {
            return Ok(());
        }
        if self.served.is_none() {
            return Err("the volume does not start with all disks".to_owned());
        }
        self.read_all()?;
        self.read_all()?;
        self.is_loaded = self.shape.seed.is_multiple_of(4);
        self.recover()?;
        if self.is_loaded && self.tally.damages == 0 {
            self.scrub_to_end(false, None)?;
        }
        self.is_loaded = false;
        self.settle()?;
        self.read_all()?;
        // Where the good mirror was lost, the user has another copy.
        for block in 0..BLOCKS {
            let is_damaged = self.damage.has_bad_metadata || !self.is_promised(block);
            // The mirror that took a write which a crash cut does not match its checksum.
            let is_cut = self.is_listed(block) && self.oracle.possible(block).len() > 1;
            if self.shape.has_checksums && is_damaged || is_cut || self.is_lost(block) {
                self.submit(ClientRequest::Write, block);
                self.settle()?;
            }
        }
        if self.tally.damages > 0 || self.has_bad_blocks() {
            self.repair_damage()?;
        }
        if self.has_bad_blocks() {
            return Err("bad blocks are left after they were repaired".to_owned());
        }
        // Between the blocks of the clients a misdirected write may have left some for good.
        let bad = self.served.as_ref().map_or(Vec::new(), |served| served.store().bad_blocks());
        if !bad.is_empty() && !self.damage.may_differ {
            return Err(format!("blocks are listed as bad without damage: {bad:?}"));
        }
        self.find_damage()?;
        self.end(End::Stop)?;
        self.compare(&bad)
    }

    pub(crate) fn read_all(&mut self) -> Result<(), String> {
        for block in 0..BLOCKS {
            self.submit(ClientRequest::Read, block);
            self.settle()?;
        }
        Ok(())
    }

    /// Waits until all members are in sync, all mirrors synchronised and all members copied that
    /// are replaced. A disk that failed before it had its first label has to be replaced again.
    pub(crate) fn recover(&mut self) -> Result<(), String> {
        let deadline = self.world.now() + RECOVERY_TIME_MAX;
        while self.world.now() < deadline {
            if self.is_loaded {
                self.load();
            }
            self.turn(Nanos::from_secs(1))?;
            let mut rows = 0..self.rows.len();
            let is_in_sync = |row| self.state(row) == Some(MemberState::InSync);
            let is_copying = self.served.as_ref().is_some_and(ServedVolume::is_copying);
            if rows.clone().all(is_in_sync) && self.unsynced_bytes() == 0 && !is_copying {
                return Ok(());
            }
            let failed = rows.find(|&row| self.state(row) == Some(MemberState::Failed));
            let is_busy = self.served.as_ref().is_some_and(|served| served.has_commands());
            if let Some(member) = failed.filter(|_| !is_busy) {
                self.replace(member);
            }
        }
        Err("the volume does not recover".to_owned())
    }

    /// Damages a copy of some data without an error, and has it found and repaired: from most
    /// mirrors, or from the other one of two, which the user names.
    fn find_damage(&mut self) -> Result<(), String> {
        self.cancel_scrub()?;
        let blocks = self.map.capacity_bytes() / SCRUB_BLOCK_BYTES;
        let mapped = self.map.map(self.rng.below(blocks) * SCRUB_BLOCK_BYTES, SCRUB_BLOCK_BYTES);
        let mirror = mapped.mirrors[self.rng.below(mapped.mirrors.len() as u64) as usize];
        let other = mapped.mirrors.iter().find(|it| it.member != mirror.member);
        let other = other.ok_or("a block has a single mirror")?;
        let file = self.rows[mirror.member.get()];
        let good = self.world.read_file(file, mirror.offset, 1);
        let bad = [good[0] ^ 1 << self.rng.below(8)];
        self.world.write_file(file, mirror.offset, &bad);
        self.damage.may_differ = true;
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
        match self.world.read_file(file, mirror.offset, 1) == good {
            true => Ok(()),
            false => Err("a repair kept the damaged copy".to_owned()),
        }
    }

    /// All mirrors hold the same, but what is listed as bad on a member.
    pub(crate) fn compare(&self, bad: &[(MemberIndex, Range<u64>)]) -> Result<(), String> {
        const STEP_BYTES: u64 = 1 << 20;
        let capacity_bytes = self.map.capacity_bytes();
        for offset in (0..capacity_bytes).step_by(STEP_BYTES as usize) {
            let end = capacity_bytes.min(offset + STEP_BYTES);
            if self.holds_same(offset..end, &[]) {
                continue;
            }
            for block in (offset..end).step_by(SCRUB_BLOCK_BYTES as usize) {
                let block = block..end.min(block + SCRUB_BLOCK_BYTES);
                if !self.holds_same(block.clone(), bad) {
                    return Err(format!("mirrors differ in the block at offset {}", block.start));
                }
            }
        }
        Ok(())
    }

    /// Returns true if all mirrors hold the same in a range of the volume, but those of members
    /// that lack a part of it.
    fn holds_same(&self, range: Range<u64>, bad: &[(MemberIndex, Range<u64>)]) -> bool {
        let is_listed = |mirror: &&Mirror| {
            let mut own = bad.iter().filter(|(member, _)| *member == mirror.member);
            own.any(|(_, bad)| bad.start < range.end && range.start < bad.end)
        };
        let mut offset = range.start;
        while offset < range.end {
            let mapped = self.map.map(offset, range.end - offset);
            let copy = |mirror: &Mirror| (self.rows[mirror.member.get()], mirror.offset);
            let mut good = mapped.mirrors.iter().filter(|mirror| !is_listed(mirror)).map(copy);
            let first = good.next();
            let is_equal = |other| {
                first.is_some_and(|first| self.world.holds_same(first, other, mapped.length))
            };
            if !good.all(is_equal) {
                return false;
            }
            offset += mapped.length;
        }
        true
    }
}
