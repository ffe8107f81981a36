//! Output of biosnoop of bcc and libbpf-tools, and of iosnoop of perf-tools.
//!
//! The header tells which columns there are. The name of a process may have blanks, so columns
//! behind it are counted from the right. A time is that of the completion, unless it is in
//! `STARTs`, so a request began its latency earlier; with `QUE(ms)` the time before the device is
//! part of the response time.
//!
//! A command without data or place is skipped: it has the sector -1, or no disk and a length that
//! is none of sectors.

use super::{FrameParser, LINES, Parsed, TraceFormat, has_preflush, operation, too_few};
use crate::device_names::DeviceNames;
use crate::fields::{blank_fields, decimal, times, unexpected, whole};
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{BLOCK_BYTES, Nanos};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "biosnoop",
    columns: "TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms), or STARTs [ENDs] COMM PID \
              TYPE DEV BLOCK BYTES LATms, with this header",
    units: "s at the completion, or at STARTs; latencies in ms; sectors of 512 bytes, bytes",
    source: "biosnoop of bcc and libbpf-tools; iosnoop -ts of perf-tools",
    has_response: true,
    parser: || Box::new(Parser::default()),
    ..LINES
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SnoopColumn {
    Start,
    End,
    Process,
    Disk,
    Kind,
    Sector,
    Bytes,
    Pattern,
    Queued,
    Latency,
}

const COLUMNS: usize = SnoopColumn::Latency as usize + 1;

/// Names in headers, without what is no letter: `LAT(ms)` is `latms`.
const NAMES: [(&str, SnoopColumn); 10] = [
    ("starts", SnoopColumn::Start),
    ("times time timestamp ends", SnoopColumn::End),
    ("pid tid", SnoopColumn::Process),
    ("disk dev device", SnoopColumn::Disk),
    ("t type op rwbs", SnoopColumn::Kind),
    ("sector block", SnoopColumn::Sector),
    ("bytes size", SnoopColumn::Bytes),
    ("p", SnoopColumn::Pattern),
    ("quems queus", SnoopColumn::Queued),
    ("latms latus", SnoopColumn::Latency),
];

/// Columns of a header before and behind the name of the process; none before the header.
#[derive(Default)]
struct Parser {
    before: Vec<SnoopColumn>,
    behind: Vec<SnoopColumn>,
    /// Whether latencies are in microseconds.
    has_micros: bool,
    days: DayCount,
}

/// The days of completions whose times are those of a day.
#[derive(Default)]
struct DayCount {
    /// Days of the last completion since the first.
    begun_ns: u64,
    /// The time of the last completion, with these days.
    last_ns: u64,
}

impl Parser {
    fn read_header(&mut self, line: &[u8]) -> Result<(), Diagnostic> {
        let mut names = blank_fields(line);
        let help = "run biosnoop without further options, or with -Q, and iosnoop with -ts";
        let plain = |name: &[u8]| {
            let letters = name.iter().filter(|byte| byte.is_ascii_alphabetic());
            letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect::<String>()
        };
        let column = |name| {
            let own = plain(name);
            let known = NAMES.iter().find(|(known, _)| known.split(' ').any(|it| it == own));
            let column = known.map(|(_, column)| *column);
            column.ok_or_else(|| unexpected(name, "column", "known").with_help(help))
        };
        self.has_micros = blank_fields(line).any(|name| plain(name) == "latus");
        let before = names.by_ref().take_while(|name| plain(name) != "comm");
        self.before = before.map(column).collect::<Result<_, _>>()?;
        self.behind = names.map(column).collect::<Result<_, _>>()?;
        match (&self.before[..], &self.behind[..]) {
            (_, []) => Err(unexpected(line, "first line", "the header of biosnoop")),
            ([], _) => Err(Diagnostic::new("the requests have no times").with_help(help)),
            _ => Ok(()),
        }
    }

    fn values<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; COLUMNS], Diagnostic> {
        let mut values = [&line[..0]; COLUMNS];
        for (column, field) in self.before.iter().zip(blank_fields(line)) {
            values[*column as usize] = field;
        }
        let is_blank = |byte: &u8| byte.is_ascii_whitespace();
        let mut fields = line.rsplit(is_blank).filter(|field| !field.is_empty()).peekable();
        for column in self.behind.iter().rev() {
            // A request without a disk leaves its column blank, so the PID stands in its place.
            let is_number = |field: &&[u8]| field.iter().all(u8::is_ascii_digit);
            let is_missing = *column == SnoopColumn::Disk && fields.peek().is_some_and(is_number);
            let field = if is_missing { None } else { fields.next() };
            values[*column as usize] = field.unwrap_or_default();
        }
        fields.nth(self.before.len()).map(|_| values).ok_or_else(too_few)
    }
}

