//! The documentation and the code name each other: each model profile, model parameter, job option
//! and condition has its row in a chapter, and each test that the page of promises names exists.
//!
//! Names are gathered from the sources and looked for, between backticks, in their chapter. Whether
//! the row is right is for people to check.

use crate::Canary;
use crate::source::{File, Offence, Token, Tree};
use std::collections::BTreeSet;

/// A chapter, what it must name, and how to find these names in the tree.
struct Requirement {
    chapter: &'static str,
    what: &'static str,
    names: fn(&Tree) -> Vec<Name<'_>>,
}

/// A name and where the code defines it.
struct Name<'a> {
    file: &'a File,
    line: usize,
    name: &'a str,
}

const REQUIREMENTS: [Requirement; 4] = [
    Requirement { chapter: "docs/trust.md", what: "model profile", names: profiles },
    Requirement { chapter: "docs/trust.md", what: "model parameter", names: parameters },
    Requirement { chapter: "docs/jobs.md", what: "job option", names: options },
    Requirement { chapter: "docs/serving.md", what: "condition", names: conditions },
];

pub(crate) fn names(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for required in &REQUIREMENTS {
        let chapter = tree.find(required.chapter).map_or("", |file| &file.text);
        for Name { file, line, name } in (required.names)(tree) {
            if !chapter.contains(&format!("`{name}`")) {
                let (chapter, what) = (required.chapter, required.what);
                let what = format!("{chapter} does not name the {what} `{name}`: add its row");
                offences.push(file.offence(line, what));
            }
        }
    }
    offences
}

/// The page whose promises name the tests that hold them.
const PROMISES: &str = "docs/promises.md";

/// Names of tests on the page of promises for which there is no function.
pub(crate) fn promised_tests(tree: &Tree) -> Vec<Offence> {
    let Some(page) = tree.find(PROMISES) else { return Vec::new() };
    let functions: BTreeSet<&str> = tree.rust().flat_map(functions).collect();
    let mut offences = Vec::new();
    for (line, text) in page.lines() {
        // Between backticks: every second part.
        for name in text.split('`').skip(1).step_by(2) {
            let is_test = name.contains('_') && name.bytes().all(is_word);
            if is_test && !functions.contains(name) {
                offences.push(page.offence(line, format!("there is no test `{name}`")));
            }
        }
    }
    offences
}

/// Returns true for the letters of a test's name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}

fn functions(file: &File) -> impl Iterator<Item = &str> {
    let pairs = file.tokens.windows(2).filter(|pair| pair[0].ident() == Some("fn"));
    pairs.filter_map(|pair| pair[1].ident())
}

/// The built-in profiles, by their files.
fn profiles(tree: &Tree) -> Vec<Name<'_>> {
    tree.with_extension("toml")
        .filter(|file| file.folder() == "crates/disk/src/profiles")
        .map(|file| Name { file, line: 1, name: file.stem() })
        .collect()
}

/// Public fields of the structures that `[parameters]` are read into.
fn parameters(tree: &Tree) -> Vec<Name<'_>> {
    ["delay.rs", "hdd/parameters.rs", "ssd/parameters.rs"]
        .iter()
        .filter_map(|path| tree.find(&format!("crates/disk/src/{path}")))
        .flat_map(|file| {
            windows(file, |keyword, name, colon| {
                let is_field = keyword.ident() == Some("pub") && colon.is_punct(':');
                name.ident().filter(|_| is_field)
            })
        })
        .collect()
}

/// Names of conditions: the strings of their table with a hyphen and no space.
fn conditions(tree: &Tree) -> Vec<Name<'_>> {
    let Some(file) = tree.find("crates/io/src/conditions.rs") else { return Vec::new() };
    let is_name = |text: &&str| text.contains('-') && !text.contains(|c: char| !is_condition(c));
    let strings = file.tokens.iter().filter_map(|token| Some((token.line, token.string()?)));
    let names = strings.filter(|(_, text)| is_name(text));
    names.map(|(line, name)| Name { file, line, name }).collect()
}

fn is_condition(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter == '-'
}

/// The options that count: `takes("rw readwrite", …)`, or `noted(…)`, in their table.
fn options(tree: &Tree) -> Vec<Name<'_>> {
    let mut names = Vec::new();
    let Some(file) = tree.find("crates/sim/src/job/options.rs") else { return names };
    for (index, token) in file.tokens.iter().enumerate() {
        if !matches!(token.ident(), Some("takes" | "noted")) {
            continue;
        }
        let list = file.tokens[index..].iter().take_while(|token| !token.is_close());
        let first = list.filter_map(|token| Some((token.line, token.string()?))).take(1);
        let words = first.flat_map(|(line, names)| names.split(' ').map(move |it| (line, it)));
        names.extend(words.map(|(line, name)| Name { file, line, name }));
    }
    names
}

/// Results of `pick` for each three tokens that follow each other.
fn windows<'a>(
    file: &'a File,
    pick: impl Fn(&'a Token, &'a Token, &'a Token) -> Option<&'a str>,
) -> Vec<Name<'a>> {
    let tokens = file.tokens.windows(3);
    let named = tokens.filter_map(|three| {
        pick(&three[0], &three[1], &three[2]).map(|name| Name { file, line: three[0].line, name })
    });
    named.collect()
}

pub(crate) fn names_canary() -> Canary {
    let fields = "pub struct P {\n/// Page.\npub rpm: u64,\npub zones: u32,\nown: u8 }";
    let options = "takes(\"rw readwrite\", Setter::Text(\"no\"));\nignored(\"eta\");";
    Canary {
        files: vec![
            ("crates/disk/src/hdd/parameters.rs", fields.into()),
            ("crates/disk/src/profiles/hdd.toml", String::new()),
            ("crates/disk/src/profiles/ssd.toml", String::new()),
            ("crates/sim/src/job/options.rs", options.into()),
            ("crates/io/src/conditions.rs", "\"member-failed\"\n\"a-b\" \"not - a name\"".into()),
            ("docs/serving.md", "`member-failed`".into()),
            ("docs/jobs.md", "`rw`, read".into()),
            ("docs/trust.md", "`ssd` `rpm`".into()),
        ],
        caught_at: vec![
            "crates/disk/src/profiles/hdd.toml:1",
            "crates/disk/src/hdd/parameters.rs:4",
            "crates/sim/src/job/options.rs:1",
            "crates/io/src/conditions.rs:2",
        ],
    }
}

pub(crate) fn promised_tests_canary() -> Canary {
    let page = "| a kill | `kill -9` keeps all | `a_kill` |\n| a cut | `a_cut` | `a_power_cut` |\n";
    Canary {
        files: vec![
            (PROMISES, page.into()),
            ("tests/labels.rs", "#[test]\nfn a_kill() {}\n#[test]\nfn a_cut() {}".into()),
        ],
        caught_at: vec!["docs/promises.md:2"],
    }
}
