//! Mistakes a user may make in an array file, with the exact answer to each: `bad_input.txt`.

use super::*;
use crate::profile::ModelProfile;

const CASES: &str = include_str!("bad_input.txt");
const PAIR: &str = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2";

/// The place in an array, the text and the expected answer of each case.
fn cases() -> Vec<(&'static str, String, String)> {
    let mut cases = Vec::new();
    let (mut place, mut text, mut answer) = ("", String::new(), String::new());
    let (_head, lines) = CASES.split_once("\n\n").unwrap();
    for line in lines.lines().chain([""]) {
        if let Some(name) = line.strip_prefix("== ") {
            place = name;
        } else if let Some(part) = line.strip_prefix("! ") {
            let space = if answer.is_empty() { "" } else { " " };
            answer += &format!("{space}{part}");
        } else if line.is_empty() && !answer.is_empty() {
            cases.push((place, std::mem::take(&mut text), std::mem::take(&mut answer)));
        } else if !(line.is_empty() && text.is_empty()) {
            text += &format!("{line}\n");
        }
    }
    cases
}

/// The array file with `text` at a place of `bad_input.txt`.
fn placed(place: &str, text: &str) -> String {
    let line = text.trim_end();
    let member =
        |lines: &str| format!("profile = \"single\"\n[[member]]\nmodel = \"delay\"\n{lines}\n");
    match place {
        "whole" => line.to_owned(),
        "top" | "array-cache" | "controller" => format!("{line}\n{PAIR}\n"),
        "layout" => {
            format!("{line}\n[[member]]\nmodel = \"delay\"\nsize = \"1GiB\"\ncount = 4\n")
        }
        "member" => member(line),
        "fault" => member(&format!("fault = [{{ {line} }}]")),
        "cache" => member(&format!("cache = {{ {line} }}")),
        _ => panic!("unknown place {place}"),
    }
}

#[test]
fn each_mistake_has_its_answer() {
    let models = ModelProfile::builtin_names().collect::<Vec<_>>().join(", ");
    let cases = cases();
    assert!(cases.len() > 120, "{} cases", cases.len());
    for (place, text, expected) in cases {
        let text = placed(place, &text);
        let error = ArrayFile::parse(&text, "a.toml").expect_err(&text);
        assert_eq!(error.file.as_deref(), Some("a.toml"), "{text}");
        let Diagnostic { message, help, .. } = &error;
        let help = help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        let line = error.line.expect("every mistake has a line");
        let expected = expected.replace("{models}", &models);
        assert_eq!(format!("{line}: {message}{help}"), expected, "{text}");
    }
}

#[test]
fn models_in_front_of_real_members_are_refused() {
    for (key, value) in [("controller", "cache = \"1GiB\""), ("cache", "model = \"delay\"")] {
        let real = "profile = \"single\"\n[[member]]\npath = \"a\"";
        let text = format!("{key} = {{ {value} }}\n{real}");
        let error = ArrayFile::parse(&text, "a.toml").expect_err(key).to_string();
        let expected = format!("`[{key}]` is a model, but the array has real members");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn an_md_raid1_of_real_members_has_a_profile_or_too_many_copies() {
    let real = |count| {
        let member = "[[member]]\npath = \"/dev/sdX\"\n".repeat(count);
        ArrayFile::parse(&format!("layout = \"md-raid1\"\n{member}"), "a.toml")
    };
    let error = real(17).unwrap_err().to_string();
    assert!(error.contains("a copy on each of the 17 members"), "real members count too: {error}");
    assert_eq!(real(3).unwrap().spec.profile, Profile::Raid1c3);
}

#[test]
fn a_mistake_is_reported_with_its_column() {
    for (text, place) in [
        ("  nmae = \"x\"", "a.toml:1:3: "),
        ("profile = \"riad1\"", "a.toml:1:11: "),
        ("profile = \"raid1\"\n[host]\ncpus = \"µ\"", "a.toml:3:8: "),
        ("profile = \"single\"\nmember = [{ model = \"delay\" }, { count = 1 }]", "a.toml:2:32: "),
        (
            "profile = ",
            "a.toml:1:11: not valid TOML: string values must be quoted\n  help: write the value \
             between quotes, as in profile = \"raid1\"",
        ),
    ] {
        let error = ArrayFile::parse(text, "a.toml").expect_err(text).to_string();
        assert!(error.starts_with(place), "{text}: {error}");
    }
}

proptest::proptest! {
    /// Whatever stands in a file, the answer is an array or an error, never a panic; and an error
    /// names a line of the file.
    #[test]
    fn no_text_panics(
        pieces in proptest::collection::vec((0usize..999, 0usize..200, 0usize..8), 1..4)
    ) {
        let (cases, mut text) = (cases(), String::new());
        for (row, cut, kept) in pieces {
            let mut piece = cases[row % cases.len()].1.clone();
            let end = (cut..cut + kept).find(|&at| piece.is_char_boundary(at));
            if let Some(at) = end.filter(|&at| at < piece.len()) {
                piece.remove(at);
            }
            text.push_str(&piece);
            text.push('\n');
        }
        if let Err(error) = ArrayFile::parse(&text, "a.toml") {
            let line = error.line.expect("a line is to blame");
            proptest::prop_assert!(line >= 1 && line <= text.lines().count().max(1) + 1);
        }
    }
}
