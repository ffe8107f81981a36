//! The tree as the checks see it: files with their text and, for Rust, their tokens.
//!
//! Tokens come from `proc-macro2`, so strings, comments and raw strings cannot fool a check, and
//! functions inside macro calls (`proptest!`) count like any other. Folders that hold what was
//! built or downloaded are not walked; git is not asked, so an exported tree can be checked too.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fmt;
use std::io;
use std::path::Path;

/// Folders that are never walked: built, generated or foreign.
const SKIPPED_FOLDERS: [&str; 6] =
    [".git", "target", "corpus", "artifacts", "mirrorball-results", "proptest-regressions"];
/// Files that are walked: by extension, and by name where there is none.
const EXTENSIONS: [&str; 5] = ["rs", "toml", "md", "fio", "sh"];
const SCRIPTS: [&str; 2] = ["test", ".ci/run"];

/// Every file that the checks look at, in the order of their paths.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

pub(crate) struct File {
    /// From the root, with `/` between folders.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Empty unless it is Rust.
    pub(crate) tokens: Vec<Token>,
}

pub(crate) struct Token {
    /// Line on which it starts, counted from 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Ident(String),
    /// As written, quotes included.
    Literal(String),
    /// The text of a doc comment or attribute.
    Doc,
    Punct(char),
    /// Opens a group; the line on which the group ends.
    Open(Delimiter, usize),
    Close,
}

/// Something against the rules.
#[derive(Debug)]
pub(crate) struct Offence {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The problem, and what to do.
    pub(crate) what: String,
}

impl Tree {
    /// Reads everything under `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.with_extension("rs")
    }

    /// The files whose name ends in `.extension`.
    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.extension() == extension)
    }

    pub(crate) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    /// Splits Rust into tokens. Panics if a Rust file is not even a sequence of tokens.
    pub(crate) fn new(path: &str, text: String) -> File {
        let mut tokens = Vec::new();
        if path.ends_with(".rs") {
            match text.parse::<TokenStream>() {
                Ok(stream) => flatten(stream, &mut tokens),
                Err(error) => panic!("{path}:{}: {error}", error.span().start().line),
            }
        }
        File { path: path.to_owned(), text, tokens }
    }

    /// Lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The folder it is in, without a closing `/`; empty at the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Name without folder and extension.
    pub(crate) fn stem(&self) -> &str {
        let name = self.name();
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }

    /// Whether its items are tests only, by the house's naming.
    pub(crate) fn is_test(&self) -> bool {
        let in_tests = self.path.split('/').any(|part| part == "tests");
        in_tests || self.stem() == "tests" || self.stem().ends_with("_tests")
    }

    /// The tokens without items under `#[cfg(test)]`.
    pub(crate) fn product_tokens(&self) -> Vec<&Token> {
        let mut kept = Vec::new();
        let mut index = 0;
        while index < self.tokens.len() {
            if is_test_attribute(&self.tokens[index..]) {
                index = item_end(&self.tokens, index);
            } else {
                kept.push(&self.tokens[index]);
                index += 1;
            }
        }
        kept
    }

    pub(crate) fn offence(&self, line: usize, what: impl Into<String>) -> Offence {
        Offence { path: self.path.clone(), line, what: what.into() }
    }

    fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

impl Token {
    pub(crate) fn is_punct(&self, wanted: char) -> bool {
        matches!(self.kind, Kind::Punct(found) if found == wanted)
    }

    pub(crate) fn is_close(&self) -> bool {
        matches!(self.kind, Kind::Close)
    }

    pub(crate) fn ident(&self) -> Option<&str> {
        match &self.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// The text within the quotes of a string literal, escapes as written.
    pub(crate) fn string(&self) -> Option<&str> {
        let Kind::Literal(literal) = &self.kind else { return None };
        let (_, rest) = literal.split_once('"')?;
        rest.rsplit_once('"').map(|(text, _)| text)
    }
}

impl Offence {
    /// `path:line`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.what)
    }
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if entry.file_type()?.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                walk(&entry.path(), &path, files)?;
            }
            continue;
        }
        let known = name.rsplit_once('.').is_some_and(|(_, end)| EXTENSIONS.contains(&end));
        if known || SCRIPTS.contains(&path.as_str()) {
            files.push(File::new(&path, std::fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(ident) => {
                tokens.push(Token { line, kind: Kind::Ident(ident.to_string()) });
            }
            TokenTree::Punct(punct) => {
                tokens.push(Token { line, kind: Kind::Punct(punct.as_char()) });
            }
            TokenTree::Literal(literal) => {
                let kind = if follows_doc(tokens) {
                    Kind::Doc
                } else {
                    Kind::Literal(literal.to_string())
                };
                tokens.push(Token { line, kind });
            }
            TokenTree::Group(group) => {
                let end = group.span_close().end().line;
                tokens.push(Token { line, kind: Kind::Open(group.delimiter(), end) });
                flatten(group.stream(), tokens);
                tokens.push(Token { line: end, kind: Kind::Close });
            }
        }
    }
}

/// Whether `#[cfg(test)]` begins here.
fn is_test_attribute(tokens: &[Token]) -> bool {
    let [hash, _, cfg, _, test, close, ..] = tokens else { return false };
    hash.is_punct('#')
        && cfg.ident() == Some("cfg")
        && test.ident() == Some("test")
        && close.is_close()
}

/// Index behind the item whose attributes begin at `start`: its `;`, or its body in braces.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0;
    let mut in_body = false;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token.kind {
            Kind::Open(delimiter, _) => {
                in_body |= depth == 0 && delimiter == Delimiter::Brace;
                depth += 1;
            }
            Kind::Close => depth -= 1,
            _ => {}
        }
        let ends = if in_body { token.is_close() } else { token.is_punct(';') };
        if depth == 0 && ends {
            return index + 1;
        }
    }
    tokens.len()
}

/// Whether the next literal is the text of a doc comment: `doc =` stands before it.
fn follows_doc(tokens: &[Token]) -> bool {
    matches!(tokens, [.., doc, equals] if doc.ident() == Some("doc") && equals.is_punct('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_see_through_strings_and_comments() {
        let file =
            File::new("a.rs", "/// use fs\nfn a() { \"fn b() {\"; /* { */ r#\"}\"# }".into());
        let idents: Vec<&str> = file.tokens.iter().filter_map(Token::ident).collect();
        assert_eq!(idents, ["doc", "fn", "a"]);
        let strings: Vec<&str> = file.tokens.iter().filter_map(Token::string).collect();
        assert_eq!(strings, ["fn b() {", "}"]);
    }
}
