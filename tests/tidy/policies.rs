//! Every policy has its page, with the same headings in the same order, and its row in the table.

use crate::Canary;
use crate::source::{File, Offence, Tree};

const FOLDER: &str = "crates/core/src/policies";
const TABLE: &str = "crates/core/src/policies/table";
const HEADINGS: [&str; 6] = ["Idea", "State", "Cost", "Good at", "Bad at", "Origin"];

/// Whether the file is a policy, and not the table, a helper or a test.
pub(crate) fn is_policy(file: &File) -> bool {
    let implements = file
        .tokens
        .windows(2)
        .any(|pair| pair[0].ident() == Some("ReadPolicy") && pair[1].ident() == Some("for"));
    file.folder() == FOLDER && !file.is_test() && implements
}

/// Policies whose page lacks a heading or has them in another order.
pub(crate) fn pages(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| is_policy(file)) {
        let found: Vec<&str> = file.lines().filter_map(|(_, line)| heading(line)).collect();
        if found != HEADINGS {
            let what = format!("the page has {found:?}: give it {HEADINGS:?}, in this order");
            offences.push(file.offence(1, what));
        }
    }
    offences
}

/// Policies that no row of the table builds.
pub(crate) fn rows(tree: &Tree) -> Vec<Offence> {
    let names = |table: &File, policy: &File| {
        table
            .tokens
            .windows(2)
            .any(|pair| pair[0].ident() == Some(policy.stem()) && pair[1].is_punct(':'))
    };
    let tables: Vec<&File> = tree.rust().filter(|file| file.folder() == TABLE).collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let is_used = |policy: &File| tables.iter().any(|table| names(table, policy));
    tree.rust()
        .filter(|file| is_policy(file) && !is_used(file))
        .map(|file| file.offence(1, format!("no row in {TABLE} builds this policy: add one")))
        .collect()
}

/// The heading on a line of a `//!` page, if it is one of ours.
fn heading(line: &str) -> Option<&str> {
    let title = line.strip_prefix("//! # ")?;
    HEADINGS.contains(&title).then_some(title)
}

pub(crate) fn pages_canary() -> Canary {
    let policy = |headings: &[&str]| {
        let page: String = headings.iter().map(|h| format!("//! # {h}\n//!\n")).collect();
        format!("{page}\nimpl ReadPolicy for A {{}}")
    };
    let [idea, state, cost, good, bad, origin] = HEADINGS;
    Canary {
        files: vec![
            ("crates/core/src/policies/good.rs", policy(&HEADINGS)),
            ("crates/core/src/policies/helper.rs", String::new()),
            ("crates/core/src/policies/short.rs", policy(&HEADINGS[..5])),
            (
                "crates/core/src/policies/swapped.rs",
                policy(&[idea, state, cost, bad, good, origin]),
            ),
        ],
        caught_at: vec![
            "crates/core/src/policies/short.rs:1",
            "crates/core/src/policies/swapped.rs:1",
        ],
    }
}

pub(crate) fn rows_canary() -> Canary {
    let policy = "impl ReadPolicy for A {}";
    Canary {
        files: vec![
            ("crates/core/src/policies/lost.rs", policy.into()),
            (
                "crates/core/src/policies/table/linux.rs",
                "use super::lost; const A: F = used::f;".into(),
            ),
            ("crates/core/src/policies/used.rs", policy.into()),
        ],
        caught_at: vec!["crates/core/src/policies/lost.rs:1"],
    }
}
