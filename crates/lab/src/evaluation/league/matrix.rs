//! The arrays and jobs of the league, and the two halves of their pairings.

use super::files;
use crate::experiment::hash::stable_hash;
use anyhow::Result;
use mirrorball_core::diagnostic::Diagnostic;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arrays and jobs of a league.
#[derive(Clone, Debug, Deserialize)]
pub struct Matrix {
    /// The arrays, in the order of the list.
    #[serde(rename = "array")]
    pub arrays: Vec<ArrayEntry>,
    /// The jobs, in the order of the list.
    #[serde(rename = "job")]
    pub jobs: Vec<JobEntry>,
}

/// An array of the league.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayEntry {
    /// Its name, and its file's.
    pub name: String,
    /// Number of requests that a run measures.
    pub reads: u64,
    /// Rate of background work, as written in a pragma.
    pub background: String,
    /// Rate of the rebuild that runs in the background of every job.
    pub rebuild: Option<String>,
    /// Fixed length of every run, if the array needs one.
    pub run: Option<String>,
}

/// A job of the league.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEntry {
    /// Its name, and its file's.
    pub name: String,
    /// Its share of the array's requests.
    #[serde(default = "whole")]
    pub part: f64,
    /// The part of the array's capacity that it asks for, if it sets its own pace.
    pub load: Option<f64>,
}

/// The two halves of the pairings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// Shown while a policy is being developed.
    Design,
    /// Shown by `--final` only.
    HeldOut,
}

fn whole() -> f64 {
    1.0
}

impl Half {
    /// Both.
    pub const ALL: [Half; 2] = [Half::Design, Half::HeldOut];

    /// The half of a pairing, from a hash of its names, so that it is not chosen by hand.
    pub fn of(array: &str, job: &str) -> Half {
        let hash = stable_hash(["half", array, job]);
        let last = hash.bytes().last().expect("32 digits");
        if last % 2 == 0 { Half::Design } else { Half::HeldOut }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Half::Design => "design",
            Half::HeldOut => "held-out",
        }
    }
}

impl Matrix {
    /// All arrays and all jobs.
    pub fn builtin() -> Matrix {
        toml::from_str(files::LIST).expect("the list is tested")
    }

    /// Keeps the arrays and jobs whose names are listed, separated by commas. In a name `*` matches
    /// any characters.
    ///
    /// # Errors
    /// If a name does not exist; the message suggests a similar one.
    pub fn only(mut self, arrays: Option<&str>, jobs: Option<&str>) -> Result<Matrix> {
        if let Some(list) = arrays {
            let names: Vec<&str> = self.arrays.iter().map(|array| &*array.name).collect();
            let chosen = chosen("array", &names, list)?;
            self.arrays.retain(|array| chosen.contains(&array.name));
        }
        if let Some(list) = jobs {
            let names: Vec<&str> = self.jobs.iter().map(|job| &*job.name).collect();
            let chosen = chosen("job", &names, list)?;
            self.jobs.retain(|job| chosen.contains(&job.name));
        }
        Ok(self)
    }
}

fn chosen(what: &str, names: &[&str], list: &str) -> Result<Vec<String>> {
    let mut chosen = Vec::new();
    for wanted in list.split(',').map(str::trim) {
        let fits = |name: &&&str| is_match(wanted, name);
        let before = chosen.len();
        chosen.extend(names.iter().filter(fits).map(|name| (*name).to_owned()));
        if chosen.len() == before {
            if wanted.is_empty() {
                return Err(Diagnostic::empty_name(what).into());
            }
            let unknown = Diagnostic::new(format!("the league has no {what} `{wanted}`"));
            let listing = format!("the {what}s of the league are");
            return Err(unknown.with_suggestion(wanted, names, &listing).into());
        }
    }
    Ok(chosen)
}

/// True if `name` matches `glob`, in which `*` matches any characters.
fn is_match(glob: &str, name: &str) -> bool {
    let Some((start, rest)) = glob.split_once('*') else { return glob == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    let mut ends = name.char_indices().map(|(index, _)| index).chain([name.len()]);
    ends.any(|index| is_match(rest, &name[index..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        let jobs = ["seq-1-direct", "seq-1-buffered", "rand-4k-qd1"];
        let found = |list: &str| chosen("job", &jobs, list).unwrap().join(" ");
        assert_eq!(found("seq-*"), "seq-1-direct seq-1-buffered");
        assert_eq!(found("*-direct,rand-4k-qd1"), "seq-1-direct rand-4k-qd1");
        assert_eq!(found("seq-*-b*d"), "seq-1-buffered");
        assert!(chosen("job", &jobs, "*-qd2").is_err() && chosen("job", &jobs, "seq-1").is_err());
    }
}
