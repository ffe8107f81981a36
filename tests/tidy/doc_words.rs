//! How a doc comment begins: with the thing or the verb, not with a pronoun; and the items that
//! its links name.

use crate::Canary;
use crate::source::{Offence, Token, Tree};
use std::collections::BTreeSet;

/// First words that hide the thing that a comment is about.
const OPENINGS: [&str; 4] = ["What", "Its", "That", "Takes"];

/// Folders whose comments are still to be reworded. The list shrinks.
const NOT_YET: [&str; 1] = ["crates/lab/"];

/// Doc comments that begin with one of [`OPENINGS`].
pub(crate) fn openings(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| !NOT_YET.iter().any(|at| file.path.starts_with(at))) {
        let mut is_within = false;
        for (number, line) in file.lines() {
            let text = line.trim_start();
            let doc = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
            let first = doc.and_then(|doc| doc.split_whitespace().next()).unwrap_or_default();
            if !is_within && OPENINGS.contains(&first) {
                let what = format!("a comment that begins with `{first}`: name the thing");
                offences.push(file.offence(number, what));
            }
            is_within = doc.is_some();
        }
    }
    offences
}

pub(crate) fn openings_canary() -> Canary {
    let lines = ["//! What a file is.", "//! Its parts.", "", "/// Its name.", "struct A;"];
    let more = ["/// A name.", "/// What it is.", "struct B;", "/// Itself.", "struct C;"];
    let text = lines.join("\n") + "\n" + &more.join("\n");
    Canary {
        files: vec![("a.rs", text), ("crates/lab/src/a.rs", "/// What it is.".into())],
        caught_at: vec!["a.rs:1", "a.rs:4"],
    }
}

/// Links of doc comments to items that no source names.
pub(crate) fn links(tree: &Tree) -> Vec<Offence> {
    let known: BTreeSet<&str> =
        tree.rust().flat_map(|file| &file.tokens).filter_map(Token::ident).collect();
    let mut offences = Vec::new();
    for file in tree.rust() {
        for (number, line) in file.lines() {
            let text = line.trim_start();
            if !text.starts_with("///") && !text.starts_with("//!") {
                continue;
            }
            for link in text.split("[`").skip(1).filter_map(|rest| rest.split_once("`]")) {
                let item = link.0.rsplit([':', '@']).next().unwrap_or_default();
                let item = item.trim_end_matches(['(', ')', '!']);
                if !known.contains(item) {
                    let what = format!("there is no `{item}` to link to: name what there is");
                    offences.push(file.offence(number, what));
                }
            }
        }
    }
    offences
}

pub(crate) fn links_canary() -> Canary {
    let text =
        "/// As [`A::new`] and [`a!`], unlike [`B`] and [`c::D::gone`].\nfn new() { A; a!() }";
    Canary { files: vec![("a.rs", text.into())], caught_at: vec!["a.rs:1", "a.rs:1"] }
}
