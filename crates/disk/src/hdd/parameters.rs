//! Parameters of a hard disk, in the words and units of a data sheet.

use crate::quantity;
use mirrorball_core::units::Nanos;
use serde::Deserialize;

/// The parameters of a hard disk: the `[parameters]` of a profile of kind `hdd`.
///
/// Durations are written as `"1.4ms"`, rates as `"205MB/s"`, sizes as `"64MiB"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddParameters {
    /// Revolutions per minute.
    pub rpm: u64,
    /// Recorded surfaces: tracks per cylinder.
    pub surfaces: u32,
    /// Zones of equal numbers of cylinders, within each of which all tracks hold the same.
    pub zones: u32,
    /// Sustained rate of the outermost zone in bytes per second, track switches included.
    #[serde(deserialize_with = "quantity::rate")]
    pub outer_rate: u64,
    /// The same of the innermost zone; those between lie on a line.
    #[serde(deserialize_with = "quantity::rate")]
    pub inner_rate: u64,
    /// Seek to the next cylinder, settling included.
    #[serde(deserialize_with = "quantity::duration")]
    pub seek_track: Nanos,
    /// Mean seek over random pairs of cylinders; the curve follows from it.
    #[serde(default, deserialize_with = "optional_duration")]
    pub seek_average: Option<Nanos>,
    /// Seek over all cylinders. Left out, it follows from the other two and a curve that is a
    /// square root of the distance.
    #[serde(default, deserialize_with = "optional_duration")]
    pub seek_full: Option<Nanos>,
    /// A measured curve instead of an average: fraction of all cylinders and time, both rising,
    /// the last fraction 1.
    #[serde(default)]
    pub seek_points: Vec<SeekPoint>,
    /// Switch to another surface of the same cylinder.
    #[serde(deserialize_with = "quantity::duration")]
    pub head_switch: Nanos,
    /// Additional settling time of a write after a seek.
    #[serde(deserialize_with = "quantity::duration")]
    pub write_settle: Nanos,
    /// Command processing before the mechanism can start.
    #[serde(deserialize_with = "quantity::duration")]
    pub command_overhead: Nanos,
    /// Rate between cache and host in bytes per second.
    #[serde(deserialize_with = "quantity::rate")]
    pub interface_rate: u64,
    /// Commands among which the disk chooses the next; those beyond wait in order of arrival.
    pub queue_depth: usize,
    /// A command that has waited this long goes first.
    #[serde(deserialize_with = "quantity::duration")]
    pub age_limit: Nanos,
    /// Segments of the read cache, at most 255; 0 for none.
    pub segments: u8,
    /// Size of one segment in bytes: how far the disk reads ahead of a stream when left alone.
    #[serde(deserialize_with = "quantity::bytes")]
    pub segment_size: u64,
    /// How far it reads ahead of a sequential stream even when other commands wait.
    #[serde(deserialize_with = "quantity::bytes")]
    pub read_ahead: u64,
    /// Size of the write-back cache in bytes; 0 for write-through.
    #[serde(deserialize_with = "quantity::bytes")]
    pub write_cache: u64,
    /// Size of the media cache of a disk with drive-managed shingled recording; 0 for none.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub media_cache: u64,
    /// Size of a band of such a disk, which is read and written as a whole to clean the cache.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub band: u64,
    /// Least share of the media cache of a write: the block and what is written with it.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub media_record: u64,
    /// How long such a disk must have been idle before it cleans unasked.
    #[serde(default, deserialize_with = "quantity::duration")]
    pub clean_idle: Nanos,
    /// Cached writes, oldest first, among which the disk chooses the next to write back.
    pub write_window: usize,
    /// How long no read may have come before the disk writes back unasked.
    #[serde(deserialize_with = "quantity::duration")]
    pub idle_delay: Nanos,
    /// Cost of a flush beyond writing back, if anything was written since the last.
    #[serde(deserialize_with = "quantity::duration")]
    pub flush_overhead: Nanos,
    /// Whether a flush is queued like any command (SCSI) or waits for the queue to drain and holds
    /// up what follows (SATA, where FLUSH CACHE is not an NCQ command).
    pub queued_flush: bool,
    /// Whether the host can take a single command back from the queue before its turn. SCSI's ABORT
    /// TASK does; SATA's Abort NCQ Queue can if the disk has it with the type "abort selected"
    /// (Ultrastar DC HC310 OEM specification, 11.15.1), but most do not.
    #[serde(default)]
    pub abort_queued: bool,
    /// Probability that a command for which the arm moves meets a recovery (a missed servo mark,
    /// retries, a recalibration).
    #[serde(default)]
    pub recovery_probability: f64,
    /// Shortest recovery; all are whole revolutions.
    #[serde(default, deserialize_with = "quantity::duration")]
    pub recovery_min: Nanos,
    #[serde(default, deserialize_with = "quantity::duration")]
    pub recovery_max: Nanos,
}

