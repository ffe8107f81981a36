//! Orders of unlike disks, for layouts in which the order decides which disks hold the copies of a
//! block.

/// Most orders of a layout that are tried.
const ORDERS_MAX: usize = 6;
/// Most orders that are looked at to find those.
const SEEN_MAX: usize = 1000;

/// The orders to try of disks of these kinds, as indices: as they were named, then others that pair
/// other kinds, those that pair unlike disks first. Other layouts have the first alone.
pub(super) fn orders(kinds: &[usize], layout: &str) -> Vec<Vec<usize>> {
    let copies = layout.rsplit_once(':').and_then(|(_, copies)| copies.parse().ok());
    let named = (0..kinds.len()).collect();
    let Some(copies) = copies else { return vec![named] };
    let is_apart = layout.starts_with("zfs-mirror") || layout.starts_with("md-raid10-near");
    let has_groups = is_apart && kinds.len().is_multiple_of(copies);
    let mut pairings =
        Pairings { kinds, copies, has_groups, orders: vec![named], seen_left: SEEN_MAX };
    pairings.extend(&mut Vec::new());
    pairings.orders
}

struct Pairings<'a> {
    kinds: &'a [usize],
    copies: usize,
    /// True if each run of disks is a mirror of its own; false if each disk shares blocks with the
    /// one before and the one behind it, the last with the first.
    has_groups: bool,
    orders: Vec<Vec<usize>>,
    seen_left: usize,
}

impl Pairings<'_> {
    /// The kinds of disks that share blocks.
    fn sets(&self, order: &[usize]) -> Vec<Vec<usize>> {
        let count = order.len();
        let step = if self.has_groups { self.copies } else { 1 };
        let set = |first: usize| {
            let own = (first..first + self.copies).map(|index| self.kinds[order[index % count]]);
            let mut own: Vec<usize> = own.collect();
            own.sort_unstable();
            own
        };
        let mut sets: Vec<Vec<usize>> = (0..count).step_by(step).map(set).collect();
        sets.sort_unstable();
        sets
    }

    /// Adds the orders that begin like this, and whose sets are others than those so far.
    fn extend(&mut self, order: &mut Vec<usize>) {
        if self.orders.len() == ORDERS_MAX || self.seen_left == 0 {
            return;
        }
        if order.len() == self.kinds.len() {
            self.seen_left -= 1;
            let sets = self.sets(order);
            if self.orders.iter().all(|known| self.sets(known) != sets) {
                self.orders.push(order.clone());
            }
            return;
        }
        // The first disk of each kind that is left.
        let mut next: Vec<usize> = Vec::new();
        for disk in (0..self.kinds.len()).filter(|disk| !order.contains(disk)) {
            if next.iter().all(|&other| self.kinds[other] != self.kinds[disk]) {
                next.push(disk);
            }
        }
        let shared = if self.has_groups { order.len() % self.copies } else { 1 };
        let near = &order[order.len().saturating_sub(shared)..];
        next.sort_by_key(|&disk| near.iter().any(|&it| self.kinds[it] == self.kinds[disk]));
        for disk in next {
            order.push(disk);
            self.extend(order);
            order.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distinct_pairing_is_tried_once() {
        let two_and_two = [0, 0, 2, 2];
        let only = [vec![0, 1, 2, 3]];
        for layout in ["md-raid10-near:2", "md-raid10-far:2", "zfs-mirror:2"] {
            assert_eq!(
                orders(&two_and_two, layout),
                [only[0].clone(), vec![0, 2, 1, 3]],
                "{layout}"
            );
            assert_eq!(orders(&[0; 4], layout), only, "{layout}: all are alike");
        }
        for layout in ["md-raid1", "zfs-mirror:4", "raid10"] {
            assert_eq!(orders(&two_and_two, layout), only, "{layout}");
        }
        assert_eq!(orders(&[0, 1, 2, 3], "zfs-mirror:2").len(), 3, "three pairings of four");
        assert_eq!(orders(&[0, 1, 2], "md-raid10-near:2").len(), 1, "each is next to each");
        let many: Vec<usize> = (0..16).collect();
        assert_eq!(orders(&many, "md-raid10-offset:2").len(), ORDERS_MAX);
    }
}
