//! Clients that wait for memory or a turn.
//!
//! **Memory.** A client without memory for its next request waits; the server reads no more of its
//! requests. There is a queue for each pool of the budget. The first client of the queue for large
//! requests is served before any other of that queue. The clients of the other queue are tried in
//! turn, because each has a share of its own.
//!
//! **Stalled clients.** A client that holds memory, and neither receives its replies nor sends data
//! that it announced for `STALL_TIMEOUT` while another client waits for memory, is disconnected.
//! Without one that waits, a client may take as long as it likes.
//!
//! **Long requests.** A client may queue hundreds of write-zeroes and discards of 4 GiB each. Their
//! steps ([`crate::export::chunked_ops`]) are started a few at a time, over all clients together,
//! and the clients take turns, so that the others do not wait long at the disks. The requests of a
//! client that has left are dropped.

use super::connection::{ClientRequestKey, ConnectionKey};
use super::memory_budget::{Reservation, Turn};
use super::server::Server;
use crate::executor::Executor;
use mirrorball_core::units::Nanos;

/// Interval at which progress is checked while a client waits.
const CHECK_INTERVAL: Nanos = Nanos::from_secs(1);
/// Number of clients with small requests that are tried in one pass of the service loop.
const TRIES_MAX: usize = 16;
/// Number of steps of long requests of all clients that are in flight at once.
const STEPS_MAX: usize = 2;

impl Server {
    /// Reserves memory for the next request of a client. Otherwise the client waits, and its
    /// request is parsed again when there is memory.
    pub(super) fn reserve(&mut self, key: ConnectionKey, bytes: usize) -> Option<Reservation> {
        let waiting = &mut self.waiting;
        let turn = match waiting.large.front() {
            None => Turn::NoneWaits,
            Some(first) if *first == key => Turn::First,
            Some(_) => Turn::Behind,
        };
        let connection = self.connections.get_mut(key);
        let reservation = self.memory.reserve(&mut connection.held, bytes, turn);
        match (&reservation, connection.waits_for_memory) {
            (Some(_), true) => self.leave_queues(key),
            (None, false) => {
                connection.waits_for_memory = true;
                let is_small = self.memory.is_small(bytes);
                let queue = if is_small { &mut waiting.small } else { &mut waiting.large };
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
        while let Some(&first) = self.waiting.large.front() {
            self.go_on(first, executor);
            if self.waiting.large.front() == Some(&first) {
                break;
            }
        }
        for _ in 0..self.waiting.small.len().min(TRIES_MAX) {
            let Some(&first) = self.waiting.small.front() else { break };
            self.go_on(first, executor);
            if self.waiting.small.front() == Some(&first) {
                self.waiting.small.rotate_left(1);
            }
        }
    }

    /// Removes a client from the queues for memory, if it is in one.
    pub(super) fn leave_queues(&mut self, key: ConnectionKey) {
        if std::mem::take(&mut self.connections.get_mut(key).waits_for_memory) {
            self.waiting.large.retain(|other| *other != key);
            self.waiting.small.retain(|other| *other != key);
        }
    }

    /// Disconnects stalled clients while others wait for memory; returns how long until the next
    /// check.
    pub(super) fn check_stalled(&mut self, executor: &mut Executor) -> Option<Nanos> {
        let waiting = &mut self.waiting;
        if waiting.large.is_empty() && waiting.small.is_empty() {
            waiting.next_check = None;
            return None;
        }
        let now = executor.driver.now();
        let at = *waiting.next_check.get_or_insert(now);
        if now < at {
            return Some(at - now);
        }
        waiting.next_check = Some(now + CHECK_INTERVAL);
        let keys: Vec<ConnectionKey> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if self.connections.get_mut(key).check_progress(now) {
                self.close(key, executor);
            }
        }
        Some(CHECK_INTERVAL)
    }

    /// Queues a new long request.
    pub(super) fn begin_long(&mut self, key: ClientRequestKey, executor: &mut Executor) {
        let client = self.requests.get(key).connection;
        self.enlist(client);
        self.connections.get_mut(client).long.push_back(key);
        self.start_steps(executor);
    }

    /// Handles the end of a step; `has_more` is true if the request needs another.
    pub(super) fn end_step(
        &mut self,
        key: ClientRequestKey,
        has_more: bool,
        executor: &mut Executor,
    ) {
        self.waiting.steps -= 1;
        if has_more {
            let client = self.requests.get(key).connection;
            self.enlist(client);
            self.connections.get_mut(client).long.push_front(key);
        }
        self.start_steps(executor);
    }

    /// Drops the requests of a client that wait for their next step.
    pub(super) fn drop_long(&mut self, client: ConnectionKey) {
        self.waiting.long.retain(|other| *other != client);
        let connection = self.connections.get_mut(client);
        for key in std::mem::take(&mut connection.long) {
            let served = self.requests.remove(key).expect("a request that waits is in flight");
            connection.in_flight -= 1;
            self.memory.release(&mut connection.held, served.reservation);
        }
    }

    fn enlist(&mut self, client: ConnectionKey) {
        if self.connections.get(client).long.is_empty() {
            self.waiting.long.push_back(client);
        }
    }

    fn start_steps(&mut self, executor: &mut Executor) {
        while self.waiting.steps < STEPS_MAX
            && let Some(client) = self.waiting.long.pop_front()
        {
            let requests = &mut self.connections.get_mut(client).long;
            let key = requests.pop_front().expect("a client in the queue has a request");
            if !requests.is_empty() {
                self.waiting.long.push_back(client);
            }
            self.waiting.steps += 1;
            self.submit(key, executor);
        }
    }
}
