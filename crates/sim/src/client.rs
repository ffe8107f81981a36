//! What the engine asks of whoever makes requests: a clone of a job, or background work.

use mirrorball_core::io::RequestKind;
use mirrorball_core::units::Nanos;

/// A request that a client wants made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub(crate) kind: RequestKind,
    pub(crate) role: Role,
    /// First byte: of the volume, or of the member for a rebuild.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
    /// When it was meant to start: latency counts from here.
    pub(crate) intended: Nanos,
}

/// Whose an order is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A request of the program or the worker itself.
    Request,
    /// A window that the page cache reads for it.
    Window,
}

/// How an order ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The volume did it.
    Done,
    /// The volume could not.
    Failed,
    /// Memory had it: the reply to [`Turn::Answer`].
    Answered,
}

/// What a client does when it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Submits a request, and would be asked again.
    Submit(Order),
    /// Has a request answered from memory, at the cost of the host alone, and would be asked again.
    Answer(Order),
    /// Has nothing to do before this time, unless a reply comes.
    Sleep(Nanos),
    /// Has nothing to do until a reply comes.
    Wait,
    /// Will never submit again.
    End,
}

/// Whoever makes requests.
pub(crate) trait Client {
    /// Asks what it does now.
    fn turn(&mut self, now: Nanos) -> Turn;

    /// One of its orders ended. Returns the request that ended with it, as the program that it
    /// stands for sees it: often the order itself, sometimes one that waited for several.
    fn on_reply(&mut self, order: &Order, ending: Ending, now: Nanos) -> Option<Order>;
}
