//! Progress of the rebuild of one member.
//!
//! Rebuild requests may overlap in time and end in any order. A member's recovery offset moves only
//! over ranges that are rebuilt without a gap, so a range that ends early is kept here.

/// Ranges of one member that are rebuilt beyond its recovery offset.
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveredRanges {
    beyond: Vec<(u64, u64)>,
}

impl RecoveredRanges {
    /// Adds the rebuilt range `start..end` and returns the new recovery offset.
    pub(super) fn add(&mut self, mut recovered_bytes: u64, start: u64, end: u64) -> u64 {
        assert!(start <= end, "{start}..{end} was rebuilt");
        self.beyond.push((start, end));
        self.beyond.sort_unstable();
        self.beyond.retain(|&(start, end)| {
            let joins = start <= recovered_bytes;
            if joins {
                recovered_bytes = recovered_bytes.max(end);
            }
            !joins
        });
        let is_behind = |&(start, _): &(u64, u64)| start > recovered_bytes;
        assert!(self.beyond.iter().all(is_behind), "a gap is before each of {:?}", self.beyond);
        recovered_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recovery_offset_stops_at_a_gap() {
        let mut progress = RecoveredRanges::default();
        assert_eq!(progress.add(0, 20, 30), 0);
        assert_eq!(progress.add(0, 10, 20), 0);
        assert_eq!(progress.add(0, 0, 10), 30);
        assert_eq!(progress.add(30, 5, 15), 30, "a range rebuilt before moves nothing");
        assert!(progress.beyond.is_empty());
    }
}
