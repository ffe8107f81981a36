//! Parsers of numbers and quantities on the command line, whose errors say what is expected.
//!
//! clap puts the value itself into the message, so the errors do not.

use mirrorball_core::units::{Nanos, UnitError, parse_bytes, parse_duration};
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Numbers of threads that may be requested.
pub(crate) const THREADS: RangeInclusive<NonZeroUsize> =
    NonZeroUsize::MIN..=NonZeroUsize::new(1024).expect("1024 is not zero");

/// Returns a parser of whole numbers within `range`.
pub(crate) fn whole_number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {} to {}", range.start(), range.end())),
    }
}

pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a seed: a whole number from 0 to {}", u64::MAX))
}

pub(crate) fn devid(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(devid) if devid > 0 => Ok(devid),
        _ => Err("expected the devid of a member: a whole number from 1".to_owned()),
    }
}

pub(crate) fn duration(text: &str) -> Result<Nanos, String> {
    parse_duration(text).map_err(with_help)
}

/// Parses a duration that is not zero.
pub(crate) fn positive_duration(text: &str) -> Result<Nanos, String> {
    let zero = "must be greater than zero, for example 500ms";
    match text {
        "0" => Err(zero.to_owned()),
        _ => match duration(text)? {
            Nanos::ZERO => Err(zero.to_owned()),
            duration => Ok(duration),
        },
    }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(with_help)
}

/// The error without the text, which clap names, and with what to write on a line of its own.
fn with_help(error: UnitError) -> String {
    error.without_text().replacen(": write ", "\n  help: write ", 1)
}

/// Parses a rate limit in bytes per second.
pub(crate) fn rate_limit(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("must be greater than zero; leave the option out for no limit".to_owned()),
        rate => Ok(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_and_other_texts_are_refused_with_the_range() {
        let reads = whole_number(1u32..=10_000);
        assert_eq!((reads("1"), reads("10000")), (Ok(1), Ok(10_000)));
        for text in ["0", "10001", "-1", "1.5", "", "many"] {
            let expected = "expected a whole number from 1 to 10000".to_owned();
            assert_eq!(reads(text), Err(expected), "{text}");
        }
        assert!(whole_number(THREADS)("0").unwrap_err().contains("from 1 to 1024"));
        assert_eq!((seed("0"), devid("3")), (Ok(0), Ok(3)));
        assert!(seed("abc").is_err() && devid("0").is_err() && devid("x").is_err());
    }

    #[test]
    fn quantities_are_refused_without_the_text_that_clap_names() {
        assert_eq!(positive_duration("1s"), Ok(Nanos::from_secs(1)));
        for (error, message) in [
            (duration("10").unwrap_err(), "it has no unit\n  help: write for example 10s"),
            (positive_duration("0").unwrap_err(), "must be greater than zero, for example 500ms"),
            (positive_duration("0s").unwrap_err(), "must be greater than zero, for example 500ms"),
            (size("").map(Nanos).unwrap_err(), "the size is missing"),
            (size("99E").map(Nanos).unwrap_err(), "it is too large"),
            (rate_limit("0").map(Nanos).unwrap_err(), "must be greater than zero; leave the"),
        ] {
            assert!(error.starts_with(message), "{error}");
        }
    }
}
