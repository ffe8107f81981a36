//! What a cache tier in front of an array did under one policy.

use super::summary::CellSummary;
use mirrorball_disk::cache_tier::CacheTierCounts;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Fractions over all repeats together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ArrayCacheFigures {
    /// Part of the bytes read that came from the cache; none if nothing was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_hits: Option<f64>,
    /// Part of the bytes written that only the cache had when the write was complete; none if
    /// nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_writes: Option<f64>,
    /// Part of all bytes that bypassed the cache.
    pub bypassed: f64,
}

impl ArrayCacheFigures {
    /// The figures of the repeats of one policy; none without a cache.
    pub(super) fn of(cells: &[CellSummary]) -> Option<ArrayCacheFigures> {
        let records = || cells.iter().filter_map(|cell| cell.run.array_cache);
        records().next()?;
        let sum = |of: fn(CacheTierCounts) -> u64| records().map(of).sum::<u64>();
        let part = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let (read, written) = (sum(|it| it.read_bytes), sum(|it| it.written_bytes));
        Some(ArrayCacheFigures {
            read_hits: part(sum(|it| it.read_hit_bytes), read),
            cached_writes: part(sum(|it| it.written_to_cache_only_bytes), written),
            bypassed: part(sum(|it| it.bypassed_bytes), read + written).unwrap_or(0.0),
        })
    }
}
