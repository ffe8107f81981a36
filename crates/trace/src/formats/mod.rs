//! The table of formats.

mod biosnoop;
mod blkparse;
mod blktrace;
mod cloudphysics;
mod columns;
mod fio;
mod header_words;
mod oracle_general;
mod remaps;
pub(crate) mod tracepoints;

use crate::device_names::DeviceNames;
use crate::input::{FrameReader, Framing, blktrace_end};
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
pub(crate) use remaps::{Remaps, lost_events};
use std::fmt;
use std::io::Cursor;

/// A request, or `None` for a line or record that is none, such as a header.
type Parsed = Result<Option<RawRecord>, Diagnostic>;

/// Turns the lines or records of one format into requests.
pub(crate) trait FrameParser: Send {
    /// Parses a line without its end, or a binary record.
    fn parse(&mut self, frame: &[u8], devices: &mut DeviceNames) -> Parsed;

    /// Units of times, offsets and lengths, if the file itself says them.
    fn units(&self) -> Option<String> {
        None
    }

    /// The devices that lie on others, as the lines so far say.
    fn remaps(&self) -> Remaps {
        Remaps::default()
    }

    /// Number of events that were lost where the trace was recorded, as the lines so far say.
    fn lost(&self) -> u64 {
        0
    }
}

/// Treatment of the times of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimeOrder {
    /// Nothing: the order of the file is the order of the requests.
    AsWritten,
    /// Sorts requests that are a little out of order.
    Sorted,
    /// Spreads the requests of each second over it: the clock counts whole seconds.
    WholeSeconds,
}

pub struct TraceFormat {
    /// Name, as given to `--format`.
    pub name: &'static str,
    /// Columns of a line, or fields of a binary record, in order.
    pub columns: &'static str,
    /// Units of times, offsets and lengths.
    pub units: &'static str,
    /// Where such traces come from.
    pub source: &'static str,
    /// Whether its requests have response times.
    pub has_response: bool,
    pub(crate) framing: Framing,
    pub(crate) order: TimeOrder,
    pub(crate) parser: fn() -> Box<dyn FrameParser>,
}

/// The base of formats of lines.
const LINES: TraceFormat = TraceFormat {
    name: "",
    columns: "",
    units: "",
    source: "",
    has_response: false,
    framing: Framing::Lines,
    order: TimeOrder::Sorted,
    parser: || unreachable!("every format has a parser"),
};

pub static FORMATS: [TraceFormat; 22] = [
    fio::V2,
    fio::V3,
    blkparse::QUEUED,
    blkparse::ISSUED,
    blkparse::COMPLETED,
    blktrace::QUEUED,
    blktrace::ISSUED,
    blktrace::COMPLETED,
    tracepoints::FORMAT,
    columns::MSR,
    columns::ALIBABA,
    columns::TENCENT,
    columns::SYSTOR,
    cloudphysics::V1,
    cloudphysics::V2,
    columns::SPC,
    columns::FIU,
    biosnoop::FORMAT,
    columns::DISKSIM,
    columns::MQSIM,
    columns::REPLAYER,
    oracle_general::FORMAT,
];

