//! The words of headers: what is a header, and the units at the ends of names.

use crate::fields::{unexpected, whole};
use mirrorball_core::diagnostic::Diagnostic;
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
pub(super) const CLOCKS: [(&str, ColumnClock); 5] = [
    ("100ns", ColumnClock::Ticks(100)),
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

/// Checks that a number of 100 ns is no time since 1970 in another unit.
pub(super) fn check_unit((field, name): (&[u8], &str)) -> Result<(), Diagnostic> {
    /// Seconds from 1970 to 2001, and to 2049.
    const SECONDS: [u64; 2] = [1_000_000_000, 2_500_000_000];
    let units = [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)];
    let Ok(time) = whole(field, name) else { return Ok(()) };
    let is_of = |scale: u64| (SECONDS[0] * scale..SECONDS[1] * scale).contains(&time);
    let Some((unit, _)) = units.into_iter().find(|(_, scale)| is_of(*scale)) else {
        return Ok(());
    };
    let wanted = format!(
        "likely in units of 100 ns, but in {unit} since 1970: write a header that names the column \
         {name}_{unit}, or {name}_100ns if it is"
    );
    Err(unexpected(field, name, &wanted))
}
