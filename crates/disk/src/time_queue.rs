//! A queue in the order of time, ties in the order of entry: what waits for its instant.
//!
//! Nearly everything that a disk or a link schedules is scheduled in order, so an entry is sorted
//! in from the back and most often stays there: cheaper than a heap, and stable without a sequence
//! number. Memory is kept, so a warm queue allocates nothing. Not for entries in random order,
//! where sorting in takes time proportional to the length.

use mirrorball_core::units::Nanos;
use std::collections::VecDeque;

/// Entries of type `T`, each with the instant at which it is due.
#[derive(Clone, Debug)]
pub(crate) struct DueQueue<T> {
    entries: VecDeque<(Nanos, T)>,
}

impl<T> Default for DueQueue<T> {
    fn default() -> DueQueue<T> {
        DueQueue { entries: VecDeque::new() }
    }
}

impl<T> DueQueue<T> {
    /// When the first entry is due, or `None` if there is none.
    #[inline]
    pub(crate) fn first_due(&self) -> Option<Nanos> {
        self.entries.front().map(|&(due, _)| due)
    }

    /// Adds an entry behind all that are due at the same instant or earlier.
    #[inline]
    pub(crate) fn push(&mut self, due: Nanos, entry: T) {
        let mut place = self.entries.len();
        while place > 0 && self.entries[place - 1].0 > due {
            place -= 1;
        }
        if place == self.entries.len() {
            self.entries.push_back((due, entry));
        } else {
            self.entries.insert(place, (due, entry));
        }
    }

    /// Removes and returns the first entry if it is due at `now` or before.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        match self.first_due() {
            Some(due) if due <= now => self.entries.pop_front(),
            _ => None,
        }
    }

    /// The first entry that `wanted` picks, left in its place.
    pub(crate) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<&T> {
        self.entries.iter().map(|(_, entry)| entry).find(|entry| wanted(entry))
    }

    /// Removes and returns the first entry that `wanted` picks by its instant and itself, out of
    /// turn.
    pub(crate) fn take(&mut self, wanted: impl Fn(Nanos, &T) -> bool) -> Option<(Nanos, T)> {
        let place = self.entries.iter().position(|(due, entry)| wanted(*due, entry))?;
        self.entries.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_by_time_and_ties_by_entry() {
        let mut queue = DueQueue::default();
        for (due, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (4, 'd'), (3, 'e')] {
            queue.push(Nanos(due), name);
        }
        assert_eq!(queue.first_due(), Some(Nanos(3)));
        let mut names = String::new();
        while let Some((_, name)) = queue.pop_due(Nanos(4)) {
            names.push(name);
        }
        assert_eq!(names, "bed", "those due at 5 must wait");
        while let Some((_, name)) = queue.pop_due(Nanos(5)) {
            names.push(name);
        }
        assert_eq!((names.as_str(), queue.first_due()), ("bedac", None));
    }

    #[test]
    fn an_entry_is_taken_out_of_turn() {
        let mut queue = DueQueue::default();
        for (due, name) in [(5, 'a'), (3, 'b'), (5, 'c')] {
            queue.push(Nanos(due), name);
        }
        assert_eq!(queue.find(|&name| name > 'a'), Some(&'b'));
        assert_eq!(queue.take(|due, _| due == Nanos(5)), Some((Nanos(5), 'a')));
        assert_eq!(queue.take(|_, &name| name == 'a'), None);
        assert_eq!(queue.pop_due(Nanos::MAX), Some((Nanos(3), 'b')));
        assert_eq!(queue.pop_due(Nanos::MAX), Some((Nanos(5), 'c')));
    }
}
