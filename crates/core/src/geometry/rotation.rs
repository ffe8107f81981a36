//! Rotations: on which members of a row of strips the data and the parity lie.
//!
//! A row of a parity layout has one strip on each of N members: n of data, then P, and Q with two
//! parities. From row to row P moves by one member, unless it is kept on the first or the last one.
//! *Symmetric*: data begin on the member after the parity and wrap around, so that sequential reads
//! use all members. *Asymmetric*: data lie in the order of the members and skip the parity.
//!
//! Q is a sum of the data, each multiplied by a power of 2 in GF(2^8), and layouts differ in the
//! exponent of a strip: md counts from the member after Q and skips P; the DDF layouts take the
//! number of the member.
//!
//! Sources: md(4); `raid5_compute_sector` and `set_syndrome_sources` of Linux's
//! `drivers/md/raid5.c`; `btrfs_map_block` of Linux 6.18 `fs/btrfs/volumes.c`.

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
    /// The parity is on the first members.
    ParityFirst,
    /// The parity is on the last members.
    ParityLast,
    /// DDF: right-asymmetric, with its own exponents of Q.
    DdfZeroRestart,
    /// DDF: left-asymmetric, one row later, with its own exponents of Q.
    DdfNRestart,
    /// DDF: left-symmetric with Q before P, with its own exponents of Q.
    DdfNContinue,
    /// A RAID5 over all members but the last, which has Q.
    QLast(RotationWithoutQ),
}

/// Rotation of a RAID5 to which a member for Q was added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum RotationWithoutQ {
    LeftAsymmetric,
    RightAsymmetric,
    LeftSymmetric,
    RightSymmetric,
    ParityFirst,
}

/// Rotations of md, by the names of mdadm; the first is the default.
pub(super) const ROTATIONS: [(&str, Rotation); 14] = [
    ("left-symmetric", Rotation::LeftSymmetric),
    ("left-asymmetric", Rotation::LeftAsymmetric),
    ("right-symmetric", Rotation::RightSymmetric),
    ("right-asymmetric", Rotation::RightAsymmetric),
    ("parity-first", Rotation::ParityFirst),
    ("parity-last", Rotation::ParityLast),
    ("ddf-zero-restart", Rotation::DdfZeroRestart),
    ("ddf-N-restart", Rotation::DdfNRestart),
    ("ddf-N-continue", Rotation::DdfNContinue),
    ("left-symmetric-6", Rotation::QLast(RotationWithoutQ::LeftSymmetric)),
    ("left-asymmetric-6", Rotation::QLast(RotationWithoutQ::LeftAsymmetric)),
    ("right-symmetric-6", Rotation::QLast(RotationWithoutQ::RightSymmetric)),
    ("right-asymmetric-6", Rotation::QLast(RotationWithoutQ::RightAsymmetric)),
    ("parity-first-6", Rotation::QLast(RotationWithoutQ::ParityFirst)),
];

/// How many of the rotations are for one parity, too.
pub(super) const ROTATIONS_OF_RAID5: usize = 6;

/// How a chunk map places parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ParityRules {
    pub(super) rotation: Rotation,
    pub(super) parities: u32,
}

/// Contents of a strip of a row.
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
    /// Positions over which data wrap around.
    wrapped: u32,
    width: u32,
    is_ddf: bool,
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
            Rotation::DdfZeroRestart => asymmetric(right).with_ddf_exponents(),
            Rotation::DdfNRestart => {
                let p = width - 1 - (turn(width) + 1) % width;
                asymmetric(p).with_ddf_exponents()
            }
            Rotation::DdfNContinue => {
                let q = has_q.then_some((left + width - 1) % width);
                RotationRow::new(left, q, Some(after(left)), width).with_ddf_exponents()
            }
            Rotation::QLast(rotation) => {
                let members = width - 1;
                let (left, right) = (members - 1 - turn(members), turn(members));
                let (p, wraps) = match rotation {
                    RotationWithoutQ::LeftAsymmetric => (left, false),
                    RotationWithoutQ::RightAsymmetric => (right, false),
                    RotationWithoutQ::LeftSymmetric => (left, true),
                    RotationWithoutQ::RightSymmetric => (right, true),
                    RotationWithoutQ::ParityFirst => (0, false),
                };
                let first = wraps.then_some((p + 1) % members);
                RotationRow { wrapped: members, ..RotationRow::new(p, Some(members), first, width) }
            }
        }
    }
}

impl RotationRow {
    fn new(p: u32, q: Option<u32>, first: Option<u32>, width: u32) -> RotationRow {
        RotationRow { p, q, first, wrapped: width, width, is_ddf: false }
    }

    fn with_ddf_exponents(self) -> RotationRow {
        RotationRow { is_ddf: true, ..self }
    }

    /// Position of P.
    pub(super) fn p(&self) -> u32 {
        self.p
    }

    /// Position of Q, if there are two parities.
    pub(super) fn q(&self) -> Option<u32> {
        self.q
    }

    /// Position of a strip of data.
    #[inline]
    pub(super) fn data(&self, index: u32) -> u32 {
        if let Some(first) = self.first {
            return (first + index) % self.wrapped;
        }
        let (low, high) = self.parity_in_order();
        let position = index + u32::from(index >= low);
        position + u32::from(position >= high)
    }

    /// Contents of the strip at a position.
    pub(super) fn role(&self, position: u32) -> StripRole {
        if position == self.p {
            return StripRole::P;
        }
        if self.q == Some(position) {
            return StripRole::Q;
        }
        StripRole::Data(match self.first {
            Some(first) => (position + self.wrapped - first) % self.wrapped,
            None => {
                let (low, high) = self.parity_in_order();
                position - u32::from(position > low) - u32::from(position > high)
            }
        })
    }

