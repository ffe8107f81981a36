//! Time, and the units of sizes, durations and rates in text.
//!
//! Every instant and every duration is a [`Nanos`]: integer nanoseconds, so that sums are exact and
//! two runs agree to the last bit. Instants count from the start of the volume's clock, whichever
//! clock drives it.
//!
//! The parsers here read the units of array files, model profiles and the command line: `K` and
//! `KiB` are 1024, `KB` is 1000. fio job files and btrfs policy strings have other rules, which are
//! with their readers.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// The unit of request offsets and lengths: the logical block of nearly every device.
pub const BLOCK_BYTES: u64 = 512;
/// The sector of btrfs, the unit of its read counters.
pub const SECTOR_BYTES: u64 = 4096;
pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const TIB: u64 = 1 << 40;
pub const PIB: u64 = 1 << 50;
const EIB: u64 = 1 << 60;

/// An instant or a duration, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the clock, or an empty duration.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than every event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// `secs` seconds, rounded to the nearest nanosecond; values out of range saturate.
    pub fn from_secs_f64(secs: f64) -> Nanos {
        Nanos((secs * 1e9).round() as u64)
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The sum, or [`Nanos::MAX`] on overflow.
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// Transfer time of `bytes` at `bytes_per_second`, rounded up; [`Nanos::MAX`] at rate zero.
    pub fn transfer(bytes: u64, bytes_per_second: u64) -> Nanos {
        if bytes_per_second == 0 {
            return Nanos::MAX;
        }
        match bytes.checked_mul(1_000_000_000) {
            Some(product) => Nanos(product.div_ceil(bytes_per_second)),
            None => {
                let exact = u128::from(bytes) * 1_000_000_000;
                Nanos(exact.div_ceil(u128::from(bytes_per_second)) as u64)
            }
        }
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, factor: u64) -> Nanos {
        Nanos(self.0 * factor)
    }
}

impl Div<u64> for Nanos {
    type Output = Nanos;
    fn div(self, divisor: u64) -> Nanos {
        Nanos(self.0 / divisor)
    }
}

/// Three significant figures in the unit that fits: `812ns`, `43.1us`, `7.45ms`, `1.60s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{}ns", self.0)),
            1_000..1_000_000 => (1e3, "us"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / scale;
        let digits = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.digits$}{unit}"))
    }
}

/// A text that is not a size, duration or rate; the message says what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The text; empty if there was none.
    text: String,
    /// The problem, after a name of the text; a sentence of its own if there was none.
    problem: String,
}

impl UnitError {
    /// The message for a place that already names the text, such as an error of an argument.
    pub fn without_text(&self) -> String {
        if self.text.is_empty() { self.problem.clone() } else { format!("it {}", self.problem) }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_str() {
            "" => f.write_str(&self.problem),
            text => write!(f, "`{text}` {}", self.problem),
        }
    }
}

impl std::error::Error for UnitError {}

/// Notations of a quantity, for errors.
struct QuantityKind {
    name: &'static str,
    /// Comparative of a value without bounds: a duration is too `long`.
    excess: &'static str,
    examples: &'static str,
    units: &'static [(&'static str, f64)],
    units_help: &'static str,
    /// The bound, in the largest unit.
    bound: &'static str,
}

/// Values below this keep the sum of two inside a `u64`.
const VALUE_BOUND: f64 = (1_u64 << 63) as f64;

const DURATION: QuantityKind = QuantityKind {
    name: "duration",
    excess: "long",
    examples: "15us, 1.5ms, 10s or 2m",
    units: &DURATION_UNITS,
    units_help: "the units are ns, us, ms, s, m, h and d",
    bound: "106751d",
};

const SIZE: QuantityKind = QuantityKind {
    name: "size",
    excess: "large",
    examples: "4096, 256K, 50GiB or 2TB",
    units: &SIZE_UNITS,
    units_help: SIZE_UNITS_HELP,
    bound: "8E",
};

const RATE: QuantityKind =
    QuantityKind { name: "rate", examples: "190MB/s or 1.2GB/s", bound: "8E/s", ..SIZE };

const DURATION_UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

