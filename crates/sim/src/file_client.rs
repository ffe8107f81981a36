//! A clone that works on a file: its requests go where the filesystem has the blocks.
//!
//! A request is submitted as one part for each range of the volume that holds it, and ends with its
//! last part. A read of a hole costs host time only. Metadata of the filesystem are not written.

use crate::client::{Action, Client, ClientRequest, EndedRequest, RequestEnd};
use crate::job::{Allocation, FileSpec};
use crate::job_client::RequestStream;
use crate::xfs_file::{XfsFile, XfsGeometry};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::{Nanos, format_bytes};
use std::collections::VecDeque;

/// A clone that works on a file, without the page cache.
pub(crate) struct FileClient {
    requests: RequestStream,
    file: XfsFile,
    /// Parts that are not submitted so far.
    ready: VecDeque<ClientRequest>,
    /// Requests in flight, with their parts that have not ended.
    waiting: Vec<(ClientRequest, Vec<ClientRequest>)>,
    error: Option<Diagnostic>,
}

/// Makes the filesystem of a file, and allocates the file if the job begins with that.
pub(crate) fn make_file(
    spec: &FileSpec,
    volume_bytes: u64,
    file_bytes: u64,
) -> Result<XfsFile, Diagnostic> {
    let unit_bytes = spec.unit_bytes;
    let made = XfsGeometry::ag_bytes(volume_bytes, unit_bytes, spec.units);
    let align_bytes = if spec.swalloc { unit_bytes * spec.units } else { unit_bytes };
    let ag_bytes = spec.ag_bytes.unwrap_or(made);
    let mut file = XfsFile::new(XfsGeometry { volume_bytes, ag_bytes, unit_bytes, align_bytes });
    let mut fits = file_bytes <= file.free_bytes();
    if spec.allocation == Allocation::Preallocated {
        fits = fits && file.preallocate(file_bytes);
    }
    if fits {
        return Ok(file);
    }
    let message = format!(
        "the file of {} does not fit in a filesystem on the volume of {}",
        format_bytes(file_bytes),
        format_bytes(volume_bytes)
    );
    Err(Diagnostic::new(message).with_help("reduce `size`"))
}

impl FileClient {
    pub(crate) fn new(requests: RequestStream, file: XfsFile) -> FileClient {
        FileClient { requests, file, ready: VecDeque::new(), waiting: Vec::new(), error: None }
    }

    /// The parts of a request on the volume; none of a read of holes.
    fn parts_of(&mut self, request: ClientRequest) -> Vec<ClientRequest> {
        let range = request.offset..request.offset + request.length;
        match request.kind {
            RequestKind::Flush => return vec![request],
            RequestKind::Write if !self.file.allocate(range.clone()) => {
                let error = Diagnostic::new("the filesystem of a `file` is full");
                self.error = Some(error.with_help("reduce `size`"));
            }
            _ => {}
        }
        let parts = self.file.map(range).into_iter();
        let part = |it: std::ops::Range<u64>| ClientRequest {
            offset: it.start,
            length: it.end - it.start,
            ..request
        };
        parts.map(part).collect()
    }
}

impl Client for FileClient {
    fn next_action(&mut self, now: Nanos) -> Action {
        if let Some(part) = self.ready.pop_front() {
            return Action::Submit(part);
        }
        if self.error.is_some() {
            return Action::End;
        }
        match self.requests.next_action(now) {
            Action::Submit(request) => {
                let parts = self.parts_of(request);
                let Some((first, rest)) = parts.split_first() else {
                    return Action::AnswerFromCache(request);
                };
                let first = *first;
                self.ready.extend(rest);
                self.waiting.push((request, parts));
                Action::Submit(first)
            }
            action => action,
        }
    }

    fn leave(&mut self) {
        self.requests.leave();
    }

    fn take_error(&mut self) -> Option<Diagnostic> {
        self.error.take().or_else(|| self.requests.take_error())
    }

    fn on_reply(&mut self, part: &ClientRequest, end: RequestEnd, now: Nanos) -> EndedRequest {
        if end == RequestEnd::CacheHit {
            self.requests.on_end(part, end, now);
            return EndedRequest::Same;
        }
        let mut waiting = self.waiting.iter_mut().enumerate();
        let place = waiting.find_map(|(index, (_, parts))| {
            Some((index, parts.iter().position(|other| other == part)?))
        });
        let Some((index, place)) = place else { return EndedRequest::None };
        self.waiting[index].1.swap_remove(place);
        if end == RequestEnd::Failed {
            self.requests.stop();
        }
        if !self.waiting[index].1.is_empty() {
            return EndedRequest::None;
        }
        let (request, _) = self.waiting.swap_remove(index);
        self.requests.on_end(&request, end, now);
        EndedRequest::Other(request)
    }
}
