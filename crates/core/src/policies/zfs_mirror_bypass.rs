//! # Idea
//! As `zfs/mirror`, but non-rotational members have no queue that the rule sees: each scores its
//! seek increment, 1, whatever it has to do.
//!
//! # State
//! None of its own; it uses the queues of rotational members and the end of the last I/O submitted
//! to them.
//!
//! # Cost
//! One score per mirror.
//!
//! # Good at
//! Equal non-rotational members: ties are broken by offset, 2 MiB to each in turn.
//!
//! # Bad at
//! - Unequal non-rotational members: they get equal shares, whatever their queues.
//! - An SSD and a hard disk: the disk is read whenever it is idle and its last read ended there.
//!
//! # Origin
//! OpenZFS after 2.4, `module/zfs/vdev_queue.c` (openzfs/zfs pull request 17358): with the vdev
//! property `scheduler=auto`, the default, I/O of a non-rotational device bypasses the queue of the
//! vdev, so its number of active requests and its last offset, which `vdev_mirror_load` reads, stay
//! 0. `scheduler=on` restores `zfs/mirror`. Read in the source, not measured.
//! Defined in module/zfs/vdev_mirror.c and module/zfs/vdev_queue.c, by Steven Hartland
//! <smh@FreeBSD.org>.

use super::zfs_mirror::ZfsMirror;
use super::{Build, Built};
use crate::units::MIB;

/// The defaults of the parameters of `zfs/mirror`.
const DEFAULTS: [u64; 5] = [5, 1, 0, 0, MIB];

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Built {
    Ok(Box::new(ZfsMirror::new(DEFAULTS, true)))
}