const SIZE_UNITS: [(&str, f64); 21] = [
    ("", 1.0),
    ("B", 1.0),
    ("K", KIB as f64),
    ("M", MIB as f64),
    ("G", GIB as f64),
    ("T", TIB as f64),
    ("P", PIB as f64),
    ("E", EIB as f64),
    ("KiB", KIB as f64),
    ("MiB", MIB as f64),
    ("GiB", GIB as f64),
    ("TiB", TIB as f64),
    ("PiB", PIB as f64),
    ("EiB", EIB as f64),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("EB", 1e18),
];

/// The units of sizes and rates, for errors.
const SIZE_UNITS_HELP: &str =
    "K, M, G, T, P, E and KiB … EiB are powers of 1024, KB … EB powers of 1000";

/// A number of things: `1 copy`, `3 copies`.
pub fn counted<N: fmt::Display + PartialEq + From<bool>>(
    count: N,
    one: &str,
    many: &str,
) -> String {
    let word = if count == N::from(true) { one } else { many };
    format!("{count} {word}")
}

/// Formats a number of bytes in the largest unit of which it has at least one: `512 bytes`,
/// `64 KiB`, `1.5 GiB`. One decimal, or none if the number is a multiple of the unit.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(PIB, "PiB"), (TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    if bytes == 1 {
        return "1 byte".to_owned();
    }
    let unit = UNITS.into_iter().find(|&(unit, _)| bytes >= unit);
    let (unit, name) = unit.unwrap_or((1, "bytes"));
    if bytes.is_multiple_of(unit) {
        format!("{} {name}", bytes / unit)
    } else {
        format!("{:.1} {name}", bytes as f64 / unit as f64)
    }
}

/// Reads a duration such as `15us`, `1.5ms`, `10s` or `2m`. Fails if the number or the unit is
/// missing or unknown, or the value is too large for a [`Nanos`].
pub fn parse_duration(text: &str) -> Result<Nanos, UnitError> {
    let text = text.trim();
    if text.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0) {
        let units = DURATION.units_help;
        let problem = format!("has no unit: write for example {text}s ({units})");
        return Err(UnitError { text: text.to_owned(), problem });
    }
    parse_scaled(text, text, &DURATION).map(Nanos)
}

/// Reads a size in bytes such as `4096`, `256K`, `50GiB` or `2TB`. Fails if the number or the unit
/// is missing or unknown, or the value is too large.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    parse_scaled(text, text, &SIZE)
}

/// Reads a rate in bytes per second such as `1.2GB/s` or `190MB/s`. Fails if `/s` is missing, or
/// the text before it is not a size.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let size = text.trim().strip_suffix("/s").ok_or_else(|| malformed(text, &RATE))?;
    parse_scaled(text, size, &RATE)
}

/// Reads `number`, the part of `text` that holds a number and a unit.
fn parse_scaled(text: &str, number: &str, quantity: &QuantityKind) -> Result<u64, UnitError> {
    let number = number.trim();
    let split = number.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(number.len());
    let (digits, unit) = (&number[..split], number[split..].trim_start());
    let Ok(value) = digits.parse::<f64>() else { return Err(malformed(text, quantity)) };
    let mut units = quantity.units.iter();
    let Some((_, scale)) = units.find(|(name, _)| *name == unit) else {
        if !unit.chars().all(char::is_alphabetic) {
            return Err(malformed(text, quantity));
        }
        let problem = format!("has an unknown unit ({})", quantity.units_help);
        return Err(UnitError { text: text.trim().to_owned(), problem });
    };
    if unit.is_empty() && value.fract() != 0.0 {
        let problem = format!("is not a whole number of bytes ({})", quantity.units_help);
        return Err(UnitError { text: text.trim().to_owned(), problem });
    }
    if value * scale < VALUE_BOUND {
        return Ok((value * scale).round() as u64);
    }
    let QuantityKind { excess, bound, .. } = quantity;
    let problem = format!("is too {excess}: it must be less than {bound}");
    Err(UnitError { text: text.trim().to_owned(), problem })
}

