//! Rotations: on which members of a row of strips the data and the parity lie.
//!
//! A row of a parity layout has one strip on each of N members: n of data, then P, and Q with two
//! parities. From row to row P moves by one member, unless it is kept on the first or the last one.
//! *Symmetric*: data begin on the member after the parity and wrap around, so that sequential reads
//! use all members. *Asymmetric*: data lie in the order of the members and skip the parity.
//!
//! Sources: md(4); `raid5_compute_sector` of Linux's `drivers/md/raid5.c`; `btrfs_map_block` of
//! Linux 6.18 `fs/btrfs/volumes.c`.

/// Order in which the parity moves from row to row, and data around it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Rotation {
    /// Data of row r begin on member r mod N; P and Q follow them.
    Btrfs,
    /// P moves from the last member to the first; data in the order of the members.
    LeftAsymmetric,
    /// P moves from the first member to the last; data in the order of the members.
    RightAsymmetric,
    /// P moves from the last member to the first; data begin after the parity.
    LeftSymmetric,
    /// P moves from the first member to the last; data begin after the parity.
    RightSymmetric,
    ParityFirst,
    ParityLast,
}

/// Rotations of md, by the names of mdadm; the first is the default.
pub(super) const ROTATIONS: [(&str, Rotation); 6] = [
    ("left-symmetric", Rotation::LeftSymmetric),
    ("left-asymmetric", Rotation::LeftAsymmetric),
    ("right-symmetric", Rotation::RightSymmetric),
    ("right-asymmetric", Rotation::RightAsymmetric),
    ("parity-first", Rotation::ParityFirst),
    ("parity-last", Rotation::ParityLast),
];

/// How a chunk map places parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ParityRules {
    pub(super) rotation: Rotation,
    pub(super) parities: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StripRole {
    /// Data, by its number within the row.
    Data(u32),
    P,
    Q,
}

/// Positions of the strips of one row among the members of its chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RotationRow {
    p: u32,
    q: Option<u32>,
    /// First position of data that wrap around; `None` if data skip the parity.
    first: Option<u32>,
    width: u32,
}

impl Rotation {
    /// The row `row` of a chunk over `width` members with `parities` parities.
    pub(super) fn row(self, width: u32, parities: u32, row: u64) -> RotationRow {
        let turn = |members: u32| (row % u64::from(members)) as u32;
        let has_q = parities == 2;
        let (left, right) = (width - 1 - turn(width), turn(width));
        let after = |position: u32| (position + 1) % width;
        let q_after = |p: u32| has_q.then_some(after(p));
        let symmetric =
            |p: u32| RotationRow::new(p, q_after(p), Some((p + parities) % width), width);
        let asymmetric = |p: u32| RotationRow::new(p, q_after(p), None, width);
        match self {
            Rotation::Btrfs => {
                let p = (right + width - parities) % width;
                RotationRow::new(p, q_after(p), Some(right), width)
            }
            Rotation::LeftAsymmetric => asymmetric(left),
            Rotation::RightAsymmetric => asymmetric(right),
            Rotation::LeftSymmetric => symmetric(left),
            Rotation::RightSymmetric => symmetric(right),
            Rotation::ParityFirst => asymmetric(0),
            Rotation::ParityLast => asymmetric(width - parities),
        }
    }
}

impl RotationRow {
    fn new(p: u32, q: Option<u32>, first: Option<u32>, width: u32) -> RotationRow {
        RotationRow { p, q, first, width }
    }

    pub(super) fn p(&self) -> u32 {
        self.p
    }

    /// Position of Q, if there are two parities.
    pub(super) fn q(&self) -> Option<u32> {
        self.q
    }

    #[inline]
    pub(super) fn data(&self, index: u32) -> u32 {
        if let Some(first) = self.first {
            return (first + index) % self.width;
        }
        let (low, high) = self.parity_in_order();
        let position = index + u32::from(index >= low);
        position + u32::from(position >= high)
    }

    pub(super) fn role(&self, position: u32) -> StripRole {
        if position == self.p {
            return StripRole::P;
        }
        if self.q == Some(position) {
            return StripRole::Q;
        }
        StripRole::Data(match self.first {
            Some(first) => (position + self.width - first) % self.width,
            None => {
                let (low, high) = self.parity_in_order();
                position - u32::from(position > low) - u32::from(position > high)
            }
        })
    }

