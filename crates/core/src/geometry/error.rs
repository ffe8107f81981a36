//! The errors of allocating an array: each names the cause and what to do.

use super::{ARRAY_BYTES_MAX, ArrayLayout, MAX_COPIES, Profile};
use crate::units::format_bytes;
use std::fmt;

/// The error of laying out an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The profile needs more members.
    TooFewMembers {
        /// The requested profile.
        profile: Profile,
        /// Number of members.
        members: usize,
    },
    /// A member is too small for a single strip.
    MemberTooSmall {
        /// The devid of the member.
        devid: u64,
        /// The size of the member.
        size_bytes: u64,
        /// The least size.
        needed: u64,
    },
    /// The layout needs more members.
    TooFewForLayout {
        /// The requested layout.
        layout: ArrayLayout,
        /// The least number of members.
        needed: usize,
        /// Number of members.
        members: usize,
    },
    /// The members do not make whole groups of copies.
    PartialGroup {
        /// The requested layout.
        layout: ArrayLayout,
        /// Number of members.
        members: usize,
        /// Members of a group.
        copies: usize,
    },
    /// A copy on each member would be more than [`MAX_COPIES`].
    TooManyCopies {
        /// The requested layout.
        layout: ArrayLayout,
        /// Number of members.
        copies: usize,
    },
    /// The members together hold more than [`ARRAY_BYTES_MAX`].
    ArrayTooLarge {
        /// Sum of the sizes; `u64::MAX` on overflow.
        total_bytes: u64,
    },
    /// `stripe_width_max`, rounded down to the profile's increment, is below the profile's minimum.
    StripeWidthTooSmall {
        /// The requested profile.
        profile: Profile,
        /// The requested width.
        stripe_width_max: usize,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeometryError::TooFewMembers { profile, members } => {
                let needed = profile.rules().members_min;
                write!(f, "profile {profile} needs at least {needed} {}", noun(needed))?;
                write!(f, ", but the array has {members}")?;
                match Profile::fitting(*members) {
                    Some(fitting) => write!(f, "; add members, or use profile {fitting}"),
                    None => write!(f, "; add members"),
                }
            }
            GeometryError::MemberTooSmall { devid, size_bytes, needed } => {
                write!(f, "the member with devid {devid} has {}", format_bytes(*size_bytes))?;
                write!(f, ", but a member needs at least {}; check its size", format_bytes(*needed))
            }
            GeometryError::TooFewForLayout { layout, needed, members } => {
                write!(f, "layout {layout} needs at least {needed} {}", noun(*needed))?;
                write!(f, ", but the array has {members}; add members")
            }
            GeometryError::PartialGroup { layout, members, copies } => {
                write!(f, "layout {layout} makes groups of {copies} members, but the array has")?;
                write!(f, " {members}; add or remove members")
            }
            GeometryError::TooManyCopies { layout, copies } => {
                write!(f, "layout {layout} keeps a copy on each of the {copies} members, but a")?;
                write!(f, " read chooses among at most {MAX_COPIES} copies; use fewer members")
            }
            GeometryError::ArrayTooLarge { total_bytes } => {
                let (total, most) = (format_bytes(*total_bytes), format_bytes(ARRAY_BYTES_MAX));
                write!(f, "the members have {total} together, but an array can have at most")?;
                write!(f, " {most}; check the units of their sizes")
            }
            GeometryError::StripeWidthTooSmall { profile, stripe_width_max } => {
                let needed = profile.rules().members_min;
                write!(f, "stripe_width_max is {stripe_width_max}, but a chunk of profile")?;
                write!(f, " {profile} spans at least {needed} {}; raise it", noun(needed))?;
                write!(f, " or remove it")
            }
        }
    }
}

impl std::error::Error for GeometryError {}

fn noun(count: usize) -> &'static str {
    if count == 1 { "member" } else { "members" }
}
