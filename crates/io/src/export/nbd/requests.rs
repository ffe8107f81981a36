//! Requests of clients: their I/O requests to the executor, and their replies.

use super::command::{Action, NbdCommand};
use super::connection::{Expecting, Phase};
use super::handshake::Agreement;
use super::keys::{ClientRequestKey, ConnectionKey};
use super::memory_budget::Reservation;
use super::pending_request::PendingRequest;
use super::server::Server;
use crate::driver::buffers::{HEAD_BYTES, Slice};
use crate::driver::{EventOwner, Token};
use crate::executor::{Executor, IoReply, IoRequest};
use crate::nbd_protocol::wire::{WireError, data_chunk, error_chunk, simple_reply};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::slab::SlabKey;

impl Server {
    /// Handles the end of an I/O request of the server.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let key = ClientRequestKey::from_slot(ended.token.key());
        let pending = self.pending.get_mut(key);
        let target = self.exports[pending.agreement.export].target;
        let has_more = ended.result.is_ok() && pending.advance(target);
        let (is_long, action, connection) =
            (pending.is_long(), pending.command.action, pending.connection);
        // The request of a client that has left ends after its step.
        let is_closed = matches!(self.connections.get(connection).phase, Phase::Closed);
        let has_more = has_more && !(is_long && is_closed);
        if is_long {
            self.end_step(key, has_more, executor);
        } else if has_more {
            self.submit(key, executor);
        }
        if has_more {
            return;
        }
        let result = ended.result.map_err(|error| match (error, action) {
            (VolumeError::OutOfRange, _) => WireError::Invalid,
            (VolumeError::ReadOnly, _) => WireError::NotPermitted,
            _ => WireError::Io,
        });
        self.reply_to(key, result, executor);
    }

    /// Starts a request.
    pub(super) fn begin(
        &mut self,
        key: ConnectionKey,
        agreement: Agreement,
        command: NbdCommand,
        reservation: Reservation,
        executor: &mut Executor,
    ) {
        let connection = self.connections.get_mut(key);
        let driver = &mut executor.driver;
        let length = command.length as usize;
        if command.action == Action::BlockStatus {
            return self.begin_status(key, agreement, command, reservation, executor);
        }
        let has_data = matches!(command.action, Action::Read | Action::Write);
        let buffer = has_data.then(|| driver.acquire(length));
        connection.pending += 1;
        connection.pending_bytes += if has_data { length } else { 0 };
        let request = PendingRequest::new(key, command, agreement, buffer, reservation);
        let is_long = request.is_long();
        let pending = self.pending.insert(request);
        if let (Action::Write, Some(buffer)) = (command.action, buffer) {
            let here = connection.unread_bytes().min(length);
            let data = Slice::data(buffer, 0, length);
            connection.input.take_into(Slice { length: here, ..data }, driver);
            if here < length {
                connection.expecting = Expecting::Data { pending, slice: data.after(here) };
                return;
            }
        }
        match is_long {
            true => self.begin_long(pending, executor),
            false => self.submit(pending, executor),
        }
    }

    /// Submits the next I/O request of a request to the executor.
    pub(super) fn submit(&mut self, key: ClientRequestKey, executor: &mut Executor) {
        let pending = self.pending.get(key);
        let NbdCommand { action, offset, .. } = pending.command;
        let target = self.exports[pending.agreement.export].target;
        let next = (offset + pending.done, pending.step(target), pending.buffer);
        let (kind, (offset, length, buffer)) = match action {
            _ if pending.flushing => (RequestKind::Flush, (0, 0, None)),
            Action::Read => (RequestKind::Read, next),
            Action::Write => (RequestKind::Write, next),
            Action::Trim => (RequestKind::Discard, next),
            Action::Flush => (RequestKind::Flush, (0, 0, None)),
            Action::WriteZeroes => (RequestKind::Write, (next.0, next.1, Some(self.zeroes))),
            Action::BlockStatus => unreachable!("block status is not an I/O request"),
        };
        executor.submit(IoRequest {
            token: Token::new(EventOwner::NbdRequest, key.slot()),
            target,
            kind,
            offset,
            length,
            buffer,
            stream: self.connections.get(pending.connection).stream,
        });
    }

    /// Replies to a request, and removes it.
    fn reply_to(
        &mut self,
        key: ClientRequestKey,
        result: Result<(), WireError>,
        executor: &mut Executor,
    ) {
        let PendingRequest {
            connection: connection_key,
            command,
            agreement,
            buffer,
            reservation,
            ..
        } = self.pending.remove(key).expect("a request ends once");
        let connection = self.connections.get_mut(connection_key);
        let was_full = connection.is_full();
        connection.pending -= 1;
        if buffer.is_some() {
            connection.pending_bytes -= command.length as usize;
        }
        let driver = &mut executor.driver;
        if matches!(connection.phase, Phase::Closed) {
            if let Some(buffer) = buffer {
                driver.release(buffer);
            }
            self.memory.release(&mut connection.held, reservation);
            return self.remove_if_closed(connection_key);
        }
        let buffer = buffer.unwrap_or_else(|| driver.acquire(0));
        let is_read = command.action == Action::Read;
        let put = |head: &[u8], data: u32| {
            let start = HEAD_BYTES - head.len();
            let place = Slice { buffer, start, length: head.len() };
            driver.bytes_mut(place).copy_from_slice(head);
            let length = head.len() + data as usize;
            connection.queue(Slice { buffer, start, length }, reservation);
        };
        match result {
            Ok(()) if is_read && agreement.structured => {
                put(&data_chunk(command.cookie, command.offset, command.length), command.length);
            }
            Ok(()) => {
                put(&simple_reply(0, command.cookie), if is_read { command.length } else { 0 });
            }
            Err(error) if is_read && agreement.structured => {
                put(&error_chunk(command.cookie, error), 0);
            }
            Err(error) => put(&simple_reply(error as u32, command.cookie), 0),
        }
        self.dirty.push(connection_key);
        if was_full {
            self.go_on(connection_key, executor);
        }
    }
}
