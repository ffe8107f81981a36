//! Parses and formats the values of parameters.
//!
//! Sizes and devids follow the kernel's `memparse`, so that a string has the same meaning here as
//! in btrfs's sysfs file. A value that does not fit 64 bits is an error; in the kernel it wraps.

use super::{ParameterInfo, Unit};

const SUFFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// Why a text is not a value of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueProblem {
    Missing,
    /// The text has another syntax, or is not one of the words.
    Malformed,
    TooSmall,
    /// The value is above the range, or does not fit 64 bits.
    TooLarge,
}

/// Parses a value and rounds it up as the parameter requires.
pub(super) fn parse_value(parameter: &ParameterInfo, text: &str) -> Result<u64, ValueProblem> {
    let value = parse_exact_value(parameter, text)?;
    value.checked_next_multiple_of(parameter.multiple_of).ok_or(ValueProblem::TooLarge)
}

/// Returns true if a value is rounded up.
pub(super) fn is_rounded(parameter: &ParameterInfo, text: &str) -> bool {
    parse_exact_value(parameter, text)
        .is_ok_and(|value| !value.is_multiple_of(parameter.multiple_of))
}

fn parse_exact_value(parameter: &ParameterInfo, text: &str) -> Result<u64, ValueProblem> {
    if text.is_empty() {
        return Err(ValueProblem::Missing);
    }
    let value = match parameter.unit {
        Unit::Word(words) => words
            .iter()
            .position(|&word| word == text)
            .map(|index| index as u64)
            .ok_or(ValueProblem::Malformed)?,
        Unit::Bytes | Unit::Devid => parse_kernel_number(text)?,
        Unit::Count => parse_digits(text)?,
        Unit::Percent => parse_digits(text.strip_suffix('%').unwrap_or(text))?,
        Unit::Millis => parse_millis(text)?,
    };
    if value < *parameter.range.start() {
        return Err(ValueProblem::TooSmall);
    }
    if value > *parameter.range.end() {
        return Err(ValueProblem::TooLarge);
    }
    Ok(value)
}

fn parse_millis(text: &str) -> Result<u64, ValueProblem> {
    let (digits, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => (text, 1),
    };
    parse_digits(digits)?.checked_mul(factor).ok_or(ValueProblem::TooLarge)
}

fn parse_digits(text: &str) -> Result<u64, ValueProblem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ValueProblem::Malformed);
    }
    // Digits alone can only overflow.
    text.parse().map_err(|_| ValueProblem::TooLarge)
}

/// Parses a number as btrfs does: [`memparse`], then white space, then the end.
fn parse_kernel_number(text: &str) -> Result<u64, ValueProblem> {
    let (value, rest) = memparse(text)?;
    // The kernel's `isspace` includes the vertical tab; Rust's does not.
    let is_space = rest.bytes().all(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
    if is_space { Ok(value) } else { Err(ValueProblem::Malformed) }
}

/// Parses a number as the kernel's `memparse` (`lib/cmdline.c`) does: decimal, `0x` hexadecimal or
/// `0` octal digits, then at most one suffix of K, M, G, T, P, E in either case. Returns the value
/// and the rest of the text.
fn memparse(text: &str) -> Result<(u64, &str), ValueProblem> {
    let bytes = text.as_bytes();
    let is_hex = bytes.first() == Some(&b'0')
        && bytes.get(1).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'x'))
        && bytes.get(2).is_some_and(u8::is_ascii_hexdigit);
    let (radix, digits) = match bytes.first() {
        _ if is_hex => (16, &text[2..]),
        Some(b'0') => (8, text),
        _ => (10, text),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return Err(ValueProblem::Malformed);
    }
    let value = u64::from_str_radix(&digits[..end], radix).map_err(|_| ValueProblem::TooLarge)?;
    let rest = &digits[end..];
    let suffix = rest.chars().next().map(|letter| letter.to_ascii_uppercase());
    match suffix.and_then(|letter| SUFFIXES.iter().position(|&known| known == letter)) {
        Some(power) => {
            let factor = 1u64 << (10 * (power + 1));
            Ok((value.checked_mul(factor).ok_or(ValueProblem::TooLarge)?, &rest[1..]))
        }
        None => Ok((value, rest)),
    }
}

/// Formats a size with the largest suffix that leaves a whole number.
pub(super) fn shortest_size(bytes: u64) -> String {
    let power = (bytes.trailing_zeros() / 10).min(SUFFIXES.len() as u32);
    match power {
        0 => bytes.to_string(),
        _ => format!("{}{}", bytes >> (10 * power), SUFFIXES[power as usize - 1]),
    }
}
