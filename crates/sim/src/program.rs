//! The clones of a job as clients: a workload, and how it reaches the volume.
//!
//! [`Direct`] hands each request to the volume as it is. [`Buffered`] reads through the page cache:
//! sequential reads are answered from read-ahead windows, which are what the volume sees; all else
//! goes to the volume as it is. Like fio, both end at the first request that fails.

use crate::client::{Client, Ending, Order, Role, Turn};
use crate::readahead::{ReadAhead, Run};
use crate::workload::{Issue, Next, Workload};
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::Nanos;

/// A clone that bypasses the page cache.
pub(crate) struct Direct {
    program: Program,
}

/// A clone that reads through the page cache.
pub(crate) struct Buffered {
    program: Program,
    read_ahead: ReadAhead,
    /// Reads whose data is on its way, with the number of windows that they still wait for.
    waiting: Vec<(Order, usize)>,
}

/// What both have: a workload, and how many of its requests have not ended.
struct Program {
    workload: Workload,
    depth: u32,
    in_flight: u32,
    failed: bool,
}

impl Program {
    fn new(workload: Workload, depth: u32) -> Program {
        Program { workload, depth, in_flight: 0, failed: false }
    }

    /// The next request, as a turn that submits it.
    #[inline]
    fn turn(&mut self, now: Nanos) -> Turn {
        if self.failed {
            return Turn::End;
        }
        if self.in_flight >= self.depth {
            return Turn::Wait;
        }
        match self.workload.next(now) {
            Next::Issue(Issue { kind, offset, length, intended }) => {
                self.in_flight += 1;
                Turn::Submit(Order { kind, role: Role::Request, offset, length, intended })
            }
            Next::NotBefore(until) => Turn::Sleep(until),
            Next::Wait => Turn::Wait,
            Next::Done => Turn::End,
        }
    }

    #[inline]
    fn end(&mut self, order: Order, ending: Ending, now: Nanos) -> Order {
        self.in_flight -= 1;
        self.failed |= ending == Ending::Failed;
        self.workload.complete(order.kind, now);
        order
    }
}

impl Direct {
    pub(crate) fn new(workload: Workload, depth: u32) -> Direct {
        Direct { program: Program::new(workload, depth) }
    }
}

impl Client for Direct {
    #[inline]
    fn turn(&mut self, now: Nanos) -> Turn {
        self.program.turn(now)
    }

    #[inline]
    fn on_reply(&mut self, order: &Order, ending: Ending, now: Nanos) -> Option<Order> {
        Some(self.program.end(*order, ending, now))
    }
}

impl Buffered {
    /// Reads `file`, a run of the volume, through windows of at most `read_ahead_kib`.
    pub(crate) fn new(workload: Workload, depth: u32, read_ahead_kib: u64, file: Run) -> Buffered {
        let read_ahead = ReadAhead::new(read_ahead_kib, file);
        Buffered { program: Program::new(workload, depth), read_ahead, waiting: Vec::new() }
    }

    /// The next window to read, if there is one.
    fn window(&mut self, now: Nanos) -> Option<Order> {
        let Run { offset, length } = self.read_ahead.poll()?;
        let (kind, role) = (RequestKind::Read, Role::Window);
        Some(Order { kind, role, offset, length, intended: now })
    }

    /// A waiting read whose data has come.
    fn ready(&mut self) -> Option<Order> {
        let index = self.waiting.iter().position(|(_, missing)| *missing == 0)?;
        Some(self.waiting.remove(index).0)
    }
}

impl Client for Buffered {
    fn turn(&mut self, now: Nanos) -> Turn {
        loop {
            if let Some(window) = self.window(now) {
                return Turn::Submit(window);
            }
            if let Some(read) = self.ready() {
                return Turn::Answer(read);
            }
            match self.program.turn(now) {
                Turn::Submit(order)
                    if order.kind == RequestKind::Read && self.read_ahead.takes(run_of(&order)) =>
                {
                    self.waiting.push((order, self.read_ahead.missing(run_of(&order))));
                }
                // What waits for data still wants to be asked when that has come.
                Turn::End if !self.program.failed && !self.waiting.is_empty() => {
                    return Turn::Wait;
                }
                turn => return turn,
            }
        }
    }

    fn on_reply(&mut self, order: &Order, ending: Ending, now: Nanos) -> Option<Order> {
        if order.role == Role::Request {
            return Some(self.program.end(*order, ending, now));
        }
        let waited = if ending == Ending::Failed {
            // If nobody waits for it yet, somebody would later, and in vain.
            self.program.failed = true;
            (!self.waiting.is_empty()).then(|| self.waiting.remove(0).0)
        } else {
            self.read_ahead.on_data(run_of(order));
            let waits = |read: &Order| run_of(read).overlaps(run_of(order));
            for (_, missing) in self.waiting.iter_mut().filter(|(read, _)| waits(read)) {
                *missing = missing.saturating_sub(1);
            }
            self.ready()
        };
        waited.map(|read| self.program.end(read, ending, now))
    }
}

fn run_of(order: &Order) -> Run {
    Run { offset: order.offset, length: order.length }
}
