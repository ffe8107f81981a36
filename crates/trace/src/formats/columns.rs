//! Formats of lines with columns: for each a [`Layout`] with its columns in order and their units.
//!
//! A header in the words of the format may say another order. Lines that begin with `#` are
//! comments. **To add such a format, add one layout and one row.**
//!
//! Sources, where the columns alone do not say it:
//! - Tencent CBS, as SNIA publishes it, has sectors; copies with bytes exist, and their content
//!   does not show it. Its clock counts whole seconds.
//! - SYSTOR '17 (the README of SNIA IOTTA block I/O traces 4964): times of issue are exact to the
//!   microsecond, offsets and sizes are bytes. A request without an operation got no response while
//!   it was recorded, and is skipped. The unit of `Response` is not stated: the values, such as
//!   0.000806000, are seconds.
//! - FIU (the readers of public programs): ns, sectors of 512 bytes.
//! - The columns of the replayer (its README) are those of DiskSim, in bytes: a trace that may be
//!   of either is ambiguous.
//! - DiskSim's flags are hexadecimal, the lowest is that of a read. MQSim has its columns with a
//!   clock in whole nanoseconds: a time with a point is one of DiskSim.

use super::header_words::{CLOCKS, ColumnClock, SPANS, Unit, check_unit, is_header, unquoted};
use super::{FrameParser, LINES, Parsed, TimeOrder, TraceFormat};
use crate::device_names::DeviceNames;
use crate::fields::{OTHER_FORMAT, blank_fields, decimal, times, unexpected, whole};
use crate::record::{RawRecord, TraceOp};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{BLOCK_BYTES, Nanos, format_bytes};

pub(super) const MSR: TraceFormat = TraceFormat {
    has_response: true,
    ..of_columns(
        "msr",
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime, or as a header says, which \
         needs Timestamp (or Timestamp_s, _ms, _us, _ns), Type (Read, Write, R, W), Offset and \
         Size (or Sector, Sectors; or Offset_KiB, _MiB, _sectors), and may have Device",
        "100 ns since 1601, response in 100 ns; bytes",
        "MSR Cambridge, SNIA IOTTA 388; mirrorball capture",
        || Parser::boxed(&MSR, [Time, Host, Device, Op, Offset, Length, Response], MSR_LAYOUT),
    )
};

pub(super) const ALIBABA: TraceFormat = of_columns(
    "alibaba",
    "device_id,opcode,offset,length,timestamp",
    "µs since 1970; bytes",
    "Alibaba block traces 2020; times are of receipt at the server",
    || Parser::boxed(&ALIBABA, [Device, Op, Offset, Length, Time], BYTES),
);

pub(super) const TENCENT: TraceFormat = TraceFormat {
    order: TimeOrder::WholeSeconds,
    ..of_columns(
        "tencent",
        "Timestamp,Offset,Size,IOType,VolumeID",
        "whole seconds since 1970; sectors of 512 bytes; 0 reads, 1 writes",
        "Tencent CBS, SNIA IOTTA 27917",
        || Parser::boxed(&TENCENT, [Time, Offset, Length, Op, Device], TENCENT_LAYOUT),
    )
};

pub(super) const SYSTOR: TraceFormat = TraceFormat {
    has_response: true,
    ..of_columns(
        "systor",
        "Timestamp,Response,IOType,LUN,Offset,Size",
        "s since 1970, response in s; bytes",
        "SYSTOR '17, SNIA IOTTA 4964",
        || Parser::boxed(&SYSTOR, [Time, Response, Op, Device, Offset, Length], SYSTOR_LAYOUT),
    )
};

pub(super) const SPC: TraceFormat = of_columns(
    "spc",
    "ASU,LBA,size,opcode,timestamp[,more]",
    "s; LBA in sectors of 512 bytes, size in bytes",
    "UMass trace repository: Financial, WebSearch",
    || Parser::boxed(&SPC, [Device, Offset, Length, Op, Time], SPC_LAYOUT),
);

