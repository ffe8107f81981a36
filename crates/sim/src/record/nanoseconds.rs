//! Times as they are saved: whole nanoseconds.

use mirrorball_core::units::Nanos;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    u64::deserialize(deserializer).map(Nanos)
}

pub(super) fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}
