//! Which members a survey asks, and where.

use super::{Executor, Target};
use crate::member::Store;
use crate::survey::{InFile, InMemory, MEMORY_BYTES_MAX, STRETCHES_MAX, Stretch};
use mirrorball_core::policy::Mirror;

/// A survey of a target from some offset on.
pub(crate) enum Survey<'a> {
    /// That can be made at once.
    Memory(Vec<Stretch<InMemory<'a>>>),
    /// That may have to wait for disks.
    Files(Vec<Stretch<InFile>>),
}

impl Executor {
    /// A survey of a range that lies within the target, or of its beginning.
    pub(crate) fn survey(&self, target: Target, offset: u64, length: u64) -> Survey<'_> {
        let has_files =
            |store: &Store| !matches!(store, Store::EmulatedMemory(_) | Store::EmulatedNothing);
        match self.stations.iter().any(|station| has_files(&station.store)) {
            true => Survey::Files(self.stretches(target, offset, length, |place| self.file(place))),
            false => {
                let length = length.min(MEMORY_BYTES_MAX);
                Survey::Memory(self.stretches(target, offset, length, |place| self.memory(place)))
            }
        }
    }

    /// The parts of a range with their mirrors, each of which is found by `place`.
    fn stretches<P>(
        &self,
        target: Target,
        offset: u64,
        length: u64,
        place: impl Fn(&Mirror) -> Option<Vec<P>>,
    ) -> Vec<Stretch<P>> {
        let all = |mirrors: &[Mirror]| -> Option<Vec<P>> {
            let places: Option<Vec<Vec<P>>> = mirrors.iter().map(&place).collect();
            Some(places?.into_iter().flatten().collect())
        };
        let volume = match (target, &self.volume) {
            (Target::Volume, Some(volume)) => volume,
            (Target::Volume, None) => return vec![Stretch { length, places: None }],
            (Target::Member(member), _) => {
                let mirror = Mirror { member, offset, copy: 0 };
                return vec![Stretch { length, places: all(&[mirror]) }];
            }
        };
        let (mut stretches, mut done) = (Vec::new(), 0);
        while done < length && stretches.len() < STRETCHES_MAX {
            let extent = volume.map().map(offset + done, length - done);
            let of = |mirror: &Mirror| &volume.members()[mirror.member];
            // One that is being rebuilt may serve a part of it.
            let serves = |mirror: &&Mirror| of(mirror).in_sync(mirror.offset, 1);
            let serving: Vec<Mirror> = extent.mirrors().iter().filter(serves).copied().collect();
            let whole = serving.iter().any(|it| of(it).in_sync(it.offset, extent.length));
            let places = if whole { all(&serving) } else { None };
            stretches.push(Stretch { length: extent.length, places });
            done += extent.length;
        }
        stretches
    }

    /// A place in memory; none of a member that keeps nothing, and is a hole.
    fn memory(&self, mirror: &Mirror) -> Option<Vec<InMemory<'_>>> {
        match &self.stations[mirror.member.get()].store {
            Store::EmulatedMemory(store) => Some(vec![InMemory { store, offset: mirror.offset }]),
            Store::EmulatedNothing => Some(Vec::new()),
            _ => None,
        }
    }

    fn file(&self, mirror: &Mirror) -> Option<Vec<InFile>> {
        let (handle, begin_bytes) = match &self.stations[mirror.member.get()].store {
            Store::Real { handle, begin_bytes, .. } => (*handle, *begin_bytes),
            Store::EmulatedFile(handle) => (*handle, 0),
            _ => return None,
        };
        let file = self.driver.share(handle);
        Some(vec![InFile { file, offset: begin_bytes + mirror.offset }])
    }
}