pub(super) const FIU: TraceFormat = of_columns(
    "fiu",
    "time pid process sector sectors operation major minor hash",
    "ns; sectors of 512 bytes; R, W",
    "FIU IODedup, SNIA IOTTA 391",
    || {
        let columns = [Time, Process, Other, Offset, Length, Op, Host, Device, Other];
        Parser::boxed(&FIU, columns, Layout { ops: Ops::Words(LETTERS), ..SIMULATOR })
    },
);

pub(super) const DISKSIM: TraceFormat = of_columns(
    "disksim",
    "time device sector sectors flags; flag 1 is a read",
    "ms with a point; sectors of 512 bytes",
    "DiskSim, ASCII",
    || {
        let layout = Layout { clock: ColumnClock::PointedMillis, ..SIMULATOR };
        Parser::boxed(&DISKSIM, [Time, Device, Offset, Length, Op], layout)
    },
);

pub(super) const MQSIM: TraceFormat = of_columns(
    "mqsim",
    "time device sector sectors type; type 1 is a read",
    "ns; sectors of 512 bytes",
    "MQSim, SSDSim, ASCII",
    || Parser::boxed(&MQSIM, [Time, Device, Offset, Length, Op], SIMULATOR),
);

pub(super) const REPLAYER: TraceFormat = of_columns(
    "replayer",
    "time device offset bytes type; type 1 is a read",
    "ms with a point; bytes, whole sectors",
    "the replayer of FEMU and IODA",
    || {
        let layout = Layout {
            clock: ColumnClock::PointedMillis,
            units: [1; 2],
            has_sectors: true,
            ..SIMULATOR
        };
        Parser::boxed(&REPLAYER, [Time, Device, Offset, Length, Op], layout)
    },
);

/// A format of lines whose `columns` begin with the names of the columns.
const fn of_columns(
    name: &'static str,
    columns: &'static str,
    units: &'static str,
    source: &'static str,
    parser: fn() -> Box<dyn FrameParser>,
) -> TraceFormat {
    TraceFormat { name, columns, units, source, parser, ..LINES }
}

/// ColumnContent of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ColumnContent {
    Time,
    Host,
    Device,
    Op,
    Offset,
    Length,
    Response,
    Process,
    Other,
}

use ColumnContent::{Device, Host, Length, Offset, Op, Other, Process, Response, Time};

const CONTENTS: usize = Other as usize + 1;
/// Columns that a header must name.
const NEEDED: [ColumnContent; 4] = [Time, Op, Offset, Length];

/// The operations in their column.
#[derive(Clone, Copy)]
enum Ops {
    /// Words, in any case; `None` for a line that is no request.
    Words(&'static [(&'static str, Option<TraceOp>)]),
    /// Hexadecimal flags, the lowest of which marks a read.
    ReadFlag,
}

/// The form of the lines of a format.
#[derive(Clone, Copy)]
struct Layout {
    has_commas: bool,
    /// Whether more columns may follow.
    has_more: bool,
    clock: ColumnClock,
    /// Bytes of a unit of offsets, and of one of lengths.
    units: [u64; 2],
    /// Whether all requests are whole sectors.
    has_sectors: bool,
    ops: Ops,
    /// Further names of columns in headers.
    aliases: &'static [(&'static str, ColumnContent)],
}

const LETTERS: &[(&str, Option<TraceOp>)] =
    &[("R", Some(TraceOp::Read)), ("W", Some(TraceOp::Write))];

/// Commas, whole µs, bytes, R and W.
const BYTES: Layout = Layout {
    has_commas: true,
    has_more: false,
    clock: ColumnClock::Ticks(1_000),
    units: [1; 2],
    has_sectors: false,
    ops: Ops::Words(LETTERS),
    aliases: &[],
};

const MSR_LAYOUT: Layout = Layout {
    clock: ColumnClock::Ticks(100),
    ops: Ops::Words(&[
        ("Read", Some(TraceOp::Read)),
        ("Write", Some(TraceOp::Write)),
        ("R", Some(TraceOp::Read)),
        ("W", Some(TraceOp::Write)),
        ("Discard", Some(TraceOp::Trim)),
        ("Trim", Some(TraceOp::Trim)),
        ("Flush", Some(TraceOp::Flush)),
    ]),
    aliases: &[
        ("time arrivaltime ts", Time),
        ("host server", Host),
        ("disk diskid volume lun device dev devicename deviceid drive", Device),
        ("op operation iotype rw direction", Op),
        ("byteoffset sector", Offset),
        ("length len bytes iosize sectors", Length),
        ("response latency lat duration", Response),
        ("process", Process),
    ],
    ..BYTES
};

