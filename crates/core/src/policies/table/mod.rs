//! The table of policies: one row per policy, by family.
//!
//! [`PolicyInfo`] documents the fields. Parameters and origins that several rows share are
//! constants of the modules `parameters` and `origins`.

mod bsd;
mod btrfs;
mod linux;
mod other;
mod parameters;

use super::PolicyInfo;

/// All policies by family, in the order of the listing.
pub const FAMILIES: &[&[PolicyInfo]] = &[
    other::MIRRORBALL_ROWS,
    btrfs::BTRFS_ROWS,
    btrfs::KAKRA_ROWS,
    bsd::GMIRROR_ROWS,
    bsd::GRAID_ROWS,
    linux::MD_ROWS,
    other::ZFS_ROWS,
    other::BCACHEFS_ROWS,
    linux::DRBD_ROWS,
    linux::DM_ROWS,
    linux::NVME_ROWS,
    other::SPDK_ROWS,
    bsd::RAIDFRAME_ROWS,
    other::CRUCIBLE_ROWS,
    other::SOLARIS_ROWS,
    other::VXVM_ROWS,
    other::RESEARCH_ROWS,
];

/// All policies, in the order of the listing.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> + Clone {
    FAMILIES.iter().copied().flatten()
}
