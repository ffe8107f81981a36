//! The members and offsets that a block status query looks at.

use super::{Executor, Target};
use crate::block_status::{FileSource, MEMORY_BYTES_MAX, SEGMENTS_MAX, StatusSegment};
use crate::member::Store;
use crate::member::memory::MemorySource;
use mirrorball_core::policy::Mirror;

/// A block status query that was mapped to members.
pub(crate) enum StatusQuery<'a> {
    /// All members are in memory: can be answered at once.
    Memory(Vec<StatusSegment<MemorySource<'a>>>),
    /// Members have files: may have to wait for disks.
    Files(Vec<StatusSegment<FileSource>>),
}

impl Executor {
    /// Maps a block status query of a range, or of the first part of it.
    pub(crate) fn status_query(&self, target: Target, offset: u64, length: u64) -> StatusQuery<'_> {
        let has_files =
            |store: &Store| !matches!(store, Store::EmulatedMemory(_) | Store::EmulatedNothing);
        match self.slots.iter().any(|slot| has_files(&slot.store)) {
            true => StatusQuery::Files(
                self.segments(target, offset, length, |source| self.file(source)),
            ),
            false => {
                let length = length.min(MEMORY_BYTES_MAX);
                StatusQuery::Memory(
                    self.segments(target, offset, length, |source| self.memory(source)),
                )
            }
        }
    }

    /// The segments of a range, with the mirrors of each as `source` returns them.
    fn segments<P>(
        &self,
        target: Target,
        offset: u64,
        length: u64,
        source: impl Fn(&Mirror) -> Option<Vec<P>>,
    ) -> Vec<StatusSegment<P>> {
        let all = |mirrors: &[Mirror]| -> Option<Vec<P>> {
            let sources: Option<Vec<Vec<P>>> = mirrors.iter().map(&source).collect();
            Some(sources?.into_iter().flatten().collect())
        };
        let volume = match (target, &self.volume) {
            (Target::Volume, Some(volume)) => volume,
            (Target::Volume, None) => return vec![StatusSegment { length, sources: None }],
            (Target::Member(member), _) => {
                let mirror = Mirror { member, offset, copy: 0 };
                return vec![StatusSegment { length, sources: all(&[mirror]) }];
            }
        };
        let (mut segments, mut done) = (Vec::new(), 0);
        while done < length && segments.len() < SEGMENTS_MAX {
            let extent = volume.map().map(offset + done, length - done);
            let of = |mirror: &Mirror| &volume.members()[mirror.member];
            // A member that is being rebuilt may hold a part of it.
            let serves = |mirror: &&Mirror| of(mirror).is_in_sync(mirror.offset, 1);
            let serving: Vec<Mirror> = extent.mirrors.iter().filter(serves).copied().collect();
            let whole = serving.iter().any(|it| of(it).is_in_sync(it.offset, extent.length));
            let sources = if whole { all(&serving) } else { None };
            segments.push(StatusSegment { length: extent.length, sources });
            done += extent.length;
        }
        segments
    }

    /// The memory of a mirror; an empty list for a member without data, which is a hole.
    fn memory(&self, mirror: &Mirror) -> Option<Vec<MemorySource<'_>>> {
        match &self.slots[mirror.member.get()].store {
            Store::EmulatedMemory(store) => {
                Some(vec![MemorySource { store, offset: mirror.offset }])
            }
            Store::EmulatedNothing => Some(Vec::new()),
            _ => None,
        }
    }

    fn file(&self, mirror: &Mirror) -> Option<Vec<FileSource>> {
        let (Store::Real(handle) | Store::EmulatedFile(handle)) =
            &self.slots[mirror.member.get()].store
        else {
            return None;
        };
        Some(vec![FileSource { file: self.driver.share(*handle)?, offset: mirror.offset }])
    }
}
