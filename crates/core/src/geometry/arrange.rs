//! The layouts other than btrfs's: an array is laid out whole by a formula, without an allocator.
//!
//! - *Whole*: a copy on each member, at one offset. The smallest member decides the size.
//! - *Near*, *far*, *offset*: md raid10 with n members and k copies. Near: position p of the list
//!   that repeats each strip k times lies on member p mod n, in row p div n. Far: strip s lies on
//!   member s mod n, in row s div n; copy c on the c-th member after that, c times 1/k of the
//!   member further. Offset: the same, with copy c one row further and each row k times as high.
//! - *Parity*: md raid5 and raid6. Row r of each member is row r of the array, with its parity at
//!   a position that changes from row to row.
//! - *Groups*: ZFS's mirrors. Each group gets a number of strips in proportion to its free space,
//!   then the next has its turn, until one is full; then the rest continue in new proportions.
//!
//! Simplified: md raid10 with near and far copies at once, dm-raid's sets of devices, ZFS's slop
//! space, metaslabs and ditto blocks. ZFS allocates as files are written; here the volume was
//! written once, from its start to its end.
//!
//! Sources: see [`layout`](super::layout). md's rules are `__raid10_find_phys`, `calc_sectors` and
//! `raid10_size`; ZFS's `metaslab_group_activate` and the bias in `metaslab_alloc_dva`.

use super::allocate::{ChunkAllocation, Stripe};
use super::layout::{Arrangement, Reserved, ReservedStart};
use super::{ARRAY_BYTES_MAX, ArrayLayout, GeometryError, MAX_COPIES, PARITY_WIDTH_MAX};
use crate::member::{MemberConfig, MemberIndex};
use crate::units::{GIB, KIB, MIB};

/// Strips of a chunk of the map: their numbers fit 32 bits.
const STRIPS_MAX: u64 = u32::MAX as u64;

pub(super) struct Arranged {
    pub(super) copies: usize,
    /// First byte of the data on each member.
    pub(super) start_bytes: u64,
    /// Size of a strip; `None` if each chunk is one piece.
    pub(super) strip_bytes: Option<u64>,
    /// The chunks, in the order of the volume.
    pub(super) allocations: Vec<ChunkAllocation>,
}

/// The parts of a raid10's period, after which its arrangement repeats.
struct Period {
    strips: u64,
    rows: u64,
}

/// Whole copies of `length` bytes from `start_bytes` on, one on each member, cut as by the layout.
pub(super) fn existing_copies(
    layout: ArrayLayout,
    members: usize,
    start_bytes: u64,
    length: u64,
) -> Arranged {
    let Arrangement::Whole { cut_bytes } = layout.rules().arrangement else {
        unreachable!("{layout} has no whole copies")
    };
    let allocations = vec![whole(&vec![length; members], start_bytes)];
    Arranged { copies: members, start_bytes, strip_bytes: cut_bytes, allocations }
}

