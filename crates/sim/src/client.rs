//! The interface between the engine and its clients: clones of a job's sections, and background
//! work.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::Nanos;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClientRequest {
    pub(crate) kind: RequestKind,
    pub(crate) origin: RequestOrigin,
    /// First byte: of the volume, or of the member for a rebuild.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Intended start: latency counts from here.
    pub(crate) intended: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestOrigin {
    /// The application, or the background worker itself.
    Application,
    /// The page cache, which reads a read-ahead window.
    ReadAhead,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestEnd {
    /// The volume completed it.
    Done,
    Failed,
    /// The page cache answered it: the reply to [`Action::AnswerFromCache`].
    CacheHit,
}

/// The application's request that ended with a request of its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndedRequest {
    Same,
    /// A request of which this one was the last part, or whose read-ahead window it was.
    Other(ClientRequest),
    /// No request.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Submits a request; the engine asks for the next action at once.
    Submit(ClientRequest),
    /// Reads from the page cache, which costs host time only; the engine asks for the next action
    /// at once.
    AnswerFromCache(ClientRequest),
    /// Does nothing before this time, unless a reply arrives.
    Sleep(Nanos),
    /// Does nothing until a reply arrives.
    Wait,
    /// Leaves out of the results what its section did so far; the engine asks for the next action
    /// at once.
    ForgetResults,
    /// Submits no further request.
    End,
}

pub(crate) trait Client {
    /// Returns the client's next action at `now`.
    fn next_action(&mut self, now: Nanos) -> Action;

    /// Largest number of its requests in flight: while it is reached, the client has no action.
    fn depth(&self) -> u32 {
        u32::MAX
    }

    /// Why it ended before its time, if it did and not for a failed request.
    fn take_error(&mut self) -> Option<Diagnostic> {
        None
    }

    /// Lets no other client wait for this one, which has ended.
    fn leave(&mut self) {}

    /// Reports the end of a request of this client. Returns the application's request that ended
    /// with it.
    fn on_reply(&mut self, request: &ClientRequest, end: RequestEnd, now: Nanos) -> EndedRequest;
}
