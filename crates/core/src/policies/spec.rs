//! Policies as people write them: `round-robin:256K`, `kakra/latency-rr`, `btrfs/*`, `all`.
//!
//! A [`Spec`] is a row of the table and the values written after its name. Sizes follow the
//! kernel's `memparse`, so that a string means here what it means in btrfs's sysfs file (see
//! [`super::sysfs`], which reads its values with the same code). What is wrong is answered with the
//! nearest name, or with the parameter and its range.

use super::{Build, ParameterInfo, PolicyInfo, Unit, all, find};
use crate::nearest::nearest;
use crate::policy::ReadPolicy;
use std::fmt;

/// A policy and the values it is to be built with.
#[derive(Clone, Debug)]
pub struct Spec {
    info: &'static PolicyInfo,
    /// The values as written; fewer than the parameters where the last ones are left out.
    values: Vec<u64>,
}

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
        /// The policy's canonical name.
        policy: &'static str,
        /// The parameter that refuses.
        parameter: &'static ParameterInfo,
        /// What was written.
        value: String,
    },
    /// More values than the policy has parameters.
    TooManyValues {
        /// The policy it was written for.
        policy: &'static PolicyInfo,
        /// The first value too many.
        value: String,
    },
    /// The array has no member with this devid.
    UnknownDevid {
        /// What was asked for.
        devid: u64,
        /// The devids there are.
        devids: Vec<u64>,
    },
}

impl Spec {
    /// A policy with its default values.
    pub fn new(info: &'static PolicyInfo) -> Spec {
        Spec { info, values: Vec::new() }
    }

    /// A policy with values that are known to lie in their ranges.
    pub(super) fn with_values(info: &'static PolicyInfo, values: Vec<u64>) -> Spec {
        Spec { info, values }
    }

    /// Reads `name`, `name:value` or `name:value:value`; the name canonical or an alias.
    ///
    /// # Errors
    /// If the name is unknown, a value is not what its parameter takes, or there are too many.
    pub fn parse(text: &str) -> Result<Spec, PolicyError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(PolicyError::Empty);
        }
        let info = find(name).ok_or_else(|| unknown_policy(name))?;
        let mut values = Vec::new();
        for value in parts {
            let parameter = info.parameters.get(values.len()).ok_or_else(|| {
                PolicyError::TooManyValues { policy: info, value: value.to_string() }
            })?;
            values.push(parse_value(parameter, value).ok_or_else(|| PolicyError::BadValue {
                policy: info.name,
                parameter,
                value: value.to_string(),
            })?);
        }
        Ok(Spec { info, values })
    }

    /// The policy's row.
    pub fn info(&self) -> &'static PolicyInfo {
        self.info
    }

    /// Builds the policy for an array with these devids.
    ///
    /// # Errors
    /// If a value does not fit the array: [`PolicyError::UnknownDevid`].
    pub fn build(&self, devids: &[u64]) -> Result<Box<dyn ReadPolicy>, PolicyError> {
        let first_devid = devids.first().copied().unwrap_or(0);
        let left_out = self.info.parameters.iter().skip(self.values.len());
        let defaults = left_out.map(|parameter| parameter.default.unwrap_or(first_devid));
        let values: Vec<u64> = self.values.iter().copied().chain(defaults).collect();
        (self.info.build)(&Build { values: &values, devids })
    }
}

/// Two specs are the same if they name the same policy with the same values written.
impl PartialEq for Spec {
    fn eq(&self, other: &Spec) -> bool {
        self.info.name == other.info.name && self.values == other.values
    }
}

impl Eq for Spec {}

