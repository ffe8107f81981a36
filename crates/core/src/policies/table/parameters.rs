//! Parameters of policies.

use crate::policies::mirrorball_auto::components::COMPONENTS;
use crate::policies::{ParameterInfo, Unit};
use crate::units::{KIB, MIB, SECTOR_BYTES};

pub(super) const CONTIGUOUS_BYTES: ParameterInfo = ParameterInfo {
    name: "bytes",
    unit: Unit::Bytes,
    default: Some(262_144),
    // The last multiple below the sign bit, so that rounding up stays below it.
    range: 1..=i64::MAX as u64 / SECTOR_BYTES * SECTOR_BYTES,
    multiple_of: SECTOR_BYTES,
    meaning: "bytes read from one mirror before the next has its turn",
};

pub(super) const PROBE: ParameterInfo = ParameterInfo {
    name: "probe",
    unit: Unit::Word(&["window", "once"]),
    default: Some(0),
    range: 0..=1,
    multiple_of: 1,
    meaning: "how long a mean is unknown after a reset: 100 decisions, or until chosen",
};

pub(super) const LAYOUT: ParameterInfo = ParameterInfo {
    name: "layout",
    unit: Unit::Word(&["near", "far", "offset", "array"]),
    default: Some(3),
    range: 0..=3,
    multiple_of: 1,
    meaning: "layout of the raid10 whose rule is followed; `array`: the array's own",
};

pub(super) const FIRST: ParameterInfo = ParameterInfo {
    name: "first",
    unit: Unit::Devid,
    default: Some(0),
    range: 0..=i64::MAX as u64,
    multiple_of: 1,
    meaning: "the member that the array was created with as the first",
};

pub(super) const STRIPE_BYTES: ParameterInfo = ParameterInfo {
    name: "bytes",
    unit: Unit::Bytes,
    default: Some(262_144),
    range: 32 * KIB..=MIB,
    multiple_of: 32 * KIB,
    meaning: "bytes read from one side before the other has its turn",
};

pub(super) const READS_PER_TURN: ParameterInfo = ParameterInfo {
    name: "count",
    unit: Unit::Count,
    default: Some(1),
    range: 1..=1_000_000,
    multiple_of: 1,
    meaning: "number of reads that a member serves before the next has its turn",
};

pub(super) const BASE_WEIGHT: ParameterInfo = ParameterInfo {
    name: "base_weight",
    unit: Unit::Count,
    default: Some(972),
    range: 0..=1023,
    multiple_of: 1,
    meaning: "weight of the old mean for a sample below 16.8 ms, in 1024ths",
};

pub(super) const THRESHOLD_MULTIPLIER: ParameterInfo = ParameterInfo {
    name: "threshold_multiplier",
    unit: Unit::Count,
    default: Some(0),
    range: 0..=u32::MAX as u64,
    multiple_of: 1,
    meaning: "ratio of means up to which they count as equal, so that queues decide",
};

pub(super) const WITHOUT: ParameterInfo = ParameterInfo {
    name: "without",
    unit: Unit::Word(COMPONENTS),
    default: Some(0),
    range: 0..=COMPONENTS.len() as u64 - 1,
    multiple_of: 1,
    meaning: "component to leave out, to measure what it is worth",
};

/// Requests that a read counts in addition to the queue of its mirror, in `zfs/mirror`.
const fn zfs_increment(name: &'static str, default: u64, meaning: &'static str) -> ParameterInfo {
    let (unit, range) = (Unit::Count, 0..=1_000_000);
    ParameterInfo { name, unit, default: Some(default), range, multiple_of: 1, meaning }
}

pub(super) const ZFS_INCREMENTS: &[ParameterInfo] = &[
    zfs_increment(
        "rotating_seek",
        5,
        "`rotating_seek_inc`: requests that a seek counts on a rotational member; half of it if \
         the seek is short",
    ),
    zfs_increment(
        "flash_seek",
        1,
        "`non_rotating_seek_inc`: requests that a read counts on another member, unless it follows \
         the last one",
    ),
    zfs_increment(
        "rotating",
        0,
        "`rotating_inc`: requests that a read counts on a rotational member if it follows the \
         last one",
    ),
    zfs_increment("flash", 0, "`non_rotating_inc`: the same on another member"),
    ParameterInfo {
        name: "near",
        unit: Unit::Bytes,
        default: Some(MIB),
        range: 1..=i64::MAX as u64,
        multiple_of: 1,
        meaning: "`rotating_seek_offset`: distance below which a seek is short",
    },
];
