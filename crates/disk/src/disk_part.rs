//! A part of a disk, such as a partition: the disk sees each I/O further in.
//!
//! The model below is the whole disk, so the seeks of a part are short ones, at the place where the
//! part lies. The other parts are idle. Faults lie above: their offsets count from the start of the
//! part.

use crate::model::{Completion, DiskIo, Model};
use mirrorball_core::io::Op;
use mirrorball_core::units::Nanos;

/// A disk of which only the bytes from `begin_bytes` on are used.
#[derive(Clone)]
pub(crate) struct DiskPart {
    disk: Box<dyn Model>,
    begin_bytes: u64,
}

impl DiskPart {
    /// The part of `disk` that starts at `begin_bytes`.
    pub(crate) fn new(disk: Box<dyn Model>, begin_bytes: u64) -> DiskPart {
        DiskPart { disk, begin_bytes }
    }

    fn on_disk(&self, io: DiskIo) -> DiskIo {
        match io.op {
            Op::Flush => io,
            Op::Read | Op::Write | Op::Discard => {
                DiskIo { offset: io.offset + self.begin_bytes, ..io }
            }
        }
    }
}

impl Model for DiskPart {
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        self.disk.submit(now, self.on_disk(io));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.disk.advance(now, completions);
    }

    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        self.disk.cancel(now, tag)
    }

    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        self.disk.completion_if_submitted(now, self.on_disk(io))
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ModelProfile;

    const GIB: u64 = 1 << 30;

    fn completion(mut model: Box<dyn Model>, io: DiskIo) -> Nanos {
        assert_eq!(model.next_event(), None);
        let foreseen = model.completion_if_submitted(Nanos(1), io);
        model.submit(Nanos(1), io);
        let mut completions = Vec::new();
        while let Some(at) = model.next_event() {
            model.advance(at, &mut completions);
        }
        assert_eq!((completions.len(), completions[0].tag), (1, io.tag));
        assert_eq!(completions[0].at, foreseen);
        foreseen
    }

    #[test]
    fn io_of_a_part_takes_what_it_takes_further_in_on_the_disk() {
        let disk = || ModelProfile::builtin("hdd-7k2-ent").unwrap().build(1);
        let part = |begin| Box::new(DiskPart::new(disk(), begin)) as Box<dyn Model>;
        let read = |offset| DiskIo { tag: 7, op: Op::Read, offset, length: 4096 };
        assert_eq!(completion(part(900 * GIB), read(5 * GIB)), completion(disk(), read(905 * GIB)));
        assert_ne!(completion(part(900 * GIB), read(5 * GIB)), completion(disk(), read(5 * GIB)));
        let flush = DiskIo { tag: 3, op: Op::Flush, offset: 0, length: 0 };
        assert_eq!(completion(part(900 * GIB), flush), completion(disk(), flush));
    }
}
