//! Whether a record that was read is one that can be studied and drawn.
//!
//! A file may parse and still be damaged: edited by hand, cut and joined, written by another
//! program. Reading a record refuses histograms that cannot be. Whatever draws or sums a record
//! relies on this check and does not look again.

use super::{CellRecord, CoarseLatency, IntervalsRecord, MemberSeries, SamplesRecord};
use mirrorball_core::histogram::BINS;
use mirrorball_core::units::Nanos;

/// Fine bins in a coarse one, all of which exist for every coarse bin.
const COARSE_BINS: usize = BINS / 8;
/// No count and no time (in ns, eight years) is larger, so that sums over cells stay in range.
const AMOUNT_MAX: u64 = 1 << 48;
const TIME_NS_MAX: u64 = 1 << 58;

impl CellRecord {
    /// What is wrong with the record, in words; `None` if it is sound.
    pub fn damage(&self) -> Option<&'static str> {
        let run = &self.run;
        let mut directions = run.sections.iter().flat_map(|section| section.directions());
        let is_time_sound = |time: Nanos| time.0 <= TIME_NS_MAX;
        let sections_sound = run
            .sections
            .iter()
            .all(|section| is_time_sound(section.from) && is_time_sound(section.measured));
        let counts_sound = directions.all(|direction| {
            let amounts = [direction.ios, direction.errors, direction.bytes >> 12];
            amounts.iter().all(|&amount| amount <= AMOUNT_MAX)
        });
        let members_sound = run.members.iter().all(|member| {
            let amounts =
                [member.foreground_reads, member.reads, member.writes, member.extra_reads];
            amounts.iter().all(|&amount| amount <= AMOUNT_MAX)
        });
        let waits_sound = run.members.iter().all(|member| is_coarse_sound(&member.read_wait));
        let tests = [
            (sections_sound && is_time_sound(run.measured), "a time is out of range"),
            (counts_sound && members_sound, "a count is out of range"),
            (waits_sound, "a histogram of waits"),
            (are_intervals_sound(&run.intervals), "the columns of `intervals`"),
            (are_samples_sound(&run.samples), "the columns of `samples`"),
        ];
        tests.into_iter().find(|(is_sound, _)| !is_sound).map(|(_, what)| what)
    }
}

/// As long as each other, rising, within range, with a sum that is.
fn is_coarse_sound(latency: &CoarseLatency) -> bool {
    let CoarseLatency { bins, counts } = latency;
    let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
    bins.len() == counts.len()
        && bins.is_sorted_by(|left, right| left < right)
        && bins.last().is_none_or(|&last| (last as usize) < COARSE_BINS)
        && total <= u128::from(AMOUNT_MAX)
}

fn are_intervals_sound(intervals: &IntervalsRecord) -> bool {
    let length = intervals.from_us.len();
    let is_series_sound = |series: &MemberSeries| {
        let MemberSeries { reads, writes, bytes, seeks, wait_us, .. } = series;
        [reads, writes, bytes, seeks, wait_us].iter().all(|column| column.len() == length)
    };
    let ends = intervals.from_us.iter().zip(&intervals.width_us);
    intervals.width_us.len() == length
        && intervals.read_bytes.len() == length
        && [0, length].contains(&intervals.written_bytes.len())
        && intervals.read_latency.len() == length
        && ends.into_iter().all(|(&from, &width)| from.max(width) <= TIME_NS_MAX)
        && intervals.read_latency.iter().all(is_coarse_sound)
        && intervals.members.iter().all(is_series_sound)
}

fn are_samples_sound(samples: &SamplesRecord) -> bool {
    let SamplesRecord { at_us, devid, offset_kib, length_kib, wait_us } = samples;
    [devid, offset_kib, length_kib, wait_us].iter().all(|column| column.len() == at_us.len())
}
