//! Address partitioning: the address space is divided into equal parts, one for each mirror in the
//! order of their members.
//!
//! A policy does not have the volume's size. So the address is that of the read on the first of the
//! members, and the space is that member's size.
//!
//! Source: `RD_GEOMETRY` in illumos `usr/src/uts/common/io/lvm/mirror/mirror.c`, which divides a
//! metadevice into as many parts as submirrors run, rounded up to whole blocks.

use super::smallest::first_smallest;
use crate::member::Members;
use crate::policy::Mirror;

/// Position of the mirror that serves the read, if the address space has this many parts. Panics if
/// there are fewer mirrors than parts.
#[inline]
pub(crate) fn mirror_of_partition(mirrors: &[Mirror], members: &Members, parts: usize) -> usize {
    let first = &mirrors[first_smallest(mirrors, |mirror| mirror.member)];
    let part_bytes = members[first.member].config.size_bytes.div_ceil(parts as u64);
    let part = (first.offset / part_bytes) as usize;
    let number =
        |mirror: &Mirror| mirrors.iter().filter(|other| other.member < mirror.member).count();
    let place = mirrors.iter().position(|mirror| number(mirror) == part);
    place.expect("the offset lies within the member, and there is a mirror for each part")
}