/// The canonical form: `btrfs/round-robin:256K`. Reading it gives the same spec.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.info.name.to_string();
        for (parameter, &value) in self.info.parameters.iter().zip(&self.values) {
            text += ":";
            text += &parameter.written(value);
        }
        f.pad(&text)
    }
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
                let names: Vec<&str> = all().map(|info| info.name).collect();
                write!(f, "unknown policy `{name}`; there are {}", names.join(", "))
            }
            PolicyError::UnknownFamily(family, Some(nearest)) => {
                write!(f, "unknown policy family `{family}/*`; did you mean `{nearest}/*`?")
            }
            PolicyError::UnknownFamily(family, None) => {
                write!(f, "unknown policy family `{family}/*`; there are {}", families().join(", "))
            }
            PolicyError::BadValue { policy, parameter, value } => {
                let (name, expected) = (parameter.name, parameter.expected());
                write!(f, "bad value `{value}` for `{name}` of {policy}: expected {expected}")
            }
            PolicyError::TooManyValues { policy, value } => {
                write!(f, "`{value}` is too much for {}: write {}", policy.name, policy.usage())
            }
            PolicyError::UnknownDevid { devid, devids } => {
                let known: Vec<String> = devids.iter().map(u64::to_string).collect();
                write!(f, "the array has no member with devid {devid}; it has {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for PolicyError {}

/// Reads a comma-separated list of policies, families (`btrfs/*`) and `all`. Blanks around an item
/// are ignored; what is named twice counts once, where it first stands.
///
/// # Errors
/// As [`Spec::parse`], and if an item is empty or a family unknown.
pub fn parse_list(text: &str) -> Result<Vec<Spec>, PolicyError> {
    let mut list: Vec<Spec> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let specs = match item.strip_suffix("/*") {
            Some(family) => parse_family(family)?,
            None if item == "all" => all().map(Spec::new).collect(),
            None => vec![Spec::parse(item)?],
        };
        for spec in specs {
            if !list.contains(&spec) {
                list.push(spec);
            }
        }
    }
    Ok(list)
}

/// A value for a parameter, rounded up as the parameter asks; `None` if it is not one.
pub(super) fn parse_value(parameter: &ParameterInfo, text: &str) -> Option<u64> {
    let value = match parameter.unit {
        Unit::Word(words) => words.iter().position(|&word| word == text)? as u64,
        Unit::Bytes | Unit::Devid => parse_number(text)?,
        Unit::Count => text.parse().ok()?,
        Unit::Percent => text.strip_suffix('%').unwrap_or(text).parse().ok()?,
        Unit::Millis => parse_millis(text)?,
    };
    parameter.range.contains(&value).then(|| value.next_multiple_of(parameter.multiple_of))
}

/// A time in milliseconds.
fn parse_millis(text: &str) -> Option<u64> {
    let (digits, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number as btrfs reads one: [`memparse`], then blanks, then nothing. The kernel also refuses
/// zero and what is negative in 64 bits: here the parameters' ranges do.
fn parse_number(text: &str) -> Option<u64> {
    let (value, rest) = memparse(text);
    // The kernel's `isspace` for ASCII: Rust's knows no vertical tab.
    let only_blanks = rest.bytes().all(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
    only_blanks.then_some(value)
}

/// The kernel's `memparse` (`lib/cmdline.c`): decimal, `0x` hexadecimal or `0` octal digits, then
/// at most one suffix of K, M, G, T, P, E in either case. Overflow wraps, as it does there. Gives
/// the value, zero if there is no digit, and what follows.
fn memparse(text: &str) -> (u64, &str) {
    let bytes = text.as_bytes();
    let is_hex = bytes.first() == Some(&b'0')
        && bytes.get(1).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'x'))
        && bytes.get(2).is_some_and(u8::is_ascii_hexdigit);
    let (radix, digits) = match bytes.first() {
        _ if is_hex => (16, &text[2..]),
        Some(b'0') => (8, text),
        _ => (10, text),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    let value = digits[..end]
        .chars()
        .filter_map(|letter| letter.to_digit(radix))
        .fold(0u64, |value, digit| {
            value.wrapping_mul(u64::from(radix)).wrapping_add(u64::from(digit))
        });
    let rest = &digits[end..];
    let suffix = rest.chars().next().map(|letter| letter.to_ascii_uppercase());
    match suffix.and_then(|letter| SUFFIXES.iter().position(|&known| known == letter)) {
        Some(power) => (value << (10 * (power + 1)), &rest[1..]),
        None => (value, rest),
    }
}

const SUFFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// A size with the largest suffix that leaves a whole number.
pub(super) fn shortest_size(bytes: u64) -> String {
    let power = (bytes.trailing_zeros() / 10).min(SUFFIXES.len() as u32);
    match power {
        0 => bytes.to_string(),
        _ => format!("{}{}", bytes >> (10 * power), SUFFIXES[power as usize - 1]),
    }
}

fn parse_family(family: &str) -> Result<Vec<Spec>, PolicyError> {
    let rows: Vec<Spec> = all().filter(|info| info.family() == family).map(Spec::new).collect();
    if rows.is_empty() {
        let nearest = nearest(family, families());
        return Err(PolicyError::UnknownFamily(family.to_string(), nearest));
    }
    Ok(rows)
}

fn families() -> Vec<&'static str> {
    let mut families: Vec<&str> = all().map(PolicyInfo::family).collect();
    families.dedup();
    families
}

fn unknown_policy(name: &str) -> PolicyError {
    let aliases = all().flat_map(|info| info.aliases.iter().copied());
    let names = all().map(|info| info.name);
    PolicyError::UnknownPolicy(name.to_string(), nearest(name, names.chain(aliases)))
}
