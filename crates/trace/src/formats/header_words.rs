//! The words of headers: what is a header, and the units at the ends of names.

use mirrorball_core::units::{BLOCK_BYTES, KIB, MIB};

/// The unit that the name of a column says.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Clock(ColumnClock),
    Bytes(u64),
}

/// The clock of the times and of the response times.
#[derive(Clone, Copy)]
pub(super) enum ColumnClock {
    /// Whole numbers of so many ns.
    Ticks(u64),
    /// Decimal numbers of 10^9, 10^6, … ns, by the number of digits.
    Decimal(u32),
    /// Milliseconds with a point.
    PointedMillis,
}

/// Least number of names of a header.
const NAMES_LEAST: usize = 4;
/// Ends of names of times in a header, with their clocks.
pub(super) const CLOCKS: [(&str, ColumnClock); 4] = [
    ("ns", ColumnClock::Decimal(0)),
    ("us", ColumnClock::Decimal(3)),
    ("ms", ColumnClock::Decimal(6)),
    ("s", ColumnClock::Decimal(9)),
];
/// Ends of names of offsets and sizes in a header, with their bytes.
pub(super) const SPANS: [(&str, u64); 6] =
    [("bytes", 1), ("sectors", BLOCK_BYTES), ("kib", KIB), ("kb", KIB), ("mib", MIB), ("mb", MIB)];

/// True for a line of names separated by commas.
pub(super) fn is_header(line: &[u8]) -> bool {
    let mut count = 0;
    line.split(|byte| *byte == b',').all(|name| {
        count += 1;
        unquoted(name).first().is_some_and(u8::is_ascii_alphabetic) && name.len() > 1
    }) && count >= NAMES_LEAST
}

/// A field without the blanks and the quotation marks around it.
pub(super) fn unquoted(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    field.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(field)
}
