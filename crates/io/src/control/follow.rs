//! Clients that are sent events, and maybe follow them.
//!
//! A client has at most one send in flight, with all events that it has not got. Events that happen
//! meanwhile are sent when it has taken those; a client that is slow misses the oldest, and is sent
//! their number.

use super::conditions::WatchedParts;
use super::protocol::StateChange;
use super::{ClientKey, ClientPhase, Control};
use crate::driver::{EventOwner, Token};
use crate::executor::Executor;
use crate::rebuild::Rebuild;
use crate::scrub::Scrub;
use crate::spares::Spares;
use mirrorball_core::slab::SlabKey;

/// The part of the events that a client was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Follower {
    /// The number of the last event that it was sent.
    sent: u64,
    /// True until its connection ends.
    is_endless: bool,
}

impl Control {
    /// Records what happened since the last turn, and sends it to clients that follow.
    pub fn send_events(
        &mut self,
        executor: &mut Executor,
        (rebuild, scrub, spares): (&Rebuild, &Scrub, &Spares),
    ) {
        self.events.observe(WatchedParts { executor, rebuild, scrub, spares });
        if self.events.take_news() {
            self.send_to_followers(executor);
        }
    }

    pub(super) fn begin_events(
        &mut self,
        key: ClientKey,
        is_endless: bool,
        executor: &mut Executor,
    ) {
        let client = self.clients.get_mut(key);
        client.follower = Some(Follower { sent: 0, is_endless });
        client.phase = ClientPhase::Following;
        if is_endless {
            client.in_flight += 1;
            let token = Token::new(EventOwner::ControlHangup, key.slot());
            executor.driver.watch_hangup(token, client.socket);
        }
        self.send_new_events(key, executor);
    }

    /// Sends a client that has got what it was sent the events since then.
    pub(super) fn on_events_sent(&mut self, key: ClientKey, executor: &mut Executor) {
        let client = self.clients.get_mut(key);
        if let Some(buffer) = client.buffer.take() {
            executor.driver.release(buffer);
        }
        self.send_new_events(key, executor);
    }

    /// Sends the last event of the service.
    pub(super) fn announce_stop(&mut self, executor: &mut Executor) {
        self.events.record(StateChange::ServiceStopping, executor);
        self.send_to_followers(executor);
    }

    /// Sends events to all that follow them and wait for more.
    pub(super) fn send_to_followers(&mut self, executor: &mut Executor) {
        let waiting = self.clients.iter().filter(|(_, client)| {
            client.phase == ClientPhase::Following && client.buffer.is_none()
        });
        let keys: Vec<ClientKey> = waiting.map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.send_new_events(key, executor));
    }

    /// Sends what a client has not got, or ends its connection if it got all that it asked for.
    fn send_new_events(&mut self, key: ClientKey, executor: &mut Executor) {
        let count = self.events.count();
        let client = self.clients.get_mut(key);
        let follower = client.follower.as_mut().expect("it asked for events");
        if follower.sent < count {
            let text = self.events.lines_after(follower.sent);
            follower.sent = count;
            self.send(key, &text, executor);
        } else if !follower.is_endless || self.stopping {
            self.remove(key, executor);
        }
    }
}
