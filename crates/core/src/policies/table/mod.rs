//! The table of policies: one row per policy, by family.
//!
//! [`PolicyInfo`] documents the fields. Parameters that several rows share are constants of the
//! module `parameters`.

mod bsd;
mod btrfs;
mod linux;
mod other;
mod parameters;

use super::PolicyInfo;

/// All policies by family, each with the systems that it is of, in the order of the listing.
pub const FAMILIES: &[(&str, &[PolicyInfo])] = &[
    ("Mirrorball", other::MIRRORBALL_ROWS),
    ("Linux btrfs", btrfs::BTRFS_ROWS),
    ("Linux btrfs, kakra's patch set", btrfs::KAKRA_ROWS),
    ("FreeBSD gmirror", bsd::GMIRROR_ROWS),
    ("FreeBSD graid", bsd::GRAID_ROWS),
    ("Linux md", linux::MD_ROWS),
    ("OpenZFS, ZFS, ZFS on Linux", other::ZFS_ROWS),
    ("bcachefs", other::BCACHEFS_ROWS),
    ("DRBD", linux::DRBD_ROWS),
    ("Linux dm-multipath", linux::DM_ROWS),
    ("Linux NVMe multipath", linux::NVME_ROWS),
    ("SPDK", other::SPDK_ROWS),
    ("NetBSD RAIDframe", bsd::RAIDFRAME_ROWS),
    ("Crucible", other::CRUCIBLE_ROWS),
    ("Solaris Volume Manager", other::SOLARIS_ROWS),
    ("Veritas Volume Manager", other::VXVM_ROWS),
    (
        "power of two choices, Linux IPVS, Twitter Finagle, C3, Prequal, LinnOS",
        other::RESEARCH_ROWS,
    ),
];

/// All policies, in the order of the listing.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> + Clone {
    FAMILIES.iter().flat_map(|(_, family)| *family)
}
