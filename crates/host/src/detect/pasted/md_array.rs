//! An array of md as the parts of a text say what it is.

use std::collections::BTreeMap;

/// An array of md as far as the text says what it is.
#[derive(Clone, Debug, Default)]
pub(super) struct MdArray {
    pub(super) level: String,
    pub(super) slots: u64,
    /// The part says which device is in which slot; otherwise numbers of devices stand for them.
    pub(super) has_slots: bool,
    pub(super) is_inactive: bool,
    /// Number of slots that are in use.
    pub(super) up: Option<u64>,
    pub(super) member_kib: Option<u64>,
    pub(super) size_kib: Option<u64>,
    /// The number of the layout of a raid10.
    pub(super) layout: Option<u64>,
    pub(super) chunk_bytes: Option<u64>,
    pub(super) action: Option<&'static str>,
    /// Done, and all of it.
    pub(super) progress: Option<(u64, u64)>,
    /// The present rate of a rebuild, a resync or a check.
    pub(super) kib_per_s: Option<u64>,
    pub(super) devices: BTreeMap<String, MdDevice>,
    pub(super) uuid: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct MdDevice {
    pub(super) slot: Option<u64>,
    /// Words of its state as sysfs has them, between commas.
    pub(super) state: String,
    /// First sector of its data.
    pub(super) offset: Option<u64>,
}
