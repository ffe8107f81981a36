//! Connections that are closed for others: those that do not finish their handshake, and idle ones
//! where the limit is reached.
//!
//! A handshake has [`HANDSHAKE_TIMEOUT`]. At the limit of connections, the oldest one in its
//! handshake is closed for a new one. If there is none, the place with the most connections loses
//! the one that was idle for longest: a machine, or a process of this machine, cannot lock others
//! out. If every place has one connection, a new one is refused.

use super::connection::{Connection, Phase};
use super::keys::ConnectionKey;
use super::server::Server;
use crate::driver::PeerPlace;
use crate::executor::Executor;
use mirrorball_core::units::Nanos;
use std::collections::BTreeMap;

/// Time that a client has for its handshake.
pub(super) const HANDSHAKE_TIMEOUT: Nanos = Nanos::from_secs(10);

impl Server {
    /// Starts the time of a handshake.
    pub(super) fn start_handshake(&mut self, key: ConnectionKey, now: Nanos) {
        let stream = self.connections.get(key).stream;
        self.handshakes.0.push_back((now + HANDSHAKE_TIMEOUT, key, stream));
    }

    /// Closes connections whose handshake takes too long; returns how long until the next one does.
    pub(super) fn check_handshakes(&mut self, executor: &mut Executor) -> Option<Nanos> {
        while let Some(&(at, key, stream)) = self.handshakes.0.front() {
            let connection = self.connections.find(key);
            if connection.is_some_and(|it| it.stream == stream && it.is_negotiating()) {
                let now = executor.driver.now();
                if now < at {
                    return Some(at - now);
                }
                self.close(key, executor);
            }
            self.handshakes.0.pop_front();
        }
        None
    }

    /// Closes a connection at the limit, for one from `place`; returns false if none can be.
    pub(super) fn make_room(&mut self, place: PeerPlace, executor: &mut Executor) -> bool {
        let open = || self.connections.iter().filter(|(_, connection)| connection.is_open());
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
        match victim.map(|(key, _)| key) {
            Some(key) => {
                self.close(key, executor);
                true
            }
            None => false,
        }
    }
}

impl Connection {
    pub(super) fn is_negotiating(&self) -> bool {
        matches!(self.phase, Phase::Negotiating(_))
    }

    fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Closed)
    }

    /// Returns true if the client waits for nothing.
    fn is_idle(&self) -> bool {
        self.pending == 0 && !self.has_outgoing() && self.unread_bytes() == 0
    }
}
