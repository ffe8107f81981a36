//! The members of an array in an evaluation, and figures of all of them.

use crate::judge::{Cause, DiskFacts, DiskFigures, DiskState};
use crate::service::DiskKind;
use mirrorball_core::units::Nanos;

/// Utilisation above which a hard disk is taken for saturated.
pub(super) const BUSY_MAX: f64 = 0.95;
/// Standard deviation of the logarithm of a mean wait that is assumed at least.
const DEVIATION_MIN: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberReading {
    pub class: DiskKind,
    /// True if the judge calls it slow, and not the link that it shares.
    pub is_slow: bool,
    /// How many times slower than expected its reads were; none without reads that can be judged.
    pub read_ratio: Option<f64>,
    pub reads_per_s: f64,
    pub read_wait_ms: f64,
    /// Mean number in flight while any was.
    pub depth: f64,
    /// Share of the time with I/O in flight.
    pub utilisation: f64,
}

impl MemberReading {
    /// The member, from the state of its disk and the figures of the last evaluation.
    pub fn of(facts: &DiskFacts, state: DiskState, figures: Option<DiskFigures>) -> MemberReading {
        let is_slow = matches!(state, DiskState::Slow { cause, .. } if cause != Cause::Link);
        MemberReading {
            class: facts.class,
            is_slow,
            read_ratio: figures.and_then(|it| it.read_ratio),
            reads_per_s: figures.map_or(0.0, |it| it.reads_per_s),
            read_wait_ms: figures.map_or(0.0, |it| it.read_wait_ms),
            depth: figures.map_or(1.0, |it| it.depth),
            utilisation: figures.map_or(0.0, |it| it.utilisation),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArrayReading {
    /// When it ended.
    pub now: Nanos,
    /// False while copies are missing, work runs in the background, or another program has changed
    /// the setting.
    pub is_at_rest: bool,
    /// The members, in their order.
    pub members: Vec<MemberReading>,
}

/// Mean wait of the reads of all members; none without any.
pub(super) fn mean_wait_ms(members: &[MemberReading]) -> Option<f64> {
    let reads: f64 = members.iter().map(|it| it.reads_per_s).sum();
    let waits: f64 = members.iter().map(|it| it.reads_per_s * it.read_wait_ms).sum();
    (reads > 0.0 && waits > 0.0).then(|| waits / reads)
}

/// Part of the mean wait that is saved if the reads of the avoided members go to the others, in
/// proportion to what these do now. A negative part is lost.
pub(super) fn predicted_gain(members: &[MemberReading], avoids: &[bool]) -> f64 {
    let Some(now) = mean_wait_ms(members) else { return 0.0 };
    let all: f64 = members.iter().map(|it| it.reads_per_s).sum();
    let has_reads = |it: &&MemberReading| it.reads_per_s > 0.0;
    let serving = members.iter().zip(avoids).filter(|(_, it)| !**it).map(|(it, _)| it);
    let serving = || serving.clone().filter(has_reads);
    let kept: f64 = serving().map(|it| it.reads_per_s).sum();
    if kept <= 0.0 {
        return 0.0;
    }
    let more = all / kept;
    let wait = |it: &MemberReading| match it.class {
        // One arm: the time in the queue grows as the idle time shrinks.
        DiskKind::Hdd => {
            let busy = it.utilisation.clamp(0.0, BUSY_MAX);
            let then = busy * more;
            match then < BUSY_MAX {
                true => it.read_wait_ms * (1.0 - busy) / (1.0 - then),
                false => f64::INFINITY,
            }
        }
        kind => it.read_wait_ms * kind.growth(it.depth * more) / kind.growth(it.depth),
    };
    let waits: f64 = serving().map(|it| it.reads_per_s / kept * wait(it)).sum();
    1.0 - waits / now
}

/// Difference of the means, and its standard error.
pub(super) fn compared(before: &[f64], after: &[f64]) -> (f64, f64) {
    if before.is_empty() || after.is_empty() {
        return (0.0, f64::INFINITY);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let variance = |values: &[f64]| {
        let (mean, count) = (mean(values), values.len() as f64);
        let sum: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
        (sum / (count - 1.0).max(1.0)).max(DEVIATION_MIN.powi(2)) / count
    };
    (mean(after) - mean(before), (variance(before) + variance(after)).sqrt())
}