/// Lays out an array of `members`. Fails if the layout does not allow their number, or a member is
/// too small.
pub(super) fn arrange(
    layout: ArrayLayout,
    members: &[MemberConfig],
) -> Result<Arranged, GeometryError> {
    layout.check_members(members.len())?;
    let rules = layout.rules();
    let copies = layout.copies(members.len());
    let start_bytes = start_bytes(rules.reserved.start, layout.chunk_bytes(), members);
    let strip_bytes = match rules.arrangement {
        Arrangement::Allocated => unreachable!("btrfs's chunks have an allocator"),
        Arrangement::Whole { cut_bytes } => cut_bytes,
        Arrangement::Groups { strip_bytes, .. } => Some(strip_bytes),
        // Members that all have the same data are not cut: `raid10_make_request`.
        Arrangement::Near if copies == members.len() => None,
        Arrangement::Near | Arrangement::Far | Arrangement::Offset | Arrangement::Parity(_) => {
            layout.chunk_bytes()
        }
    };
    let least_bytes = least_bytes(layout, copies);
    let spaces = spaces(members, start_bytes, rules.reserved, least_bytes)?;
    let allocations = match (rules.arrangement, layout.chunk_bytes()) {
        (Arrangement::Groups { strip_bytes, turn_bytes }, _) => {
            groups(&spaces, copies, start_bytes, strip_bytes, turn_bytes / strip_bytes)
        }
        (Arrangement::Parity(parities), Some(chunk_bytes)) => {
            let least = spaces.iter().min().copied().unwrap_or(0);
            let data = (spaces.len() - parities) as u64;
            let length = least / chunk_bytes * chunk_bytes * data;
            vec![ChunkAllocation { length, ..whole(&spaces, start_bytes) }]
        }
        (arrangement, Some(chunk_bytes)) => {
            let least = spaces.iter().min().copied().unwrap_or(0);
            let shape = Raid10 { arrangement, copies, members: spaces.len(), chunk_bytes };
            shape.allocations(least / chunk_bytes, start_bytes)
        }
        (_, None) => vec![whole(&spaces, start_bytes)],
    };
    Ok(Arranged { copies, start_bytes, strip_bytes, allocations })
}

impl ArrayLayout {
    /// Checks that the layout allows this number of members; not for btrfs, where that is a matter
    /// of the profile. Fails if there are too few or too many, or they do not make whole groups.
    pub fn check_members(self, members: usize) -> Result<(), GeometryError> {
        let layout = self;
        let copies = self.copies(members);
        match self.rules().arrangement {
            Arrangement::Allocated => return Ok(()),
            Arrangement::Groups { .. } if members > 0 && members.is_multiple_of(copies) => {}
            Arrangement::Groups { .. } => {
                return Err(GeometryError::PartialGroup { layout, members, copies });
            }
            Arrangement::Whole { .. } if copies > MAX_COPIES => {
                return Err(GeometryError::TooManyCopies { layout, copies });
            }
            Arrangement::Parity(parities) => {
                // mdadm makes no raid6 of three members.
                let needed = 2 * parities;
                if members < needed {
                    return Err(GeometryError::TooFewForLayout { layout, needed, members });
                }
                if members > PARITY_WIDTH_MAX {
                    let profile = layout.profile(members).expect("a layout other than btrfs's");
                    let (width, is_btrfs) = (members, false);
                    return Err(GeometryError::StripeTooWide { profile, width, is_btrfs });
                }
            }
            _ if members < copies.max(2) => {
                let needed = copies.max(2);
                return Err(GeometryError::TooFewForLayout { layout, needed, members });
            }
            _ => {}
        }
        Ok(())
    }
}

/// A member as a part of a disk, and the data in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberAround {
    pub size_bytes: u64,
    /// First byte of the data within the member.
    pub data_begin_bytes: u64,
}

impl ArrayLayout {
    /// The smallest member that has `data_bytes` of data in this layout, for an array whose members
    /// all have that much.
    pub fn member_around(self, data_bytes: u64) -> MemberAround {
        let Reserved { start, end_bytes, .. } = self.rules().reserved;
        let mut around = MemberAround { size_bytes: data_bytes, data_begin_bytes: 0 };
        // The data offset of mdadm grows with the size of the member, and never by as much.
        loop {
            let data_begin_bytes = start_bytes_of(start, self.chunk_bytes(), around.size_bytes);
            let size_bytes = data_bytes.saturating_add(data_begin_bytes + end_bytes);
            if size_bytes == around.size_bytes {
                return around;
            }
            around = MemberAround { size_bytes, data_begin_bytes };
        }
    }
}

fn least_bytes(layout: ArrayLayout, copies: usize) -> u64 {
    let rules = layout.rules();
    match (rules.arrangement, layout.chunk_bytes()) {
        (Arrangement::Far | Arrangement::Offset, Some(chunk_bytes)) => {
            chunk_bytes.saturating_mul(copies as u64)
        }
        (_, chunk_bytes) => chunk_bytes.unwrap_or(rules.reserved.multiple_of),
    }
}

