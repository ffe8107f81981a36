//! The number of a member.

/// Number of a member within its array, counted from zero. Users see its `devid` instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemberIndex(pub u16);

impl MemberIndex {
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}
