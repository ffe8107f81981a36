//! Suggests the known name that is closest to a mistyped one, for the hint of an error message.
//!
//! The distance is the number of single-letter edits: a letter left out, added, replaced, or
//! swapped with its neighbour ("optimal string alignment"), without regard to case. Policies,
//! models, job options and array keys all use this function, so that every message suggests by one
//! rule.

use std::fmt::Display;

/// The candidate that is most likely meant by `word`, or `None` if none is close.
///
/// A candidate that begins with `word` (of at least three letters) comes first, the shortest of
/// several. Otherwise it is the one with the fewest edits, the first of equals, up to one edit in
/// three letters.
pub fn closest_name<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    closest_names(word, candidates).first().copied()
}

/// The question whether `word` means the candidate that is closest, or one of those as close.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let names = closest_names(word, candidates);
    (!names.is_empty()).then(|| format!("did you mean {}?", alternatives(&names)))
}

/// `a`, `b` or `c`, between backticks.
pub(crate) fn alternatives<S: Display>(names: &[S]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// The candidates that are closest to `word`, all of equals.
fn closest_names<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let mut best: Option<(Likeness, usize)> = None;
    let mut names = Vec::new();
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let length = lower.chars().count();
        let allowed = (letters.max(length) / 3).max(1);
        let likeness = if letters >= 3 && lower.starts_with(&word) {
            (Likeness::Completes, length)
        } else if letters.abs_diff(length) <= allowed {
            // Comparing the lengths first keeps a long text pasted in place of a name cheap.
            let edits = edits_between(&word, &lower);
            // A one-letter word is one edit away from every other.
            if edits > allowed || edits >= letters {
                continue;
            }
            (Likeness::Resembles, edits)
        } else {
            continue;
        };
        if best.is_none_or(|least| likeness < least) {
            best = Some(likeness);
            names.clear();
        }
        if best == Some(likeness) && !names.contains(&candidate) {
            names.push(candidate);
        }
    }
    names
}

/// How a candidate resembles the word, the better first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Completes,
    Resembles,
}

/// Optimal string alignment distance, with three rows of the usual table.
fn edits_between(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before_last = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut letter_before = None;
    for (row, letter) in left.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let substituted = last[column] + usize::from(letter != other);
            let mut edits = substituted.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = column > 0
                && letter_before == Some(other)
                && right[column - 1] == letter
                && letter != other;
            if swapped {
                edits = edits.min(before_last[column - 1] + 1);
            }
            current.push(edits);
        }
        before_last = std::mem::replace(&mut last, current);
        letter_before = Some(letter);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (left, right, edits) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("latecny", "latency", 1),
            ("queue", "queue", 0),
            ("ca", "abc", 3),
        ] {
            assert_eq!(edits_between(left, right), edits, "{left} {right}");
            assert_eq!(edits_between(right, left), edits, "{right} {left}");
        }
    }

    #[test]
    fn a_close_name_is_found_and_a_distant_one_is_not() {
        let names = ["btrfs/pid", "pid", "round-robin", "latency", "latency-rr", "iodepth"];
        for (word, expected) in [
            ("latecny", Some("latency")),
            ("Latency-R", Some("latency-rr")),
            ("roundrobin", Some("round-robin")),
            ("round", Some("round-robin")),
            ("io_depth", Some("iodepth")),
            ("pdi", Some("pid")),
            ("zebra", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest_name(word, names), expected, "{word}");
        }
    }

    /// `hdd-5k4` is two edits from `hdd-7k2`, but `hdd-7k2-ent` is more likely meant.
    #[test]
    fn a_completion_comes_before_a_resemblance() {
        let models = ["hdd-15k", "hdd-5k4", "hdd-7k2-desktop", "hdd-7k2-ent"];
        assert_eq!(
            closest_name("hdd-7k2", models),
            Some("hdd-7k2-ent"),
            "the shortest that completes it"
        );
        assert_eq!(closest_name("HDD-7K2-D", models), Some("hdd-7k2-desktop"));
        assert_eq!(closest_name("hdd-5k2", models), Some("hdd-5k4"));
        assert_eq!(closest_name("hd", models), None, "too short to be a beginning");
    }

    #[test]
    fn the_first_of_equals_is_taken_and_all_are_suggested() {
        assert_eq!(closest_name("cat", ["bat", "rat"]), Some("bat"));
        let suggested = |names: &[&str]| did_you_mean("cat", names.iter().copied());
        let three = "did you mean `bat`, `rat` or `hat`?";
        assert_eq!(suggested(&["bat", "rat", "zebra", "rat", "hat"]).as_deref(), Some(three));
        assert_eq!(suggested(&["bat", "cats"]).as_deref(), Some("did you mean `cats`?"));
        assert_eq!(suggested(&["zebra"]), None);
    }
}