impl FrameParser for Parser {
    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let Some(first) = blank_fields(line).next() else { return Ok(None) };
        if self.behind.is_empty() {
            if !matches!(first, b"Tracing" | b"Attaching") {
                self.read_header(line)?;
            }
            return Ok(None);
        }
        if matches!(first, b"[...]" | b"..." | b"^C") {
            return Ok(None);
        }
        let values = self.values(line)?;
        let value = |column: SnoopColumn| values[column as usize];
        let millis = |column, name| match value(column) {
            // libbpf-tools write -1 for what was not seen.
            b"" | [b'-', ..] => Ok(0),
            field => decimal(field, if self.has_micros { 3 } else { 6 }, name),
        };
        let response = millis(SnoopColumn::Latency, "LAT(ms)")?
            .saturating_add(millis(SnoopColumn::Queued, "QUE(ms)")?);
        let time = match value(SnoopColumn::Start) {
            b"" => {
                let end = self.days.since_first(value(SnoopColumn::End))?;
                end.saturating_add(EARLIEST_NS).saturating_sub(response)
            }
            start => decimal(start, 9, "time")?,
        };
        let length = whole(value(SnoopColumn::Bytes), "BYTES")?;
        let (op, sector, disk) = (
            operation(value(SnoopColumn::Kind))?,
            value(SnoopColumn::Sector),
            value(SnoopColumn::Disk),
        );
        let has_place = !matches!(sector, [b'-', ..] | b"18446744073709551615");
        let is_command = disk.is_empty() && !length.is_multiple_of(BLOCK_BYTES);
        let offset = match op {
            Some(TraceOp::Flush) if length == 0 => 0,
            _ if length == 0 || !has_place || is_command => return Ok(None),
            _ => times(whole(sector, "SECTOR")?, BLOCK_BYTES, "SECTOR")?,
        };
        let Some(op) = op else { return Ok(None) };
        let device = devices.number(if disk.is_empty() { b"?" } else { disk })?;
        let process = whole(value(SnoopColumn::Process), "PID").unwrap_or(0) as u32;
        let record = RawRecord::new(time, op, (offset, length), device);
        let has_preflush = has_preflush(value(SnoopColumn::Kind), op);
        Ok(Some(RawRecord { response: Some(Nanos(response)), process, has_preflush, ..record }))
    }
}

impl DayCount {
    /// Adds the days since the first time. One that falls by more than half a day is of the next;
    /// one that rises by nearly a day is late, of the day before.
    fn since_first(&mut self, field: &[u8]) -> Result<u64, Diagnostic> {
        let of_day = clock(field)?;
        let time = of_day.saturating_add(self.begun_ns);
        if field.contains(&b':') && time.saturating_add(DAY_NS / 2) < self.last_ns {
            self.begun_ns += DAY_NS;
        } else if time > self.last_ns.saturating_add(DAY_NS / 24 * 23) {
            self.begun_ns = self.begun_ns.saturating_sub(DAY_NS);
        }
        self.last_ns = of_day.saturating_add(self.begun_ns);
        Ok(self.last_ns)
    }
}

/// Seconds, or the time of a day as `17:03:21.432`.
fn clock(field: &[u8]) -> Result<u64, Diagnostic> {
    let parts = field.split(|byte| *byte == b':');
    let last = parts.clone().count() - 1;
    let mut time = 0;
    for (number, part) in parts.enumerate() {
        let part_ns = match number == last {
            true => decimal(part, 9, "time")?,
            false => times(whole(part, "time")?, SECOND_NS, "time")?,
        };
        if last > 2 || number > 0 && part_ns >= 60 * SECOND_NS {
            return Err(unexpected(field, "time", "seconds or hours:minutes:seconds"));
        }
        time = times(time, 60, "time")?.saturating_add(part_ns);
    }
    Ok(time)
}

/// Added to the times of completions, so that a request that arrived before the clock began has
/// one.
const EARLIEST_NS: u64 = 3_600_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;
