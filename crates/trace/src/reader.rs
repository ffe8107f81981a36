//! The reader: requests of any format, with times from zero, in order.

use crate::device_names::DeviceNames;
use crate::formats::{FrameParser, TimeOrder, TraceFormat};
use crate::input::{FrameReader, Framing};
use crate::record::{RawRecord, TraceOp, TraceRecord};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;
use std::io::Read;

/// Requests that are held back to be sorted. One that is later than that keeps the place it has,
/// with the time of the request before it.
const SORT_WINDOW: usize = 1024;
/// Maximum number of requests in one second of a clock that counts seconds.
const SECOND_MAX: usize = 1 << 16;
const SECOND_NS: u64 = 1_000_000_000;

/// Reads a trace request by request.
pub struct TraceReader {
    frames: FrameReader,
    parser: Box<dyn FrameParser>,
    order: TimeOrder,
    file: String,
    devices: DeviceNames,
    /// The one device whose requests are wanted.
    device: Option<String>,
    wanted: Option<u32>,
    /// Requests read ahead, in order; with whole seconds, those of one second.
    queue: VecDeque<RawRecord>,
    /// A write whose flush before it was read.
    behind_flush: Option<RawRecord>,
    /// The first request of the next second.
    peeked: Option<RawRecord>,
    at_end: bool,
    rng: Rng,
    origin: Option<u64>,
    last: u64,
    /// Number of requests that were later than the reader can sort.
    late: u64,
}

impl TraceReader {
    /// Reads `input` as `format`. `file` names it in errors; `device` selects one device; `seed`
    /// decides the times within a second if the trace has whole seconds only.
    pub(crate) fn new(
        input: Box<dyn Read + Send>,
        file: &str,
        format: &TraceFormat,
        device: Option<&str>,
        seed: u64,
    ) -> TraceReader {
        TraceReader {
            frames: FrameReader::new(input, format.framing),
            parser: (format.parser)(),
            order: format.order,
            file: file.to_owned(),
            devices: DeviceNames::default(),
            device: device.map(str::to_owned),
            wanted: None,
            queue: VecDeque::new(),
            behind_flush: None,
            peeked: None,
            at_end: false,
            rng: Rng::stream(seed, "trace"),
            origin: None,
            last: 0,
            late: 0,
        }
    }

