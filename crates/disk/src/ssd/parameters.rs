//! Parameters of a solid-state disk, in the units that people write.
//!
//! Every key of a profile's `[parameters]` is a field here, and [`SsdParameters::fault`] says which
//! values make no disk. The model itself works with integers derived from these once, so nothing
//! here is fast.

use crate::quantity::{bytes, duration, rate};
use mirrorball_core::units::Nanos;
use serde::{Deserialize, Deserializer};

/// The parameters of a solid-state disk: the `[parameters]` of a profile of kind `ssd`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    /// Number of dies: how many pages can be read or programmed at once.
    pub dies: u32,
    /// Bytes of one page, the unit in which addresses are dealt to dies; a power of two, at least
    /// 4 KiB.
    #[serde(deserialize_with = "bytes")]
    pub page: u64,
    /// How long reading a page of the fastest type holds its die: tR.
    #[serde(deserialize_with = "duration")]
    pub read: Nanos,
    /// Time of each page type on top of `read`; the type of a 4 KiB block is a fixed function
    /// of its address, all types equally frequent. One type if not given.
    #[serde(default = "one_page_type", deserialize_with = "durations")]
    pub page_types: Vec<Nanos>,
    /// Bytes per second between a die and the controller; holds the die, not its neighbours.
    #[serde(deserialize_with = "rate")]
    pub channel: u64,

    /// Bytes programmed at once on one die (a page of every plane); one page if not given.
    #[serde(default, deserialize_with = "optional_bytes")]
    pub program_unit: Option<u64>,
    /// How long programming a unit holds its die: tP.
    #[serde(deserialize_with = "duration")]
    pub program: Nanos,
    /// How long a read waits for a program or an erase to be suspended; not suspended if not
    /// given.
    #[serde(default, deserialize_with = "optional_duration")]
    pub suspend: Option<Nanos>,
    /// The share (0 to 1) of programs and erases that cannot be suspended.
    #[serde(default)]
    pub suspend_refused: f64,

    /// Bytes of the part of the flash that is programmed with one bit per cell; zero for no such
    /// part, and if not given.
    #[serde(default, deserialize_with = "bytes")]
    pub slc_cache: u64,
    /// How long programming a unit there holds its die; `program` if not given.
    #[serde(default, deserialize_with = "optional_duration")]
    pub slc_program: Option<Nanos>,
    /// How long the drive must have been idle before it moves data from there to the rest.
    #[serde(default = "default_slc_idle", deserialize_with = "duration")]
    pub slc_idle: Nanos,

    /// Units programmed for each unit of random writes, garbage collection included, on a full
    /// drive in steady state. Sequential writes cost one.
    pub write_amplification: f64,
    /// How long reading a unit that garbage collection moves holds its die; not suspended.
    #[serde(default, deserialize_with = "duration")]
    pub copy_read: Nanos,
    /// How long erasing a block holds its die; one erase ends each burst of collection.
    #[serde(default, deserialize_with = "duration")]
    pub erase: Nanos,
    /// The mean number of units that one burst of collection moves, all on one die.
    #[serde(default = "default_burst")]
    pub collection_burst: u32,

    #[serde(deserialize_with = "bytes")]
    pub write_cache: u64,
    /// Cost of a flush, once what it waits for is done.
    #[serde(deserialize_with = "duration")]
    pub flush: Nanos,
    /// Whether the cache survives a loss of power, so that a flush waits for no program.
    pub power_loss_protection: bool,
    /// Whether a flush runs alone, as on SATA: commands before it end first, those behind it wait.
    pub flush_alone: bool,

    /// Firmware latency of a read; occupies nothing.
    #[serde(deserialize_with = "duration")]
    pub read_latency: Nanos,
    /// Firmware latency of a write or a discard; occupies nothing.
    #[serde(deserialize_with = "duration")]
    pub write_latency: Nanos,
    /// Time that each command holds the controller and link, its transfer excluded: one over this
    /// (and the transfer) is the greatest number of commands per second.
    #[serde(deserialize_with = "duration")]
    pub command: Nanos,
    /// Bytes per second on the way to the host, one transfer at a time, reads and writes together.
    #[serde(deserialize_with = "rate")]
    pub link: u64,
    /// How many commands the drive accepts at once (SATA: 32); the rest wait in the host.
    pub queue_depth: u32,
    /// How far ahead of a sequential reader the drive fetches; zero, for not at all, if not given.
    #[serde(default, deserialize_with = "bytes")]
    pub read_ahead: u64,
}

impl SsdParameters {
    /// Bytes programmed at once on one die.
    pub fn program_unit_bytes(&self) -> u64 {
        self.program_unit.unwrap_or(self.page)
    }

    /// Mistake that no type expresses and would make no disk: a sentence that names the parameter.
    pub fn fault(&self) -> Option<&'static str> {
        let unit = self.program_unit_bytes();
        let ratio = 0.0..=1.0;
        let rules = [
            ((1..=4096).contains(&self.dies), "`dies` must be from 1 to 4096"),
            (
                self.page.is_power_of_two() && (4096..=1 << 24).contains(&self.page),
                "`page` must be a power of two from 4K to 16M",
            ),
            (!self.page_types.is_empty(), "`page_types` must name at least one time"),
            (unit >= 4096, "`program_unit` must be at least 4K"),
            (self.program > Nanos::ZERO, "`program` must be longer than nothing"),
            (self.channel > 0, "`channel` must not be zero, or nothing would be read"),
            (self.link > 0, "`link` must not be zero, or nothing would complete"),
            (ratio.contains(&self.suspend_refused), "`suspend_refused` must be from 0 to 1"),
            (
                (1.0..=1000.0).contains(&self.write_amplification),
                "`write_amplification` must be from 1 to 1000",
            ),
            (
                (1..=1 << 20).contains(&self.collection_burst),
                "`collection_burst` must be from 1 to 1048576",
            ),
            (self.write_cache >= unit, "`write_cache` must hold at least one `program_unit`"),
            (self.queue_depth > 0, "`queue_depth` must be at least 1"),
            (
                self.slc_program
                    .is_none_or(|program| program > Nanos::ZERO && program <= self.program),
                "`slc_program` must be longer than 0 and at most `program`",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, rule)| rule)
    }
}

fn one_page_type() -> Vec<Nanos> {
    vec![Nanos::ZERO]
}

fn default_burst() -> u32 {
    16
}

fn default_slc_idle() -> Nanos {
    Nanos::from_secs(1)
}

fn optional_duration<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Nanos>, D::Error> {
    duration(d).map(Some)
}

fn optional_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    bytes(d).map(Some)
}

fn durations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Nanos>, D::Error> {
    #[derive(Deserialize)]
    struct DurationRow(#[serde(deserialize_with = "duration")] Nanos);
    let rows = Vec::<DurationRow>::deserialize(deserializer)?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}
