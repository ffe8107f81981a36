//! The nearest name to a mistyped one, for the hint in an error message.
//!
//! Distance is counted in single-letter slips: a letter left out, added, wrong, or swapped with its
//! neighbour (the "optimal string alignment" distance), without regard to case. Policies, models,
//! job options and array keys all ask here, so that every message guesses by one rule.

/// The candidate that `word` most likely meant. One that begins with `word` (of at least three
/// letters) is `word` with the rest left out, so it goes before any that is spelled otherwise, the
/// shortest first. Else the fewest slips away, the first of equals, up to one slip in three
/// letters. `None` if nothing is near.
pub fn closest_name<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let mut best: Option<((Likeness, usize), &str)> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let length = lower.chars().count();
        let allowed = (letters.max(length) / 3).max(1);
        let likeness = if letters >= 3 && lower.starts_with(&word) {
            (Likeness::Completes, length)
        } else if letters.abs_diff(length) <= allowed {
            // Telling lengths apart first keeps a long paste in place of a name cheap.
            let slips = slips_between(&word, &lower);
            // A one-letter word is one slip away from every other: that is no hint.
            if slips > allowed || slips >= letters {
                continue;
            }
            (Likeness::Resembles, slips)
        } else {
            continue;
        };
        if best.is_none_or(|(least, _)| likeness < least) {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How a candidate is like the word, the better first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Completes,
    Resembles,
}

/// Optimal string alignment distance, with three rows of the usual table.
fn slips_between(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before_last = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut letter_before = None;
    for (row, letter) in left.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let substituted = last[column] + usize::from(letter != other);
            let mut slips = substituted.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = column > 0
                && letter_before == Some(other)
                && right[column - 1] == letter
                && letter != other;
            if swapped {
                slips = slips.min(before_last[column - 1] + 1);
            }
            current.push(slips);
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
    fn slips_are_counted() {
        for (left, right, slips) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("latecny", "latency", 1),
            ("queue", "queue", 0),
            ("ca", "abc", 3),
        ] {
            assert_eq!(slips_between(left, right), slips, "{left} {right}");
            assert_eq!(slips_between(right, left), slips, "{right} {left}");
        }
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
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

    /// `hdd-5k4` is two slips from `hdd-7k2`, but who wrote `hdd-7k2` meant one of those.
    #[test]
    fn a_beginning_goes_before_a_resemblance() {
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
    fn the_first_of_equals_is_taken() {
        assert_eq!(closest_name("cat", ["bat", "rat"]), Some("bat"));
    }
}
