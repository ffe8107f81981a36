//! The values of parameters as people write them, and back.
//!
//! Sizes follow the kernel's `memparse`, so that a string means here what it means in btrfs's sysfs
//! file.

use super::{ParameterInfo, Unit};

/// A value for a parameter, rounded up as the parameter asks; `None` if it is not one.
pub(super) fn parse_value(parameter: &ParameterInfo, text: &str) -> Option<u64> {
    let value = match parameter.unit {
        Unit::Word(words) => words.iter().position(|&word| word == text)? as u64,
        Unit::Bytes | Unit::Devid => parse_number(text)?,
        Unit::Count => text.parse().ok()?,
        Unit::Percent => text.strip_suffix('%').unwrap_or(text).parse().ok()?,
        Unit::Millis => parse_millis(text)?,
    };
    parameter.range.contains(&value).then(|| value.next_multiple_of(parameter.multiple_of))
}

/// A time in milliseconds.
fn parse_millis(text: &str) -> Option<u64> {
    let (digits, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number as btrfs reads one: [`memparse`], then blanks, then nothing. The kernel also refuses
/// zero and what is negative in 64 bits: here the parameters' ranges do.
fn parse_number(text: &str) -> Option<u64> {
    let (value, rest) = memparse(text);
    // The kernel's `isspace` for ASCII: Rust's knows no vertical tab.
    let only_blanks = rest.bytes().all(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
    only_blanks.then_some(value)
}

/// The kernel's `memparse` (`lib/cmdline.c`): decimal, `0x` hexadecimal or `0` octal digits, then
/// at most one suffix of K, M, G, T, P, E in either case. Overflow wraps, as it does there. Gives
/// the value, zero if there is no digit, and what follows.
fn memparse(text: &str) -> (u64, &str) {
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
    let value = digits[..end]
        .chars()
        .filter_map(|letter| letter.to_digit(radix))
        .fold(0u64, |value, digit| {
            value.wrapping_mul(u64::from(radix)).wrapping_add(u64::from(digit))
        });
    let rest = &digits[end..];
    let suffix = rest.chars().next().map(|letter| letter.to_ascii_uppercase());
    match suffix.and_then(|letter| SUFFIXES.iter().position(|&known| known == letter)) {
        Some(power) => (value << (10 * (power + 1)), &rest[1..]),
        None => (value, rest),
    }
}

const SUFFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// A size with the largest suffix that leaves a whole number.
pub(super) fn shortest_size(bytes: u64) -> String {
    let power = (bytes.trailing_zeros() / 10).min(SUFFIXES.len() as u32);
    match power {
        0 => bytes.to_string(),
        _ => format!("{}{}", bytes >> (10 * power), SUFFIXES[power as usize - 1]),
    }
}
