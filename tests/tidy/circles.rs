//! Modules of a crate depend on each other in one direction.
//!
//! An arrow goes from a file to the file whose items it names through `crate::`, `super::` or
//! `self::`. An arrow between files of two folders is one between the folders too, so two folders
//! cannot use each other through different files. Arrows between a module and the modules inside it
//! do not count: a module is the page of contents of its folder. Tests may name everything.

use crate::Canary;
use crate::source::{File, Kind, Offence, Token, Tree};
use std::collections::{BTreeMap, BTreeSet};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Circles between files, each reported once, at its first file.
pub(crate) fn modules(tree: &Tree) -> Vec<Offence> {
    let sources: BTreeMap<String, &File> = tree
        .rust()
        .filter(|file| file.path.contains("/src/") && !file.is_test())
        .filter_map(|file| Some((module(&file.path)?, file)))
        .collect();
    let mut arrows = Arrows::new();
    for (module, file) in &sources {
        for target in targets(module, file, &sources) {
            let (from, to) = siblings(module, &target);
            arrows.entry(from).or_default().insert(to);
        }
    }
    let reached: Arrows = arrows.keys().map(|from| (from.clone(), reach(from, &arrows))).collect();
    let mut offences = Vec::new();
    let mut reported = BTreeSet::new();
    for (from, file) in sources.iter().filter(|(module, _)| reached.contains_key(*module)) {
        let mutual = |to: &&String| reached.get(*to).is_some_and(|back| back.contains(from));
        let circle: Vec<&String> = reached[from].iter().filter(mutual).collect();
        if circle.is_empty() || circle.iter().any(|member| reported.contains(*member)) {
            continue;
        }
        reported.extend(circle.iter().map(|member| (*member).clone()));
        let names: Vec<&str> = circle.iter().map(|member| member.as_str()).collect();
        let what = format!("a circle of modules: {}: move what both need", names.join(", "));
        offences.push(file.offence(1, what));
    }
    offences
}

/// `crate_name::a::b` for `crates/crate_name/src/a/b.rs`.
fn module(path: &str) -> Option<String> {
    let (package, source) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let source = source.strip_suffix(".rs")?;
    let source = source.strip_suffix("/mod").unwrap_or(source);
    let inner = source.replace('/', "::");
    let is_root = ["lib", "main"].contains(&source);
    Some(if is_root { package.to_owned() } else { format!("{package}::{inner}") })
}

/// The modules that `file` names, without itself, those around it and those inside it.
fn targets(module: &str, file: &File, sources: &BTreeMap<String, &File>) -> BTreeSet<String> {
    let tokens = file.product_tokens();
    let mut paths = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let follows_path = index >= 1 && tokens[index - 1].is_punct(':');
        let name = token.ident().filter(|_| !follows_path).unwrap_or_default();
        let base = match name {
            "crate" => module.split("::").next().unwrap_or_default().to_owned(),
            "self" => module.to_owned(),
            "super" => parent(module),
            _ => continue,
        };
        gather(&tokens, index + 1, &base, &mut paths);
    }
    let files = paths.iter().filter_map(|path| enclosing(path, sources));
    files.filter(|to| !is_within(to, module) && !is_within(module, to)).collect()
}

/// Appends every path that continues `base` at `index`; returns the index behind them.
fn gather(tokens: &[&Token], index: usize, base: &str, paths: &mut Vec<String>) -> usize {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| token.is_punct(':'));
    if !is_colon(index) || !is_colon(index + 1) {
        paths.push(base.to_owned());
        return index;
    }
    let Some(next) = tokens.get(index + 2) else { return index };
    match (&next.kind, next.ident()) {
        (_, Some("super")) => gather(tokens, index + 3, &parent(base), paths),
        (_, Some(name)) => gather(tokens, index + 3, &format!("{base}::{name}"), paths),
        (Kind::Open(..), _) => {
            let mut at = index + 3;
            while tokens.get(at).is_some_and(|token| !token.is_close()) {
                at = match tokens[at].ident() {
                    Some(name) => gather(tokens, at + 1, &format!("{base}::{name}"), paths),
                    None => at + 1,
                };
            }
            at + 1
        }
        _ => index + 3,
    }
}

/// The innermost module that holds the item at `path`.
fn enclosing(path: &str, sources: &BTreeMap<String, &File>) -> Option<String> {
    let mut path = path;
    while !sources.contains_key(path) {
        path = path.rsplit_once("::")?.0;
    }
    Some(path.to_owned())
}

/// The modules with the same parent that hold `from` and `to`, neither of which holds the other.
fn siblings(from: &str, to: &str) -> (String, String) {
    let same = from.split("::").zip(to.split("::")).take_while(|(one, other)| one == other).count();
    let upper = |path: &str| path.split("::").take(same + 1).collect::<Vec<&str>>().join("::");
    (upper(from), upper(to))
}

fn parent(module: &str) -> String {
    module.rsplit_once("::").map_or(module, |(parent, _)| parent).to_owned()
}

fn is_within(inner: &str, outer: &str) -> bool {
    inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"))
}

/// Every module that arrows lead to from `from`.
fn reach(from: &str, arrows: &Arrows) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        for to in arrows.get(module).into_iter().flatten() {
            if reached.insert(to.clone()) {
                waiting.push(to);
            }
        }
    }
    reached
}

pub(crate) fn modules_canary() -> Canary {
    Canary {
        files: vec![
            ("crates/x/src/a.rs", "use crate::{b::{B}, c};\nfn a() {}".into()),
            ("crates/x/src/b.rs", "use super::d::{self, D};\n".into()),
            ("crates/x/src/c.rs", "mod e;\nuse e::E;".into()),
            ("crates/x/src/c/e.rs", "use super::C;".into()),
            ("crates/x/src/d.rs", "fn d() { crate::a::a() }".into()),
            ("crates/x/src/f.rs", "#[cfg(test)]\nuse crate::g::G;".into()),
            ("crates/x/src/g.rs", "use crate::f::F;".into()),
            ("crates/x/src/h/mod.rs", "mod i; mod j;".into()),
            ("crates/x/src/h/i.rs", "use crate::k::K;".into()),
            ("crates/x/src/h/j.rs", "fn j() {}".into()),
            ("crates/x/src/k.rs", "use crate::h::j::j;".into()),
            ("crates/x/src/lib.rs", "mod a; use a::A;".into()),
        ],
        caught_at: vec!["crates/x/src/a.rs:1", "crates/x/src/h/mod.rs:1"],
    }
}
