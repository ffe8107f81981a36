//! How far the rebuild of a member has come.
//!
//! Rebuild requests may overlap in time and end in any order, but a member's recovery offset only
//! moves over ranges that are done without a gap: a range that ends early waits here.

/// Ranges of one member that are rebuilt beyond its recovery offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    ahead: Vec<(u64, u64)>,
}

impl Progress {
    /// Notes that `from..until` is rebuilt and returns the recovery offset that follows.
    pub(super) fn advance(&mut self, mut recovered_bytes: u64, from: u64, until: u64) -> u64 {
        self.ahead.push((from, until));
        self.ahead.sort_unstable();
        self.ahead.retain(|&(from, until)| {
            let joins = from <= recovered_bytes;
            if joins {
                recovered_bytes = recovered_bytes.max(until);
            }
            !joins
        });
        recovered_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recovery_offset_waits_for_gaps() {
        let mut progress = Progress::default();
        assert_eq!(progress.advance(0, 20, 30), 0);
        assert_eq!(progress.advance(0, 10, 20), 0);
        assert_eq!(progress.advance(0, 0, 10), 30);
        assert_eq!(progress.advance(30, 5, 15), 30, "what was known already moves nothing");
        assert!(progress.ahead.is_empty());
    }
}
