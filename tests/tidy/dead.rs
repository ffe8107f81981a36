//! Files that nothing reaches: sources outside every module tree, data that no table names.

use crate::Canary;
use crate::source::{File, Kind, Offence, Token, Tree};
use std::collections::BTreeSet;

/// Folders of a package in which each file, or each folder with a `main.rs`, is a target.
const TARGET_FOLDERS: [&str; 4] = ["src/bin", "tests", "benches", "examples"];
/// Manifests and tools' settings, which their tools find by name.
const TOOL_FILES: [&str; 6] = [
    "Cargo.toml", "clippy.toml", "deny.toml", "pyproject.toml", "rust-toolchain.toml",
    "rustfmt.toml",
];

/// Rust files that no target and no `mod` line reaches.
pub(crate) fn sources(tree: &Tree) -> Vec<Offence> {
    let mut waiting: Vec<String> = tree.files.iter().flat_map(|file| roots(tree, file)).collect();
    let roots: BTreeSet<String> = waiting.iter().cloned().collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if let Some(file) = tree.find(&path)
            && reached.insert(path.clone())
        {
            waiting.extend(children(file, roots.contains(&path)));
        }
    }
    tree.rust()
        .filter(|file| !reached.contains(&file.path))
        .map(|file| {
            file.offence(1, "no `mod` line or target reaches this file: name it or drop it")
        })
        .collect()
}

/// Arrays, jobs and profiles that no source and no other data file names.
pub(crate) fn data(tree: &Tree) -> Vec<Offence> {
    let data: Vec<&File> = tree
        .with_extension("toml")
        .chain(tree.with_extension("fio"))
        .filter(|file| !TOOL_FILES.contains(&file.name()))
        .collect();
    let is_named = |file: &File| {
        let named = |text: &str| text == file.stem() || names(text, file.name());
        let in_source = tree.rust().flat_map(|rust| &rust.tokens).filter_map(Token::string);
        let mut in_data = data.iter().filter(|other| other.path != file.path);
        in_source.into_iter().any(named) || in_data.any(|other| names(&other.text, file.name()))
    };
    data.iter()
        .filter(|file| !is_named(file))
        .map(|file| file.offence(1, "no table or include names this file: add its row or drop it"))
        .collect()
}

/// The targets that a manifest declares or that Cargo finds in its folder.
fn roots(tree: &Tree, manifest: &File) -> Vec<String> {
    if manifest.name() != "Cargo.toml" {
        return Vec::new();
    }
    let package = manifest.folder();
    let within = |path: &str| join(package, path);
    let mut roots = vec![within("src/lib.rs"), within("src/main.rs"), within("build.rs")];
    roots.extend(manifest.lines().filter_map(|(_, line)| {
        let path = line.strip_prefix("path")?.trim_start().strip_prefix('=')?;
        Some(within(path.trim().trim_matches('"')))
    }));
    for folder in TARGET_FOLDERS.map(within) {
        let found = tree.rust().filter(|file| {
            file.folder() == folder
                || (file.name() == "main.rs"
                    && file.folder().rsplit_once('/').is_some_and(|(above, _)| above == folder))
        });
        // The folder of the workspace itself belongs to no package.
        if !package.is_empty() {
            roots.extend(found.map(|file| file.path.clone()));
        }
    }
    roots
}

/// The files that `mod` lines of `file` may mean.
fn children(file: &File, is_root: bool) -> Vec<String> {
    let own_folder = is_root || file.name() == "mod.rs";
    let folder =
        if own_folder { file.folder().to_owned() } else { join(file.folder(), file.stem()) };
    let mut found = Vec::new();
    for (index, window) in file.tokens.windows(3).enumerate() {
        let [keyword, name, end] = window else { unreachable!("windows of three") };
        let Some(name) = name.ident().filter(|_| keyword.ident() == Some("mod")) else { continue };
        if !end.is_punct(';') {
            continue;
        }
        match path_attribute(&file.tokens[..index]) {
            Some(path) => found.push(join(file.folder(), path)),
            None => found.extend(
                [format!("{name}.rs"), format!("{name}/mod.rs")].map(|path| join(&folder, &path)),
            ),
        }
    }
    found
}

/// The path in `#[path = "…"]`, if that is what stands right before, visibility aside.
fn path_attribute(before: &[Token]) -> Option<&str> {
    let attribute = before.iter().rposition(|token| matches!(token.kind, Kind::Literal(_)))?;
    let [.., path, equals] = &before[..attribute] else { return None };
    let directly = before[attribute + 1..]
        .iter()
        .all(|token| matches!(token.kind, Kind::Close | Kind::Open(..)) || token.ident().is_some());
    let is_path = path.ident() == Some("path") && equals.is_punct('=') && directly;
    before[attribute].string().filter(|_| is_path)
}

/// Whether `text` holds `name` as a whole file name.
fn names(text: &str, name: &str) -> bool {
    let in_name = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(in_name) && !text[at + name.len()..].starts_with(in_name)
    })
}

/// `path` as seen from `folder`, with `..` resolved.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

pub(crate) fn sources_canary() -> Canary {
    let manifest = "[[test]]\nname = \"t\"\npath = \"../../tests/t/main.rs\"\n";
    let lib = "pub mod a;\n#[cfg(test)]\n#[path = \"odd_name.rs\"]\nmod odd;\n// mod dead;\n";
    let empty = [
        "crates/x/benches/speed.rs",
        "crates/x/src/a/b.rs",
        "crates/x/src/b.rs",
        "crates/x/src/dead.rs",
        "crates/x/src/odd.rs",
        "crates/x/src/odd_name.rs",
        "tests/t/deep.rs",
        "tests/u.rs",
    ];
    let mut files: Vec<(&str, String)> = empty.map(|path| (path, String::new())).into();
    files.extend([
        ("crates/x/Cargo.toml", manifest.into()),
        ("crates/x/src/a.rs", "mod b;".into()),
        ("crates/x/src/lib.rs", lib.into()),
        ("tests/t/main.rs", "mod deep;".into()),
    ]);
    Canary {
        files,
        caught_at: vec![
            "crates/x/src/b.rs:1", "crates/x/src/dead.rs:1", "crates/x/src/odd.rs:1",
            "tests/u.rs:1",
        ],
    }
}

pub(crate) fn data_canary() -> Canary {
    let table = "//! arrays/c.toml\nconst A: &str = include_str!(\"../arrays/a.toml\");\n\
                 const B: [&str; 2] = [\"b\", \"my-c.toml\"];";
    Canary {
        files: vec![
            ("arrays/a.toml", String::new()),
            ("arrays/b.toml", String::new()),
            ("arrays/c.toml", String::new()),
            ("jobs/d.fio", "include e.fio".into()),
            ("jobs/e.fio", String::new()),
            ("rustfmt.toml", String::new()),
            ("table.rs", table.into()),
        ],
        caught_at: vec!["arrays/c.toml:1", "jobs/d.fio:1"],
    }
}
