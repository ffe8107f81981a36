//! The tidy test: holds the whole tree to the house rules that a machine can check.
//!
//! It walks the tree, runs every row of [`CHECKS`] over it and lists each offence as
//! `file:line: what is wrong, and what to do`. The rules themselves are in CONTRIBUTING.md.
//!
//! A check is a plain function from a [`Tree`] to its offences, so each row also carries a canary:
//! a small bad tree and the places where the check must object. A check that goes blind fails here,
//! not silently.
//!
//! Not checked here: what rustfmt and clippy already check.
//!
//! Source of the idea: TigerBeetle, `src/tidy.zig`.

mod circles;
mod dead;
mod doc_words;
mod documented;
mod layers;
mod lengths;
mod predicates;
mod source;
mod type_names;
mod unused;
mod words;

use source::{File, Offence, Tree};
use std::path::Path;

/// One rule: how to find offences, and a bad sample in which it must find some.
struct Check {
    name: &'static str,
    find: fn(&Tree) -> Vec<Offence>,
    canary: fn() -> Canary,
}

/// A bad tree as (path, text) and where exactly the check must object, as `path:line`.
struct Canary {
    files: Vec<(&'static str, String)>,
    caught_at: Vec<&'static str>,
}

const CHECKS: [Check; 19] = [
    Check { name: "file length", find: lengths::files, canary: lengths::files_canary },
    Check { name: "function length", find: lengths::functions, canary: lengths::functions_canary },
    Check { name: "line length", find: lengths::lines, canary: lengths::lines_canary },
    Check { name: "layers", find: layers::dependencies, canary: layers::dependencies_canary },
    Check { name: "pure crates", find: layers::purity, canary: layers::purity_canary },
    Check { name: "clock of io", find: layers::io_clock, canary: layers::io_clock_canary },
    Check { name: "dead sources", find: dead::sources, canary: dead::sources_canary },
    Check { name: "dead data", find: dead::data, canary: dead::data_canary },
    Check { name: "module circles", find: circles::modules, canary: circles::modules_canary },
    Check { name: "unused items", find: unused::items, canary: unused::items_canary },
    Check {
        name: "type names",
        find: type_names::across_crates,
        canary: type_names::across_crates_canary,
    },
    Check { name: "documented", find: documented::names, canary: documented::names_canary },
    Check {
        name: "promised tests",
        find: documented::promised_tests,
        canary: documented::promised_tests_canary,
    },
    Check { name: "openings", find: doc_words::openings, canary: doc_words::openings_canary },
    Check { name: "links", find: doc_words::links, canary: doc_words::links_canary },
    Check { name: "predicates", find: predicates::act, canary: predicates::act_canary },
    Check { name: "file pages", find: words::pages, canary: words::pages_canary },
    Check { name: "banned words", find: words::banned, canary: words::banned_canary },
    Check { name: "trailing space", find: words::trailing, canary: words::trailing_canary },
];

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::read(&root).expect("the tree is readable");
    assert!(tree.files.len() > 50, "only {} files: is this the root?", tree.files.len());
    let offences: Vec<String> =
        CHECKS.iter().flat_map(|check| (check.find)(&tree)).map(|o| o.to_string()).collect();
    assert!(offences.is_empty(), "\n{}\n{} offences", offences.join("\n"), offences.len());
}

#[test]
fn every_check_catches_its_canary() {
    for check in &CHECKS {
        let canary = (check.canary)();
        let files = canary.files.into_iter().map(|(path, text)| File::new(path, text)).collect();
        let found = (check.find)(&Tree { files });
        let places: Vec<String> = found.iter().map(Offence::place).collect();
        assert_eq!(places, canary.caught_at, "{}: {found:#?}", check.name);
    }
}