    /// The next request, or `None` at the end.
    ///
    /// # Errors
    /// At the first line that is no request of the format, with file and line.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<TraceRecord>, Diagnostic> {
        self.fill()?;
        let Some(raw) = self.queue.pop_front() else { return Ok(None) };
        let origin = *self.origin.get_or_insert(raw.time);
        let time = raw.time.max(origin);
        if time < self.last || raw.time < origin {
            self.late += 1;
        }
        self.last = self.last.max(time);
        let RawRecord { op, offset, length, device, response, process, .. } = raw;
        let arrival = Nanos(self.last - origin);
        Ok(Some(TraceRecord { arrival, op, offset, length, device, response, process }))
    }

    pub fn device_name(&self, device: u32) -> String {
        self.devices.name(device)
    }

    pub(crate) fn device_names(&self) -> Vec<String> {
        self.devices.all().collect()
    }

    /// Number of requests so far whose time was before that of an earlier request, further apart
    /// than the reader sorts. They arrive with the request before them.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Number of events that were lost where the trace was recorded, as it says so far.
    pub(crate) fn lost(&self) -> u64 {
        self.parser.lost()
    }

    /// The devices that lie on others, each pair the lower one first, as the trace says so far.
    pub(crate) fn remaps(&self) -> Vec<[String; 2]> {
        self.parser.remaps().pairs().collect()
    }

    /// Reads ahead as far as the order needs.
    fn fill(&mut self) -> Result<(), Diagnostic> {
        match self.order {
            TimeOrder::AsWritten => {
                if self.queue.is_empty()
                    && let Some(record) = self.read()?
                {
                    self.queue.push_back(record);
                }
            }
            TimeOrder::Sorted => {
                while self.queue.len() < SORT_WINDOW
                    && let Some(record) = self.read()?
                {
                    let mut at = self.queue.len();
                    while at > 0 && self.queue[at - 1].time > record.time {
                        at -= 1;
                    }
                    self.queue.insert(at, record);
                }
            }
            TimeOrder::WholeSeconds => {
                if self.queue.is_empty() {
                    self.fill_second()?;
                }
            }
        }
        Ok(())
    }

    /// Reads all requests of the next second and spreads them over it, in their order.
    fn fill_second(&mut self) -> Result<(), Diagnostic> {
        let first = match self.peeked.take() {
            Some(record) => Some(record),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(()) };
        self.queue.push_back(first);
        while let Some(record) = self.read()? {
            if record.time != first.time {
                self.peeked = Some(record);
                break;
            }
            if self.queue.len() == SECOND_MAX {
                let message = format!("more than {SECOND_MAX} requests have the same second");
                let help = "select the lines of some volumes, for example with grep";
                return Err(self.placed(Diagnostic::new(message).with_help(help)));
            }
            self.queue.push_back(record);
        }
        let count = self.queue.len() as u64;
        for (index, record) in self.queue.iter_mut().enumerate() {
            let place = index as u64 * SECOND_NS + self.rng.below(SECOND_NS);
            record.time = first.time.saturating_add(place / count);
        }
        Ok(())
    }

    /// The next request of the file that is wanted.
    #[inline]
    fn read(&mut self) -> Result<Option<RawRecord>, Diagnostic> {
        if self.behind_flush.is_some() {
            return Ok(self.behind_flush.take());
        }
        while !self.at_end {
            let parsed = match self.frames.next() {
                Ok(Some(frame)) => self.parser.parse(frame, &mut self.devices),
                Ok(None) => {
                    self.at_end = true;
                    break;
                }
                Err(error) => Err(error),
            };
            let Some(record) = parsed.and_then(check).map_err(|error| self.placed(error))? else {
                continue;
            };
            if self.device.is_some() && !self.wants(record.device) {
                continue;
            }
            if record.has_preflush {
                self.behind_flush = Some(RawRecord { has_preflush: false, ..record });
                let (op, offset, length, response) = (TraceOp::Flush, 0, 0, None);
                let has_preflush = false;
                return Ok(Some(RawRecord {
                    op,
                    offset,
                    length,
                    response,
                    has_preflush,
                    ..record
                }));
            }
            return Ok(Some(record));
        }
        Ok(None)
    }

    /// Compares a device with the wanted one, whose number it learns from the name.
    fn wants(&mut self, device: u32) -> bool {
        if self.wanted.is_none() && self.device == Some(self.devices.name(device)) {
            self.wanted = Some(device);
        }
        self.wanted == Some(device)
    }

    /// Adds the file and the line of the last frame; binary records have no line.
    #[cold]
    fn placed(&self, error: Diagnostic) -> Diagnostic {
        let number = self.frames.number;
        let error = error.in_file(&*self.file);
        match self.frames.framing() {
            Framing::Lines => error.at_line(number),
            Framing::Bytes(_) | Framing::Blktrace => {
                let message = format!("record {number}: {}", error.message);
                Diagnostic { message, ..error }
            }
        }
    }
}

/// Checks what no parser does: that a request has a length, and an end.
#[inline]
fn check(record: Option<RawRecord>) -> Result<Option<RawRecord>, Diagnostic> {
    if let Some(RawRecord { op, offset, length, .. }) = record {
        if op != TraceOp::Flush && length == 0 {
            let help = "correct or remove the line: a request has at least one byte";
            return Err(Diagnostic::new("the length is zero").with_help(help));
        }
        if length > LENGTH_MAX {
            let message = format!("a request of {length} bytes");
            return Err(Diagnostic::new(message).with_help(crate::fields::OTHER_FORMAT));
        }
        if offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
            let message = format!("the request ends behind {OFFSET_MAX}: {length} at {offset}");
            return Err(Diagnostic::new(message).with_help(crate::fields::OTHER_FORMAT));
        }
    }
    Ok(record)
}

/// Largest request: discards of a whole device are long, others are not.
const LENGTH_MAX: u64 = 1 << 50;

/// Largest end of a request, as on Linux.
const OFFSET_MAX: u64 = i64::MAX as u64;
