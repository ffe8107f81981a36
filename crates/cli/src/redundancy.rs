//! How many copies a volume keeps, and how many members may fail, in words.

use mirrorball_core::units::counted;
#[derive(Clone, Copy)]
pub(crate) struct Redundancy {
    pub(crate) copies: usize,
    pub(crate) parities: usize,
}

/// For example `2 copies, 1 member may fail`. `may_fail` counts members, whichever they are.
pub(crate) fn redundancy_text(redundancy: Redundancy, may_fail: usize) -> String {
    let Redundancy { copies, parities } = redundancy;
    let mut text = counted(copies, "copy", "copies");
    if parities > 0 {
        text += &format!(" and {}", counted(parities, "parity", "parities"));
    }
    let members = match may_fail {
        0 => "no member".to_owned(),
        count => counted(count, "member", "members"),
    };
    format!("{text}, {members} may fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_parities_and_members_are_counted() {
        let text =
            |copies, parities, may_fail| redundancy_text(Redundancy { copies, parities }, may_fail);
        assert_eq!(text(2, 0, 1), "2 copies, 1 member may fail");
        assert_eq!(text(3, 0, 2), "3 copies, 2 members may fail");
        assert_eq!(text(1, 1, 1), "1 copy and 1 parity, 1 member may fail");
        assert_eq!(text(1, 2, 2), "1 copy and 2 parities, 2 members may fail");
        assert_eq!(text(1, 0, 0), "1 copy, no member may fail");
    }
}
