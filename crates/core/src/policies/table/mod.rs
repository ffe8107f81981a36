//! The table of policies: one row a policy, by family.
//!
//! What the fields mean stands at [`PolicyInfo`]. What several rows say alike, a parameter or an
//! origin, is a constant of `parameters` or of the module `origins`.

mod bsd;
mod btrfs;
mod linux;
mod other;
mod parameters;

use super::PolicyInfo;

/// Every policy, family after family, in the order in which they are listed.
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

/// Every policy, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> + Clone {
    FAMILIES.iter().copied().flatten()
}
