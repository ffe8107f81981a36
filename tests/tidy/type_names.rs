//! One name, one thing: no two crates have a type of the same name, private ones included.

use crate::Canary;
use crate::source::{File, Offence, Tree};
use std::collections::BTreeMap;

const KEYWORDS: [&str; 4] = ["enum", "struct", "trait", "union"];

/// Names that still mean two things, of which one is private to its crate. The list shrinks.
const NOT_YET: [&str; 33] = [
    "Access", "Action", "Added", "Backend", "Backoff", "Change", "Client", "ClientRequest",
    "Command", "Direction", "Disk", "Ending", "Family", "Files", "Findings", "Format",
    "FoundMember", "Held", "HostOverhead", "Layout", "Member", "Model", "Page", "PendingRequest",
    "Phase", "Pool", "Reply", "Role", "Sample", "Section", "Step", "Unit", "Work",
];

/// Types of one name in two crates, reported in all crates but the first.
pub(crate) fn across_crates(tree: &Tree) -> Vec<Offence> {
    let mut first: BTreeMap<&str, (&str, &File, bool)> = BTreeMap::new();
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| file.path.contains("/src/") && !file.is_test()) {
        let Some(package) = file.path.strip_prefix("crates/") else { continue };
        let package = package.split('/').next().unwrap_or_default();
        let tokens = file.product_tokens();
        for (index, window) in tokens.windows(2).enumerate() {
            let [keyword, name] = window else { unreachable!("windows of two") };
            let is_type = keyword.ident().is_some_and(|word| KEYWORDS.contains(&word));
            let Some(name) = name.ident().filter(|_| is_type) else { continue };
            let is_public = index > 0 && tokens[index - 1].ident() == Some("pub");
            let (owner, other, is_other_public) =
                *first.entry(name).or_insert((package, file, is_public));
            let is_listed = NOT_YET.contains(&name) && !(is_public && is_other_public);
            if owner != package && !is_listed {
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
            ("crates/x/src/a.rs", "pub struct Run;".into()),
            ("crates/x/src/b.rs", "pub struct Run;".into()),
            ("crates/y/src/b.rs", "struct Own;\npub(crate) struct Run;\nstruct Step;".into()),
            ("crates/x/src/c.rs", "struct Step;\nfn own() { struct Own; }".into()),
            ("crates/y/src/c.rs", "pub struct Other;\npub enum Run {}".into()),
            ("crates/y/src/tests.rs", "struct Run;".into()),
        ],
        caught_at: vec!["crates/y/src/b.rs:2", "crates/x/src/c.rs:2", "crates/y/src/c.rs:2"],
    }
}
