//! A device of a btrfs, as the kernel or `btrfs filesystem show` lists it.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BtrfsDevice {
    pub(crate) devid: u64,
    pub(super) total_bytes: u64,
    /// Bytes in chunks; none if that is not known.
    pub(super) used_bytes: Option<u64>,
    /// Empty for a missing device.
    pub(crate) path: String,
}