fn malformed(text: &str, quantity: &QuantityKind) -> UnitError {
    let QuantityKind { name, examples, units_help, .. } = quantity;
    let text = text.trim();
    let problem = match text {
        "" => format!("the {name} is missing: write for example {examples}"),
        _ => format!("is not a {name} such as {examples} ({units_help})"),
    };
    UnitError { text: text.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_iec_and_si_prefixes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("256K", 262_144),
            ("1.5KiB", 1536),
            ("2TB", 2_000_000_000_000),
            ("3PiB", 3 << 50),
            ("1.5P", 3 << 49),
            ("2PB", 2_000_000_000_000_000),
            ("50 GiB", 50 * GIB),
            ("1KB", 1000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn durations_and_rates() {
        assert_eq!(parse_duration("15us"), Ok(Nanos(15_000)));
        assert_eq!(parse_duration("1.5ms"), Ok(Nanos(1_500_000)));
        assert_eq!(parse_duration("2m"), Ok(Nanos::from_secs(120)));
        assert_eq!(parse_rate("1.2GB/s"), Ok(1_200_000_000));
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for text in ["1.5", " 0.1 "] {
            let error = parse_bytes(text).unwrap_err().to_string();
            assert!(error.contains("is not a whole number of bytes"), "{error}");
        }
        for text in ["K", "1.2.3K", "-4K", "4E9K", "nan"] {
            let error = parse_bytes(text).unwrap_err().to_string();
            assert!(error.contains("is not a size such as"), "{error}");
            assert!(error.contains("KB … EB powers of 1000"), "{error}");
        }
        let message = |text| parse_duration(text).unwrap_err().to_string();
        for text in ["10", " 10 "] {
            let expected = "`10` has no unit: write for example 10s (the units are ns, us, ms, s, \
                            m, h and d)";
            assert_eq!(message(text), expected);
        }
        for text in ["s", "1e9s", "-1", "inf", "nan"] {
            assert!(message(text).contains("is not a duration such as 15us"), "{text}");
        }
        assert_eq!(
            message(" "),
            "the duration is missing: write for example 15us, 1.5ms, 10s or 2m"
        );
        assert!(parse_bytes("").unwrap_err().without_text().starts_with("the size is missing"));
        assert!(parse_bytes("x").unwrap_err().without_text().starts_with("it is not a size"));
        assert!(parse_rate("15MB").is_err());
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_bound() {
        let day = parse_duration("1d").unwrap();
        assert_eq!(day, Nanos::from_secs(86_400));
        assert!(parse_duration("106751d").is_ok() && parse_bytes("7.99E").is_ok());
        let message = parse_duration("99999999999h").unwrap_err().to_string();
        assert_eq!(message, "`99999999999h` is too long: it must be less than 106751d");
        for text in ["8EiB", "99999999999T", "99999999999999999999999"] {
            let message = parse_bytes(text).unwrap_err().to_string();
            assert_eq!(message, format!("`{text}` is too large: it must be less than 8E"));
        }
        let message = parse_rate("99E/s").unwrap_err().to_string();
        assert_eq!(message, "`99E/s` is too large: it must be less than 8E/s");
    }

    #[test]
    fn unknown_unit_is_answered_with_the_units() {
        let message = |text| parse_duration(text).unwrap_err().to_string();
        let units = "the units are ns, us, ms, s, m, h and d";
        assert_eq!(message("1y"), format!("`1y` has an unknown unit ({units})"));
        assert_eq!(message("1M"), format!("`1M` has an unknown unit ({units})"));
        let message = parse_bytes("4Q").unwrap_err().to_string();
        assert!(message.starts_with("`4Q` has an unknown unit (K, M,"), "{message}");
    }

    #[test]
    fn bytes_are_formatted_in_the_largest_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (512, "512 bytes"),
            (4096, "4 KiB"),
            (MIB + MIB / 2, "1.5 MiB"),
            (1000, "1000 bytes"),
            (2 * TIB, "2 TiB"),
            (PIB, "1 PiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
    }

    #[test]
    fn display_has_three_significant_figures() {
        let shown = |ns| Nanos(ns).to_string();
        assert_eq!(shown(812), "812ns");
        assert_eq!(shown(43_120), "43.1us");
        assert_eq!(shown(9_999_000), "10.0ms");
        assert_eq!(shown(1_600_000_000), "1.60s");
    }

    #[test]
    fn transfer_time_rounds_up_and_does_not_overflow() {
        assert_eq!(Nanos::transfer(4096, 1_000_000_000), Nanos(4096));
        assert_eq!(Nanos::transfer(1, 3), Nanos(333_333_334));
        assert_eq!(Nanos::transfer(1 << 60, 1 << 30), Nanos(1_000_000_000 << 30));
        assert_eq!(Nanos::transfer(1, 0), Nanos::MAX);
    }
}