/// Bytes of data of each member.
fn spaces(
    members: &[MemberConfig],
    start_bytes: u64,
    reserved: Reserved,
    least_bytes: u64,
) -> Result<Vec<u64>, GeometryError> {
    let total = members.iter().fold(0u64, |total, member| total.saturating_add(member.size_bytes));
    if total > ARRAY_BYTES_MAX {
        return Err(GeometryError::ArrayTooLarge { total_bytes: total });
    }
    let space = |&MemberConfig { devid, size_bytes, .. }: &MemberConfig| {
        let bytes = size_bytes.saturating_sub(start_bytes + reserved.end_bytes);
        let bytes = bytes - bytes % reserved.multiple_of;
        if bytes < least_bytes {
            let needed = least_bytes.saturating_add(start_bytes + reserved.end_bytes);
            return Err(GeometryError::MemberTooSmall { devid, size_bytes, needed });
        }
        Ok(bytes)
    };
    members.iter().map(space).collect()
}

/// First byte of the data of each member.
fn start_bytes(start: ReservedStart, chunk_bytes: Option<u64>, members: &[MemberConfig]) -> u64 {
    let first_bytes = members.first().map_or(0, |first| first.size_bytes);
    start_bytes_of(start, chunk_bytes, first_bytes)
}

/// The same for an array whose first member has this size.
fn start_bytes_of(start: ReservedStart, chunk_bytes: Option<u64>, first_bytes: u64) -> u64 {
    match start {
        ReservedStart::Bytes(bytes) => bytes,
        ReservedStart::Mdadm => mdadm_data_offset(first_bytes, chunk_bytes),
    }
}

/// The data offset that mdadm chooses for an array whose first member has this size: metadata, a
/// bitmap, and space for a later reshape of at most 128 MiB, which is halved until it is 0.1 % of
/// the member or, with a chunk size, no more than two chunks; in whole MiB.
fn mdadm_data_offset(size_bytes: u64, chunk_bytes: Option<u64>) -> u64 {
    const BITMAP_TABLE: [(u64, u64); 2] = [(200 * GIB, 128 * KIB), (8 * GIB, 64 * KIB)];
    let bitmap = BITMAP_TABLE.iter().find(|(above, _)| size_bytes > *above);
    let bitmap_bytes = bitmap.map_or(4 * KIB, |&(_, bytes)| bytes);
    let headroom_min = chunk_bytes.map_or(0, |chunk| 2 * chunk);
    let mut headroom = 128 * MIB;
    while headroom > size_bytes / 1024 && headroom / 2 >= headroom_min && headroom > 0 {
        headroom /= 2;
    }
    (12 * KIB + bitmap_bytes + headroom).next_multiple_of(MIB)
}

/// One chunk with a stripe on each member.
fn whole(spaces: &[u64], start_bytes: u64) -> ChunkAllocation {
    let length = spaces.iter().min().copied().unwrap_or(0);
    let stripes = (0..spaces.len()).map(|member| stripe(member, start_bytes, 1)).collect();
    ChunkAllocation { length, stripes }
}

fn stripe(member: usize, offset: u64, rows: u64) -> Stripe {
    let member = MemberIndex(member as u16);
    Stripe { member, rows: u32::try_from(rows).expect("a period has few rows"), offset }
}

/// An md raid10.
struct Raid10 {
    arrangement: Arrangement,
    copies: usize,
    members: usize,
    chunk_bytes: u64,
}

