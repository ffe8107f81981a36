//! The way back to the host: commands in the order in which they become ready, one at a time.
//!
//! A serial server (controller and link together). When the next command completes is known as
//! soon as it is first in line, unless one submitted later becomes ready earlier, so the line is
//! kept in the order of readiness and nothing is scheduled ahead: the first entry alone says what
//! the next event is. New entries are sorted in from the back, where most of them stay; memory is
//! kept, so a warm line allocates nothing.

/// A command on its way to completion. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutgoingCommand {
    /// When it can take the link.
    pub(super) ready: u64,
    /// How long it holds the link.
    pub(super) hold_ns: u64,
    /// The submitter's name for it.
    pub(super) tag: u64,
}

/// The commands in flight and the link they share.
#[derive(Clone, Debug)]
pub(super) struct LinkQueue {
    /// In the order of readiness, ties in the order of entry. Those before `first` have gone and
    /// are swept out now and then, so that the rest is one run in memory.
    entries: Vec<OutgoingCommand>,
    first: usize,
    /// When the link becomes free of the last command taken from the line.
    free_at: u64,
}

/// How many entries are compared one by one from the back before the rest is halved.
const NEAR: usize = 8;
/// How many entries may be gone before they are swept out.
const GONE: usize = 256;

impl LinkQueue {
    /// An empty line and a free link.
    pub(super) fn new() -> LinkQueue {
        LinkQueue { entries: Vec::new(), first: 0, free_at: 0 }
    }

    /// How many commands are in flight.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.first
    }

    /// When the first command completes if none overtakes it, or `None` if there is none.
    #[inline]
    pub(super) fn next_completion(&self) -> Option<u64> {
        self.entries.get(self.first).map(|first| self.free_at.max(first.ready) + first.hold_ns)
    }

    /// Takes the first command if it completes at `now` or before, with its completion.
    #[inline]
    pub(super) fn pop(&mut self, now: u64) -> Option<(u64, u64)> {
        let at = self.next_completion().filter(|&at| at <= now)?;
        let tag = self.entries[self.first].tag;
        self.free_at = at;
        self.first += 1;
        if self.first == self.entries.len() {
            self.entries.clear();
            self.first = 0;
        } else if self.first == GONE {
            self.entries.drain(..GONE);
            self.first = 0;
        }
        Some((at, tag))
    }

    /// Adds a command behind all that are ready at the same time or earlier.
    #[inline]
    pub(super) fn push(&mut self, new: OutgoingCommand) {
        let waiting = &self.entries[self.first..];
        let mut behind = 0;
        while behind < waiting.len() && waiting[waiting.len() - 1 - behind].ready > new.ready {
            behind += 1;
            if behind == NEAR {
                behind = waiting.len() - waiting.partition_point(|entry| entry.ready <= new.ready);
                break;
            }
        }
        match behind {
            0 => self.entries.push(new),
            _ => self.entries.insert(self.entries.len() - behind, new),
        }
    }

    /// When a command ready at `ready` would complete if it were added now and nothing after it.
    #[inline]
    pub(super) fn completion_of(&self, ready: u64, hold_ns: u64) -> u64 {
        let mut free_at = self.free_at;
        for ahead in &self.entries[self.first..] {
            if ahead.ready > ready {
                break;
            }
            free_at = free_at.max(ahead.ready) + ahead.hold_ns;
        }
        free_at.max(ready) + hold_ns
    }
}
