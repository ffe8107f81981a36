//! The errors of allocating an array: each names the cause and what to do.

use super::{ARRAY_BYTES_MAX, ArrayLayout, MAX_COPIES, PARITY_WIDTH_MAX, Profile};
use crate::diagnostic::Diagnostic;
use crate::units::format_bytes;
use std::fmt;

/// The error of laying out an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    TooFewMembers {
        profile: Profile,
        members: usize,
    },
    MemberTooSmall {
        devid: u64,
        size_bytes: u64,
        /// The least size.
        needed: u64,
    },
    /// The layout needs more members.
    TooFewForLayout {
        layout: ArrayLayout,
        /// The least number of members.
        needed: usize,
        members: usize,
    },
    /// The members do not make whole groups of copies.
    PartialGroup {
        layout: ArrayLayout,
        members: usize,
        /// Members of a group.
        copies: usize,
    },
    /// A copy on each member would be more than [`MAX_COPIES`].
    TooManyCopies {
        layout: ArrayLayout,
        copies: usize,
    },
    /// The members together hold more than [`ARRAY_BYTES_MAX`].
    ArrayTooLarge {
        /// Sum of the sizes; `u64::MAX` on overflow.
        total_bytes: u64,
    },
    /// A row of strips with parity would have more than [`PARITY_WIDTH_MAX`] members.
    StripeTooWide {
        profile: Profile,
        /// Members of a row.
        width: usize,
        /// True if the layout is that of btrfs, where a user can limit the width.
        is_btrfs: bool,
    },
    /// `stripe_width_max`, rounded down to the profile's increment, is below the profile's minimum.
    StripeWidthTooSmall {
        profile: Profile,
        stripe_width_max: usize,
    },
}

impl GeometryError {
    pub fn diagnostic(&self) -> Diagnostic {
        let (message, help) = self.message_and_help();
        Diagnostic::new(message).with_help(help)
    }

    fn message_and_help(&self) -> (String, String) {
        match self {
            GeometryError::TooFewMembers { profile, members } => {
                let needed = members_text(profile.rules().members_min);
                let message = format!(
                    "profile {profile} needs at least {needed}, but the array has {members}"
                );
                let help = match Profile::fitting(*members) {
                    Some(fitting) => format!("add members, or use profile {fitting}"),
                    None => "add members".to_owned(),
                };
                (message, help)
            }
            GeometryError::MemberTooSmall { devid, size_bytes, needed } => {
                let (size, needed) = (format_bytes(*size_bytes), format_bytes(*needed));
                let message = format!(
                    "the member with devid {devid} has {size}, but a member needs at least {needed}"
                );
                (message, "write for example size = \"500G\"".to_owned())
            }
            GeometryError::TooFewForLayout { layout, needed, members } => {
                let needed = members_text(*needed);
                let message =
                    format!("layout {layout} needs at least {needed}, but the array has {members}");
                (message, "add members".to_owned())
            }
            GeometryError::PartialGroup { layout, members, copies } => {
                let message = format!(
                    "layout {layout} makes groups of {copies} members, but the array has {members}"
                );
                (message, "add or remove members".to_owned())
            }
            GeometryError::TooManyCopies { layout, copies } => {
                let message = format!(
                    "layout {layout} keeps a copy on each of the {copies} members, but a read \
                     chooses among at most {MAX_COPIES} copies"
                );
                (message, "use fewer members".to_owned())
            }
            GeometryError::ArrayTooLarge { total_bytes } => {
                let (total, most) = (format_bytes(*total_bytes), format_bytes(ARRAY_BYTES_MAX));
                let message = format!(
                    "the members have {total} together, but an array can have at most {most}"
                );
                (
                    message,
                    "check the units of the sizes; write for example size = \"500G\"".to_owned(),
                )
            }
            GeometryError::StripeTooWide { profile, width, is_btrfs } => {
                let message = format!(
                    "a chunk of profile {profile} would span {width} members, but a row of \
                     strips with parity spans at most {PARITY_WIDTH_MAX}"
                );
                let limit = format!(", or `stripe_width_max = {PARITY_WIDTH_MAX}`");
                let limit = if *is_btrfs { &limit } else { "" };
                (message, format!("use fewer members{limit}"))
            }
            GeometryError::StripeWidthTooSmall { profile, stripe_width_max } => {
                let needed = members_text(profile.rules().members_min);
                let message = format!(
                    "stripe_width_max is {stripe_width_max}, but a chunk of profile {profile} \
                     spans at least {needed}"
                );
                (message, "raise it or remove it".to_owned())
            }
        }
    }
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic().fmt(f)
    }
}

impl std::error::Error for GeometryError {}

fn members_text(count: usize) -> String {
    format!("{count} {}", if count == 1 { "member" } else { "members" })
}
