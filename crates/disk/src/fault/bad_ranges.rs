//! The ranges of a disk that cannot be read until they are rewritten.

/// Disjoint ranges, each from its first byte to the first behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultRanges {
    ranges: Vec<std::ops::Range<u64>>,
}

impl FaultRanges {
    /// Adds a range; ranges may overlap.
    pub(super) fn add(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        self.cure(offset, length);
        if offset < end {
            self.ranges.push(offset..end);
        }
    }

    /// Whether any byte of a range is bad.
    pub(super) fn touch(&self, offset: u64, length: u64) -> bool {
        self.ranges.iter().any(|bad| bad.start < offset + length && offset < bad.end)
    }

    /// Makes every byte of a range good.
    pub(super) fn cure(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let mut index = 0;
        while index < self.ranges.len() {
            let bad = self.ranges[index].clone();
            if bad.end <= offset || end <= bad.start {
                index += 1;
                continue;
            }
            self.ranges.swap_remove(index);
            // What is left on either side lies outside, so the loop passes over it.
            let (left, right) = (bad.start..offset, end..bad.end);
            self.ranges.extend([left, right].into_iter().filter(|rest| rest.start < rest.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one flag per byte.
        #[test]
        fn ranges_behave_like_flags(
            steps in prop::collection::vec((any::<bool>(), 0usize..60, 0usize..20), 1..30)
        ) {
            let mut flags = [false; 100];
            let mut ranges = FaultRanges::default();
            for (add, offset, length) in steps {
                flags[offset..offset + length].fill(add);
                match add {
                    true => ranges.add(offset as u64, length as u64),
                    false => ranges.cure(offset as u64, length as u64),
                }
                for (byte, &bad) in flags.iter().enumerate() {
                    prop_assert_eq!(ranges.touch(byte as u64, 1), bad);
                }
            }
        }
    }
}
