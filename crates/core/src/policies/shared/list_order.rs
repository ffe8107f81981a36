//! The order in which gmirror lists its disks, and a round-robin position in that list.
//!
//! The list is sorted by descending priority. A disk is inserted before others of equal priority,
//! so of equals the later one comes first.
//!
//! Source: FreeBSD `sys/geom/mirror/g_mirror.c`.

use super::round_robin::next_in_cycle;
use crate::member::{MemberIndex, Members};
use crate::policy::Mirror;
use std::cmp::Reverse;

/// Position of each member in the list, counted from the head.
#[derive(Debug, Default)]
pub(crate) struct ListOrder {
    rank_by_member: Vec<u16>,
}

/// Round-robin position in the list, for the whole volume: where the next search begins.
#[derive(Debug, Default)]
pub(crate) struct ListPointer {
    order: ListOrder,
    next_rank: u16,
}

impl ListOrder {
    /// Sorts the members. Failed ones keep their position: they are never among the mirrors.
    pub(crate) fn update(&mut self, members: &Members) {
        let mut list: Vec<MemberIndex> = members.iter().map(|(index, _)| index).collect();
        list.sort_by_key(|&index| Reverse((members[index].config.priority, index)));
        self.rank_by_member.resize(members.len(), 0);
        for (rank, index) in list.into_iter().enumerate() {
            self.rank_by_member[index.get()] = rank as u16;
        }
    }

    /// Position of a mirror's member in the list.
    #[inline]
    pub(crate) fn rank(&self, mirror: &Mirror) -> u16 {
        self.rank_by_member[mirror.member.get()]
    }
}

impl ListPointer {
    /// Sorts the members; the pointer does not move.
    pub(crate) fn update(&mut self, members: &Members) {
        self.order.update(members);
    }

    /// Position of the first mirror at or after the pointer, from the head again if there is none.
    /// Moves the pointer past it.
    #[inline]
    pub(crate) fn next(&mut self, mirrors: &[Mirror]) -> usize {
        let rank = |mirror: &Mirror| self.order.rank(mirror);
        let place = next_in_cycle(mirrors, self.next_rank, rank, |_| true);
        self.next_rank = self.order.rank(&mirrors[place]) + 1;
        place
    }
}
