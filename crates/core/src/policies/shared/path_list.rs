//! dm-multipath's list of paths: the chosen path goes to its tail, so of equals the one that was
//! not chosen for longest is taken.
//!
//! Source: `list_move_tail` at the end of each `select_path` in Linux `drivers/md/dm-ps-*.c`.

use super::slot_order::order_by;
use super::smallest::first_smallest;
use crate::member::Members;
use crate::policy::Mirror;

/// The decision at which each member was last chosen; 0 for never.
#[derive(Debug, Default)]
pub(crate) struct PathList {
    chosen_at: Vec<u64>,
    decisions: u64,
}

impl PathList {
    /// Adds new members, in the order of their indexes.
    pub(crate) fn update(&mut self, members: &Members) {
        self.chosen_at.resize(members.len(), 0);
    }

    /// Position of the mirror with the smallest key, of equals the one nearest to the head; moves
    /// its member to the tail.
    #[inline]
    pub(crate) fn take_smallest<K: Ord>(
        &mut self,
        mirrors: &[Mirror],
        key: impl Fn(&Mirror) -> K,
    ) -> usize {
        let place = first_smallest(mirrors, |mirror| (key(mirror), self.rank(mirror)));
        self.move_to_tail(&mirrors[place]);
        place
    }

    /// Positions in `mirrors`, from the head of the list to its tail.
    #[inline]
    pub(crate) fn head_first(&self, mirrors: &[Mirror]) -> impl Iterator<Item = usize> {
        order_by(mirrors, |mirror| self.rank(mirror))
    }

    /// Sort key of the list: smaller is nearer to its head.
    #[inline]
    fn rank(&self, mirror: &Mirror) -> (u64, u16) {
        (self.chosen_at[mirror.member.get()], mirror.member.0)
    }

    /// Moves a mirror's member to the tail.
    #[inline]
    pub(crate) fn move_to_tail(&mut self, mirror: &Mirror) {
        self.decisions += 1;
        self.chosen_at[mirror.member.get()] = self.decisions;
    }
}
