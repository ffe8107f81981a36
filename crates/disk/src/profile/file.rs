//! The text of a profile: its tables as serde reads them, and the place of an error in it.

use crate::figure::{Expectation, FigureUnit, LatencyDistribution, MeasuredAt, Statistic};
use crate::quantity;
use crate::workload::ModelWorkload;
use mirrorball_core::diagnostic::{Diagnostic, TextPosition};
use serde::Deserialize;
use std::ops::Range;
use toml::Value;

/// A whole profile, with parameters of type `P`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileFile<P> {
    pub(super) name: String,
    pub(super) summary: String,
    /// Read before the rest, by [`super::kinds::KindOnly`].
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    #[serde(deserialize_with = "quantity::bytes")]
    pub(super) capacity: u64,
    pub(super) rotational: Option<bool>,
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub(super) optimal_io: u64,
    pub(super) parameters: P,
    #[serde(default)]
    pub(super) expect: Vec<toml::Spanned<ExpectRow>>,
    #[serde(default)]
    pub(super) distribution: Vec<toml::Spanned<DistributionRow>>,
}

/// An `[[expect]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectRow {
    what: String,
    value: f64,
    unit: String,
    tolerance: Option<f64>,
    #[serde(default = "through_a_host")]
    host: bool,
    source: String,
    #[serde(default)]
    note: String,
}

/// A `[[distribution]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DistributionRow {
    what: String,
    unit: String,
    #[serde(default = "through_a_host")]
    host: bool,
    source: String,
    quantiles: Vec<(f64, f64)>,
}

impl ExpectRow {
    pub(super) fn check(self) -> Result<Expectation, Diagnostic> {
        let (workload, statistic) = self.what.split_once('/').unwrap_or((&self.what, ""));
        let statistic = find(Statistic::all(), |row| row.name, "statistic", statistic)?;
        let unit = find(FigureUnit::all(), |row| row.name, "unit", &self.unit)?;
        if unit.dimension != statistic.dimension {
            let message = format!("`{}` is not measured in {}", self.what, self.unit);
            return Err(Diagnostic::new(message));
        }
        Ok(Expectation {
            workload: find(ModelWorkload::all(), |row| row.name, "workload", workload)?,
            statistic,
            value: self.value,
            unit,
            tolerance: self.tolerance.unwrap_or(statistic.tolerance),
            measured_at: measured_at(self.host),
            source: self.source,
            note: self.note,
        })
    }
}

impl DistributionRow {
    pub(super) fn check(self) -> Result<LatencyDistribution, Diagnostic> {
        let unit = find(FigureUnit::all(), |row| row.name, "unit", &self.unit)?;
        let rising = self.quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
        let within = self.quantiles.iter().all(|&(fraction, _)| 0.0 < fraction && fraction < 1.0);
        if !rising || !within || self.quantiles.is_empty() {
            let message = "`quantiles` must be [fraction, latency] pairs, fractions rising from 0 \
                           to 1 and latencies not falling";
            return Err(Diagnostic::new(message));
        }
        let scaled = self.quantiles.iter().map(|&(at, value)| (at, value * unit.scale)).collect();
        Ok(LatencyDistribution {
            workload: find(ModelWorkload::all(), |row| row.name, "workload", &self.what)?,
            quantiles: scaled,
            measured_at: measured_at(self.host),
            source: self.source,
        })
    }
}

/// The default of `host`: data sheets and reviews measure through a host.
fn through_a_host() -> bool {
    true
}

fn measured_at(host: bool) -> MeasuredAt {
    match host {
        true => MeasuredAt::Host,
        false => MeasuredAt::Device,
    }
}

/// The row called `word` of a constant table.
fn find<T>(
    rows: &'static [T],
    name: fn(&T) -> &'static str,
    noun: &str,
    word: &str,
) -> Result<&'static T, Diagnostic> {
    rows.iter().find(|row| name(row) == word).ok_or_else(|| {
        let names: Vec<&str> = rows.iter().map(name).collect();
        let error = Diagnostic::new(format!("there is no {noun} `{word}`"));
        error.with_suggestion(word, &names, "use one of")
    })
}

/// Converts an error of the TOML reader.
pub(super) fn from_toml(text: &str, origin: &str, error: &toml::de::Error) -> Diagnostic {
    let diagnostic = Diagnostic::of_serde(error.message()).in_file(origin);
    match error.span() {
        Some(span) => diagnostic.at(position_of(text, &span)),
        None => diagnostic,
    }
}

/// The error for the value of a key, from a message of serde.
pub(super) fn wrong_value(key: &str, value: &Value, message: &str) -> Diagnostic {
    let error = Diagnostic::of_serde(message);
    if error.message.starts_with("unknown key") {
        return error;
    }
    let expected = error.message.split_once(", expected ").map(|(_, expected)| expected);
    Diagnostic::new(match expected {
        Some(expected) => format!("`{key}` must be {expected}, not `{value}`"),
        None => format!("`{key}`: {}", error.message),
    })
}

/// The position of the first byte of `span`.
pub(super) fn position_of(text: &str, span: &Range<usize>) -> TextPosition {
    TextPosition::of_byte(text, span.start)
}

/// The position of the line that sets the key named first in `message`, for errors that are found
/// after parsing.
pub(super) fn position_of_key(text: &str, message: &str) -> Option<TextPosition> {
    let key = message.split('`').nth(1)?;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.split('=').next().is_some_and(|left| left.trim() == key) {
            let indent = line.len() - line.trim_start().len();
            return Some(TextPosition::of_byte(text, start + indent));
        }
        start += line.len();
    }
    None
}
