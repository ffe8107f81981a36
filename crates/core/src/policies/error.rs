//! Why a policy string was refused, in words that say what to write instead.

use super::{ParameterInfo, families, modifiers};
use std::fmt;

/// Why a policy string was refused.
#[derive(Clone, Debug)]
pub enum PolicyError {
    /// Nothing where a policy was expected.
    Empty,
    /// No policy has this name; beside it the nearest one.
    UnknownPolicy(String, Option<&'static str>),
    /// No family has this name; beside it the nearest one.
    UnknownFamily(String, Option<&'static str>),
    /// The value is not what the parameter takes.
    BadValue {
        /// The policy's canonical name, or the modifier's with its plus.
        of: String,
        /// The parameter that refuses.
        parameter: &'static ParameterInfo,
        /// What was written.
        value: String,
    },
    /// More values than the policy has parameters.
    TooManyValues {
        /// The policy's canonical name, or the modifier's with its plus.
        of: String,
        /// How that is written with its values.
        usage: String,
        /// The first value too many.
        value: String,
    },
    /// Nothing behind a plus.
    NoModifier,
    /// A modifier's name where a policy's was expected.
    ModifierAlone(&'static str),
    /// No modifier has this name; beside it the nearest one.
    UnknownModifier(String, Option<&'static str>),
    /// These two do not go together.
    Contradiction(String, String),
    /// The array has no member with this devid.
    UnknownDevid {
        /// The policy or modifier that asks for it.
        of: String,
        /// What was asked for.
        devid: u64,
        /// The devids there are.
        devids: Vec<u64>,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Empty => {
                write!(f, "a policy is missing here; `all` means every policy")
            }
            PolicyError::UnknownPolicy(name, Some(nearest)) => {
                write!(f, "unknown policy `{name}`; did you mean `{nearest}`?")
            }
            PolicyError::UnknownPolicy(name, None) => {
                let families = families().join("/*, ");
                write!(f, "unknown policy `{name}`; there are {families}/*: ")?;
                write!(f, "`mirrorball policies` lists them")
            }
            PolicyError::UnknownFamily(family, Some(nearest)) => {
                write!(f, "unknown policy family `{family}/*`; did you mean `{nearest}/*`?")
            }
            PolicyError::UnknownFamily(family, None) => {
                write!(f, "unknown policy family `{family}/*`; there are {}", families().join(", "))
            }
            PolicyError::BadValue { of, parameter, value } => {
                let (name, expected) = (parameter.name, parameter.expected());
                write!(f, "bad value `{value}` for `{name}` of {of}: expected {expected}")
            }
            PolicyError::TooManyValues { of, usage, value } => {
                write!(f, "`{value}` is too much for {of}: write {usage}")
            }
            PolicyError::UnknownModifier(name, Some(nearest)) => {
                write!(f, "unknown modifier `+{name}`; did you mean `+{nearest}`?")
            }
            PolicyError::UnknownModifier(name, None) => {
                write!(f, "unknown modifier `+{name}`; there are {}", all_modifiers())
            }
            PolicyError::NoModifier => {
                write!(f, "a modifier is missing behind `+`; there are {}", all_modifiers())
            }
            PolicyError::ModifierAlone(name) => write!(
                f,
                "`{name}` is a modifier, not a policy: write it behind one, as in `pid+{name}`"
            ),
            PolicyError::Contradiction(one, other) => {
                write!(f, "`{one}` and `{other}` contradict each other: leave one of them out")
            }
            PolicyError::UnknownDevid { of, devid, devids } => {
                let known: Vec<String> = devids.iter().map(u64::to_string).collect();
                let known = known.join(", ");
                write!(f, "{of}: the array has no member with devid {devid}; it has {known}")
            }
        }
    }
}

fn all_modifiers() -> String {
    let names: Vec<String> = modifiers::ALL.iter().map(|info| format!("+{}", info.name)).collect();
    names.join(", ")
}

impl std::error::Error for PolicyError {}
