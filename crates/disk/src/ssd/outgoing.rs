//! The way back to the host: commands in the order in which they become ready, one at a time.
//!
//! A serial server (controller and link together). When the next command completes is known as
//! soon as it is first in line, unless one submitted later becomes ready earlier, so the line is
//! kept in the order of readiness and nothing is scheduled ahead: the first entry alone says what
//! the next event is.

use mirrorball_core::time_queue::TimeQueue;

#[derive(Clone, Copy, Debug)]
struct OutgoingCommand {
    /// How long it holds the link, in nanoseconds.
    hold_ns: u64,
    /// The submitter's name for it.
    tag: u64,
}

/// The commands in flight and the link they share. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkQueue {
    /// By the time at which they can take the link.
    line: TimeQueue<OutgoingCommand>,
    /// When the link becomes free of the last command taken from the line.
    free_at: u64,
}

impl LinkQueue {
    /// How many commands are in flight.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// When the first command completes if none overtakes it, or `None` if there is none.
    #[inline]
    pub(super) fn next_completion(&self) -> Option<u64> {
        self.line.front().map(|(ready, first)| self.free_at.max(*ready) + first.hold_ns)
    }

    /// Removes and returns the first command if it completes at `now` or before, with its
    /// completion.
    #[inline]
    pub(super) fn pop(&mut self, now: u64) -> Option<(u64, u64)> {
        let at = self.next_completion().filter(|&at| at <= now)?;
        let (_, command) = self.line.pop_front()?;
        self.free_at = at;
        Some((at, command.tag))
    }

    /// Adds a command behind all that are ready at the same time or earlier.
    #[inline]
    pub(super) fn push(&mut self, ready: u64, hold_ns: u64, tag: u64) {
        self.line.push(ready, OutgoingCommand { hold_ns, tag });
    }

    /// When a command ready at `ready` would complete if it were added now and nothing after it.
    #[inline]
    pub(super) fn completion_of(&self, ready: u64, hold_ns: u64) -> u64 {
        let ahead = self.line.iter().take_while(|(other, _)| *other <= ready);
        let free_at = ahead
            .fold(self.free_at, |free_at, (other, command)| free_at.max(*other) + command.hold_ns);
        free_at.max(ready) + hold_ns
    }
}
