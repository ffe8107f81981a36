//! Readers for the quantities in a model profile: `"1.4ms"`, `"205MB/s"`, `"2TB"`.
//!
//! A field uses them as `#[serde(deserialize_with = "quantity::duration")]`. A size may also be a
//! bare integer, in bytes. A duration or a rate without a unit is an error.

use mirrorball_core::units::{Nanos, parse_bytes, parse_duration, parse_rate};
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use std::fmt;

/// Reads a duration such as `"1.4ms"`. Fails if the value is not a string that [`parse_duration`]
/// takes.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    deserializer.deserialize_str(Quantity {
        expected: "a duration such as \"1.4ms\"",
        parse: |text| parse_duration(text).map_err(|error| error.to_string()),
    })
}

/// Reads a rate in bytes per second such as `"205MB/s"`. Fails if the value is not a string that
/// [`parse_rate`] takes.
pub(crate) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_str(Quantity {
        expected: "a rate such as \"205MB/s\"",
        parse: |text| parse_rate(text).map_err(|error| error.to_string()),
    })
}

/// Reads a size in bytes such as `"2TB"` or `4096`. Fails if the value is neither a non-negative
/// integer nor a string that [`parse_bytes`] takes.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Size(Quantity {
        expected: "a size such as \"256MiB\", \"2TB\" or 4096",
        parse: |text| parse_bytes(text).map_err(|error| error.to_string()),
    }))
}

/// A visitor for strings that hold a number and its unit.
struct Quantity<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

/// The same, with bare integers allowed.
struct Size(Quantity<u64>);

impl Visitor<'_> for Size {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        self.0.visit_str(text)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }
}
