//! Sets of columns of a full stripe, which are numbered as in [`FullStripe`].
//!
//! [`FullStripe`]: crate::geometry::FullStripe

use std::ops::Range;

/// A set of columns, of which a stripe has at most 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColumnSet(u64);

impl ColumnSet {
    pub fn of(columns: impl Iterator<Item = u8>) -> ColumnSet {
        let mut set = ColumnSet::default();
        columns.for_each(|column| set.insert(column));
        set
    }

    pub fn one(column: u8) -> ColumnSet {
        ColumnSet(1 << column)
    }

    pub fn range(columns: Range<u8>) -> ColumnSet {
        let below = |end: u8| u64::MAX.checked_shr(64 - u32::from(end)).unwrap_or(0);
        ColumnSet(below(columns.end) & !below(columns.start))
    }

    pub fn from_bits(bits: u64) -> ColumnSet {
        ColumnSet(bits)
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn insert(&mut self, column: u8) {
        self.0 |= 1 << column;
    }

    pub fn contains(self, column: u8) -> bool {
        self.0 & 1 << column != 0
    }

    /// Returns true if there is no column.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn and(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 & other.0)
    }

    pub fn or(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }

    pub fn without(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 & !other.0)
    }

    pub fn is_within(self, other: ColumnSet) -> bool {
        self.without(other).is_empty()
    }

    /// The first `count` columns.
    pub fn first(self, count: usize) -> ColumnSet {
        ColumnSet::of(self.iter().take(count))
    }

    /// The columns in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let column = left.trailing_zeros() as u8;
            let is_there = left != 0;
            left &= left.wrapping_sub(1);
            is_there.then_some(column)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_columns_put_in() {
        let set = ColumnSet::of([1, 63, 5].into_iter());
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 5, 63]);
        assert_eq!(set.first(2), ColumnSet::of([1, 5].into_iter()));
        assert_eq!(set.without(ColumnSet::range(0..6)), ColumnSet::one(63));
        assert!(ColumnSet::one(5).is_within(set) && !ColumnSet::one(4).is_within(set));
        assert_eq!(ColumnSet::range(3..6), ColumnSet::of(3..6));
        assert_eq!(ColumnSet::range(0..64), ColumnSet::of(0..64));
        assert_eq!(ColumnSet::range(7..7), ColumnSet::default());
        assert_eq!((set.count(), ColumnSet::default().is_empty()), (3, true));
        assert_eq!(ColumnSet::from_bits(set.bits()), set);
    }
}
