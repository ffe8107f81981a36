//! What a controller with a write-back cache did under one policy.

use super::summary::CellSummary;
use mirrorball_disk::controller::ControllerCounts;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Fractions over all repeats together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ControllerFigures {
    /// Part of the writes that waited for space in the cache.
    pub delayed_writes: f64,
    /// Part of the full stripes (without parity, of the ranges of 1 MiB) that were written back as
    /// a whole.
    pub whole_units: f64,
    /// Reads that the cache answered.
    pub read_hits: u64,
}

impl ControllerFigures {
    /// The figures of the repeats of one policy; none without a controller.
    pub(super) fn of(cells: &[CellSummary]) -> Option<ControllerFigures> {
        let records = || cells.iter().filter_map(|cell| cell.run.controller);
        records().next()?;
        let sum = |of: fn(ControllerCounts) -> u64| records().map(of).sum::<u64>();
        let part = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let whole = sum(|it| it.whole_units);
        Some(ControllerFigures {
            delayed_writes: part(sum(|it| it.delayed_writes), sum(|it| it.writes)),
            whole_units: part(whole, whole + sum(|it| it.partial_units)),
            read_hits: sum(|it| it.read_hits),
        })
    }
}