const TENCENT_LAYOUT: Layout = Layout {
    clock: ColumnClock::Ticks(1_000_000_000),
    units: [BLOCK_BYTES; 2],
    ops: Ops::Words(&[("0", Some(TraceOp::Read)), ("1", Some(TraceOp::Write))]),
    ..BYTES
};

const SYSTOR_LAYOUT: Layout = Layout {
    clock: ColumnClock::Decimal(9),
    ops: Ops::Words(&[("R", Some(TraceOp::Read)), ("W", Some(TraceOp::Write)), ("", None)]),
    ..BYTES
};

const SPC_LAYOUT: Layout =
    Layout { has_more: true, clock: ColumnClock::Decimal(9), units: [BLOCK_BYTES, 1], ..BYTES };

/// The lines of simulators, with a clock in whole ns.
const SIMULATOR: Layout = Layout {
    has_commas: false,
    clock: ColumnClock::Ticks(1),
    units: [BLOCK_BYTES; 2],
    ops: Ops::ReadFlag,
    ..BYTES
};

struct Parser {
    layout: Layout,
    /// Clocks of the times and of the response times.
    clocks: [ColumnClock; 2],
    /// Names of columns in errors, by their content.
    names: [&'static str; CONTENTS],
    /// ColumnContent of the columns of a line, as the header says if there is one.
    order: Vec<ColumnContent>,
    has_header: bool,
    /// Whether the first time is to be compared with clocks in other units.
    checks_time: bool,
    /// Host and disk, as `host.disk`.
    device: Vec<u8>,
}

impl Parser {
    /// The parser of a format, whose lines have these columns unless a header says others.
    fn boxed<const N: usize>(
        format: &TraceFormat,
        columns: [ColumnContent; N],
        layout: Layout,
    ) -> Box<dyn FrameParser> {
        let mut names = ["process"; CONTENTS];
        let known = format.columns.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        for (content, name) in columns.iter().zip(known) {
            names[*content as usize] = name;
        }
        let (order, device) = (columns.to_vec(), Vec::new());
        let clocks = [layout.clock; 2];
        let checks_time = matches!(layout.clock, ColumnClock::Ticks(100));
        Box::new(Parser { layout, clocks, names, order, has_header: false, checks_time, device })
    }

    /// Reads a line as a header. Returns false if it names no time, operation, offset and length.
    /// Fails if two columns say the same, or of two times one has a unit.
    #[cold]
    fn read_header(&mut self, line: &[u8]) -> Result<bool, Diagnostic> {
        let line = String::from_utf8_lossy(line);
        let names: Vec<&str> = line.split(',').map(str::trim).collect();
        let found: Vec<_> = names.iter().map(|name| self.column_of(name)).collect();
        let order: Vec<_> = found.iter().map(|(content, _)| *content).collect();
        if !NEEDED.iter().all(|needed| order.contains(needed)) {
            return Ok(false);
        }
        for (index, content) in order.iter().enumerate().filter(|(_, it)| **it != Other) {
            if let Some(first) = order[..index].iter().position(|it| it == content) {
                let (first, second) = (names[first], names[index]);
                let message = format!("the columns {first} and {second} say the same");
                let help = "rename the one that is not to be read, for example to `unused`";
                return Err(Diagnostic::new(message).with_help(help));
            }
        }
        let place = |wanted| order.iter().position(|it| *it == wanted);
        if let (Some(time), Some(response)) = (place(Time), place(Response))
            && found[time].1.is_some() != found[response].1.is_some()
        {
            let with = |has: bool| if found[time].1.is_some() == has { time } else { response };
            let (with, without) = (names[with(true)], names[with(false)]);
            let message = format!("the column {with} names its unit, and {without} does not");
            let help = format!("name it {without}_s, {without}_ms, {without}_us or {without}_ns");
            return Err(Diagnostic::new(message).with_help(help));
        }
        (self.order, self.has_header) = (order, true);
        for (content, unit) in found {
            match (content, unit) {
                (Time, Some(Unit::Clock(clock))) => {
                    (self.clocks[0], self.checks_time) = (clock, false);
                }
                (Response, Some(Unit::Clock(clock))) => self.clocks[1] = clock,
                (Offset, Some(Unit::Bytes(bytes))) => self.layout.units[0] = bytes,
                (Length, Some(Unit::Bytes(bytes))) => self.layout.units[1] = bytes,
                _ => {}
            }
        }
        Ok(true)
    }

