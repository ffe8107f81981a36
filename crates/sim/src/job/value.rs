//! The values of options: sizes, times, percentages, booleans and lists, by the rules of fio 3.33.
//!
//! With `kb_base=1024`, the default, `k` and `kB` are 1024 and `KiB` is 1000: for compatibility
//! with old job files fio swaps the meanings of the IEC and SI prefixes. With `kb_base=1000` they
//! have their standard meanings. (`ki` means the same as `k`, unlike what the HOWTO says:
//! measured.) A bare time is in seconds or, for `thinktime`, in microseconds. A value that fio
//! would misread without a warning is an error.

use super::error::job_error;
use super::spec::{PerDirection, SizeOrPercent};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};

/// Factor of `k`, in sizes and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KbBase(pub(super) u64);

impl Default for KbBase {
    fn default() -> KbBase {
        KbBase(1024)
    }
}

const SIZE_HINT: &str =
    "write a whole number, with or without k, m, g, t or p, such as 4096, 4k or 50g";
/// An upper bound from here on is no bound that a user would reach.
const MAX_WITHOUT_BOUND: u64 = u32::MAX as u64;
const PREFIXES: [char; 5] = ['k', 'm', 'g', 't', 'p'];
const TIME_UNITS: [(&str, u64); 9] = [
    ("us", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("", 0),
];
/// Largest value: the sum of two values fits a `u64`.
const VALUE_MAX: u64 = u64::MAX / 2;

/// Replaces every `${NAME}` in `text`. Fails if a variable is not set, or one of fio's keywords for
/// the machine is used.
pub(super) fn expand(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, Diagnostic> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start + 2..].find('}') else {
            break;
        };
        let name = &rest[start + 2..start + 2 + length];
        let value = variable(name).ok_or_else(|| {
            let help = match name.split_once(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                None => format!("set it for the command: `{name}=VALUE mirrorball …`"),
                Some((name, _)) => {
                    format!("fio knows no default values: write `${{{name}}}`, and set `{name}`")
                }
            };
            job_error(format!("the environment variable `{name}` is not set"), help)
        })?;
        expanded.push_str(&rest[..start]);
        expanded.push_str(&value);
        rest = &rest[start + 3 + length..];
    }
    expanded.push_str(rest);
    let expanded = expanded.replace("$pagesize", "4096");
    let keywords = [
        ("$mb_memory", "its memory in MiB, which `free -m` prints"),
        ("$ncpus", "the number of its processors, which `nproc` prints"),
    ];
    match keywords.into_iter().find(|(keyword, _)| expanded.contains(keyword)) {
        Some((keyword, what)) => Err(job_error(
            format!("`{keyword}` depends on the machine that fio runs on"),
            format!("write {what}"),
        )),
        None => Ok(expanded),
    }
}

/// The part of `text` that fio reads, if it is a number with a unit and something follows, such as
/// `4k:8k` for one size; of a count also before a sign, as in `128*4`.
pub(super) fn beginning<'a>(option: &str, text: &'a str) -> Option<&'a str> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).filter(|&end| end > 0)?;
    let end = text.find(|c: char| !c.is_ascii_alphanumeric())?;
    let has_signs: &[char] = match option {
        "iodepth" | "numjobs" | "nrfiles" => &['*', '+', '/'],
        _ => &[],
    };
    let rest = &text[end..];
    let is_list = rest.starts_with([',', '.', '%', '-']);
    (rest.starts_with(has_signs) || (end > digits && !is_list)).then_some(&text[..end])
}

/// `text` with a comma between the values of directions. Where no comma follows, fio separates them
/// also by colons, and where no colon follows by dashes; it reads a value up to either.
pub(super) fn with_commas(text: &str) -> String {
    let (mut values, mut rest) = (String::new(), text);
    while let Some((value, next)) = [',', ':', '-'].iter().find_map(|&it| rest.split_once(it)) {
        values += value.split([':', '-']).next().unwrap_or(value);
        values.push(',');
        rest = next;
    }
    values + rest
}

/// A size or count.
pub(super) fn integer(text: &str, base: KbBase) -> Result<u64, Diagnostic> {
    parse_integer(text, base).ok_or_else(|| {
        let fault = |help: &str| job_error(format!("`{text}` is not a size or number"), help);
        match text {
            text if text.contains('(') => fault("arithmetic is not supported: write the result"),
            text if text.contains('.') => fault(
                "fio accepts whole numbers only: write it in a smaller unit, as 1536 for 1.5k",
            ),
            text if text.starts_with('-') => fault(SIZE_HINT),
            text if text.contains('-') => fault("it is a range: write one size, or bsrange=4k-64k"),
            text if text.contains('%') => {
                fault("only size, offset and offset_increment accept a percentage")
            }
            _ => fault(SIZE_HINT),
        }
    })
}

