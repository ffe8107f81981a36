//! Errors in what a user wrote: an array, a job, a model profile, a recipe or a policy.
//!
//! A [`Diagnostic`] is plain data, so that a program can place it in an editor, and displays as
//!
//! ```text
//! pair.toml:5:9: there is no built-in model `hdd-7k2-desktp`
//!   help: did you mean `hdd-7k2-desktop`?
//! ```
//!
//! Messages quote what the user wrote. Control characters in a quotation would move the cursor of
//! a terminal or start an escape sequence, so [`Escaped`] shows them as `\u{1b}`.

use crate::suggest::did_you_mean;
use std::fmt;

/// An error in a text that a user wrote: where, what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, if the text comes from one.
    pub file: Option<String>,
    /// The line in the file, counted from 1.
    pub line: Option<usize>,
    /// The character in the line, counted from 1. Without a line it has no meaning.
    pub column: Option<usize>,
    /// The problem: lower case, no full stop.
    pub message: String,
    /// Advice: what to do, or what was probably meant.
    pub help: Option<String>,
    /// Further errors of the same text, without others of their own.
    pub others: Box<[Diagnostic]>,
}

/// Displays a text on one line, with control characters and invisible direction marks escaped.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

/// A line and a column of a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

/// Types in messages of serde, and what to call them.
const TYPE_NAMES: [(&str, &str); 4] = [
    ("u64", "a whole number"),
    ("u32", "a whole number below 2^32"),
    ("usize", "a whole number"),
    ("f64", "a number"),
];

impl Diagnostic {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> Diagnostic {
        let (message, others) = (message.into(), Box::default());
        Diagnostic { file: None, line: None, column: None, message, help: None, others }
    }

    /// The error for an empty name of something, which is usually an unset shell variable.
    pub fn empty_name(what: &str) -> Diagnostic {
        Diagnostic::new(format!("the name of the {what} is empty"))
            .with_help("check that the shell variable in its place is set")
    }

    /// An error from a message of serde, in the words of array files. For an unknown field, serde
    /// puts the name that was written and then all known names between backticks.
    pub fn of_serde(message: &str) -> Diagnostic {
        let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        match names.split_first() {
            Some((word, known)) if message.starts_with("unknown field") => {
                let error = Diagnostic::new(format!("unknown key `{word}`"));
                error.with_suggestion(word, known, "the known keys are")
            }
            Some((key, _)) if message.starts_with("missing field") => {
                Diagnostic::new(format!("the key `{key}` is missing"))
                    .with_help(format!("add a line {key} = …"))
            }
            _ => {
                let message = message.trim_end().replace('\n', ", ");
                Diagnostic::new(TYPE_NAMES.iter().fold(message, |message, (name, words)| {
                    message.replace(&format!("expected {name}"), &format!("expected {words}"))
                }))
            }
        }
    }

    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Diagnostic {
        self.file = Some(file.into());
        self
    }

    /// Names the line, without a column.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Diagnostic {
        (self.line, self.column) = (Some(line), None);
        self
    }

    /// Names the line and the column.
    #[must_use]
    pub fn at(mut self, position: TextPosition) -> Diagnostic {
        (self.line, self.column) = (Some(position.line), Some(position.column));
        self
    }

    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds the candidates that `word` most likely meant. If none is near, adds `listing` and all
    /// candidates.
    #[must_use]
    pub fn with_suggestion(self, word: &str, candidates: &[&str], listing: &str) -> Diagnostic {
        let listed = || format!("{listing} {}", candidates.join(", "));
        self.with_help(did_you_mean(word, candidates.iter().copied()).unwrap_or_else(listed))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", Escaped(file))?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
                if let Some(column) = self.column {
                    write!(f, ":{column}")?;
                }
            }
            f.write_str(": ")?;
        } else if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", Escaped(&self.message))?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {}", Escaped(help))?;
        }
        self.others.iter().try_for_each(|other| write!(f, "\n{other}"))
    }
}

impl std::error::Error for Diagnostic {}

impl Escaped<'_> {
    /// Returns true for a character that would not be visible as itself: a control character or a
    /// mark that changes the direction of the text around it.
    pub fn is_invisible(character: char) -> bool {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2060}'..='\u{2069}' | '\u{feff}')
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match Escaped::is_invisible(character) {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

impl TextPosition {
    /// The position of the character that contains byte `at` of `text`; the end of the text if the
    /// byte is behind it.
    pub fn of_byte(text: &str, at: usize) -> TextPosition {
        let is_start = |at: &usize| text.is_char_boundary(*at);
        let start = (0..=at.min(text.len())).rev().find(is_start).unwrap_or(0);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        TextPosition {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A word, quoted for a shell where necessary.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_shows_as_much_of_the_place_as_is_known() {
        let error = Diagnostic::new("`count` is 0");
        assert_eq!(error.to_string(), "`count` is 0");
        assert_eq!(error.clone().at_line(7).to_string(), "line 7: `count` is 0");
        let error = error.in_file("a.toml");
        assert_eq!(error.to_string(), "a.toml: `count` is 0");
        let error = error.at_line(4);
        assert_eq!(error.to_string(), "a.toml:4: `count` is 0");
        let error = error.at(TextPosition { line: 4, column: 9 }).with_help("leave it out");
        assert_eq!(error.to_string(), "a.toml:4:9: `count` is 0\n  help: leave it out");
    }

    #[test]
    fn a_line_without_a_column_replaces_an_earlier_column() {
        let error = Diagnostic::new("x").at(TextPosition { line: 4, column: 9 }).at_line(5);
        assert_eq!((error.line, error.column), (Some(5), None));
    }

    #[test]
    fn control_characters_of_the_user_do_not_reach_the_terminal() {
        let error = Diagnostic::new("two links `\u{1b}[2J\u{9b}a\nb`")
            .in_file("new\rline.toml")
            .with_help("did you mean `\u{202e}x\t`?");
        assert_eq!(
            error.to_string(),
            "new\\rline.toml: two links `\\u{1b}[2J\\u{9b}a\\nb`\n  help: did you mean \
             `\\u{202e}x\\t`?"
        );
        assert_eq!(Escaped("größe 7 µs, 名前").to_string(), "größe 7 µs, 名前");
    }

    #[test]
    fn the_nearest_candidate_or_all_of_them_are_the_help() {
        let names = ["slow", "stall"];
        let help = |word| Diagnostic::new("x").with_suggestion(word, &names, "use one of").help;
        assert_eq!(help("slwo").as_deref(), Some("did you mean `slow`?"));
        assert_eq!(help("colour").as_deref(), Some("use one of slow, stall"));
    }

    #[test]
    fn messages_of_serde_speak_of_keys() {
        let shown = |message| Diagnostic::of_serde(message).to_string();
        assert_eq!(
            shown("unknown field `nmae`, expected one of `name`, `title`"),
            "unknown key `nmae`\n  help: did you mean `name`?"
        );
        let missing = "the key `title` is missing\n  help: add a line title = …";
        assert_eq!(shown("missing field `title`"), missing);
        assert_eq!(shown("expected u64\nat x"), "expected a whole number, at x");
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a = 1\nµ = \"x\"\n";
        let at = |byte| {
            let TextPosition { line, column } = TextPosition::of_byte(text, byte);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(5), (1, 6), "the newline belongs to its line");
        assert_eq!(at(6), (2, 1));
        assert_eq!(at(7), (2, 1), "within a character of two bytes");
        assert_eq!(at(8), (2, 2));
        assert_eq!(at(text.len()), (3, 1));
        assert_eq!(at(1000), (3, 1));
    }
}
