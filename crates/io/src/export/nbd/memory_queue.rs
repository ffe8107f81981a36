//! Clients that wait for memory: the server reads no more of their requests until it is their turn.
//!
//! There is a queue for each pool of the budget. The first client of the queue for large requests
//! is served before any other of that queue. The clients of the other queue are tried in turn,
//! because each has a share of its own.
//!
//! **Stalled clients.** A client that holds memory, and neither takes its replies nor sends data
//! that it announced for [`STALL_TIMEOUT`] while another client waits for memory, is disconnected.
//! Without one that waits, a client may take as long as it likes.

use super::connection::Connection;
use super::keys::ConnectionKey;
use super::memory_budget::{Reservation, Turn};
use super::queues::{MemoryQueue, Progress};
use super::server::Server;
use crate::executor::Executor;
use mirrorball_core::units::Nanos;

/// Time without progress after which a client that keeps memory from others is disconnected.
pub(super) const STALL_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Interval at which progress is checked while a client waits.
const CHECK_INTERVAL: Nanos = Nanos::from_secs(1);
/// Number of clients with small requests that are tried in one pass of the service loop.
const TRIES_MAX: usize = 16;

impl Server {
    /// Reserves memory for the next request of a client. Otherwise the client waits, and its
    /// request is parsed again when there is memory.
    pub(super) fn reserve(&mut self, key: ConnectionKey, bytes: usize) -> Option<Reservation> {
        let MemoryQueue { large, small, .. } = &mut self.memory_queue;
        let turn = match large.front() {
            None => Turn::NoneWaits,
            Some(first) if *first == key => Turn::First,
            Some(_) => Turn::Behind,
        };
        let connection = self.connections.get_mut(key);
        let reservation = self.memory.reserve(&mut connection.held, bytes, turn);
        let queue = if self.memory.is_small(bytes) { small } else { large };
        match (&reservation, connection.waits_for_memory) {
            (Some(_), true) => self.leave_queues(key),
            (None, false) => {
                connection.waits_for_memory = true;
                queue.push_back(key);
            }
            (Some(_), false) | (None, true) => {}
        }
        reservation
    }

    /// Lets clients that wait for memory go on, if some was given back. Called once in each pass of
    /// the service loop.
    pub(super) fn serve_queues(&mut self, executor: &mut Executor) {
        if !self.memory.take_released() {
            return;
        }
        while let Some(&first) = self.memory_queue.large.front() {
            self.go_on(first, executor);
            if self.memory_queue.large.front() == Some(&first) {
                break;
            }
        }
        for _ in 0..self.memory_queue.small.len().min(TRIES_MAX) {
            let Some(&first) = self.memory_queue.small.front() else { break };
            self.go_on(first, executor);
            if self.memory_queue.small.front() == Some(&first) {
                self.memory_queue.small.rotate_left(1);
            }
        }
    }

    /// Removes a client from the queues, if it is in one.
    pub(super) fn leave_queues(&mut self, key: ConnectionKey) {
        let connection = self.connections.get_mut(key);
        if std::mem::take(&mut connection.waits_for_memory) {
            let MemoryQueue { large, small, .. } = &mut self.memory_queue;
            large.retain(|other| *other != key);
            small.retain(|other| *other != key);
        }
    }

    /// Disconnects stalled clients while others wait for memory; returns how long until the next
    /// check.
    pub(super) fn check_stalled(&mut self, executor: &mut Executor) -> Option<Nanos> {
        let queue = &mut self.memory_queue;
        if queue.large.is_empty() && queue.small.is_empty() {
            queue.next_check = None;
            return None;
        }
        let now = executor.driver.now();
        let at = *queue.next_check.get_or_insert(now);
        if now < at {
            return Some(at - now);
        }
        queue.next_check = Some(now + CHECK_INTERVAL);
        let keys: Vec<ConnectionKey> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if self.connections.get_mut(key).is_stalled(now) {
                self.close(key, executor);
            }
        }
        Some(CHECK_INTERVAL)
    }
}

impl Connection {
    /// Returns true if the client holds memory and has made no progress for too long.
    fn is_stalled(&mut self, now: Nanos) -> bool {
        if self.held.is_empty() || !self.waits_for_client() {
            self.checked.since = None;
            return false;
        }
        if self.checked.since.is_none() || self.checked.seen != self.progress {
            self.checked = Progress { seen: self.progress, since: Some(now) };
        }
        self.checked.since.is_some_and(|since| now - since >= STALL_TIMEOUT)
    }
}