/// One point of a measured seek curve: `[0.1, "4.84ms"]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct SeekPoint(
    /// Distance as a fraction of all cylinders.
    pub f64,
    #[serde(deserialize_with = "quantity::duration")] pub Nanos,
);

impl HddParameters {
    pub fn revolution(&self) -> Nanos {
        Nanos(60_000_000_000 / self.rpm)
    }

    /// Time to clean a band: a seek, reading it, a seek, writing it, at the mean rate.
    pub(super) fn clean_time(&self) -> Nanos {
        let rate = u64::midpoint(self.outer_rate, self.inner_rate).max(1);
        let seek = self.seek_average.unwrap_or(self.seek_track);
        let pass = seek + Nanos::transfer(self.band, rate);
        pass + pass
    }

    /// The conditions under which a disk can be built, each with what to say when it fails.
    pub(super) fn conditions(&self) -> [(bool, &'static str); 22] {
        let points = &self.seek_points;
        let rising = points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
        let whole = points.last().is_none_or(|last| last.0 == 1.0);
        let starts = points.first().is_none_or(|first| first.0 > 0.0 && first.1 >= self.seek_track);
        let longest = points.last().map(|last| last.1).max(self.seek_full).max(self.seek_average);
        let second = Nanos::from_secs(1);
        let full = self.seek_full.or(self.seek_average);
        let chances = 0.0..=1.0;
        [
            ((60..=100_000).contains(&self.rpm), "`rpm` must lie between 60 and 100000"),
            ((1..=64).contains(&self.surfaces), "`surfaces` must lie between 1 and 64"),
            ((1..=250).contains(&self.zones), "`zones` must lie between 1 and 250"),
            (self.inner_rate >= 1_000_000, "`inner_rate` must be at least 1MB/s"),
            (self.outer_rate >= self.inner_rate, "`outer_rate` is below `inner_rate`"),
            (self.outer_rate <= 4_000_000_000, "`outer_rate` must be at most 4GB/s"),
            (
                self.seek_average.is_some() == points.is_empty(),
                "give either `seek_average` or `seek_points`; an override can set \
                 `seek_points = []` to use an average instead",
            ),
            (
                self.seek_full.is_none() || points.is_empty(),
                "`seek_full` goes with `seek_average`: of `seek_points`, the last is the full one",
            ),
            (
                self.seek_average.is_none_or(|average| self.seek_track <= average),
                "`seek_average` is below `seek_track`",
            ),
            (self.seek_average <= full, "`seek_full` is below `seek_average`"),
            (
                rising && whole && starts,
                "`seek_points` must be [fraction, time] pairs, both rising, from no less than \
                 `seek_track` to fraction 1.0",
            ),
            (longest.is_none_or(|longest| longest < second), "a seek of 1s or more in `seek_full`"),
            (self.head_switch < second, "`head_switch` must be below 1s"),
            (self.write_settle < second, "`write_settle` must be below 1s"),
            ((1..=1024).contains(&self.queue_depth), "`queue_depth` must lie between 1 and 1024"),
            (
                chances.contains(&self.recovery_probability),
                "`recovery_probability` must lie between 0 and 1",
            ),
            (self.recovery_min <= self.recovery_max, "`recovery_min` exceeds `recovery_max`"),
            (self.interface_rate > 0, "`interface_rate` is 0, so nothing would ever complete"),
            (
                self.read_ahead <= self.segment_size,
                "`read_ahead` does not fit into a segment of `segment_size`",
            ),
            (
                self.write_cache == 0 || self.write_window > 0,
                "`write_window` is 0, so the write cache would never empty",
            ),
            (
                self.media_cache == 0 || self.write_cache > 0,
                "`media_cache` needs a `write_cache`, from which it is filled",
            ),
            (
                self.media_cache == 0
                    || (1..=self.media_cache / 2).contains(&self.band)
                        && self.media_record <= self.band,
                "`band` must be from `media_record` to half of the `media_cache`, and not 0",
            ),
        ]
    }
}

fn optional_duration<'de, D>(deserializer: D) -> Result<Option<Nanos>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    quantity::duration(deserializer).map(Some)
}
