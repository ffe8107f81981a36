//! The clones of a job section as clients: a workload, and its path to the volume.
//!
//! [`DirectClient`] submits each request to the volume. [`BufferedClient`] reads through the page
//! cache: sequential reads are answered from read-ahead windows, and the volume sees only the
//! windows; all other requests go to the volume as they are. Like fio, both end at their first
//! failed request.

use crate::client::{Action, Client, ClientRequest, Origin, RequestEnd};
use crate::read_ahead::{IoRange, ReadAhead};
use crate::workload::{Issue, Next, Workload};
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::Nanos;

/// A clone that bypasses the page cache.
pub(crate) struct DirectClient {
    requests: RequestStream,
}

/// A clone that reads through the page cache.
pub(crate) struct BufferedClient {
    requests: RequestStream,
    read_ahead: ReadAhead,
    /// Reads whose data has not arrived, with the number of windows that each still needs.
    waiting: Vec<(ClientRequest, usize)>,
}

/// A workload, bounded by its queue depth and stopped by its first failed request.
struct RequestStream {
    workload: Workload,
    depth: u32,
    in_flight: u32,
    failed: bool,
}

impl RequestStream {
    fn new(workload: Workload, depth: u32) -> RequestStream {
        RequestStream { workload, depth, in_flight: 0, failed: false }
    }

    /// The next request, as an action that submits it.
    #[inline]
    fn next_action(&mut self, now: Nanos) -> Action {
        if self.failed {
            return Action::End;
        }
        if self.in_flight >= self.depth {
            return Action::Wait;
        }
        match self.workload.next(now) {
            Next::Issue(Issue { kind, offset, length, intended }) => {
                self.in_flight += 1;
                let origin = Origin::Application;
                Action::Submit(ClientRequest { kind, origin, offset, length, intended })
            }
            Next::NotBefore(until) => Action::Sleep(until),
            Next::Wait => Action::Wait,
            Next::Done => Action::End,
        }
    }

    #[inline]
    fn on_end(&mut self, request: ClientRequest, end: RequestEnd, now: Nanos) -> ClientRequest {
        self.in_flight -= 1;
        self.failed |= end == RequestEnd::Failed;
        self.workload.complete(request.kind, now);
        request
    }
}

impl DirectClient {
    pub(crate) fn new(workload: Workload, depth: u32) -> DirectClient {
        DirectClient { requests: RequestStream::new(workload, depth) }
    }
}

impl Client for DirectClient {
    #[inline]
    fn next_action(&mut self, now: Nanos) -> Action {
        self.requests.next_action(now)
    }

    #[inline]
    fn on_reply(
        &mut self,
        request: &ClientRequest,
        end: RequestEnd,
        now: Nanos,
    ) -> Option<ClientRequest> {
        Some(self.requests.on_end(*request, end, now))
    }
}

impl BufferedClient {
    /// Reads `file`, a range of the volume, through windows of at most `read_ahead_kib`.
    pub(crate) fn new(
        workload: Workload,
        depth: u32,
        read_ahead_kib: u64,
        file: IoRange,
    ) -> BufferedClient {
        let read_ahead = ReadAhead::new(read_ahead_kib, file);
        BufferedClient {
            requests: RequestStream::new(workload, depth),
            read_ahead,
            waiting: Vec::new(),
        }
    }

    /// The next read-ahead window to read.
    fn next_window(&mut self, now: Nanos) -> Option<ClientRequest> {
        let IoRange { offset, length } = self.read_ahead.poll()?;
        let (kind, origin) = (RequestKind::Read, Origin::ReadAhead);
        Some(ClientRequest { kind, origin, offset, length, intended: now })
    }

    /// Removes a waiting read whose data has arrived.
    fn take_ready(&mut self) -> Option<ClientRequest> {
        let index = self.waiting.iter().position(|(_, missing)| *missing == 0)?;
        Some(self.waiting.remove(index).0)
    }
}

impl Client for BufferedClient {
    fn next_action(&mut self, now: Nanos) -> Action {
        loop {
            if let Some(window) = self.next_window(now) {
                return Action::Submit(window);
            }
            if let Some(read) = self.take_ready() {
                return Action::AnswerFromCache(read);
            }
            match self.requests.next_action(now) {
                Action::Submit(request)
                    if request.kind == RequestKind::Read
                        && self.read_ahead.takes(range_of(&request)) =>
                {
                    self.waiting.push((request, self.read_ahead.missing(range_of(&request))));
                }
                // Reads that wait for data are answered after the workload has ended.
                Action::End if !self.requests.failed && !self.waiting.is_empty() => {
                    return Action::Wait;
                }
                action => return action,
            }
        }
    }

    fn on_reply(
        &mut self,
        request: &ClientRequest,
        end: RequestEnd,
        now: Nanos,
    ) -> Option<ClientRequest> {
        if request.origin == Origin::Application {
            return Some(self.requests.on_end(*request, end, now));
        }
        let ended = if end == RequestEnd::Failed {
            // A window that no read needs yet would be needed by a later one.
            self.requests.failed = true;
            (!self.waiting.is_empty()).then(|| self.waiting.remove(0).0)
        } else {
            self.read_ahead.on_data(range_of(request));
            let needs = |read: &ClientRequest| range_of(read).overlaps(range_of(request));
            for (_, missing) in self.waiting.iter_mut().filter(|(read, _)| needs(read)) {
                *missing = missing.saturating_sub(1);
            }
            self.take_ready()
        };
        ended.map(|read| self.requests.on_end(read, end, now))
    }
}

fn range_of(request: &ClientRequest) -> IoRange {
    IoRange { offset: request.offset, length: request.length }
}
