//! Origins of the families of policies; a row overrides the fields in which it differs.

use super::PolicyOrigin;

pub(super) const MIRRORBALL: PolicyOrigin = PolicyOrigin {
    system: "Mirrorball",
    version: "0.1",
    file: "crates/core/src/policies",
    authors: "the Mirrorball authors",
};

pub(super) const BTRFS: PolicyOrigin = PolicyOrigin {
    system: "Linux btrfs",
    version: "6.14 (size suffixes 6.15), CONFIG_BTRFS_EXPERIMENTAL",
    file: "fs/btrfs/volumes.c",
    authors: "Anand Jain <anand.jain@oracle.com>",
};

pub(super) const KAKRA: PolicyOrigin = PolicyOrigin {
    system: "Linux btrfs, kakra's patch set",
    version: "6.12, dropped for 6.18",
    file: "kakra/linux PR #36",
    authors: "Kai Krakow, from a patch of Anand Jain <anand.jain@oracle.com>",
};

pub(super) const GMIRROR: PolicyOrigin = PolicyOrigin {
    system: "FreeBSD gmirror",
    version: "5.3 and later",
    file: "sys/geom/mirror/g_mirror.c",
    authors: "Pawel Jakub Dawidek <pjd@FreeBSD.org>",
};

pub(super) const MD: PolicyOrigin = PolicyOrigin {
    system: "Linux md",
    version: "5.3 and later",
    file: "drivers/md/raid10.c",
    authors: "Neil Brown, Keld Simonsen, Guoqing Jiang",
};

pub(super) const DRBD: PolicyOrigin = PolicyOrigin {
    system: "DRBD",
    version: "8.4 and 9",
    file: "drbd/drbd_req.c; in Linux, drivers/block/drbd/drbd_req.c",
    authors: "Philipp Reisner, Lars Ellenberg",
};

pub(super) const MULTIPATH: PolicyOrigin = PolicyOrigin {
    system: "Linux dm-multipath",
    version: "2.6.31 and later",
    file: "drivers/md/dm-ps-*.c",
    authors: "Kiyoshi Ueda",
};

pub(super) const NVME: PolicyOrigin = PolicyOrigin {
    system: "Linux NVMe multipath",
    version: "6.x",
    file: "drivers/nvme/host/multipath.c",
    authors: "Christoph Hellwig, Hannes Reinecke",
};

pub(super) const IPVS: PolicyOrigin = PolicyOrigin {
    system: "Linux IPVS",
    version: "2.6 and later",
    file: "net/netfilter/ipvs/ip_vs_sed.c",
    authors: "Wensong Zhang <wensong@linuxvirtualserver.org>",
};

pub(super) const RAIDFRAME: PolicyOrigin = PolicyOrigin {
    system: "NetBSD RAIDframe",
    version: "every version",
    file: "sys/dev/raidframe/rf_dagutils.c",
    authors: "Carnegie Mellon University",
};

pub(super) const ZFS: PolicyOrigin = PolicyOrigin {
    system: "OpenZFS",
    version: "0.7 and later (FreeBSD r256956, October 2013)",
    file: "module/zfs/vdev_mirror.c",
    authors: "Steven Hartland <smh@FreeBSD.org>",
};