impl Raid10 {
    /// The chunks of an array with `rows` chunks of md on each member.
    fn allocations(&self, rows: u64, start_bytes: u64) -> Vec<ChunkAllocation> {
        let (members, copies) = (self.members as u64, self.copies as u64);
        let is_near = self.arrangement == Arrangement::Near;
        let strips = if is_near { rows * members / copies } else { rows / copies * members };
        let period = self.period();
        // From one copy to the next.
        let copy_bytes = match self.arrangement {
            Arrangement::Far => rows / copies * self.chunk_bytes,
            _ => self.chunk_bytes,
        };
        let periods_max = STRIPS_MAX / period.strips;
        let mut allocations = Vec::new();
        let mut done = 0;
        while done < strips {
            let part = (strips - done).min(periods_max * period.strips);
            let row = done / period.strips * period.rows;
            let start = start_bytes + row * self.chunk_bytes;
            let stripes = (0..period.strips)
                .flat_map(|strip| (0..copies).map(move |copy| (strip, copy)))
                .map(|(strip, copy)| {
                    if is_near {
                        let position = strip * copies + copy;
                        let offset = start + position / members * self.chunk_bytes;
                        stripe((position % members) as usize, offset, period.rows)
                    } else {
                        let member = (strip + copy) % members;
                        stripe(member as usize, start + copy * copy_bytes, period.rows)
                    }
                });
            allocations.push(ChunkAllocation {
                length: part * self.chunk_bytes,
                stripes: stripes.collect(),
            });
            done += part;
        }
        allocations
    }

    fn period(&self) -> Period {
        let (members, copies) = (self.members as u64, self.copies as u64);
        match self.arrangement {
            Arrangement::Near => {
                let common = greatest_common_divisor(members, copies);
                Period { strips: members / common, rows: copies / common }
            }
            Arrangement::Far => Period { strips: members, rows: 1 },
            _ => Period { strips: members, rows: copies },
        }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The chunks of groups of `copies` members, in the order of the members. A group of average free
/// space gets `turn_strips` strips in its turn.
fn groups(
    spaces: &[u64],
    copies: usize,
    start_bytes: u64,
    strip_bytes: u64,
    turn_strips: u64,
) -> Vec<ChunkAllocation> {
    let smallest = |group: &[u64]| group.iter().min().copied().unwrap_or(0);
    let mut free: Vec<u64> =
        spaces.chunks(copies).map(|group| smallest(group) / strip_bytes).collect();
    let mut used: Vec<u64> = vec![0; free.len()];
    let mut allocations = Vec::new();
    loop {
        let open = free.iter().filter(|&&strips| strips > 0).count() as u64;
        if open == 0 {
            return allocations;
        }
        let total: u64 = free.iter().sum();
        let turn = |&strips: &u64| {
            let share = (turn_strips * open * strips + total / 2) / total;
            share.max(1).min(strips)
        };
        let turns: Vec<u64> = free.iter().map(turn).collect();
        let fitting = free.iter().zip(&turns).filter(|(_, turn)| **turn > 0);
        let rounds = fitting.map(|(strips, turn)| strips / turn).min().unwrap_or(0);
        let rounds = rounds.min(STRIPS_MAX / turns.iter().sum::<u64>());
        let mut stripes = Vec::new();
        for (group, (&turn, used)) in turns.iter().zip(&used).enumerate() {
            for row in 0..turn {
                let offset = start_bytes + (used + row) * strip_bytes;
                stripes.extend((0..copies).map(|copy| stripe(group * copies + copy, offset, turn)));
            }
        }
        let length = rounds * turns.iter().sum::<u64>() * strip_bytes;
        allocations.push(ChunkAllocation { length, stripes });
        for ((free, used), turn) in free.iter_mut().zip(&mut used).zip(&turns) {
            *free -= rounds * turn;
            *used += rounds * turn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::TIB;

    /// Offsets that mdadm prints for devices of these sizes.
    #[test]
    fn data_offsets_are_those_of_mdadm() {
        let sectors = |size, chunk| mdadm_data_offset(size, chunk) / 512;
        assert_eq!(sectors(2 * TIB, None), 264_192);
        assert_eq!(sectors(2 * TIB, Some(512 * KIB)), 264_192);
        assert_eq!(sectors(8 * GIB, None), 18_432);
        assert_eq!(sectors(64 * MIB, None), 2048);
        assert_eq!(sectors(64 * MIB, Some(512 * KIB)), 4096, "two chunks stay");
    }
}
