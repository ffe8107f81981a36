//! Reads dealt out by address: the address space is cut into equal parts, and each belongs to one
//! of the mirrors, in the order of their members.
//!
//! A policy does not know the volume's size. Ours: the address is where the read lies on the first
//! of the members, and the space is that member's size.
//!
//! Source: `RD_GEOMETRY` in illumos `usr/src/uts/common/io/lvm/mirror/mirror.c`, which cuts a
//! metadevice into as many parts as submirrors run, rounded up to whole blocks.

use super::smallest::first_smallest;
use crate::member::Members;
use crate::policy::Mirror;

/// The place of the mirror to whose part, of so many, the read belongs.
///
/// # Panics
/// If there are fewer mirrors than parts.
#[inline]
pub(crate) fn mirror_of_part(mirrors: &[Mirror], members: &Members, parts: usize) -> usize {
    let first = &mirrors[first_smallest(mirrors, |mirror| mirror.member)];
    let part_bytes = members[first.member].config.size_bytes.div_ceil(parts as u64);
    let part = (first.offset / part_bytes) as usize;
    let number =
        |mirror: &Mirror| mirrors.iter().filter(|other| other.member < mirror.member).count();
    let place = mirrors.iter().position(|mirror| number(mirror) == part);
    place.expect("the offset lies within the member, and there is a mirror for each part")
}
