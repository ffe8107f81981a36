//! One name, one thing: no two crates have a public type of the same name.

use crate::Canary;
use crate::source::{File, Offence, Tree};
use std::collections::BTreeMap;

const KEYWORDS: [&str; 4] = ["enum", "struct", "trait", "union"];

/// The crate for policies in Rust. They are written outside of this workspace, where its names meet
/// no others.
const INTERFACE: &str = "policy";

/// Types of one name in two crates, reported in all crates but the first.
pub(crate) fn across_crates(tree: &Tree) -> Vec<Offence> {
    let mut first: BTreeMap<&str, (&str, &File)> = BTreeMap::new();
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| file.path.contains("/src/") && !file.is_test()) {
        let Some(package) = file.path.strip_prefix("crates/") else { continue };
        let package = package.split('/').next().unwrap_or_default();
        if package == INTERFACE {
            continue;
        }
        for window in file.product_tokens().windows(3) {
            let [visibility, keyword, name] = window else { unreachable!("windows of three") };
            let is_public = visibility.ident() == Some("pub");
            let is_type = keyword.ident().is_some_and(|word| KEYWORDS.contains(&word));
            let Some(name) = name.ident().filter(|_| is_public && is_type) else { continue };
            let (owner, other) = *first.entry(name).or_insert((package, file));
            if owner != package {
                let what = format!("`{name}` is also a type in {}: rename one", other.path);
                offences.push(file.offence(keyword.line, what));
            }
        }
    }
    offences
}

pub(crate) fn across_crates_canary() -> Canary {
    Canary {
        files: vec![
            ("crates/policy/src/lib.rs", "pub struct Run;".into()),
            ("crates/x/src/a.rs", "pub struct Run;".into()),
            ("crates/x/src/b.rs", "pub struct Run;".into()),
            ("crates/y/src/b.rs", "struct Run;\npub(crate) struct Run;".into()),
            ("crates/y/src/c.rs", "pub struct Other;\npub enum Run {}".into()),
            ("crates/y/src/tests.rs", "struct Run;".into()),
        ],
        caught_at: vec!["crates/y/src/c.rs:2"],
    }
}
