//! Policies that were compiled outside of this build.
//!
//! `core` does not know how programs run: a [`ProgramLoader`] makes a [`PolicyProgram`] of an
//! object.

use crate::diagnostic::Diagnostic;
use crate::policy::ReadPolicy;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// First part of the names of programs.
pub const PROGRAM_FAMILY: &str = "program/";
/// Start of the policy strings in which users name a program by the file of its object.
pub const PROGRAM_FILE: &str = "program:";
pub const OBJECT_BYTES_MAX: usize = 256 << 10;

/// Digits of a hash that tables show.
const SHOWN_DIGITS: usize = 12;

/// A policy string for tables: of the hash of a program it has the first digits only.
pub fn short_policy_name(policy: &str) -> String {
    let hash = policy.strip_prefix(PROGRAM_FAMILY).and_then(|rest| rest.split_once('@'));
    let Some((_, hash)) = hash else { return policy.to_owned() };
    let end = hash.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hash.len());
    if end <= SHOWN_DIGITS {
        return policy.to_owned();
    }
    let start = policy.len() - hash.len();
    format!("{}{}", &policy[..start + SHOWN_DIGITS], &hash[end..])
}

/// True if `text` names the program of a canonical policy string, with the same parameters and
/// modifiers: `program/NAME@HASH`, whose hash may be cut short as in tables, or left out.
pub fn names_program(text: &str, policy: &str) -> bool {
    let parts = |whole: &str| {
        let end = whole.find(['?', '+']).unwrap_or(whole.len());
        (whole[..end].to_owned(), whole[end..].to_owned())
    };
    let ((name, rest), (canonical, canonical_rest)) = (parts(text), parts(policy));
    let is_shortened = |cut: &str| cut.is_empty() || cut.starts_with('@') || name.contains('@');
    name.starts_with(PROGRAM_FAMILY)
        && rest == canonical_rest
        && canonical.strip_prefix(&*name).is_some_and(is_shortened)
}

pub trait ProgramLoader: fmt::Debug + Send + Sync {
    /// Checks an object and compiles it. Fails if the object is not a program that this build can
    /// run.
    fn load(&self, object: &[u8]) -> Result<Arc<dyn PolicyProgram>, Diagnostic>;
}

/// A policy that was compiled outside of this build.
pub trait PolicyProgram: fmt::Debug + Send + Sync {
    /// Canonical name, `program/NAME@HASH`. The hash is of the whole object.
    fn name(&self) -> &str;

    fn object(&self) -> &[u8];

    /// The policy that decides after a fault, as a policy string.
    fn fallback(&self) -> &str;

    /// Parameters, in the order of the object.
    fn parameters(&self) -> &[ProgramParameter];

    /// Builds a policy with its own state; `values` holds a value for each of the parameters, and
    /// `devids` those of the array in the order of its members. Fails if the program cannot be
    /// started, or its fallback does not fit the array.
    fn build(&self, values: &[u64], devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic>;
}

/// A number that a user may set when a program is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramParameter {
    pub name: String,
    /// Value if none is given.
    pub default: u64,
    /// Accepted values.
    pub range: RangeInclusive<u64>,
    /// Effect of the parameter and its unit, as a noun phrase.
    pub meaning: String,
}

#[cfg(test)]
mod tests {
    use super::{names_program, short_policy_name};

    #[test]
    fn the_hash_of_a_program_may_be_cut_short_or_left_out() {
        let policy = "program/ewma@0123456789abcdef?gain=2+hedge";
        for text in ["program/ewma@0123456789abcdef", "program/ewma@01", "program/ewma"] {
            assert!(names_program(&format!("{text}?gain=2+hedge"), policy), "{text}");
            assert!(!names_program(text, policy), "{text}: other parameters");
        }
        for other in ["program/ew", "program/ewma@1", "ewma", "program/ewma2"] {
            assert!(!names_program(&format!("{other}?gain=2+hedge"), policy), "{other}");
        }
        assert!(!names_program("md/raid1", "md/raid1"), "no program");
    }

    #[test]
    fn tables_show_the_first_digits_of_a_hash() {
        let name = "program/ewma@0123456789abcdef0123456789abcdef";
        assert_eq!(short_policy_name(name), "program/ewma@0123456789ab");
        let whole = format!("{name}?gain=2+hedge");
        assert_eq!(short_policy_name(&whole), "program/ewma@0123456789ab?gain=2+hedge");
        for other in ["md/raid1", "program/ewma@0123456789ab", "program/\u{e9}", "program/a@"] {
            assert_eq!(short_policy_name(other), other);
        }
    }
}