/// The mark of byte order of a text in UTF-8.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// First bytes of compressed files, with the program and the command that unpacks them.
const COMPRESSIONS: [(&[u8], &str, &str); 4] = [
    (&[0x1f, 0x8b], "gzip", "gunzip --keep"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "unzstd --keep"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz", "unxz --keep"),
    (b"BZh", "bzip2", "bunzip2 --keep"),
];

/// Words of what is no trace, the reason, and what to use instead.
type Placeless = (&'static [u8], &'static str, &'static str);

/// First words of what has no places of requests.
const WITHOUT_PLACES: [Placeless; 6] = [
    (b"array,job,section,requests,", OF_REPORT, REPORT_HELP),
    (b"set,array,job,section,requests,", OF_REPORT, REPORT_HELP),
    (b"Device  ", "iostat counts requests, and does not list them", "record them: blktrace"),
    (b"TIME(ms) ", "biosnoop of bpftrace has no sectors", "use biosnoop of bcc or libbpf-tools"),
    (b"COMM ", "the requests of iosnoop have no times", "run iosnoop -ts"),
    (b"TIMESTAMP ", "the columns have no sectors", "use blktrace, or biosnoop of bcc"),
];

/// The reason and the help for a head without requests in columns that are known.
fn otherwise_known(head: &[u8]) -> Option<&'static Placeless> {
    const ENDS: Placeless = (
        b"block_rq_complete:",
        "the trace has the ends of requests, and not their starts",
        "record block_bio_queue, or block_rq_issue",
    );
    static SEPARATORS: [Placeless; 2] = [
        (b";", "the columns are separated by `;`", "write commas: sed 's/;/,/g' FILE > NEW.csv"),
        (b"\t", "the columns are separated by tabs", "write commas: tr '\\t' , < FILE > NEW.csv"),
    ];
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |wanted: u8| first.iter().filter(|byte| **byte == wanted).count();
    if head.windows(ENDS.0.len()).any(|it| it == ENDS.0) {
        return Some(&ENDS);
    }
    let is_between = |it: &&Placeless| count(it.0[0]) > 2 && count(b',') == 0;
    SEPARATORS.iter().find(is_between)
}

/// The program that compressed a file with this head, and how to unpack it.
pub fn compression(head: &[u8]) -> Option<(&'static str, String)> {
    let (_, name, command) = COMPRESSIONS.iter().find(|(magic, ..)| head.starts_with(magic))?;
    Some((*name, format!("unpack it first: {command} FILE")))
}

const OF_REPORT: &str = "the file has figures that `mirrorball report` wrote, and no requests";
const REPORT_HELP: &str = "give the results folder to `mirrorball report`, and here a trace";

/// Bytes at the start of a file that detection looks at.
pub(crate) const HEAD_BYTES: usize = 16 << 10;
/// Requests in the head that must be understood, if there are as many.
const DETECTED_REQUESTS: usize = 8;

impl fmt::Debug for TraceFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl PartialEq for TraceFormat {
    fn eq(&self, other: &TraceFormat) -> bool {
        self.name == other.name
    }
}

impl TraceFormat {
    pub fn by_name(name: &str) -> Result<&'static TraceFormat, Diagnostic> {
        FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
            let names = FORMATS.each_ref().map(|format| format.name);
            let message = format!("unknown trace format `{name}`");
            Diagnostic::new(message).with_suggestion(name, &names, "known are")
        })
    }

    /// The one format that understands the head of a file, of its variants the first. Fails if no
    /// format does, or several do.
    pub(crate) fn detect(head: &[u8]) -> Result<&'static TraceFormat, Diagnostic> {
        let fits: Vec<_> =
            FORMATS.iter().filter(|format| format.understands(head).is_ok()).collect();
        match fits[..] {
            // Variants of a format are in the order of the actions that they read: the earliest.
            [format, ..] if fits.iter().all(|it| it.columns == format.columns) => Ok(format),
            [] => {
                if let Some((name, help)) = compression(head) {
                    let message = format!("the trace is compressed with {name}");
                    return Err(Diagnostic::new(message).with_help(help));
                }
                let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
                let placeless = lines.find_map(|line| {
                    WITHOUT_PLACES.iter().find(|(first, ..)| line.starts_with(first))
                });
                if let Some((_, what, help)) = placeless.or_else(|| otherwise_known(head)) {
                    return Err(Diagnostic::new((*what).to_owned()).with_help((*help).to_owned()));
                }
                let message = match TraceFormat::nearest(head) {
                    _ if head.is_empty() => "the trace is empty".to_owned(),
                    Some((format, reason)) => format!(
                        "the first lines are in no known trace format; as {}: {reason}",
                        format.name
                    ),
                    None => "the first lines are in no known trace format".to_owned(),
                };
                let help = "correct the file, or name its format with --format; `mirrorball import \
                            trace --formats` lists them";
                Err(Diagnostic::new(message).with_help(help))
            }
            _ => {
                let fits: Vec<_> = fits.iter().map(|format| format.name).collect();
                let message = format!("the trace may be in any of {}", fits.join(", "));
                Err(Diagnostic::new(message).with_help("name its format"))
            }
        }
    }

    /// Units of the requests of a file with this head.
    pub(crate) fn units_of(&self, head: &[u8]) -> String {
        let mut frames = FrameReader::new(Box::new(Cursor::new(head.to_vec())), self.framing);
        let (mut parser, mut devices) = ((self.parser)(), DeviceNames::default());
        while let Ok(Some(frame)) = frames.next()
            && let Ok(None) = parser.parse(frame, &mut devices)
        {}
        parser.units().unwrap_or_else(|| self.units.to_owned())
    }

    /// The format that understands the most requests of a head before an error, and the error.
    fn nearest(head: &[u8]) -> Option<(&'static TraceFormat, String)> {
        let failed = FORMATS.iter().filter_map(|format| match format.understands(head) {
            Err((found, line, fault)) if found > 0 => Some((found, format, line, fault)),
            _ => None,
        });
        // A header of columns is one of the format that takes any order of them.
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = first.strip_prefix(BOM).unwrap_or(first);
        let by_header =
            columns::MSR.understands(head).err().filter(|_| header_words::is_header(first));
        let by_header = by_header.map(|(_, line, fault)| (0, &columns::MSR, line, fault));
        let nearest = failed.max_by_key(|(found, ..)| *found);
        let (_, format, line, fault) = by_header.or(nearest)?;
        Some((format, format!("line {line}: {fault}")))
    }

    /// Checks that the first requests of a head are well formed. The last line may be cut off. An
    /// error comes with the number of requests before it, and its line.
    fn understands(&self, head: &[u8]) -> Result<(), (usize, usize, String)> {
        let whole = match self.framing {
            Framing::Bytes(length) => &head[..head.len() / length * length],
            Framing::Blktrace => &head[..blktrace_end(head)],
            Framing::Lines if head.len() < HEAD_BYTES => head,
            Framing::Lines => {
                &head[..head.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)]
            }
        };
        let mut frames = FrameReader::new(Box::new(Cursor::new(whole.to_vec())), self.framing);
        let (mut parser, mut devices) = ((self.parser)(), DeviceNames::default());
        let mut found = 0;
        while found < DETECTED_REQUESTS {
            let parsed = match frames.next() {
                Ok(Some(frame)) => parser.parse(frame, &mut devices),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            let record = parsed.map_err(|error| (found, frames.number, error.message))?;
            found += usize::from(record.is_some());
        }
        match found {
            0 => Err((0, 0, "there is no request".to_owned())),
            _ => Ok(()),
        }
    }
}

#[cold]
fn too_few() -> Diagnostic {
    Diagnostic::new("the line has too few columns").with_help(crate::fields::OTHER_FORMAT)
}

/// The operation of the letters of blktrace and of tracepoints; `None` for what moves no data and
/// flushes nothing. A flush may be one before a write (`has_preflush`), or say that the write is to
/// be durable at once (FUA), which is a write like others here.
fn operation(kind: &[u8]) -> Result<Option<TraceOp>, Diagnostic> {
    let has = |letter| kind.contains(&letter);
    match () {
        // A command to a zone, such as a reset.
        () if has(b'Z') => Ok(None),
        () if has(b'R') => Ok(Some(TraceOp::Read)),
        () if has(b'D') => Ok(Some(TraceOp::Trim)),
        () if has(b'W') => Ok(Some(TraceOp::Write)),
        () if has(b'F') => Ok(Some(TraceOp::Flush)),
        () if has(b'N') => Ok(None),
        () => Err(crate::fields::unexpected(kind, "kind", "one with R, W, D, F or N")),
    }
}

/// Returns true for a write with data, before which the device is flushed: `FW`.
fn has_preflush(kind: &[u8], op: TraceOp) -> bool {
    op == TraceOp::Write && kind.starts_with(b"F")
}
