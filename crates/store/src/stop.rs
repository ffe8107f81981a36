//! The stop of a volume in good order.
//!
//! With checksums, all pages are written and flushed before the labels say so.

use crate::StoreGate;
use crate::metadata::MetadataJob;
use crate::unsynced_regions::REGION_BYTES;
use mirrorball_core::io::Op;
use mirrorball_core::volume::gate::Array;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stop {
    /// It is over, or has not begun.
    #[default]
    None,
    /// Pages of checksums are written.
    Pages,
    Flushing {
        /// Members that it waits for.
        left: usize,
        /// True if one could not be flushed.
        has_failed: bool,
    },
}

impl StoreGate {
    /// Records that the volume was stopped in good order. The volume must be idle, and flushed
    /// since the last write. Ends when [`StoreGate::is_recorded`].
    ///
    /// Regions that a crash left unsynced are in the dirty log, which counts only while the volume
    /// is not recorded as stopped: so it stays as it is until they are synchronised. The first
    /// synchronisation, from an offset on, goes on where it was.
    pub fn record_stop(&mut self, array: &mut Array<'_>) {
        if self.is_read_only || self.stop != Stop::None {
            return;
        }
        self.stop = Stop::Pages;
        match self.has_dirty_pages() {
            true => self.write_all_pages_for_stop(array),
            false => self.end_stop(array),
        }
    }

    /// Returns true if no update of the labels is under way.
    pub fn is_recorded(&self) -> bool {
        !self.labels.has_io_in_flight() && self.stop == Stop::None
    }

    /// Flushes the pages of checksums, which are written.
    pub(crate) fn on_pages_written_for_stop(&mut self, is_good: bool, array: &Array<'_>) {
        assert_eq!(self.stop, Stop::Pages, "the volume stops");
        let members: Vec<_> = array.states.active().collect();
        if !is_good || members.is_empty() {
            self.stop = Stop::None;
            return;
        }
        self.stop = Stop::Flushing { left: members.len(), has_failed: false };
        self.queue_metadata(members, Op::Flush, MetadataJob::Stop);
    }

    /// Handles the end of the flush of a member.
    pub(crate) fn on_stop_flushed(&mut self, is_good: bool, array: &mut Array<'_>) {
        let Stop::Flushing { left, has_failed } = &mut self.stop else {
            unreachable!("the flush belongs to a stop")
        };
        assert!(*left > 0, "a flush of the stop ends once");
        *left -= 1;
        *has_failed |= !is_good;
        match (*left, *has_failed) {
            (0, false) => self.end_stop(array),
            // What the members have is good only together with the dirty log.
            (0, true) => self.stop = Stop::None,
            _ => {}
        }
    }

    fn end_stop(&mut self, array: &mut Array<'_>) {
        self.stop = Stop::None;
        let has_lost_writes = self.lose_unflushed_members(array);
        let labels = &mut self.labels;
        let first = self.unsynced.next(0).map(|region| region * REGION_BYTES);
        let is_logged = first.is_some_and(|first| labels.resync_from.is_none_or(|it| first < it));
        if !labels.committed().is_clean && !has_lost_writes && !is_logged {
            assert!(labels.waiting.is_empty() && labels.held.is_empty(), "the volume is idle");
            (labels.is_clean, labels.resync_from) = (true, first);
            self.update_labels(array);
        }
    }
}
