//! Range locks: exclusive locks on ranges of bytes, granted in the order in which they were asked
//! for.
//!
//! A lock waits while its range overlaps a held lock or a lock that waits and was asked for
//! earlier. Each lock therefore waits for earlier ones only, and no lock starves: neither a scrub
//! under a steady stream of overlapping writes, nor a write under overlapping scrubs. It also gives
//! overlapping writes one order.
//!
//! Granting looks at each waiting lock; usually none waits.

use super::held_ranges::{HeldRanges, overlap};
use std::ops::Range;

/// The locks of a volume. `K` names the owner of a lock.
#[derive(Debug)]
pub(super) struct RangeLocks<K> {
    held: HeldRanges,
    /// In the order in which they were asked for.
    waiting: Vec<(Range<u64>, K)>,
}

impl<K> Default for RangeLocks<K> {
    fn default() -> RangeLocks<K> {
        RangeLocks { held: HeldRanges::default(), waiting: Vec::new() }
    }
}

impl<K: Copy> RangeLocks<K> {
    /// Locks `range` and returns true, or queues it for `owner` and returns false. Panics if the
    /// range is empty.
    #[must_use]
    pub(super) fn acquire(&mut self, range: Range<u64>, owner: K) -> bool {
        assert!(!range.is_empty(), "a lock needs a range: {range:?}");
        let is_free = self.is_free(&range, self.waiting.len());
        match is_free {
            true => self.held.insert(range),
            false => self.waiting.push((range, owner)),
        }
        is_free
    }

    /// Releases a held lock and returns the owners of the waiting locks that are granted by it, in
    /// the order in which they were asked for. Panics if no lock with exactly this range is held.
    #[must_use]
    pub(super) fn release(&mut self, range: Range<u64>) -> Vec<K> {
        self.held.remove(&range);
        debug_assert!(!self.held.overlaps(&range), "{range:?} was held once");
        match self.waiting.is_empty() {
            true => Vec::new(),
            false => self.grant(&range),
        }
    }

    /// Grants the waiting locks that only waited for `released`, and returns their owners.
    fn grant(&mut self, released: &Range<u64>) -> Vec<K> {
        let mut granted = Vec::new();
        let mut earlier = 0;
        while earlier < self.waiting.len() {
            let (wanted, _) = &self.waiting[earlier];
            if overlap(wanted, released) && self.is_free(wanted, earlier) {
                let (wanted, owner) = self.waiting.remove(earlier);
                self.held.insert(wanted);
                granted.push(owner);
            } else {
                earlier += 1;
            }
        }
        granted
    }

    /// Extends a lock from `from` to `to`, which is `from` and `part`, whether it is held or waits.
    /// Returns false if it cannot be held at once, or `part` overlaps a lock that was asked for
    /// later and waits.
    pub(super) fn extend(
        &mut self,
        owner: K,
        from: &Range<u64>,
        to: Range<u64>,
        part: &Range<u64>,
    ) -> bool
    where
        K: PartialEq,
    {
        assert!(to.start <= from.start && from.end <= to.end, "{to:?} has {from:?}");
        assert!(to.start <= part.start && part.end <= to.end, "{to:?} has {part:?}");
        let waiting = self.waiting.iter().position(|(_, waiting)| *waiting == owner);
        let later = &self.waiting[waiting.map_or(0, |at| at + 1)..];
        if later.iter().any(|(range, _)| overlap(range, part)) {
            return false;
        }
        if let Some(at) = waiting {
            self.waiting[at].0 = to;
            return true;
        }
        self.held.remove(from);
        let is_free = !self.held.overlaps(&to);
        self.held.insert(if is_free { to } else { from.clone() });
        is_free
    }

    /// Divides the held lock around `offset` into two, each of which is released by itself. Panics
    /// if no held lock contains `offset` behind its start.
    pub(super) fn divide(&mut self, offset: u64) {
        let whole = self.held.around(offset).expect("a lock is divided inside its range");
        self.held.remove(&whole);
        assert!(whole.start < offset && offset < whole.end, "{whole:?} is divided at {offset}");
        self.held.insert(whole.start..offset);
        self.held.insert(offset..whole.end);
    }

    /// Returns true if `range` overlaps no held lock and none of the first `earlier` waiting ones.
    #[inline]
    fn is_free(&self, range: &Range<u64>, earlier: usize) -> bool {
        let overlaps_waiting = |(waiting, _): &(Range<u64>, K)| overlap(waiting, range);
        !self.held.overlaps(range) && !self.waiting[..earlier].iter().any(overlaps_waiting)
    }
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
    fn a_lock_is_extended_if_that_lets_it_pass_no_other() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0..10, 'a'));
        assert!(locks.acquire(20..30, 'b'));
        assert!(locks.extend('a', &(0..10), 0..15, &(5..15)));
        assert!(!locks.extend('a', &(0..15), 0..25, &(15..25)), "`b` holds a part");
        assert!(!locks.acquire(12..18, 'c'));
        assert!(!locks.extend('a', &(0..15), 0..20, &(15..20)), "`c` was first");
        assert!(locks.extend('c', &(12..18), 12..25, &(18..25)), "it waits for `b` as well");
        assert!(!locks.acquire(24..26, 'd'));
        assert!(!locks.extend('c', &(12..25), 12..28, &(25..28)), "`d` waits and was first");
        assert!(locks.release(0..15).is_empty());
        assert_eq!(locks.release(20..30), ['c']);
        assert_eq!(locks.release(12..25), ['d']);
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
            prop_assert!(!locks.held.overlaps(&(0..u64::MAX)) && locks.waiting.is_empty());
        }
    }
}
