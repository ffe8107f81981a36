//! Range locks: exclusive locks on ranges of bytes, granted in the order in which they were asked
//! for.
//!
//! A lock waits while its range overlaps a held lock or a lock that waits and was asked for
//! earlier. Each lock therefore waits for earlier ones only, and no lock starves: neither a scrub
//! under a steady stream of overlapping writes, nor a write under overlapping scrubs. It also gives
//! overlapping writes one order.
//!
//! Held ranges do not overlap, so they are kept sorted and found by binary search. Granting looks
//! at each waiting lock; usually none waits.

use std::ops::Range;

/// The locks of a volume. `K` names the owner of a lock.
#[derive(Debug)]
pub(super) struct RangeLocks<K> {
    /// Disjoint, in ascending order.
    held: Vec<Range<u64>>,
    /// In the order in which they were asked for.
    waiting: Vec<(Range<u64>, K)>,
}

impl<K> Default for RangeLocks<K> {
    fn default() -> RangeLocks<K> {
        RangeLocks { held: Vec::new(), waiting: Vec::new() }
    }
}

impl<K: Copy> RangeLocks<K> {
    /// Takes the lock of `range` and returns true, or queues it for `owner` and returns false.
    ///
    /// # Panics
    /// If the range is empty.
    #[must_use]
    pub(super) fn acquire(&mut self, range: Range<u64>, owner: K) -> bool {
        assert!(!range.is_empty(), "a lock needs a range: {range:?}");
        let is_free = self.is_free(&range, self.waiting.len());
        if is_free {
            self.hold(range);
        } else {
            self.waiting.push((range, owner));
        }
        is_free
    }

    /// Releases a held lock and returns the owners of the waiting locks that are granted by it, in
    /// the order in which they were asked for.
    ///
    /// # Panics
    /// If no lock with exactly this range is held.
    #[must_use]
    pub(super) fn release(&mut self, range: Range<u64>) -> Vec<K> {
        let index = self.first_held_after(range.start);
        assert_eq!(self.held.get(index), Some(&range), "a lock is held until its only release");
        self.held.remove(index);
        let mut granted = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            let (wanted, owner) = &self.waiting[index];
            if overlap(wanted, &range) && self.is_free(wanted, index) {
                granted.push(*owner);
                let (wanted, _) = self.waiting.remove(index);
                self.hold(wanted);
            } else {
                index += 1;
            }
        }
        granted
    }

    /// Divides the held lock around `offset` into two, each of which is released by itself.
    ///
    /// # Panics
    /// If no held lock contains `offset` behind its start.
    pub(super) fn divide(&mut self, offset: u64) {
        let index = self.first_held_after(offset);
        let whole = self.held.get(index).filter(|held| held.start < offset).cloned();
        let whole = whole.expect("a lock is divided inside its range");
        self.held[index].end = offset;
        self.held.insert(index + 1, offset..whole.end);
    }

    /// Returns true if `range` overlaps no held lock and none of the first `earlier` waiting ones.
    fn is_free(&self, range: &Range<u64>, earlier: usize) -> bool {
        let next = self.held.get(self.first_held_after(range.start));
        next.is_none_or(|held| held.start >= range.end)
            && !self.waiting[..earlier].iter().any(|(waiting, _)| overlap(waiting, range))
    }

    fn hold(&mut self, range: Range<u64>) {
        self.held.insert(self.first_held_after(range.start), range);
    }

    /// Index of the first held range that ends after `offset`.
    fn first_held_after(&self, offset: u64) -> usize {
        self.held.partition_point(|held| held.end <= offset)
    }
}

