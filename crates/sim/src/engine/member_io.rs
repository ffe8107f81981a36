//! The way of member I/O: from the volume to the modelled disks, and back.

use super::Engine;
use mirrorball_core::io::{IoError, IoId, MemberIo};
use mirrorball_disk::model::DiskIo;

impl Engine {
    /// Returns completed member I/O to the volume.
    #[inline]
    pub(super) fn complete(&mut self) {
        while let Some((_, completion)) = self.model_array.pop_completion(self.now) {
            self.end_io(IoId(completion.tag), completion.result);
        }
    }

    #[inline(never)]
    fn end_io(&mut self, id: IoId, result: Result<(), IoError>) {
        let ended = self.volume.complete(id, result, self.now);
        let (io, outcome) = (&ended.0, &ended.1);
        self.recorder.on_complete(io, outcome);
        if let Some(watcher) = &mut self.watcher {
            watcher.on_complete(io, outcome);
        }
        if let Some(checkers) = &mut self.checkers {
            checkers.on_complete(io, outcome, self.volume.members(), self.now);
        }
    }

    /// Cancels the I/O that the volume no longer needs and the disk has not begun. Returns whether
    /// any was cancelled.
    #[cold]
    fn cancel_member_io(&mut self) -> bool {
        let mut any = false;
        while let Some(io) = self.volume.poll_cancel() {
            if self.model_array.cancel(self.now, io.member, io.id.0) {
                self.end_io(io.id, Err(IoError::Cancelled));
                any = true;
            }
        }
        any
    }

    /// Submits the volume's member I/O to the disks, until the volume has no more.
    #[inline(always)]
    pub(super) fn submit_member_io(&mut self) {
        // Tested first, because every second event gives the volume nothing to do.
        while self.volume.has_work() {
            self.submit_next_io();
        }
        while self.volume.has_reads_to_cancel() && self.cancel_member_io() {
            while self.volume.has_work() {
                self.submit_next_io();
            }
        }
        self.take_replies();
    }

    /// Submits the volume's next member I/O, if its work leads to one.
    #[inline]
    fn submit_next_io(&mut self) {
        if let Some(forecast) = &self.forecast {
            forecast.update(&mut self.volume, &self.model_array, self.now);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.before_io(&mut self.volume, &self.model_array, self.now);
        }
        let Some(io) = self.volume.poll_io(self.now) else {
            return;
        };
        self.recorder.on_submit(&io);
        if let Some(watcher) = &mut self.watcher {
            watcher.on_submit(&io);
        }
        if let Some(checkers) = &mut self.checkers {
            checkers.on_submit(&io, self.volume.members(), self.now);
        }
        self.model_array.submit(self.now, io.member, disk_io(&io));
    }
}

fn disk_io(io: &MemberIo) -> DiskIo {
    DiskIo { tag: io.id.0, op: io.op, offset: io.offset, length: io.length }
}
