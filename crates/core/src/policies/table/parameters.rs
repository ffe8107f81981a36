//! Parameters that policies and modifiers take.

use crate::policies::{ParameterInfo, Unit};
use crate::units::{KIB, MIB, SECTOR_BYTES};

pub(super) const CONTIGUOUS_BYTES: ParameterInfo = ParameterInfo {
    name: "bytes",
    unit: Unit::Bytes,
    default: Some(262_144),
    // The last multiple below the sign bit, so that rounding up stays below it.
    range: 1..=i64::MAX as u64 / SECTOR_BYTES * SECTOR_BYTES,
    multiple_of: SECTOR_BYTES,
    meaning: "how much is read from one mirror before the next has its turn",
};

pub(super) const PROBE: ParameterInfo = ParameterInfo {
    name: "probe",
    unit: Unit::Word(&["window", "once"]),
    default: Some(0),
    range: 0..=1,
    multiple_of: 1,
    meaning: "how long a rehabilitated member counts as unknown: 100 decisions, or until chosen",
};

pub(super) const LAYOUT: ParameterInfo = ParameterInfo {
    name: "layout",
    unit: Unit::Word(&["near", "far", "offset"]),
    default: Some(0),
    range: 0..=2,
    multiple_of: 1,
    meaning: "the layout of the raid10 whose rule is followed",
};

pub(super) const STRIPE_BYTES: ParameterInfo = ParameterInfo {
    name: "bytes",
    unit: Unit::Bytes,
    default: Some(262_144),
    range: 32 * KIB..=MIB,
    multiple_of: 32 * KIB,
    meaning: "how much is read from one side before the other has its turn",
};
