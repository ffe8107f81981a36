//! The clients of a tortured volume: their requests, and what the replies say.

use super::super::history::BLOCKS;
use super::super::model::{BLOCK_BYTES, contents};
use super::{Machine, Pending, TURNS_MAX, offset_of};
use crate::driver::buffers::Slice;
use crate::driver::{EventOwner, Token};
use crate::executor::{IoReply, IoRequest, Target};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;

impl Machine {
    /// Writes all blocks, so that each has a checksum.
    pub(super) fn write_all(&mut self) -> Result<(), String> {
        for block in 0..BLOCKS {
            self.submit(RequestKind::Write, block);
        }
        self.settle()?;
        self.submit(RequestKind::Flush, 0);
        self.settle()
    }

    pub(super) fn submit(&mut self, kind: RequestKind, block: u64) {
        let Some(served) = &mut self.served else { return };
        let executor = &mut served.executor;
        let has_data = kind != RequestKind::Flush;
        let buffer = has_data.then(|| executor.driver.acquire(BLOCK_BYTES));
        let acknowledged = self.model.acknowledged();
        let possible = self.model.possible(block);
        let mut value = 0;
        if let (RequestKind::Write, Some(buffer)) = (kind, buffer) {
            self.changes += 1;
            if self.rotten.remove(&block) {
                // A crash may leave the damaged mirror as it is, and a checksum that none matches.
                self.model.damage(block);
            }
            value = self.model.begin_write(block);
            let slice = Slice::data(buffer, 0, BLOCK_BYTES);
            executor.driver.bytes_mut(slice).copy_from_slice(&contents(block, value));
        }
        let offset = offset_of(executor.size_bytes(Target::Volume), block);
        let key = served.next_key;
        served.next_key += 1;
        let changes = self.changes;
        let pending = Pending { kind, block, value, buffer, acknowledged, possible, changes };
        served.pending.insert(key, pending);
        executor.submit(IoRequest {
            token: Token::new(EventOwner::NbdRequest, key),
            target: Target::Volume,
            kind,
            offset: if has_data { offset } else { 0 },
            length: if has_data { BLOCK_BYTES as u64 } else { 0 },
            buffer,
            stream: 7,
        });
    }

    pub(super) fn on_reply(&mut self, reply: IoReply) -> Result<(), String> {
        self.tally.replies += 1;
        let served = self.served.as_mut().expect("a reply comes from a served volume");
        let pending = served.pending.remove(&reply.token.key()).expect("one reply to a request");
        let Pending { kind, block, value, buffer, acknowledged, possible, changes } = pending;
        let bytes = buffer.map(|buffer| {
            let driver = &mut served.executor.driver;
            let bytes = driver.bytes(Slice::data(buffer, 0, BLOCK_BYTES)).to_vec();
            driver.release(buffer);
            bytes
        });
        let is_well = !self.disks.iter().any(|disk| disk.is_bad && self.rows.contains(&disk.file));
        let states = served.executor.volume().into_iter().flat_map(|it| it.members().iter());
        let all_in_sync = states.into_iter().all(|(_, it)| it.state == MemberState::InSync);
        match (kind, reply.result) {
            (RequestKind::Write, result) => {
                self.changes += 1;
                self.model.end_write(block, value, result.is_ok());
                if result.is_ok() && is_well {
                    self.on_written();
                }
            }
            (RequestKind::Flush, Ok(())) => self.model.end_flush(&acknowledged),
            (RequestKind::Read, Ok(())) => {
                let bytes = bytes.expect("a read has a buffer");
                if self.has_lost_good && self.rotten.remove(&block) {
                    // Where a checksum is a hint, a damaged mirror counts that is the only one.
                    self.model.damage(block);
                }
                self.tally.unpromised += u64::from(self.model.is_damaged(block));
                let may_change = changes != self.changes || !is_well || !all_in_sync;
                let since = acknowledged[block as usize];
                self.model.end_read(block, since, &possible, &bytes, may_change)?;
            }
            _ => {}
        }
        match reply.result {
            // The good mirror may have been lost, or a record of the dirty log.
            Err(VolumeError::Unreadable)
                if self.has_checksums && (self.has_bad_metadata || !self.is_promised(block)) =>
            {
                Ok(())
            }
            Err(VolumeError::Unreadable) if is_well && all_in_sync && changes == self.changes => {
                Err(format!("{kind:?} of block {block} failed, though all members are well"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if no mirror of a block is damaged.
    pub(super) fn is_promised(&self, block: u64) -> bool {
        !self.rotten.contains(&block) && !self.model.is_damaged(block)
    }

    /// Lets the requests in flight end.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.served.as_ref().is_none_or(|served| served.pending.is_empty()) {
                return Ok(());
            }
            self.turn(Nanos::from_millis(100))?;
        }
        Err("requests do not end".to_owned())
    }
}
