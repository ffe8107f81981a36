//! Estimated parameters: value, interval and origin, and how they are written.

use serde::Serialize;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueOrigin {
    /// A closed form of what was measured.
    Measured,
    /// Simulations with this value are nearest to what was measured.
    Fitted,
    /// The default of the class of device: what was measured does not determine it.
    Assumed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParameterEstimate {
    pub name: &'static str,
    /// Value as it stands in the profile.
    pub text: String,
    /// Bounds of its interval, written like the value.
    pub interval: Option<(String, String)>,
    pub origin: ValueOrigin,
    /// A remark; may be empty.
    pub note: String,
}

/// How values are written in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    Count,
    Fraction,
    Duration,
    /// Bytes per second.
    Rate,
    Bytes,
}

impl ValueOrigin {
    pub fn name(self) -> &'static str {
        match self {
            ValueOrigin::Measured => "measured",
            ValueOrigin::Fitted => "fitted",
            ValueOrigin::Assumed => "assumed",
        }
    }
}

impl ParameterEstimate {
    /// A value that was measured or fitted.
    pub(super) fn new(
        name: &'static str,
        notation: Notation,
        origin: ValueOrigin,
        value: f64,
        interval: Option<(f64, f64)>,
    ) -> ParameterEstimate {
        let write = |value: f64| notation.write(value);
        let interval = interval.map(|(low, high)| (write(low), write(high)));
        ParameterEstimate { name, text: write(value), interval, origin, note: String::new() }
    }

    /// A value of the class of device.
    pub(super) fn assumed(name: &'static str, text: String) -> ParameterEstimate {
        let origin = ValueOrigin::Assumed;
        ParameterEstimate { name, text, interval: None, origin, note: String::new() }
    }

    /// The same with a remark.
    pub(super) fn noted(self, note: impl Into<String>) -> ParameterEstimate {
        ParameterEstimate { note: note.into(), ..self }
    }
}

impl Notation {
    pub(super) fn write(self, value: f64) -> String {
        match self {
            Notation::Count => format!("{:.0}", value.max(0.0)),
            Notation::Fraction => format!("{value:.6}"),
            Notation::Duration => format!("\"{}\"", duration_text(value)),
            Notation::Rate => format!("\"{}\"", rate_text(value)),
            Notation::Bytes => format!("\"{:.0}KiB\"", (value / 1024.0).max(0.0)),
        }
    }
}

/// Four significant digits in the unit that fits.
pub(super) fn duration_text(seconds: f64) -> String {
    let nanos = (seconds.max(0.0) * 1e9).round();
    let (scale, unit) = match nanos {
        n if n < 1e3 => (1.0, "ns"),
        n if n < 1e6 => (1e3, "us"),
        n if n < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}{unit}", significant(nanos / scale))
}

/// Four significant digits in MB/s or GB/s.
pub(super) fn rate_text(rate: f64) -> String {
    match rate {
        r if r >= 1e9 => format!("{}GB/s", significant(r / 1e9)),
        r => format!("{}MB/s", significant(r / 1e6)),
    }
}

/// At most four significant digits, without zeroes at the end.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_profiles_read_them() {
        assert_eq!(Notation::Duration.write(8.2345e-3), "\"8.235ms\"");
        assert_eq!(Notation::Duration.write(20e-6), "\"20us\"");
        assert_eq!(Notation::Duration.write(0.0), "\"0ns\"");
        assert_eq!(Notation::Rate.write(175.04e6), "\"175MB/s\"");
        assert_eq!(Notation::Rate.write(2.8e9), "\"2.8GB/s\"");
        assert_eq!(Notation::Bytes.write(524_288.0), "\"512KiB\"");
        assert_eq!(Notation::Count.write(7199.7), "7200");
    }
}
