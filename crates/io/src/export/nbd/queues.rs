//! What the server remembers of clients that wait: for memory, for a turn, or in their handshake.
//!
//! Plain data of the files with the handlers: `memory_queue.rs`, `long_requests.rs`, `reclaim.rs`.

use super::keys::ConnectionKey;
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;

/// Clients that wait for memory.
#[derive(Default)]
pub(super) struct MemoryQueue {
    pub(super) large: VecDeque<ConnectionKey>,
    pub(super) small: VecDeque<ConnectionKey>,
    /// When progress is checked next, while a client waits.
    pub(super) next_check: Option<Nanos>,
}

/// Turns of clients with long requests.
#[derive(Default)]
pub(super) struct LongRequests {
    /// Number of steps in flight.
    pub(super) steps: usize,
    /// Clients with requests that wait for their next step, the next first.
    pub(super) clients: VecDeque<ConnectionKey>,
}

/// When the handshakes of connections have to be over, with the streams of these.
#[derive(Default)]
pub(super) struct HandshakeDeadlines(pub(super) VecDeque<(Nanos, ConnectionKey, u64)>);

/// How far a client was when progress was last seen.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    pub(super) seen: u64,
    pub(super) since: Option<Nanos>,
}
