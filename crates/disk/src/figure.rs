//! Published figures of disks: their units, the statistics they state, and what a model is held to.
//!
//! A figure is named `workload/statistic`, such as `randread-qd1/p99`: a row of
//! [`ModelWorkload::all`] and one of [`Statistic::all`].

use crate::workload::{ModelWorkload, Observation};

/// The quantity that a unit measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// Latency, in seconds.
    Time,
    /// Completions per second.
    Frequency,
    /// Bytes per second.
    Rate,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FigureUnit {
    pub name: &'static str,
    /// The quantity that it measures.
    pub dimension: Dimension,
    /// Value of one unit in seconds, per second or bytes per second.
    pub scale: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// Name in a figure: the part after the slash.
    pub name: &'static str,
    /// The quantity that it measures.
    pub dimension: Dimension,
    /// Largest deviation of a model from a published value, unless the profile gives another:
    /// 10 %, and 25 % for tails.
    pub tolerance: f64,
    read: fn(&Observation) -> f64,
}

/// Where the latency of an I/O is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeasuredAt {
    /// In a program on a host: the host overhead is included.
    Host,
    /// At the device, as by a trace of its commands.
    Device,
}

/// A published figure that a model must meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub workload: &'static ModelWorkload,
    pub statistic: &'static Statistic,
    /// The published figure, in `unit`.
    pub value: f64,
    pub unit: &'static FigureUnit,
    /// Largest deviation of the model, as a fraction of `value`.
    pub tolerance: f64,
    pub measured_at: MeasuredAt,
    pub source: String,
    /// Why this figure was chosen, or why the model misses it; may be empty.
    pub note: String,
}

/// Published quantiles of a latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyDistribution {
    pub workload: &'static ModelWorkload,
    /// Pairs of fraction and latency in seconds, both ascending.
    pub quantiles: Vec<(f64, f64)>,
    pub measured_at: MeasuredAt,
    pub source: String,
}

const UNITS: [FigureUnit; 6] = [
    FigureUnit { name: "IOPS", dimension: Dimension::Frequency, scale: 1.0 },
    FigureUnit { name: "ns", dimension: Dimension::Time, scale: 1e-9 },
    FigureUnit { name: "us", dimension: Dimension::Time, scale: 1e-6 },
    FigureUnit { name: "ms", dimension: Dimension::Time, scale: 1e-3 },
    FigureUnit { name: "MB/s", dimension: Dimension::Rate, scale: 1e6 },
    FigureUnit { name: "GB/s", dimension: Dimension::Rate, scale: 1e9 },
];

const STATISTICS: [Statistic; 9] = [
    Statistic::new("iops", Dimension::Frequency, 0.1, |seen| seen.per_second(seen.count())),
    Statistic::new("rate", Dimension::Rate, 0.1, |seen| seen.per_second(seen.bytes as f64)),
    Statistic::new("mean", Dimension::Time, 0.1, |seen| seen.latencies.mean().as_secs_f64()),
    Statistic::new("p50", Dimension::Time, 0.1, |seen| seen.quantile(0.5)),
    Statistic::new("p90", Dimension::Time, 0.25, |seen| seen.quantile(0.9)),
    Statistic::new("p95", Dimension::Time, 0.25, |seen| seen.quantile(0.95)),
    Statistic::new("p99", Dimension::Time, 0.25, |seen| seen.quantile(0.99)),
    Statistic::new("p99.9", Dimension::Time, 0.25, |seen| seen.quantile(0.999)),
    Statistic::new("p99.99", Dimension::Time, 0.25, |seen| seen.quantile(0.9999)),
];

impl FigureUnit {
    /// Every unit, in a fixed order.
    pub fn all() -> &'static [FigureUnit] {
        &UNITS
    }
}

impl Statistic {
    /// Every statistic, in a fixed order.
    pub fn all() -> &'static [Statistic] {
        &STATISTICS
    }

    /// Value in seconds, per second or bytes per second.
    pub fn read(&self, seen: &Observation) -> f64 {
        (self.read)(seen)
    }

    const fn new(
        name: &'static str,
        dimension: Dimension,
        tolerance: f64,
        read: fn(&Observation) -> f64,
    ) -> Statistic {
        Statistic { name, dimension, tolerance, read }
    }
}

/// Statistics are equal if their names are.
impl PartialEq for Statistic {
    fn eq(&self, other: &Statistic) -> bool {
        self.name == other.name
    }
}
