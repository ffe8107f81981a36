//! Long requests: write-zeroes and discards that take many I/O requests, with turns for the
//! clients.
//!
//! A client may queue hundreds of requests of 4 GiB each. Their steps
//! ([`crate::export::chunked_ops`]) are started a few at a time, over all clients together, and the
//! clients take turns, so that the others do not wait long at the disks. The requests of a client
//! that has left are dropped.

use super::keys::{ClientRequestKey, ConnectionKey};
use super::pending_request::PendingRequest;
use super::server::Server;
use crate::executor::Executor;

/// Number of steps of all clients that are in flight at once.
const STEPS_MAX: usize = 2;

impl Server {
    /// Queues a new long request.
    pub(super) fn begin_long(&mut self, key: ClientRequestKey, executor: &mut Executor) {
        let client = self.pending.get(key).connection;
        self.enlist(client);
        self.connections.get_mut(client).long.push_back(key);
        self.start_steps(executor);
    }

    /// Takes the end of a step; `has_more` tells whether the request needs another.
    pub(super) fn end_step(
        &mut self,
        key: ClientRequestKey,
        has_more: bool,
        executor: &mut Executor,
    ) {
        self.long.steps -= 1;
        if has_more {
            let client = self.pending.get(key).connection;
            self.enlist(client);
            self.connections.get_mut(client).long.push_front(key);
        }
        self.start_steps(executor);
    }

    /// Drops the requests of a client that wait for their next step.
    pub(super) fn drop_long(&mut self, client: ConnectionKey) {
        self.long.clients.retain(|other| *other != client);
        let connection = self.connections.get_mut(client);
        for key in std::mem::take(&mut connection.long) {
            let PendingRequest { reservation, .. } =
                self.pending.remove(key).expect("a request that waits is pending");
            connection.pending -= 1;
            self.memory.release(&mut connection.held, reservation);
        }
    }

    fn enlist(&mut self, client: ConnectionKey) {
        if self.connections.get(client).long.is_empty() {
            self.long.clients.push_back(client);
        }
    }

    fn start_steps(&mut self, executor: &mut Executor) {
        while self.long.steps < STEPS_MAX
            && let Some(client) = self.long.clients.pop_front()
        {
            let requests = &mut self.connections.get_mut(client).long;
            let key = requests.pop_front().expect("a client in the queue has a request");
            if !requests.is_empty() {
                self.long.clients.push_back(client);
            }
            self.long.steps += 1;
            self.submit(key, executor);
        }
    }
}
