//! Words and blanks: each file's page, banned words, and no space at the end of a line.

use crate::Canary;
use crate::source::{Offence, Tree};

/// Words that no file may have, each cut in two so that this file does not say it, and what to do.
const BANNED: [(&str, &str, &str); 17] = [
    ("TO", "DO", UNFINISHED),
    ("FIX", "ME", UNFINISHED),
    ("XX", "X", UNFINISHED),
    ("HA", "CK", UNFINISHED),
    ("todo", "!(", UNFINISHED),
    ("unimple", "mented!(", UNFINISHED),
    ("#[ig", "nore", "mend the test or drop it"),
    ("allow(dead", "_code)", "drop what is dead"),
    ("allow(unu", "sed", "drop what is unused"),
    ("/ro", "ot/", PRIVATE_PATH),
    ("/ho", "me/", PRIVATE_PATH),
    ("be", "side", PLAIN_WORD),
    ("to", "ld", PLAIN_WORD),
    ("who", "ever", PLAIN_WORD),
    ("some", "body", PLAIN_WORD),
    ("an", "ew", PLAIN_WORD),
    ("fare", "well", PLAIN_WORD),
];
/// How many of them, at the front, begin and end with a letter and stand for unfinished work.
const MARKS: usize = 4;
const UNFINISHED: &str = "finish it, or leave it out and say so where plans are kept";
const PLAIN_WORD: &str = "use the plain term of the field";
const PRIVATE_PATH: &str = "name a path that exists on every machine";

/// Rust files that do not open with their page.
pub(crate) fn pages(tree: &Tree) -> Vec<Offence> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.offence(1, "no page: open with `//!` and say what this is and why"))
        .collect()
}

/// Banned words, each as a whole word.
pub(crate) fn banned(tree: &Tree) -> Vec<Offence> {
    let words = BANNED.map(|(head, tail, advice)| (format!("{head}{tail}"), advice));
    let mut offences = Vec::new();
    for file in &tree.files {
        for (number, line) in file.lines() {
            for (word, advice) in words.iter().filter(|(word, _)| says(line, word)) {
                offences.push(file.offence(number, format!("`{word}`: {advice}")));
            }
        }
    }
    offences
}

/// Lines that end in white space, and files that do not end with a line's end.
pub(crate) fn trailing(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in &tree.files {
        let ends = file.lines().filter(|(_, line)| line.ends_with(char::is_whitespace));
        offences.extend(ends.map(|(number, _)| file.offence(number, "white space at the end")));
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            let last = file.lines().count();
            offences.push(file.offence(last, "the last line has no end: add a line feed"));
        }
    }
    offences
}

/// Whether `line` holds `word` with no letter or digit right before or after it.
fn says(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let free = |neighbour: Option<char>, edge: Option<char>| {
            !edge.is_some_and(char::is_alphanumeric)
                || !neighbour.is_some_and(char::is_alphanumeric)
        };
        free(line[..at].chars().next_back(), word.chars().next())
            && free(line[at + word.len()..].chars().next(), word.chars().next_back())
    })
}

pub(crate) fn pages_canary() -> Canary {
    Canary {
        files: vec![("a.rs", "//! A.\n".into()), ("b.rs", "/// B.\nfn b() {}\n".into())],
        caught_at: vec!["b.rs:1"],
    }
}

pub(crate) fn banned_canary() -> Canary {
    let lines = BANNED.map(|(head, tail, _)| format!("x {head}{tail} y\n"));
    // A banned word within another is none of ours to judge.
    let within = BANNED.map(|(head, tail, _)| format!("x{head}{tail}x "));
    let fine = within[..MARKS].concat() + "before nowhere, at home/office\n";
    let caught_at = vec![
        "a.md:2", "a.md:3", "a.md:4", "a.md:5", "a.md:6", "a.md:7", "a.md:8", "a.md:9", "a.md:10",
        "a.md:11", "a.md:12", "a.md:13", "a.md:14", "a.md:15", "a.md:16", "a.md:17", "a.md:18",
    ];
    Canary { files: vec![("a.md", format!("{fine}{}", lines.concat()))], caught_at }
}

pub(crate) fn trailing_canary() -> Canary {
    Canary {
        files: vec![("a.md", "a \nb\nc\t\n".into()), ("b.md", "a\nb".into()), ("c.md", "".into())],
        caught_at: vec!["a.md:1", "a.md:3", "b.md:2"],
    }
}
