//! Versions of systems: `6.12`, `0.8.3`, `6.12.9-arch1`.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// A version: numbers with dots between them. What distributions add behind `-`, `+` or `~` is
/// ignored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u32>);

impl Version {
    /// True if this is the version `last` or before it, where `6.12` includes `6.12.9`.
    pub fn is_within(&self, last: &Version) -> bool {
        let length = last.0.len().min(self.0.len());
        self.0[..length] <= last.0[..]
    }

    /// True if this is the next version behind `last`, as 6.8.2 is behind 6.8.1.
    pub(super) fn follows(&self, last: &Version) -> bool {
        match (self.0.split_last(), last.0.split_last()) {
            (Some((this, front)), Some((last, same))) => front == same && *this == last + 1,
            _ => false,
        }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, added) = text.split_at(end);
        let numbers: Result<Vec<u32>, _> = numbers.split('.').map(str::parse).collect();
        // `6-12` is a slip, `6.1.0-18-amd64` and `7-rc1` are versions.
        let mut added = added.chars();
        let has_numbers = |after: Option<char>| after.is_some_and(|it| it.is_ascii_digit());
        let is_added = match added.next() {
            None => true,
            Some('-' | '+' | '~') => !has_numbers(added.next()) || text[..end].contains('.'),
            Some(_) => false,
        };
        match numbers {
            Ok(numbers) if is_added => Ok(Version(numbers)),
            _ => Err(format!("`{text}` is not a version such as 6.12")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.write_str(&numbers.join("."))
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(version("6.9") < version("6.12") && version("6.12") < version("6.12.1"));
        assert!(version("2.6.36") < version("5.1") && version("6.12-rc1") == version("6.12"));
        assert!(version("6.12.9-arch1").is_within(&version("6.12")));
        assert!(!version("6.13").is_within(&version("6.12")));
        assert!(version("6").is_within(&version("6.12")));
    }

    #[test]
    fn what_begins_with_no_number_is_refused() {
        for text in ["", "x", ".", "6..1", "v6.12", "99999999999"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn slips_are_refused_and_what_distributions_add_is_not() {
        for text in ["6,12", "6.x", "6.", "6-12", "6_12", "6.12 ", "6.12rc1"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        for text in ["6.12.117+deb12-cloud", "6.12-18-amd64", "6.12~bpo", "6.12-rc1", "6.12"] {
            assert_eq!(version(text).0[..2], [6, 12], "{text}");
        }
        assert_eq!(version("7-rc1"), version("7"));
    }
}