fn overlap(left: &Range<u64>, right: &Range<u64>) -> bool {
    left.start < right.end && right.start < left.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn disjoint_ranges_are_locked_together() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0..10, 'a'));
        assert!(locks.acquire(10..20, 'b'));
        assert!(locks.release(0..10).is_empty());
        assert!(locks.release(10..20).is_empty());
    }

    #[test]
    fn a_lock_waits_behind_an_earlier_waiting_lock_that_it_overlaps() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0..10, 'a'));
        assert!(!locks.acquire(5..25, 'b'));
        assert!(!locks.acquire(20..30, 'c'), "free, but `b` was first");
        assert!(locks.acquire(30..40, 'd'), "overlaps neither");
        assert_eq!(locks.release(0..10), ['b']);
        assert_eq!(locks.release(5..25), ['c']);
    }

    #[test]
    fn one_release_grants_all_that_waited_for_it_alone() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0..30, 'a'));
        for (range, owner) in [(0..10, 'b'), (5..15, 'c'), (20..30, 'd')] {
            assert!(!locks.acquire(range, owner));
        }
        assert_eq!(locks.release(0..30), ['b', 'd'], "`c` waits for `b`");
        assert!(locks.release(20..30).is_empty());
        assert_eq!(locks.release(0..10), ['c']);
    }

    #[test]
    fn the_parts_of_a_divided_lock_are_released_one_by_one() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0..30, 'a'));
        locks.divide(10);
        locks.divide(20);
        assert!(!locks.acquire(5..15, 'b'));
        assert!(!locks.acquire(20..21, 'c'));
        assert!(locks.release(0..10).is_empty());
        assert_eq!(locks.release(20..30), ['c']);
        assert_eq!(locks.release(10..20), ['b']);
    }

    #[test]
    #[should_panic(expected = "a lock is held until its only release")]
    fn a_lock_is_not_released_twice() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0..10, 'a'));
        assert!(locks.release(0..10).is_empty());
        let _ = locks.release(0..10);
    }

    #[test]
    #[should_panic(expected = "a lock needs a range")]
    fn an_empty_range_is_not_locked() {
        let _ = RangeLocks::default().acquire(7..7, 'a');
    }

    /// A lock that was asked for and not released, in the order of asking.
    struct Asked {
        owner: usize,
        range: Range<u64>,
        is_held: bool,
    }

    /// A lock is held exactly if it overlaps no earlier one that is not released.
    fn check(asked: &[Asked]) -> Result<(), TestCaseError> {
        for (index, lock) in asked.iter().enumerate() {
            let waits_for = asked[..index].iter().find(|other| overlap(&other.range, &lock.range));
            let blocker = waits_for.map(|other| other.owner);
            prop_assert_eq!(lock.is_held, blocker.is_none(), "{} by {:?}", lock.owner, blocker);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn locks_are_granted_in_the_order_of_asking_and_without_delay(
            steps in prop::collection::vec((any::<bool>(), 0..60u64, 1..12u64), 1..200),
        ) {
            let mut locks = RangeLocks::default();
            let mut asked: Vec<Asked> = Vec::new();
            let release = |locks: &mut RangeLocks<usize>, asked: &mut Vec<Asked>, pick: usize| {
                let held: Vec<usize> = (0..asked.len()).filter(|&at| asked[at].is_held).collect();
                let Some(&index) = held.get(pick % held.len().max(1)) else { return };
                let released = asked.remove(index);
                let granted = locks.release(released.range);
                assert!(granted.is_sorted(), "in the order of asking");
                for lock in asked.iter_mut().filter(|lock| granted.contains(&lock.owner)) {
                    assert!(!std::mem::replace(&mut lock.is_held, true), "granted once");
                }
            };
            for (owner, (acquires, start, length)) in steps.into_iter().enumerate() {
                let range = start..start + length;
                match acquires {
                    true => {
                        let is_held = locks.acquire(range.clone(), owner);
                        asked.push(Asked { owner, range, is_held });
                    }
                    false => release(&mut locks, &mut asked, start as usize),
                }
                check(&asked)?;
            }
            while !asked.is_empty() {
                let before = asked.len();
                release(&mut locks, &mut asked, 0);
                prop_assert!(asked.len() < before, "the earliest lock is always held");
                check(&asked)?;
            }
            prop_assert!(locks.held.is_empty() && locks.waiting.is_empty());
        }
    }
}
