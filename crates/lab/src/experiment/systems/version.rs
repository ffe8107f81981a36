//! Versions of systems: `6.12`, `0.8.3`, `6.12.9-arch1`.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// A version: numbers with dots between them. Whatever follows the numbers is ignored.
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
        let numbers = text[..end].trim_end_matches('.').split('.');
        let numbers: Result<Vec<u32>, _> = numbers.map(str::parse).collect();
        numbers.map(Version).map_err(|_| format!("`{text}` is not a version such as 6.12"))
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
}