    /// The content of the column that a header names, and its unit if the name says one.
    fn column_of(&self, name: &str) -> (ColumnContent, Option<Unit>) {
        let marks = ['_', '-', ' ', '(', ')', '[', ']', '"'];
        let plain = |name: &str| name.to_lowercase().replace(marks, "");
        let name = plain(name);
        let own: Vec<_> = self.order.iter().map(|it| (self.names[*it as usize], *it)).collect();
        let content_of = |name: &str| {
            let known = own.iter().chain(self.layout.aliases);
            let is_named = |names: &str| names.split(' ').any(|known| plain(known) == name);
            known.clone().find(|(names, _)| is_named(names)).map(|(_, content)| *content)
        };
        if let Some(content) = content_of(&name) {
            let is_sectors = name.starts_with("sector") && !self.layout.aliases.is_empty();
            return (content, is_sectors.then_some(Unit::Bytes(BLOCK_BYTES)));
        }
        let clocks = CLOCKS.map(|(end, clock)| (end, Unit::Clock(clock), [Time, Response]));
        let spans = SPANS.map(|(end, bytes)| (end, Unit::Bytes(bytes), [Offset, Length]));
        let of_unit = clocks.into_iter().chain(spans).find_map(|(end, unit, contents)| {
            let content = content_of(name.strip_suffix(end)?)?;
            contents.contains(&content).then_some((content, Some(unit)))
        });
        of_unit.unwrap_or((Other, None))
    }

    /// The error for a header that lacks a column, with the names that it may have.
    #[cold]
    fn without_column(&self, line: &[u8]) -> Diagnostic {
        let line = String::from_utf8_lossy(line);
        let found: Vec<_> = line.split(',').map(|name| self.column_of(name).0).collect();
        let lacking = NEEDED.iter().filter(|needed| !found.contains(needed)).map(|needed| {
            let aliases = self.layout.aliases.iter().filter(|(_, content)| content == needed);
            let names: Vec<&str> = aliases.flat_map(|(names, _)| names.split(' ')).collect();
            format!("{} (or {})", self.names[*needed as usize], names.join(", "))
        });
        let lacking: Vec<String> = lacking.collect();
        Diagnostic::new(format!("the header has no column {}", lacking.join(", nor ")))
            .with_help(OTHER_FORMAT)
    }

    /// The columns of a line, by their content.
    #[inline]
    fn values<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; CONTENTS], Diagnostic> {
        let (mut values, mut count) = ([&line[..0]; CONTENTS], 0);
        let mut put = |field: &'a [u8]| {
            if let Some(&content) = self.order.get(count) {
                values[content as usize] = field;
            }
            count += 1;
        };
        match self.layout.has_commas {
            true => line.split(|&byte| byte == b',').for_each(|field| put(unquoted(field))),
            false => blank_fields(line).for_each(put),
        }
        let needed = self.order.len();
        if count == needed || self.has_header || (self.layout.has_more && count > needed) {
            return Ok(values);
        }
        let separator = if self.layout.has_commas { "commas" } else { "blanks" };
        let message = format!("the line has {count} of {needed} columns separated by {separator}");
        Err(Diagnostic::new(message).with_help(OTHER_FORMAT))
    }
}

