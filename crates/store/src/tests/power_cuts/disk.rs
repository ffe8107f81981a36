//! A disk with a volatile cache: what was not flushed may be lost, sector by sector.

use mirrorball_core::io::IoId;
use std::collections::BTreeMap;
use std::ops::Range;

pub(super) const SECTOR: u64 = 512;

pub(super) type Sectors = BTreeMap<u64, [u8; SECTOR as usize]>;

/// A write that a disk took and has not flushed.
pub(super) struct Cached {
    pub(super) sectors: Range<u64>,
    pub(super) data: Sectors,
    pub(super) is_done: bool,
    pub(super) id: IoId,
}

#[derive(Default)]
pub(super) struct Disk {
    pub(super) durable: Sectors,
    pub(super) cache: Vec<Cached>,
    pub(super) is_gone: bool,
}

impl Disk {
    pub(super) fn now(&self) -> Sectors {
        let mut sectors = self.durable.clone();
        self.cache.iter().for_each(|write| apply(&mut sectors, write, |_| true));
        sectors
    }

    pub(super) fn read(&self, sectors: Range<u64>) -> Sectors {
        let mut read: Sectors =
            self.durable.range(sectors.clone()).map(|(&at, &bytes)| (at, bytes)).collect();
        for write in &self.cache {
            let is_wanted = |at: u64| sectors.contains(&at);
            apply(&mut read, write, is_wanted);
        }
        read
    }

    pub(super) fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let first = offset / SECTOR;
        let sectors = self.read(first..first + length as u64 / SECTOR);
        let mut bytes = vec![0; length];
        for (at, sector) in sectors {
            let start = ((at - first) * SECTOR) as usize;
            bytes[start..start + SECTOR as usize].copy_from_slice(&sector);
        }
        bytes
    }

    /// Ends what was in flight when the disk was lost, and flushes: a member is flushed before its
    /// label is read, because the label may be in a volatile cache, where the update that follows
    /// must not rely on it.
    pub(super) fn settle(&mut self) {
        for write in std::mem::take(&mut self.cache).iter().filter(|write| write.is_done) {
            apply(&mut self.durable, write, |_| true);
        }
    }

    /// Loses power: `survives` decides for each sector that is not durable.
    pub(super) fn cut(&mut self, mut survives: impl FnMut() -> bool) {
        for write in std::mem::take(&mut self.cache) {
            apply(&mut self.durable, &write, |_| survives());
        }
        self.is_gone = false;
    }
}

/// Applies the sectors of a write that `is_wanted`.
pub(super) fn apply(sectors: &mut Sectors, write: &Cached, mut is_wanted: impl FnMut(u64) -> bool) {
    let old: Vec<u64> = sectors.range(write.sectors.clone()).map(|(&at, _)| at).collect();
    let new = write.data.keys().copied();
    let mut changed: Vec<u64> = old.into_iter().chain(new).collect();
    changed.sort_unstable();
    changed.dedup();
    for at in changed.into_iter().filter(|&at| is_wanted(at)) {
        match write.data.get(&at) {
            Some(bytes) => drop(sectors.insert(at, *bytes)),
            None => drop(sectors.remove(&at)),
        }
    }
}
