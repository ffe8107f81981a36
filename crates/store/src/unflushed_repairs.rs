//! Repairs of mirrors that a member could still lose: those under way, and those since whose end
//! not all members were flushed.
//!
//! No record of the dirty log and no stale map says what a member lacks that fails meanwhile: a
//! repair is not in the log, because a resync after a crash could copy the wrong mirror.

/// See the page of this module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnflushedRepairs {
    in_flight: u32,
    is_unflushed: bool,
    /// True if the flush under way began when no repair was.
    is_flushing: bool,
}

impl UnflushedRepairs {
    pub(crate) fn begin(&mut self) {
        self.in_flight += 1;
        self.is_unflushed = true;
        self.is_flushing = false;
    }

    pub(crate) fn end(&mut self) {
        assert!(self.in_flight > 0, "a repair ends once");
        assert!(self.is_unflushed, "what was repaired is to be flushed");
        self.in_flight -= 1;
    }

    /// Returns true if a member that fails now may lack a repair.
    pub(crate) fn may_be_lost(self) -> bool {
        self.is_unflushed
    }

    /// Returns true if a flush of all members would make them durable.
    pub(crate) fn want_flush(self) -> bool {
        self.is_unflushed && self.in_flight == 0
    }

    pub(crate) fn on_flush_begin(&mut self) {
        self.is_flushing = self.in_flight == 0;
    }

    pub(crate) fn on_flushed(&mut self) {
        assert!(!self.is_flushing || self.in_flight == 0, "a repair makes the flush not count");
        self.is_unflushed &= !std::mem::take(&mut self.is_flushing);
    }
}