impl FrameParser for Parser {
    fn units(&self) -> Option<String> {
        if !self.has_header || self.layout.aliases.is_empty() {
            return None;
        }
        let clock = |index: usize| match self.clocks[index] {
            ColumnClock::Decimal(digits) => {
                ["ns", "µs", "ms", "s"].get(digits as usize / 3).copied().unwrap_or_default()
            }
            _ => "100 ns",
        };
        let span = |index: usize| match self.layout.units[index] {
            1 => "bytes".to_owned(),
            BLOCK_BYTES => "sectors of 512 bytes".to_owned(),
            bytes => format_bytes(bytes).trim_start_matches("1 ").to_owned(),
        };
        let response = match self.order.contains(&Response) {
            true => format!(", response in {}", clock(1)),
            false => String::new(),
        };
        let (offset, length) = (span(0), span(1));
        let spans = match offset == length {
            true => offset,
            false => format!("offsets in {offset}, sizes in {length}"),
        };
        Some(format!("by its header: {}{response}; {spans}", clock(0)))
    }

    fn parse(&mut self, line: &[u8], devices: &mut DeviceNames) -> Parsed {
        let line = line.trim_ascii();
        let Some(first) = line.first().filter(|first| **first != b'#') else { return Ok(None) };
        let is_word = first.is_ascii_alphabetic() || *first == b'"';
        if is_word && self.read_header(line)? {
            return Ok(None);
        }
        if !self.has_header && !self.layout.aliases.is_empty() && is_header(line) {
            return Err(self.without_column(line));
        }
        let values = self.values(line)?;
        let (layout, names) = (&self.layout, &self.names);
        let column = |content: ColumnContent| (values[content as usize], names[content as usize]);
        let number = |content, unit| {
            let (field, name) = column(content);
            times(whole(field, name)?, unit, name)
        };
        let clock = |content| {
            let (field, name) = column(content);
            match self.clocks[usize::from(content == Response)] {
                ColumnClock::Ticks(_) if self.has_header && field.contains(&b'.') => {
                    let wanted = format!(
                        "a whole number of 100 ns; for other units name the column {name}_s, \
                         {name}_ms, {name}_us or {name}_ns"
                    );
                    Err(unexpected(field, name, &wanted))
                }
                ColumnClock::Ticks(unit) => number(content, unit),
                ColumnClock::Decimal(digits) => decimal(field, digits, name),
                ColumnClock::PointedMillis if field.contains(&b'.') => decimal(field, 6, name),
                ColumnClock::PointedMillis => Err(unexpected(field, name, "ms with a point")),
            }
        };
        if self.checks_time {
            check_unit(column(Time))?;
        }
        let time = clock(Time)?;
        let Some(op) = layout.ops.find(column(Op))? else { return Ok(None) };
        let (offset, length) = (number(Offset, layout.units[0])?, number(Length, layout.units[1])?);
        if layout.has_sectors && !(offset | length).is_multiple_of(BLOCK_BYTES) {
            let (field, name) =
                column(if offset.is_multiple_of(BLOCK_BYTES) { Length } else { Offset });
            return Err(unexpected(field, name, "whole sectors"));
        }
        let has = |content: ColumnContent| !values[content as usize].is_empty();
        let response = has(Response).then(|| clock(Response)).transpose()?.map(Nanos);
        let process = if has(Process) { number(Process, 1)? as u32 } else { 0 };
        self.checks_time = false;
        self.device.clear();
        if has(Host) {
            self.device.extend_from_slice(values[Host as usize]);
            self.device.push(b'.');
        }
        self.device.extend_from_slice(values[Device as usize]);
        let device = devices.number(&self.device)?;
        let record = RawRecord::new(time, op, (offset, length), device);
        Ok(Some(RawRecord { response, process, ..record }))
    }
}

impl Ops {
    /// The operation in a column with a name; `None` if the line is no request.
    #[inline]
    fn find(self, (field, name): (&[u8], &str)) -> Result<Option<TraceOp>, Diagnostic> {
        let Ops::Words(words) = self else {
            let text = std::str::from_utf8(field).unwrap_or_default();
            let flags = u64::from_str_radix(text, 16)
                .map_err(|_| unexpected(field, name, "a hexadecimal number"))?;
            return Ok(Some(if flags & 1 == 1 { TraceOp::Read } else { TraceOp::Write }));
        };
        let found = words.iter().find(|(word, _)| field.eq_ignore_ascii_case(word.as_bytes()));
        found
            .map(|(_, op)| *op)
            .ok_or_else(|| unexpected(field, name, &format!("{} or {}", words[0].0, words[1].0)))
    }
}
