//! The text of `recipe.toml`, and the places of mistakes in it.

use anyhow::Error;
use mirrorball_core::diagnostic::{Diagnostic, TextPosition};
use std::ops::Range;

/// Keys that a recipe must have, each with a line that has it.
const EXAMPLES: [(&str, &str); 6] = [
    ("title", "title = \"Random reads of 4 KiB from two hard disks\""),
    ("sources", "sources = [\"https://example.org/post, 21 July 2009\"]"),
    ("about", "about = \"What was measured, and how\""),
    ("mismatch", "mismatch = \"Nothing known\""),
    ("columns", "columns = [\"read_iops\"]"),
    ("table", "[[table]] and below it title, job, columns and row"),
];

/// The text of `recipe.toml`, for the positions of errors.
pub(super) struct SourceText<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl SourceText<'_> {
    /// An error of the reader of TOML, with its place and an example.
    pub(super) fn toml(&self, error: &toml::de::Error) -> Diagnostic {
        let mut diagnostic = Diagnostic::of_serde(error.message()).in_file(self.path);
        let missing = diagnostic.message.clone();
        let example = |(key, _): &&(&str, &str)| missing == format!("the key `{key}` is missing");
        if let Some((_, line)) = EXAMPLES.iter().find(example) {
            diagnostic = diagnostic.with_help(format!("add for example {line}"));
        }
        match error.span() {
            Some(span) => diagnostic.at(TextPosition::of_byte(self.text, span.start)),
            None => diagnostic,
        }
    }

    /// Adds the place of an error: the part of the recipe at `span`, whose name `part` precedes the
    /// message. An error that has a place keeps it.
    pub(super) fn place(&self, span: &Range<usize>, error: Error, part: &str) -> Error {
        if error.downcast_ref::<Diagnostic>().is_some_and(|it| it.file.is_some()) {
            return error;
        }
        let (message, help) = match error.downcast::<Diagnostic>() {
            Ok(diagnostic) => (diagnostic.message, diagnostic.help),
            Err(error) => (format!("{error:#}"), None),
        };
        let message = if part.is_empty() { message } else { format!("{part}: {message}") };
        let placed = Diagnostic::new(message).in_file(self.path);
        let placed = placed.at(TextPosition::of_byte(self.text, span.start));
        Error::new(match help {
            Some(help) => placed.with_help(help),
            None => placed,
        })
    }
}
