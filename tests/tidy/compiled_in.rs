//! Files that a crate compiles in lie under the crate, so that a package of the crate has them.
//!
//! Paths are compared as they are written. A link in the folder of the crate to a file or folder
//! elsewhere in the tree is followed by Cargo, and is the way to keep a file where users look.

use crate::Canary;
use crate::source::{File, Kind, Offence, Token, Tree};

const MACROS: [&str; 4] = ["include", "include_bytes", "include_dir", "include_str"];

/// Paths in `include_str!` and its like, and in `#[path = "…"]`, that lead out of their crate.
pub(crate) fn files(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust() {
        let Some(root) = crate_root(file) else { continue };
        for index in 0..file.tokens.len() {
            let paths = included(&file.tokens[index..]).or_else(|| named(&file.tokens[index..]));
            let Some(path) = paths else { continue };
            let folder = if path.is_from_root { root } else { file.folder() };
            if !stays_below(root, folder, path.text) {
                let what = format!(
                    "`{}` is outside of the crate, so a package lacks it: make a link in {root}",
                    path.text
                );
                offences.push(file.offence(path.line, what));
            }
        }
    }
    offences
}

struct WrittenPath<'a> {
    text: &'a str,
    line: usize,
    /// It follows `env!("CARGO_MANIFEST_DIR")`.
    is_from_root: bool,
}

/// The folder of the crate that `file` belongs to.
fn crate_root(file: &File) -> Option<&str> {
    let name = file.path.strip_prefix("crates/")?.split('/').next()?;
    file.path.get(.."crates/".len() + name.len())
}

/// The path in a macro at the start of `tokens`. Of a `concat!` only the begin counts.
fn included(tokens: &[Token]) -> Option<WrittenPath<'_>> {
    let [name, bang, _, arguments @ ..] = tokens else { return None };
    if !bang.is_punct('!') || !MACROS.contains(&name.ident()?) {
        return None;
    }
    let mut depth = 1;
    let group = arguments.iter().take_while(|token| {
        depth += i32::from(matches!(token.kind, Kind::Open(..))) - i32::from(token.is_close());
        depth > 0
    });
    let mut strings = group.filter_map(|token| Some((token.line, token.string()?)));
    let (line, text) = strings.next()?;
    if text != "CARGO_MANIFEST_DIR" {
        return Some(WrittenPath { text, line, is_from_root: false });
    }
    let (line, text) = strings.next()?;
    Some(WrittenPath { text, line, is_from_root: true })
}

/// The path in `#[path = "…"]` at the start of `tokens`.
fn named(tokens: &[Token]) -> Option<WrittenPath<'_>> {
    let [hash, _, path, equals, value, ..] = tokens else { return None };
    let is_path = hash.is_punct('#') && path.ident() == Some("path") && equals.is_punct('=');
    let text = value.string().filter(|_| is_path)?;
    Some(WrittenPath { text, line: value.line, is_from_root: false })
}

/// Whether `path`, from `folder` on, never leaves `root`.
fn stays_below(root: &str, folder: &str, path: &str) -> bool {
    let mut depth = folder.matches('/').count() - root.matches('/').count();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return false,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

pub(crate) fn files_canary() -> Canary {
    let included = "const A: &str = include_str!(\"../jobs/a.fio\");\n\
                    const B: &[u8] = include_bytes!(\"../../b\");\n\
                    const C: &str = include_str!(concat!(\"../../../recipes/\", $name));\n\
                    const D: &str = include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/d\"));\n\
                    const E: &[u8] = include!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../e\"));\n\
                    const F: &str = include_str!($file);\n\
                    const G: &str = concat!(\"../../g\");";
    let modules = "#[path = \"a.rs\"]\nmod a;\n#[path = \"../../core/b.rs\"]\nmod b;\n\
                   fn c() { let path = \"../../../c\"; }";
    Canary {
        files: vec![
            ("crates/x/benches/y.rs", modules.into()),
            ("crates/x/src/lib.rs", included.into()),
            ("tests/main.rs", "const A: &str = include_str!(\"../a\");".into()),
        ],
        caught_at: vec![
            "crates/x/benches/y.rs:3",
            "crates/x/src/lib.rs:2",
            "crates/x/src/lib.rs:3",
            "crates/x/src/lib.rs:5",
        ],
    }
}
