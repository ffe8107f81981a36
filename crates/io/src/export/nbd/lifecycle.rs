//! How connections begin and end.
//!
//! A handshake has [`HANDSHAKE_TIMEOUT`]. At the limit of connections, the oldest one in its
//! handshake is closed for a new one. If there is none, the place with the most connections loses
//! the one that was idle for longest: a machine, or a process of this machine, cannot lock others
//! out. If every place has one connection, a new one is refused.
//!
//! A connection that is closed is removed once none of its operations is in flight, at the end of
//! the pass.

use super::connection::{Connection, ConnectionKey, Expecting, Phase};
use super::memory_budget::Reservation;
use super::server::Server;
use crate::driver::{EventOwner, Handle, PeerPlace, Token};
use crate::executor::Executor;
use mirrorball_core::slab::SlabKey;
use mirrorball_core::units::Nanos;
use mirrorball_nbd::handshake::greeting;
use std::collections::BTreeMap;

pub(super) const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

impl Server {
    pub(super) fn accept(&mut self, executor: &mut Executor) {
        for (key, listener) in (0..).zip(&mut self.listeners) {
            if !listener.accepting && !self.stopping {
                listener.accepting = true;
                executor.driver.accept(Token::new(EventOwner::NbdAccept, key), listener.socket);
            }
        }
    }

    /// Serves the connections that another thread accepted since the last call.
    pub(super) fn on_external_connections(&mut self, executor: &mut Executor) {
        while let Some(external) = &self.external_connections
            && let Ok((socket, address)) = external.receiver.try_recv()
        {
            // Without a free descriptor the connection is closed, as at a listener.
            if let Ok(socket) = executor.driver.adopt(socket.into()) {
                self.on_connection(socket, PeerPlace::machine(address), executor);
            }
        }
    }

    pub(super) fn on_connection(
        &mut self,
        socket: Handle,
        place: PeerPlace,
        executor: &mut Executor,
    ) {
        let is_full = self.connections.len() >= self.connections_max;
        if self.stopping || is_full && !self.make_room(place, executor) {
            return executor.driver.close(socket);
        }
        let driver = &mut executor.driver;
        let mut connection = Connection::new(socket, self.next_stream, place, driver);
        self.next_stream += 1;
        connection.queue_copy(&greeting(), Reservation::NONE, driver);
        let now = driver.now();
        let key = self.connections.insert(connection);
        self.start_handshake(key, now);
        self.go_on(key, executor);
    }

    pub(super) fn listen_again(&mut self, executor: &mut Executor) -> Option<Nanos> {
        if !self.backoff.is_running() {
            return None;
        }
        let now = executor.driver.now();
        if self.backoff.take_expired(now) {
            self.accept(executor);
        }
        self.backoff.remaining(now)
    }

    fn start_handshake(&mut self, key: ConnectionKey, now: Nanos) {
        let stream = self.connections.get(key).stream;
        self.waiting.handshakes.push_back((now + HANDSHAKE_TIMEOUT, key, stream));
    }

    /// Closes connections whose handshake takes too long; returns how long until the next one does.
    pub(super) fn check_handshakes(&mut self, executor: &mut Executor) -> Option<Nanos> {
        while let Some(&(at, key, stream)) = self.waiting.handshakes.front() {
            let connection = self.connections.find(key);
            if connection.is_some_and(|it| it.stream == stream && it.is_negotiating()) {
                let now = executor.driver.now();
                if now < at {
                    return Some(at - now);
                }
                self.close(key, executor);
            }
            self.waiting.handshakes.pop_front();
        }
        None
    }

    /// Closes a connection at the limit, for one from `place`; returns false if none can be.
    fn make_room(&mut self, place: PeerPlace, executor: &mut Executor) -> bool {
        let open = || self.connections.iter().filter(|(_, connection)| !connection.is_closed());
        let negotiating = open().filter(|(_, connection)| connection.is_negotiating());
        let victim = negotiating.min_by_key(|(_, connection)| connection.stream);
        let victim = victim.or_else(|| {
            let mut counts = BTreeMap::from([(place, 1)]);
            for (_, connection) in open() {
                *counts.entry(connection.place).or_insert(0) += 1;
            }
            let (largest, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
            let idle = open().filter(|(_, it)| it.place == largest && it.is_idle());
            idle.min_by_key(|(_, connection)| connection.active_at).filter(|_| count > 1)
        });
        let victim = victim.map(|(key, _)| key);
        if let Some(key) = victim {
            self.close(key, executor);
        }
        victim.is_some()
    }

    /// Accepts no more connections and requests; those in flight are finished and answered.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.stopping = true;
        for listener in &self.listeners {
            executor.driver.close(listener.socket);
        }
        if let Some(external) = &self.external_connections {
            executor.driver.close(external.waker);
        }
        let keys: Vec<ConnectionKey> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            let connection = self.connections.get(key);
            match connection.phase {
                Phase::Open if connection.is_negotiating() => self.close(key, executor),
                Phase::Open => self.drain(key, executor),
                Phase::Draining | Phase::Closed => {}
            }
        }
    }

    /// Accepts no more requests on a connection, and closes it after the last reply.
    pub(super) fn drain(&mut self, key: ConnectionKey, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        connection.phase = Phase::Draining;
        self.leave_queues(key);
        // A write whose data are incomplete is not carried out.
        self.drop_unfinished(key, executor);
        let connection = self.connections.get_mut(key);
        if connection.is_answered() {
            return self.close(key, executor);
        }
        let token = Token::new(EventOwner::NbdHangup, key.slot());
        connection.watch_hangup(token, &mut executor.driver);
    }

    /// Closes a connection: nothing more is sent, and its requests in flight get no reply.
    pub(super) fn close(&mut self, key: ConnectionKey, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        if !connection.is_closed() {
            connection.phase = Phase::Closed;
            executor.driver.close(connection.socket);
            connection.drop_queue(&mut executor.driver, &mut self.memory);
            self.leave_queues(key);
            self.drop_long(key);
        }
        self.drop_unfinished(key, executor);
        self.remove_if_closed(key);
    }

    /// Drops a write whose data are incomplete.
    pub(super) fn drop_unfinished(&mut self, key: ConnectionKey, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        let Expecting::Data { request, .. } = connection.expecting else { return };
        if connection.receiving {
            // The kernel may still write to its buffer; this is called again when that ends.
            return;
        }
        connection.expecting = Expecting::Header;
        let served = self.requests.remove(request);
        let served = served.expect("a write that waits for data is in flight");
        connection.in_flight -= 1;
        executor.driver.release(served.buffer.expect("a write has a buffer"));
        self.memory.release(&mut connection.held, served.reservation);
    }

    /// Marks a closed connection for removal at the end of this pass. It is not removed at once,
    /// because callers still use it.
    pub(super) fn remove_if_closed(&mut self, key: ConnectionKey) {
        if self.connections.get(key).is_over() && !self.over.contains(&key) {
            self.over.push(key);
        }
    }
}
