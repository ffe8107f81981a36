//! Fields of a line: separation and numbers, on bytes, without allocation.

use mirrorball_core::diagnostic::{Diagnostic, Escaped};

/// Longest quotation in an error.
const QUOTED_MAX: usize = 40;

/// Advice for a line of another shape.
pub(crate) const OTHER_FORMAT: &str =
    "correct or remove the line, or name the format of the file if it is another";

pub(crate) fn blank_fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty())
}

/// A whole number; `name` is the name of its column.
pub(crate) fn whole(field: &[u8], name: &str) -> Result<u64, Diagnostic> {
    parse_whole(field).ok_or_else(|| unexpected(field, name, "a whole number"))
}

/// A number of seconds, milliseconds or such with a fraction, in units of 1 / 10^`digits`. Further
/// digits are cut off.
pub(crate) fn decimal(field: &[u8], digits: u32, name: &str) -> Result<u64, Diagnostic> {
    parse_decimal(field, digits).ok_or_else(|| unexpected(field, name, "a decimal number"))
}

/// `value` times `unit`, for a column named `name`.
pub(crate) fn times(value: u64, unit: u64, name: &str) -> Result<u64, Diagnostic> {
    value.checked_mul(unit).ok_or_else(|| {
        Diagnostic::new(format!("the {name} {value} is out of range")).with_help(OTHER_FORMAT)
    })
}

/// The error for a field that is not what its column holds.
#[cold]
pub(crate) fn unexpected(field: &[u8], name: &str, wanted: &str) -> Diagnostic {
    let text = String::from_utf8_lossy(&field[..field.len().min(QUOTED_MAX)]);
    let message = format!("the {name} `{}` is not {wanted}", Escaped(&text));
    Diagnostic::new(message).with_help(OTHER_FORMAT)
}

fn parse_whole(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn parse_decimal(field: &[u8], digits: u32) -> Option<u64> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let mut value = parse_whole(&field[..point])?.checked_mul(10u64.pow(digits))?;
    let fraction = field.get(point + 1..).unwrap_or(&[]);
    let mut unit = 10u64.pow(digits);
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        unit /= 10;
        value = value.checked_add(u64::from(digit) * unit)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_the_digit() {
        assert_eq!(parse_whole(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_whole(b"18446744073709551616"), None);
        assert_eq!(parse_whole(b""), None);
        assert_eq!(parse_whole(b"+1"), None);
        assert_eq!(parse_decimal(b"1.5", 9), Some(1_500_000_000));
        assert_eq!(parse_decimal(b"0.000000001", 9), Some(1));
        assert_eq!(parse_decimal(b"0.0000000019", 9), Some(1));
        assert_eq!(parse_decimal(b"7", 3), Some(7_000));
        assert_eq!(parse_decimal(b".5", 3), None);
        assert_eq!(parse_decimal(b"1.2x", 3), None);
    }
}
