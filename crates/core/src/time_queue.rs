//! Items in the order of their times.
//!
//! For queues in which most items are due after all that are queued already. A new item is sorted
//! in from the back, and items leave at the front by an index that moves on, so the queue is one
//! run in memory. Memory is kept: a queue that has been as long before allocates nothing.

/// How many items are compared one by one from the back before the rest is halved.
const NEAR: usize = 8;
/// How many items may have left before they are removed from memory.
const GONE: usize = 256;

/// Items of type `T`, each with a time, in the order of times; ties in the order of entry.
#[derive(Clone, Debug)]
pub struct TimeQueue<T> {
    /// Those before `first` have left.
    items: Vec<(u64, T)>,
    first: usize,
}

impl<T> Default for TimeQueue<T> {
    fn default() -> TimeQueue<T> {
        TimeQueue { items: Vec::new(), first: 0 }
    }
}

impl<T: Copy> TimeQueue<T> {
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len() - self.first
    }

    /// Returns true if there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first item, with its time.
    #[inline]
    pub fn front(&self) -> Option<&(u64, T)> {
        self.items.get(self.first)
    }

    /// The items with their times, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &(u64, T)> {
        self.items[self.first..].iter()
    }

    /// Removes the first item and returns it with its time.
    #[inline]
    pub fn pop_front(&mut self) -> Option<(u64, T)> {
        let item = *self.front()?;
        self.first += 1;
        if self.first == self.items.len() {
            self.items.clear();
            self.first = 0;
        } else if self.first == GONE {
            self.items.drain(..GONE);
            self.first = 0;
        }
        Some(item)
    }

    /// Removes the first item if it is due at `now` or before, and returns it with its time.
    #[inline]
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, T)> {
        if self.front()?.0 <= now { self.pop_front() } else { None }
    }

    /// Removes the first item that `is_wanted` picks by its time and itself, and returns it with
    /// its time.
    pub fn take(&mut self, is_wanted: impl Fn(u64, &T) -> bool) -> Option<(u64, T)> {
        let place = self.iter().position(|(at, item)| is_wanted(*at, item))?;
        match place {
            0 => self.pop_front(),
            _ => Some(self.items.remove(self.first + place)),
        }
    }

    /// Adds an item behind all of the same time or earlier ones.
    #[inline(always)]
    pub fn push(&mut self, at: u64, item: T) {
        match self.items.last() {
            Some((last, _)) if *last > at => self.sort_in(at, item),
            _ => self.items.push((at, item)),
        }
    }

    /// Adds an item before the last one, if that has not left.
    fn sort_in(&mut self, at: u64, item: T) {
        let waiting = &self.items[self.first..];
        let mut behind = 0;
        while behind < waiting.len() && waiting[waiting.len() - 1 - behind].0 > at {
            behind += 1;
            if behind == NEAR {
                behind = waiting.len() - waiting.partition_point(|(other, _)| *other <= at);
                break;
            }
        }
        match behind {
            0 => self.items.push((at, item)),
            _ => self.items.insert(self.items.len() - behind, (at, item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_leave_by_time_and_then_by_entry(
            steps in proptest::collection::vec(proptest::option::weighted(0.6, 0u64..40), 0..2000),
            taken in proptest::collection::vec(0usize..99, 9),
        ) {
            let (mut queue, mut expected) = (TimeQueue::default(), Vec::new());
            for (number, step) in steps.into_iter().enumerate() {
                if taken.contains(&(number % 99)) {
                    let wanted = expected.iter().position(|(_, item)| item % 3 == 0);
                    let wanted = wanted.map(|place| expected.remove(place));
                    prop_assert_eq!(queue.take(|_, item| item % 3 == 0), wanted);
                }
                match step {
                    Some(at) => {
                        queue.push(at, number);
                        expected.push((at, number));
                        expected.sort();
                    }
                    None if expected.is_empty() => prop_assert_eq!(queue.pop_front(), None),
                    None => {
                        let first = expected.remove(0);
                        if first.0 > 0 {
                            prop_assert_eq!(queue.pop_due(first.0 - 1), None);
                        }
                        prop_assert_eq!(queue.pop_due(first.0), Some(first));
                    }
                }
                prop_assert_eq!(queue.len(), expected.len());
                prop_assert!(queue.iter().eq(&expected));
            }
        }
    }
}
