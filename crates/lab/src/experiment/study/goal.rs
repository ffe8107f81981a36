//! Goals: the figure that policies are ranked by, where the default score is not what a user is
//! after. The score is the geometric mean of the figure over the sections that count, or of its
//! inverse if less is better. Without a figure it is the default score (see [`super::score`]).

use crate::experiment::record::{DirectionRecord, IoKind, Percentiles, SectionRecord};
use anyhow::Result;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::histogram::Histogram;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What policies are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Goal {
    /// None for the default score.
    pub figure: Option<Figure>,
}

/// One figure that a score is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Term {
    /// The section.
    pub section: String,
    /// The figure.
    pub figure: Figure,
}

/// A figure by which policies can be ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Requests per second.
    Iops,
    /// MiB per second.
    Mib,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 90th percentile of the latency.
    P90,
    /// 95th percentile of the latency.
    P95,
    /// 99th percentile of the latency.
    P99,
    /// 99.9th percentile of the latency.
    #[serde(rename = "p99.9")]
    P999,
    /// 99.99th percentile of the latency.
    #[serde(rename = "p99.99")]
    P9999,
}

/// Every figure with its name in a goal.
const FIGURES: [(&str, Figure); 9] = [
    ("iops", Figure::Iops),
    ("mib", Figure::Mib),
    ("mean", Figure::Mean),
    ("p50", Figure::P50),
    ("p90", Figure::P90),
    ("p95", Figure::P95),
    ("p99", Figure::P99),
    ("p99.9", Figure::P999),
    ("p99.99", Figure::P9999),
];

/// What the default score is called in words.
const DEFAULT_GOAL: &str =
    "geometric mean over sections of IOPS, or of 1/mean latency where the job sets the rate";

impl Goal {
    /// Fails if there is no such figure; the message names those that there are.
    pub fn parse(text: &str) -> Result<Goal> {
        match FIGURES.iter().find(|(name, _)| *name == text) {
            Some(&(_, figure)) => Ok(Goal { figure: Some(figure) }),
            None => {
                let names = FIGURES.map(|(name, _)| name);
                let error = Diagnostic::new(format!("`{text}` is not the name of a figure"));
                Err(error.with_help(format!("the figures are {}", names.join(", "))).into())
            }
        }
    }

    /// True for the default score.
    pub fn is_default(&self) -> bool {
        self.figure.is_none()
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.figure.map_or(DEFAULT_GOAL, Figure::name))
    }
}

impl Term {
    pub fn is_throughput(&self) -> bool {
        self.figure == Figure::Iops
    }

    /// True if more is better.
    pub fn is_rate(&self) -> bool {
        matches!(self.figure, Figure::Iops | Figure::Mib)
    }
}

impl Figure {
    pub fn name(self) -> &'static str {
        let found = FIGURES.iter().find(|(_, figure)| *figure == self);
        found.expect("every figure has a name").0
    }

    /// The figure of a section as a score, the higher the better: a rate, or one over a latency in
    /// seconds, of reads, writes and trims together. Zero if no request succeeded, or if the
    /// figure is not known of all that did.
    pub(super) fn score(self, section: &SectionRecord) -> f64 {
        let figures = IoKind::SCORED.iter().map(|&kind| section.direction(kind));
        let counted = || figures.clone().filter(|it| it.ios > 0);
        match self {
            Figure::Iops => counted().map(|figures| figures.iops).sum(),
            Figure::Mib => counted().map(|figures| figures.mib_per_s).sum(),
            _ if counted().any(|figures| self.is_unknown(figures)) => 0.0,
            Figure::Mean if counted().any(DirectionRecord::lacks_percentiles) => {
                let sum_ns = |it: &DirectionRecord| it.ios as f64 * it.percentiles.mean_ns as f64;
                let ios: f64 = counted().map(|it| it.ios as f64).sum();
                1e9 * ios / counted().map(sum_ns).sum::<f64>()
            }
            _ => {
                let mut merged = Histogram::default();
                counted().for_each(|figures| merged.merge(&figures.latency));
                if merged.count() == 0 {
                    return 0.0;
                }
                1e9 / self.latency_ns(&Percentiles::from(&merged)).max(1) as f64
            }
        }
    }

    /// Returns true if the record of requests does not have the figure.
    pub(super) fn is_unknown(self, requests: &DirectionRecord) -> bool {
        match self {
            Figure::Iops | Figure::Mib => false,
            Figure::Mean => requests.lacks_mean(),
            _ => requests.lacks_percentiles(),
        }
    }

    /// Number of requests below which it is the latency of the slowest one.
    pub(super) fn least_requests(self) -> u64 {
        match self {
            Figure::Iops | Figure::Mib | Figure::Mean => 1,
            Figure::P50 => 2,
            Figure::P90 => 10,
            Figure::P95 => 20,
            Figure::P99 => 100,
            Figure::P999 => 1_000,
            Figure::P9999 => 10_000,
        }
    }

    fn latency_ns(self, percentiles: &Percentiles) -> u64 {
        match self {
            Figure::Iops | Figure::Mib => unreachable!("rates are no latencies"),
            Figure::Mean => percentiles.mean_ns,
            Figure::P50 => percentiles.p50_ns,
            Figure::P90 => percentiles.p90_ns,
            Figure::P95 => percentiles.p95_ns,
            Figure::P99 => percentiles.p99_ns,
            Figure::P999 => percentiles.p99_9_ns,
            Figure::P9999 => percentiles.p99_99_ns,
        }
    }
}
