//! How long things may be. The numbers guard the tail, not the average.

use crate::Canary;
use crate::source::{File, Kind, Offence, Tree};
use proc_macro2::Delimiter;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;

/// Files that are too long: Rust only, since a table of figures has no second idea to split off.
pub(crate) fn files(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let what = format!(
                "{lines} lines of {FILE_LINES_MAX}: find the second idea in it and give it a file"
            );
            offences.push(file.offence(FILE_LINES_MAX + 1, what));
        }
    }
    offences
}

/// Functions that are too long, from `fn` to the closing brace.
pub(crate) fn functions(tree: &Tree) -> Vec<Offence> {
    tree.rust().flat_map(long_functions).collect()
}

/// Lines that are too wide, except those that hold a link or are a row of a table.
pub(crate) fn lines(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in &tree.files {
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            let exempt = line.contains("://") || line.trim_start().starts_with('|');
            if columns > LINE_COLUMNS_MAX && !exempt {
                let what = format!("{columns} columns of {LINE_COLUMNS_MAX}: break the line");
                offences.push(file.offence(number, what));
            }
        }
    }
    offences
}

fn long_functions(file: &File) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (index, token) in file.tokens.iter().enumerate() {
        // `fn` before anything but a name is a pointer type.
        let Some(name) = file.tokens.get(index + 1).and_then(|next| next.ident()) else { continue };
        if token.ident() != Some("fn") {
            continue;
        }
        let Some(end) = body_end(file, index) else { continue };
        let length = end + 1 - token.line;
        if length > FUNCTION_LINES_MAX {
            let what = format!(
                "fn {name} has {length} lines of {FUNCTION_LINES_MAX}: \
                 keep the branching, move pure steps out"
            );
            offences.push(file.offence(token.line, what));
        }
    }
    offences
}

/// The last line of the body that follows the `fn` at `index`; `None` for a declaration.
fn body_end(file: &File, index: usize) -> Option<usize> {
    let mut depth = 0;
    for token in &file.tokens[index..] {
        match &token.kind {
            Kind::Open(Delimiter::Brace, end) if depth == 0 => return Some(*end),
            Kind::Open(..) => depth += 1,
            Kind::Close => depth -= 1,
            Kind::Punct(';') if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

pub(crate) fn files_canary() -> Canary {
    let lines = |count| "// x\n".repeat(count);
    let files = [("fits.rs", FILE_LINES_MAX), ("long.rs", FILE_LINES_MAX + 1)];
    Canary {
        files: files.map(|(path, count)| (path, lines(count))).into(),
        caught_at: vec!["long.rs:501"],
    }
}

pub(crate) fn functions_canary() -> Canary {
    let body = |lines: usize| format!("{{{}}}\n", "\n".repeat(lines - 1));
    let text = format!(
        "type F = fn();\nfn fits() -> [u8; 2] {}/// Page.\nfn long(s: &str) where u8: Copy {}\
         proptest! {{ fn inside() {} }}\ntrait T {{ fn none(); fn short() {{}} }}",
        body(FUNCTION_LINES_MAX),
        body(FUNCTION_LINES_MAX + 1),
        body(FUNCTION_LINES_MAX + 1),
    );
    Canary { files: vec![("a.rs", text)], caught_at: vec!["a.rs:73", "a.rs:144"] }
}

pub(crate) fn lines_canary() -> Canary {
    let wide = "x".repeat(LINE_COLUMNS_MAX + 1);
    let text = format!("{}\n{wide}\n| {wide}\nhttps://{wide}\n", &wide[1..]);
    Canary { files: vec![("a.md", text)], caught_at: vec!["a.md:2"] }
}