/// A number of at least `least` and at most `most`.
pub(super) fn integer_within(text: &str, base: KbBase, range: [u64; 2]) -> Result<u64, Diagnostic> {
    let [least, most] = range;
    let value = parse_integer(text, base).ok_or_else(|| {
        let help = match most {
            ..MAX_WITHOUT_BOUND => format!("write {least} to {most}"),
            MAX_WITHOUT_BOUND.. => format!("write {least} or more"),
        };
        let is_negative = text.trim().parse::<i64>().is_ok_and(|value| value < 0);
        if is_negative {
            return job_error(format!("`{text}` is less than {least}"), help);
        }
        job_error(format!("`{text}` is not a whole number"), help)
    })?;
    if value < least {
        return Err(job_error(format!("`{text}` is too small"), format!("write {least} or more")));
    }
    if value > most {
        return Err(job_error(format!("`{text}` is too large"), format!("write {most} or less")));
    }
    Ok(value)
}

/// The size of a request, not zero.
pub(super) fn block(text: &str, base: KbBase) -> Result<u64, Diagnostic> {
    let bytes = integer(text, base)?;
    let is_iec = text.to_lowercase().ends_with("ib") && base == KbBase(1024);
    if bytes == 0 {
        return Err(job_error("the block size is zero", "write a size, for example 4k"));
    }
    if is_iec && !bytes.is_multiple_of(SECTOR_BYTES) {
        let help = format!("write {}, or set kb_base=1000", &text[..text.len() - 2]);
        return Err(job_error(format!("`{text}` is {bytes} bytes in fio"), help));
    }
    Ok(bytes)
}

/// A size in bytes, or as a percentage.
pub(super) fn extent(text: &str, base: KbBase) -> Result<SizeOrPercent, Diagnostic> {
    let Some(percent) = text.strip_suffix('%') else {
        return integer(text, base).map(SizeOrPercent::Bytes);
    };
    match percent.trim_end_matches('%').parse() {
        Ok(percent) if percent <= 100 => Ok(SizeOrPercent::Percent(percent)),
        _ => Err(job_error(format!("`{text}` is not a percentage"), "write 1% to 100%")),
    }
}

/// Reads a time; a bare number counts in units of `unit`. Fails if it is none that fio would read.
pub fn parse_time(text: &str, unit: Nanos) -> Result<Nanos, Diagnostic> {
    let bare = if unit < Nanos::from_secs(1) { "microseconds" } else { "seconds" };
    let fault = || {
        let help = format!("write a whole number of {bare}, or one with us, ms, s, m, h or d");
        job_error(format!("`{text}` is not a time"), help)
    };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let suffix = text[end..].to_lowercase();
    let (_, scale) = TIME_UNITS.iter().find(|(name, _)| *name == suffix).ok_or_else(fault)?;
    let scale = if *scale == 0 { unit.0 } else { *scale };
    let value: u64 = text[..end].parse().map_err(|_| fault())?;
    value.checked_mul(scale).filter(|&ns| ns <= VALUE_MAX).map(Nanos).ok_or_else(fault)
}

/// A boolean: `1` or `0`, the only values that fio accepts.
pub(super) fn truth(text: &str) -> Result<bool, Diagnostic> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(job_error(format!("`{text}` is neither 0 nor 1"), "write 1 for yes, 0 for no")),
    }
}

/// A real number within `range`, both ends included.
pub(super) fn real(text: &str, range: [f64; 2]) -> Result<f64, Diagnostic> {
    let [least, most] = range;
    match text.parse::<f64>() {
        Ok(value) if value >= least && value <= most => Ok(value),
        _ => Err(job_error(
            format!("`{text}` is not a number from {least} to {most}"),
            "write a decimal number, such as 0.5",
        )),
    }
}

/// `reads,writes,trims`. The last value also holds for the directions after it, unless a comma
/// follows it. An empty value leaves the earlier setting.
pub(super) fn per_direction<T: Clone>(
    text: &str,
    target: &mut PerDirection<T>,
    parse: impl Fn(&str) -> Result<T, Diagnostic>,
) -> Result<(), Diagnostic> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        let help = "write up to three: reads,writes,trims";
        return Err(job_error(format!("`{text}` has {} values", parts.len()), help));
    }
    for index in 0..3 {
        let part = parts.get(index).unwrap_or(&parts[parts.len() - 1]);
        if !part.is_empty() {
            target.0[index] = parse(part)?;
        }
    }
    Ok(())
}

fn parse_integer(text: &str, base: KbBase) -> Option<u64> {
    let lower = text.to_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        let digits = Some(digits).filter(|digits| !digits.starts_with('+'))?;
        return u64::from_str_radix(digits, 16).ok().filter(|&value| value <= VALUE_MAX);
    }
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let value: u64 = lower[..end].parse().ok()?;
    value.checked_mul(multiplier(&lower[end..], base)?).filter(|&value| value <= VALUE_MAX)
}

/// Factor of a suffix in lower case.
fn multiplier(suffix: &str, base: KbBase) -> Option<u64> {
    if suffix.is_empty() || suffix == "b" {
        return Some(1);
    }
    let power = PREFIXES.iter().position(|&prefix| suffix.starts_with(prefix))? as u32 + 1;
    let swapped = if base.0 == 1024 { 1000u64 } else { 1024 };
    match &suffix[1..] {
        "" | "i" | "b" => Some(base.0.pow(power)),
        "ib" => Some(swapped.pow(power)),
        _ => None,
    }
}