    /// The positions of the parities; `u32::MAX` for Q if there is none.
    fn parity_in_order(&self) -> (u32, u32) {
        let q = self.q.unwrap_or(u32::MAX);
        (self.p.min(q), self.p.max(q))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first rows of a rotation over `width` members: a line for each row, a letter for each
    /// member.
    fn picture(rotation: Rotation, width: u32, parities: u32, rows: u64) -> Vec<String> {
        let letter = |role| match role {
            StripRole::P => 'P',
            StripRole::Q => 'Q',
            StripRole::Data(index) => char::from(b'0' + index as u8),
        };
        let line = |row| {
            let row = rotation.row(width, parities, row);
            (0..width).map(|position| letter(row.role(position))).collect()
        };
        (0..rows).map(line).collect()
    }

    /// Worked out by hand from the table of `drivers/md/raid5.c`.
    #[test]
    fn raid5_rotates_as_md_draws_it() {
        let of = |rotation| picture(rotation, 4, 1, 5);
        assert_eq!(of(Rotation::LeftSymmetric), ["012P", "12P0", "2P01", "P012", "012P"]);
        assert_eq!(of(Rotation::LeftAsymmetric), ["012P", "01P2", "0P12", "P012", "012P"]);
        assert_eq!(of(Rotation::RightSymmetric), ["P012", "2P01", "12P0", "012P", "P012"]);
        assert_eq!(of(Rotation::RightAsymmetric), ["P012", "0P12", "01P2", "012P", "P012"]);
        assert_eq!(of(Rotation::ParityFirst), ["P012"; 5]);
        assert_eq!(of(Rotation::ParityLast), ["012P"; 5]);
    }

    #[test]
    fn raid6_rotates_as_md_draws_it() {
        let of = |rotation| picture(rotation, 5, 2, 6);
        let left_symmetric = ["Q012P", "012PQ", "12PQ0", "2PQ01", "PQ012", "Q012P"];
        assert_eq!(of(Rotation::LeftSymmetric), left_symmetric);
        let left_asymmetric = ["Q012P", "012PQ", "01PQ2", "0PQ12", "PQ012", "Q012P"];
        assert_eq!(of(Rotation::LeftAsymmetric), left_asymmetric);
        let right_symmetric = ["PQ012", "2PQ01", "12PQ0", "012PQ", "Q012P", "PQ012"];
        assert_eq!(of(Rotation::RightSymmetric), right_symmetric);
        let right_asymmetric = ["PQ012", "0PQ12", "01PQ2", "012PQ", "Q012P", "PQ012"];
        assert_eq!(of(Rotation::RightAsymmetric), right_asymmetric);
        assert_eq!(of(Rotation::ParityFirst), ["PQ012"; 6]);
        assert_eq!(of(Rotation::ParityLast), ["012PQ"; 6]);
    }

    #[test]
    fn btrfs_turns_a_row_by_one_member() {
        assert_eq!(picture(Rotation::Btrfs, 4, 1, 5), ["012P", "P012", "2P01", "12P0", "012P"]);
        let raid6 = ["012PQ", "Q012P", "PQ012", "2PQ01", "12PQ0", "012PQ"];
        assert_eq!(picture(Rotation::Btrfs, 5, 2, 6), raid6);
        assert_eq!(picture(Rotation::Btrfs, 2, 1, 3), ["0P", "P0", "0P"]);
    }

    #[test]
    fn positions_and_roles_are_inverse() {
        let md = ROTATIONS.into_iter().map(|(_, rotation)| rotation);
        let all = md.chain([Rotation::Btrfs]);
        for (rotation, parities) in all.flat_map(|rotation| [(rotation, 1), (rotation, 2)]) {
            for width in parities + 1..9 {
                for at in 0..20 {
                    let row = rotation.row(width, parities, at);
                    let data = width - parities;
                    let mut seen = vec![row.p()];
                    seen.extend(row.q());
                    for index in 0..data {
                        assert_eq!(row.role(row.data(index)), StripRole::Data(index));
                        seen.push(row.data(index));
                    }
                    seen.sort_unstable();
                    assert!(seen.into_iter().eq(0..width), "{rotation:?} {width} {at}");
                }
            }
        }
    }
}
