//! Block status: which parts of an export are allocated.
//!
//! Holes are reported as such that read as zeroes ([`crate::block_status`]). Extents in memory are
//! found at once; extents of files are found by a worker thread, so that other clients do not
//! wait.

use super::command::NbdCommand;
use super::connection::Phase;
use super::handshake::{ALLOCATION_ID, Agreement};
use super::keys::{ClientRequestKey, ConnectionKey};
use super::memory_budget::Reservation;
use super::pending_request::PendingRequest;
use super::server::{FoundExtents, Server, StatusWorker};
use crate::block_status::{ExtentKind, StatusExtent, StatusLimits, find_extents};
use crate::driver::{EventOwner, Token};
use crate::executor::Executor;
use crate::executor::block_status::StatusQuery;
use crate::nbd_protocol::wire::{status_chunk, status_flag};
use std::io;

impl Server {
    /// Starts a block status request, and answers it if that needs no file.
    pub(super) fn begin_status(
        &mut self,
        key: ConnectionKey,
        agreement: Agreement,
        command: NbdCommand,
        reservation: Reservation,
        executor: &mut Executor,
    ) {
        let export = &self.exports[agreement.export];
        let NbdCommand { offset, length, extents_max, .. } = command;
        let limits = StatusLimits { extents_max, block_bytes: export.block_bytes.into() };
        let connection = self.connections.get_mut(key);
        let segments = match executor.status_query(export.target, offset, length.into()) {
            StatusQuery::Memory(segments) => {
                let chunk = chunk(&command, &find_extents(&segments, limits));
                return connection.queue_copy(&chunk, reservation, &mut executor.driver);
            }
            StatusQuery::Files(segments) => segments,
        };
        connection.pending += 1;
        let request = PendingRequest::new(key, command, agreement, None, reservation);
        let pending = self.pending.insert(request);
        let find = move || FoundExtents { pending, extents: find_extents(&segments, limits) };
        let begun = self.status_worker(executor).and_then(|status_worker| status_worker.run(find));
        if begun.is_err() {
            // Without a thread everything is reported as data, which is always correct.
            self.end_status(pending, None, executor);
        }
    }

    /// Replies to the block status queries that are done.
    pub(super) fn on_block_status(&mut self, executor: &mut Executor) {
        while let Some(FoundExtents { pending, extents }) =
            self.status_worker.as_ref().and_then(StatusWorker::poll)
        {
            self.end_status(pending, Some(extents), executor);
        }
    }

    fn status_worker(&mut self, executor: &mut Executor) -> io::Result<&mut StatusWorker> {
        let status_worker = match self.status_worker.take() {
            Some(status_worker) => status_worker,
            None => {
                StatusWorker::new(Token::new(EventOwner::NbdBlockStatus, 0), &mut executor.driver)?
            }
        };
        Ok(self.status_worker.insert(status_worker))
    }

    /// Replies with what was found; without it, everything counts as data.
    fn end_status(
        &mut self,
        pending: ClientRequestKey,
        extents: Option<Vec<StatusExtent>>,
        executor: &mut Executor,
    ) {
        let PendingRequest { connection: key, command, reservation, .. } =
            self.pending.remove(pending).expect("a request ends once");
        let connection = self.connections.get_mut(key);
        let was_full = connection.is_full();
        connection.pending -= 1;
        if matches!(connection.phase, Phase::Closed) {
            self.memory.release(&mut connection.held, reservation);
            return self.remove_if_closed(key);
        }
        let extents = extents.unwrap_or_else(|| {
            vec![StatusExtent { length: command.length.into(), kind: ExtentKind::Data }]
        });
        connection.queue_copy(&chunk(&command, &extents), reservation, &mut executor.driver);
        self.dirty.push(key);
        if was_full {
            self.go_on(key, executor);
        }
    }
}

fn chunk(command: &NbdCommand, extents: &[StatusExtent]) -> Vec<u8> {
    let extents = extents.iter().map(|extent| {
        let flags = match extent.kind {
            ExtentKind::Data => 0,
            ExtentKind::Hole => status_flag::HOLE | status_flag::ZERO,
        };
        (extent.length as u32, flags)
    });
    status_chunk(command.cookie, ALLOCATION_ID, extents)
}
