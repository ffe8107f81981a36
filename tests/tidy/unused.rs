//! Items that no product code uses: those that nothing names, and those that only tests name.
//!
//! rustc reports private items without a use; it cannot report a public item of a library, nor one
//! that a test keeps alive. An item is found by its name alone: one that shares its name with
//! another in use is not reported.

use crate::Canary;
use crate::source::{File, Kind, Offence, Token, Tree};
use proc_macro2::Delimiter;
use std::collections::BTreeMap;

/// Keywords that name the item behind them.
const KEYWORDS: [&str; 7] = ["const", "enum", "fn", "static", "struct", "trait", "type"];

/// Items of `crates/*/src` that product code names only where it defines them.
pub(crate) fn items(tree: &Tree) -> Vec<Offence> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let product = || tree.rust().filter(|file| is_product(file));
    for token in product().flat_map(|file| file.product_tokens()) {
        let words = token.ident().into_iter().chain(token.string().into_iter().flat_map(words));
        words.for_each(|word| *uses.entry(word).or_default() += 1);
    }
    let mut offences = Vec::new();
    for file in product().filter(|file| file.path.contains("/src/")) {
        for (name, line) in definitions(&file.product_tokens()) {
            if uses.get(name) == Some(&1) {
                let what = format!("only tests use `{name}`, or nothing does: delete it");
                offences.push(file.offence(line, what));
            }
        }
    }
    offences
}

/// Product code includes benches, examples and fuzz targets: they call what users of a library do.
fn is_product(file: &File) -> bool {
    let is_code = file.path.starts_with("crates/") || file.path.starts_with("fuzz/");
    is_code && !file.is_test()
}

/// Words of a string literal: serde names functions in attributes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

/// Names of items with their lines, without those that implement a trait: its users name them.
fn definitions<'a>(tokens: &[&'a Token]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let keyword = tokens[index].ident().unwrap_or_default();
        if keyword == "impl"
            && let Some(end) = trait_impl_end(tokens, index)
        {
            index = end;
            continue;
        }
        if KEYWORDS.contains(&keyword)
            && let Some(name) = tokens.get(index + 1).and_then(|token| token.ident())
            && !KEYWORDS.contains(&name)
            && !["main", "_", "mut", "unsafe"].contains(&name)
        {
            found.push((name, tokens[index].line));
        }
        index += 1;
    }
    found
}

/// Index behind `impl Trait for Type { … }`, or `None` where `impl` begins something else.
fn trait_impl_end(tokens: &[&Token], start: usize) -> Option<usize> {
    let is_body = |token: &Token| matches!(token.kind, Kind::Open(Delimiter::Brace, _));
    let is_end = |token: &Token| is_body(token) || token.is_punct(';') || token.is_close();
    let body = start + tokens[start..].iter().position(|token| is_end(token))?;
    let names_trait = tokens[start..body].iter().any(|token| token.ident() == Some("for"));
    if !is_body(tokens[body]) || !names_trait {
        return None;
    }
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(body) {
        match token.kind {
            Kind::Open(..) => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

pub(crate) fn items_canary() -> Canary {
    let lib = "pub fn used() {}\npub fn tested() {}\npub struct Lonely;\n\
               impl Drop for Used {\n    fn drop(&mut self) {}\n}\npub struct Used;\n\
               #[serde(default = \"named\")]\nfn named() {}\n\
               #[cfg(test)]\nmod tests {\n    fn test_of() { tested() }\n}\n";
    Canary {
        files: vec![
            ("crates/x/src/lib.rs", lib.into()),
            ("crates/x/src/main.rs", "fn main() { used(); test_of(); }".into()),
            ("crates/x/tests/t.rs", "fn t() { tested() }".into()),
        ],
        caught_at: vec!["crates/x/src/lib.rs:2", "crates/x/src/lib.rs:3"],
    }
}
