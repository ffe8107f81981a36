//! The path between the host and a disk behind a link: I/O on its way there and back.
//!
//! [`crate::link`] describes the way of an I/O. Both queues are in the order of arrival. The disk
//! is given the number of a slot as tag, so that a completion finds its I/O again.

use crate::link::{Link, LinkDirection};
use crate::model::{Completion, DiskIo, Model};
use mirrorball_core::io::Op;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::time_queue::TimeQueue;
use mirrorball_core::units::Nanos;

mirrorball_core::slab_key! {
    /// Names an I/O at the disk; its slot is the tag that the disk sees.
    struct AtDiskKey;
}

/// One member's end of a link.
#[derive(Clone, Default)]
pub(super) struct LinkPath {
    pub(super) link: usize,
    towards_disk: TimeQueue<DiskIo>,
    at_disk: Slab<AtDiskKey, DiskIo>,
    towards_host: TimeQueue<Completion>,
    disk_completions: Vec<Completion>,
}

impl LinkPath {
    /// An empty path over the link with this index.
    pub(super) fn new(link: usize) -> LinkPath {
        LinkPath { link, ..LinkPath::default() }
    }

    /// Sends an I/O off towards its disk.
    pub(super) fn submit(&mut self, now: Nanos, io: DiskIo, link: &mut Link) {
        let arrival = link.carry(LinkDirection::ToDisk, now, data(&io, Op::Write));
        self.towards_disk.push(arrival.0, io);
    }

    /// When something happens next on the path or in the disk.
    pub(super) fn next_event(&self, disk: &dyn Model) -> Option<Nanos> {
        let to_disk = self.towards_disk.front().map(|&(at, _)| Nanos(at));
        let to_host = self.towards_host.front().map(|&(at, _)| Nanos(at));
        [to_disk, disk.next_event(), to_host].into_iter().flatten().min()
    }

    /// Lets one step happen that is due at `now`, and appends what it brought to the host. What it
    /// sets off at the same instant takes another.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        disk: &mut dyn Model,
        link: &mut Link,
        arrived: &mut Vec<Completion>,
    ) {
        while let Some((_, completion)) = self.towards_host.pop_due(now.0) {
            arrived.push(completion);
        }
        disk.advance(now, &mut self.disk_completions);
        for Completion { tag, at, result } in self.disk_completions.drain(..) {
            let io = self
                .at_disk
                .remove(AtDiskKey::from_slot(tag as u32))
                .expect("an I/O completes once");
            // A failed read has no data to bring.
            let bytes = if result.is_ok() { data(&io, Op::Read) } else { 0 };
            let arrival = link.carry(LinkDirection::ToHost, at, bytes);
            self.towards_host.push(arrival.0, Completion { tag: io.tag, at: arrival, result });
        }
        while let Some((at, io)) = self.towards_disk.pop_due(now.0) {
            let tag = u64::from(self.at_disk.insert(io).slot());
            disk.submit(Nanos(at), DiskIo { tag, ..io });
        }
    }

    /// Cancels an I/O on its way to the disk, though the link has carried it, or what the disk
    /// gives back. What is on its way to the host has been done.
    pub(super) fn cancel(&mut self, now: Nanos, tag: u64, disk: &mut dyn Model) -> bool {
        if self.towards_disk.take(|_, io| io.tag == tag).is_some() {
            return true;
        }
        let Some((key, _)) = self.at_disk.iter().find(|(_, io)| io.tag == tag) else {
            return false;
        };
        let is_cancelled = disk.cancel(now, u64::from(key.slot()));
        if is_cancelled {
            self.at_disk.remove(key);
        }
        is_cancelled
    }

    /// When `io` would be back if nothing else crossed the link meanwhile. Chance is foreseen as
    /// well: the copy of the link draws what the link would.
    pub(super) fn completion_if_submitted(
        &self,
        now: Nanos,
        io: DiskIo,
        disk: &dyn Model,
        link: &Link,
    ) -> Nanos {
        let mut link = link.clone();
        let arrival = link.carry(LinkDirection::ToDisk, now, data(&io, Op::Write));
        // A disk with something to do before the arrival cannot be asked about that later time;
        // asked about now, it errs by what it gets done in between.
        let end = match disk.next_event() {
            Some(event) if event < arrival => {
                disk.completion_if_submitted(now, io).saturating_add(arrival - now)
            }
            _ => disk.completion_if_submitted(arrival, io),
        };
        link.carry(LinkDirection::ToHost, end, data(&io, Op::Read))
    }
}

/// How many bytes of data `io` sends in the direction that `op` does.
fn data(io: &DiskIo, op: Op) -> u64 {
    if io.op == op { io.length } else { 0 }
}
