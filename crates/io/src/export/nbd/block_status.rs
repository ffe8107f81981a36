//! Block status: reports which parts of an export are allocated.
//!
//! Holes are those that read as zeroes ([`crate::block_status`]). Extents in memory are found at
//! once; a worker thread finds those of files, so that other clients do not wait.

use super::connection::{ClientRequestKey, ConnectionKey, FoundExtents, ServedRequest};
use super::memory_budget::Reservation;
use super::server::Server;
use crate::block_status::{ExtentKind, StatusExtent, StatusLimits, find_extents};
use crate::blocking_worker::BlockingWorker;
use crate::driver::{EventOwner, Token};
use crate::executor::Executor;
use crate::executor::block_status::StatusQuery;
use mirrorball_nbd::handshake::ALLOCATION_ID;
use mirrorball_nbd::server::ExportRequest;
use mirrorball_nbd::wire::{status_chunk, status_flag};
use std::io;

impl Server {
    /// Starts a block status request, and answers it if that needs no file.
    pub(super) fn begin_status(
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
