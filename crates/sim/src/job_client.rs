//! The clones of a job section as clients: a workload, and its path to the volume.
//!
//! A [`RequestStream`] submits each request to the volume. [`BufferedClient`] reads through the
//! page cache: sequential reads are answered from read-ahead windows, and the volume sees only the
//! windows; all other requests go to the volume as they are. Like fio, both end at their first
//! failed request.

use crate::client::{Action, Client, ClientRequest, EndedRequest, RequestEnd, RequestOrigin};
use crate::depth_search::{DepthSearch, DepthStep};
use crate::job::Section;
use crate::read_ahead::{IoRange, ReadAhead};
use crate::workload::{Issue, Next, ReplayStream, Workload};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::Nanos;

/// A clone that reads through the page cache.
pub(crate) struct BufferedClient {
    requests: RequestStream,
    /// The state of each file, in the order of their places, and the one read last.
    files: Vec<ReadAhead>,
    last: usize,
    /// Reads whose data has not arrived, with the number of windows that each still needs.
    waiting: Vec<(ClientRequest, usize)>,
}

/// The source of a clone's requests.
pub(crate) enum RequestSource {
    Generated(Box<Workload>),
    Replayed(Box<ReplayStream>),
}

/// A workload, bounded by its queue depth and stopped by its first failed request.
pub(crate) struct RequestStream {
    source: RequestSource,
    depth: u32,
    search: Option<DepthSearch>,
    in_flight: u32,
    failed: bool,
}

impl RequestStream {
    /// The requests of a clone of a section whose group starts at `now`.
    pub(crate) fn new(
        source: RequestSource,
        depth: u32,
        section: &Section,
        now: Nanos,
    ) -> RequestStream {
        let start = now.max(section.start_delay);
        let search =
            section.depth_goal.map(|goal| DepthSearch::new(goal, depth, start, section.ramp));
        RequestStream { source, depth, search, in_flight: 0, failed: false }
    }

    /// Submits no further request, as after one that failed.
    pub(crate) fn stop(&mut self) {
        self.failed = true;
    }

    /// The next request, as an action that submits it.
    #[inline]
    pub(crate) fn on_end(&mut self, request: &ClientRequest, end: RequestEnd, now: Nanos) {
        let kind = request.kind;
        self.in_flight -= 1;
        self.failed |= end == RequestEnd::Failed;
        if let Some(search) = self.search.as_mut().filter(|_| kind != RequestKind::Flush) {
            self.failed |= !search.on_end(now - request.intended);
        }
        match &mut self.source {
            RequestSource::Generated(workload) => workload.complete(kind, now),
            RequestSource::Replayed(stream) => stream.complete(now),
        }
    }
}

/// A clone that bypasses the page cache.
impl Client for RequestStream {
    fn depth(&self) -> u32 {
        self.depth
    }

    #[inline(always)]
    fn next_action(&mut self, now: Nanos) -> Action {
        if self.failed {
            return Action::End;
        }
        let depth = match &mut self.search {
            None => self.depth,
            Some(search) => match search.step(now, self.in_flight) {
                DepthStep::AtMost(depth) => depth,
                DepthStep::Drain => return Action::Wait,
                DepthStep::ForgetResults => return Action::ForgetResults,
                DepthStep::End => return Action::End,
            },
        };
        if self.in_flight >= depth {
            return Action::Wait;
        }
        let next = match &mut self.source {
            RequestSource::Generated(workload) => workload.next(now),
            RequestSource::Replayed(stream) => stream.next(now),
        };
        match next {
            Next::Issue(Issue { kind, offset, length, intended }) => {
                self.in_flight += 1;
                let origin = RequestOrigin::Application;
                Action::Submit(ClientRequest { kind, origin, offset, length, intended })
            }
            Next::NotBefore(until) => Action::Sleep(until),
            Next::Wait => Action::Wait,
            Next::Done => Action::End,
        }
    }

    fn leave(&mut self) {
        if let RequestSource::Generated(workload) = &mut self.source {
            workload.leave_flow();
        }
    }

    fn take_error(&mut self) -> Option<Diagnostic> {
        match &mut self.source {
            RequestSource::Generated(_) => None,
            RequestSource::Replayed(stream) => stream.take_error(),
        }
    }

    #[inline]
    fn on_reply(&mut self, request: &ClientRequest, end: RequestEnd, now: Nanos) -> EndedRequest {
        self.on_end(request, end, now);
        EndedRequest::Same
    }
}

impl BufferedClient {
    /// Reads `files`, ranges of the volume, through windows of at most `read_ahead_kib`.
    pub(crate) fn new(
        requests: RequestStream,
        read_ahead_kib: u64,
        mut files: Vec<IoRange>,
    ) -> BufferedClient {
        files.sort_by_key(|file| file.offset);
        let files = files.into_iter().map(|file| ReadAhead::new(read_ahead_kib, file)).collect();
        BufferedClient { requests, files, last: 0, waiting: Vec::new() }
    }

    fn file_at(&self, offset: u64) -> usize {
        self.files.partition_point(|file| file.start() <= offset).saturating_sub(1)
    }

    /// Handles a read. Returns true if its data come from windows.
    fn takes(&mut self, request: &ClientRequest) -> bool {
        self.last = self.file_at(request.offset);
        self.files[self.last].takes(range_of(request))
    }

    /// The next read-ahead window to read.
    fn next_window(&mut self, now: Nanos) -> Option<ClientRequest> {
        let IoRange { offset, length } = self.files[self.last].poll()?;
        let (kind, origin) = (RequestKind::Read, RequestOrigin::ReadAhead);
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
                    if request.kind == RequestKind::Read && self.takes(&request) =>
                {
                    let missing = self.files[self.last].missing(range_of(&request));
                    self.waiting.push((request, missing));
                }
                // Reads that wait for data are answered after the workload has ended.
                Action::End if !self.requests.failed && !self.waiting.is_empty() => {
                    return Action::Wait;
                }
                action => return action,
            }
        }
    }

    fn take_error(&mut self) -> Option<Diagnostic> {
        self.requests.take_error()
    }

    fn leave(&mut self) {
        self.requests.leave();
    }

    fn on_reply(&mut self, request: &ClientRequest, end: RequestEnd, now: Nanos) -> EndedRequest {
        if request.origin == RequestOrigin::Application {
            self.requests.on_end(request, end, now);
            return EndedRequest::Same;
        }
        let ended = if end == RequestEnd::Failed {
            // A window that no read needs yet would be needed by a later one.
            self.requests.failed = true;
            (!self.waiting.is_empty()).then(|| self.waiting.remove(0).0)
        } else {
            let file = self.file_at(request.offset);
            self.files[file].on_data(range_of(request));
            let needs = |read: &ClientRequest| range_of(read).overlaps(range_of(request));
            for (_, missing) in self.waiting.iter_mut().filter(|(read, _)| needs(read)) {
                *missing = missing.saturating_sub(1);
            }
            self.take_ready()
        };
        let Some(read) = ended else { return EndedRequest::None };
        self.requests.on_end(&read, end, now);
        EndedRequest::Other(read)
    }
}

fn range_of(request: &ClientRequest) -> IoRange {
    IoRange { offset: request.offset, length: request.length }
}
