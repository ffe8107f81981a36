//! Requests of clients: their I/O requests to the executor, and their replies.
//!
//! **Block status** reports which parts of an export are allocated. Holes are those that read as
//! zeroes ([`crate::block_status`]). Extents in memory are found at once; a worker thread finds
//! those of files, so that other clients do not wait.

use super::connection::{ClientRequestKey, ConnectionKey, Expecting};
use super::memory_budget::Reservation;
use super::served_request::{FoundExtents, ServedRequest};
use super::server::Server;
use crate::block_status::{ExtentKind, StatusExtent, StatusLimits, find_extents};
use crate::blocking_worker::BlockingWorker;
use crate::driver::buffers::Slice;
use crate::driver::{EventOwner, Token};
use crate::executor::block_status::StatusQuery;
use crate::executor::{Executor, IoReply, IoRequest};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::slab::SlabKey;
use mirrorball_nbd::handshake::ALLOCATION_ID;
use mirrorball_nbd::server::{Action, ExportRequest, ReplyHead};
use mirrorball_nbd::wire::{WireError, status_chunk, status_flag};
use std::io;

impl Server {
    pub(super) fn begin(
        &mut self,
        key: ConnectionKey,
        request: ExportRequest,
        export: usize,
        reservation: Reservation,
        executor: &mut Executor,
    ) {
        if request.action == Action::BlockStatus {
            return self.begin_status(key, request, export, reservation, executor);
        }
        let connection = self.connections.get_mut(key);
        let driver = &mut executor.driver;
        let length = request.length as usize;
        let buffer = request.has_data().then(|| driver.acquire(length));
        connection.in_flight += 1;
        let (done, flushing) = (0, false);
        let served =
            ServedRequest { connection: key, request, export, buffer, reservation, done, flushing };
        let is_long = served.is_long();
        let pending = self.requests.insert(served);
        if let (Action::Write, Some(buffer)) = (request.action, buffer) {
            let here = connection.input.unread_bytes().min(length);
            let data = Slice::data(buffer, 0, length);
            connection.input.take_into(Slice { length: here, ..data }, driver);
            if here < length {
                let slice = data.after(here);
                connection.expecting = Expecting::Data { request: pending, slice };
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
        let served = self.requests.get(key);
        let target = self.exports[served.export].target;
        let offset = served.request.offset + served.done;
        let next = (offset, served.step(target), served.buffer);
        let (kind, (offset, length, buffer)) = match served.request.action {
            _ if served.flushing => (RequestKind::Flush, (0, 0, None)),
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
            stream: self.connections.get(served.connection).stream,
        });
    }

    /// Handles the end of an I/O request of the server.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let key = ClientRequestKey::from_slot(ended.token.key());
        let served = self.requests.get_mut(key);
        let mut has_more =
            ended.result.is_ok() && served.advance(self.exports[served.export].target);
        if served.is_long() {
            // The request of a client that has left ends after its step.
            has_more &= !self.connections.get(served.connection).is_closed();
            self.end_step(key, has_more, executor);
        } else if has_more {
            self.submit(key, executor);
        }
        if has_more {
            return;
        }
        let result = ended.result.map_err(|error| match error {
            VolumeError::OutOfRange => WireError::Invalid,
            VolumeError::ReadOnly => WireError::NotPermitted,
            VolumeError::Unwritable if executor.has_no_space() => WireError::NoSpace,
            _ => WireError::Io,
        });
        let head = ReplyHead::new(&self.requests.get(key).request, result);
        self.end_request(key, head.bytes(), head.data_bytes(), executor);
    }

    /// Replies to a request, and removes it.
    fn end_request(
        &mut self,
        key: ClientRequestKey,
        head: &[u8],
        data_bytes: usize,
        executor: &mut Executor,
    ) {
        let served = self.requests.remove(key).expect("a request ends once");
        let ServedRequest { connection: key, buffer, reservation, .. } = served;
        let connection = self.connections.get_mut(key);
        let was_full = connection.is_full();
        connection.in_flight -= 1;
        let driver = &mut executor.driver;
        if connection.is_closed() {
            if let Some(buffer) = buffer {
                driver.release(buffer);
            }
            self.memory.release(&mut connection.held, reservation);
            return self.remove_if_closed(key);
        }
        let data = buffer.map(|buffer| (buffer, data_bytes));
        connection.queue_reply(head, data, reservation, driver);
        if connection.can_send() {
            self.dirty.push(key);
        }
        if was_full {
            self.go_on(key, executor);
        }
    }

    /// Starts a block status request, and answers it if that needs no file.
    fn begin_status(
        &mut self,
        key: ConnectionKey,
        request: ExportRequest,
        export: usize,
        reservation: Reservation,
        executor: &mut Executor,
    ) {
        let ExportRequest { offset, length, extents_max, .. } = request;
        let block_bytes = self.exports[export].block_bytes.into();
        let limits = StatusLimits { extents_max, block_bytes };
        let connection = self.connections.get_mut(key);
        let target = self.exports[export].target;
        let segments = match executor.status_query(target, offset, length.into()) {
            StatusQuery::Memory(segments) => {
                let chunk = status_reply(&request, &find_extents(&segments, limits));
                return connection.queue_copy(&chunk, reservation, &mut executor.driver);
            }
            StatusQuery::Files(segments) => segments,
        };
        connection.in_flight += 1;
        let (buffer, done, flushing) = (None, 0, false);
        let request = self.requests.insert(ServedRequest {
            connection: key,
            request,
            export,
            buffer,
            reservation,
            done,
            flushing,
        });
        let find = move || FoundExtents { request, extents: find_extents(&segments, limits) };
        let begun = self.status_worker(executor).and_then(|worker| worker.run(find));
        if begun.is_err() {
            // Without a thread everything is reported as data, which is always correct.
            self.end_status(request, None, executor);
        }
    }

    /// Replies to the block status requests whose extents were found.
    pub(super) fn on_block_status(&mut self, executor: &mut Executor) {
        while let Some(FoundExtents { request, extents }) =
            self.status_worker.as_ref().and_then(BlockingWorker::poll)
        {
            self.end_status(request, Some(extents), executor);
        }
    }

    fn status_worker(
        &mut self,
        executor: &mut Executor,
    ) -> io::Result<&mut BlockingWorker<FoundExtents>> {
        let token = Token::new(EventOwner::NbdBlockStatus, 0);
        let worker = match self.status_worker.take() {
            Some(worker) => worker,
            None => BlockingWorker::new(token, &mut executor.driver)?,
        };
        Ok(self.status_worker.insert(worker))
    }

    /// Replies with the extents; without any, everything counts as data.
    fn end_status(
        &mut self,
        key: ClientRequestKey,
        extents: Option<Vec<StatusExtent>>,
        executor: &mut Executor,
    ) {
        let request = self.requests.get(key).request;
        let all = StatusExtent { length: request.length.into(), kind: ExtentKind::Data };
        let chunk = status_reply(&request, &extents.unwrap_or_else(|| vec![all]));
        self.end_request(key, &chunk, 0, executor);
    }
}

fn status_reply(request: &ExportRequest, extents: &[StatusExtent]) -> Vec<u8> {
    let extents = extents.iter().map(|extent| {
        let flags = match extent.kind {
            ExtentKind::Data => 0,
            ExtentKind::Hole => status_flag::HOLE | status_flag::ZERO,
        };
        (extent.length as u32, flags)
    });
    status_chunk(request.cookie, ALLOCATION_ID, extents)
}