    /// Power of 2 by which a strip of data counts in Q.
    pub(super) fn exponent(&self, index: u32) -> u32 {
        let position = self.data(index);
        if self.is_ddf {
            return position;
        }
        let start = self.q.map_or(0, |q| q + 1);
        let distance = |position: u32| (position + self.width - start % self.width) % self.width;
        distance(position) - u32::from(distance(self.p) < distance(position))
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

    /// The exponents of Q in the first rows, by number of the data.
    fn exponents(rotation: Rotation, width: u32, rows: u64) -> Vec<Vec<u32>> {
        let row = |row| rotation.row(width, 2, row);
        (0..rows).map(|at| (0..width - 2).map(|index| row(at).exponent(index)).collect()).collect()
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
        assert_eq!(of(Rotation::DdfZeroRestart), right_asymmetric);
        assert_eq!(of(Rotation::DdfNRestart)[..4], left_asymmetric[1..5]);
        let n_continue = ["012QP", "12QP0", "2QP01", "QP012", "P012Q", "012QP"];
        assert_eq!(of(Rotation::DdfNContinue), n_continue);
        assert_eq!(of(Rotation::ParityFirst), ["PQ012"; 6]);
        assert_eq!(of(Rotation::ParityLast), ["012PQ"; 6]);
    }

    #[test]
    fn a_member_for_q_is_added_to_a_raid5() {
        let of = |rotation| picture(Rotation::QLast(rotation), 5, 2, 5);
        let left_symmetric = ["012PQ", "12P0Q", "2P01Q", "P012Q", "012PQ"];
        assert_eq!(of(RotationWithoutQ::LeftSymmetric), left_symmetric);
        let left_asymmetric = ["012PQ", "01P2Q", "0P12Q", "P012Q", "012PQ"];
        assert_eq!(of(RotationWithoutQ::LeftAsymmetric), left_asymmetric);
        let right_symmetric = ["P012Q", "2P01Q", "12P0Q", "012PQ", "P012Q"];
        assert_eq!(of(RotationWithoutQ::RightSymmetric), right_symmetric);
        let right_asymmetric = ["P012Q", "0P12Q", "01P2Q", "012PQ", "P012Q"];
        assert_eq!(of(RotationWithoutQ::RightAsymmetric), right_asymmetric);
        assert_eq!(of(RotationWithoutQ::ParityFirst), ["P012Q"; 5]);
    }

    #[test]
    fn btrfs_turns_a_row_by_one_member() {
        assert_eq!(picture(Rotation::Btrfs, 4, 1, 5), ["012P", "P012", "2P01", "12P0", "012P"]);
        let raid6 = ["012PQ", "Q012P", "PQ012", "2PQ01", "12PQ0", "012PQ"];
        assert_eq!(picture(Rotation::Btrfs, 5, 2, 6), raid6);
        assert_eq!(picture(Rotation::Btrfs, 2, 1, 3), ["0P", "P0", "0P"]);
    }

    #[test]
    fn exponents_count_from_the_member_after_q() {
        for rotation in [Rotation::Btrfs, Rotation::LeftSymmetric, Rotation::RightSymmetric] {
            assert_eq!(exponents(rotation, 5, 5), vec![[0, 1, 2]; 5], "{rotation:?}");
        }
        // Rows Q012P, 012PQ, 01PQ2, 0PQ12, PQ012.
        let turned = [[0, 1, 2], [0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]];
        assert_eq!(exponents(Rotation::LeftAsymmetric, 5, 5), turned);
        // Rows 012PQ, 12P0Q, 2P01Q: Q is last, so the members count from the first.
        let q_last = Rotation::QLast(RotationWithoutQ::LeftSymmetric);
        assert_eq!(exponents(q_last, 5, 3), [[0, 1, 2], [2, 0, 1], [1, 2, 0]]);
    }

    #[test]
    fn exponents_of_ddf_are_the_numbers_of_members() {
        // Rows PQ012, 0PQ12, 01PQ2.
        let restart = exponents(Rotation::DdfZeroRestart, 5, 3);
        assert_eq!(restart, [[2, 3, 4], [0, 3, 4], [0, 1, 4]]);
        // Rows 012QP, 12QP0.
        let n_continue = exponents(Rotation::DdfNContinue, 5, 2);
        assert_eq!(n_continue, [[0, 1, 2], [4, 0, 1]]);
    }

    #[test]
    fn positions_and_roles_are_inverse() {
        let without_q = [
            RotationWithoutQ::LeftAsymmetric,
            RotationWithoutQ::RightAsymmetric,
            RotationWithoutQ::LeftSymmetric,
            RotationWithoutQ::RightSymmetric,
            RotationWithoutQ::ParityFirst,
        ];
        let both = [
            Rotation::Btrfs,
            Rotation::LeftAsymmetric,
            Rotation::RightAsymmetric,
            Rotation::LeftSymmetric,
            Rotation::RightSymmetric,
            Rotation::ParityFirst,
            Rotation::ParityLast,
        ];
        let with_q = [Rotation::DdfZeroRestart, Rotation::DdfNRestart, Rotation::DdfNContinue];
        let with_q = with_q.into_iter().chain(without_q.map(Rotation::QLast)).map(|it| (it, 2));
        let both = [1, 2].into_iter().flat_map(|m| both.into_iter().map(move |it| (it, m)));
        for (rotation, parities) in with_q.chain(both) {
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
