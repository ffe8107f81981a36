//! Contents of one line of a job file: nothing, a section, an include, an option or a pragma.
//!
//! As fio 3.33 has it: `;` and `#` begin a comment anywhere in a line, blanks before a line and
//! before `=` do not count, and blanks *after* `=` are a part of the value.

use super::error::job_error;
use super::pragma;
use mirrorball_core::diagnostic::{Diagnostic, Escaped};
use mirrorball_core::suggest::closest_name;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content<'a> {
    /// Blank or a comment.
    Nothing,
    /// `[name]`.
    Section(&'a str),
    /// `include path`.
    Include(&'a str),
    /// `name=value` or `name`.
    Option(Line<'a>),
    /// The words after `; mirrorball:`.
    Pragma(&'a str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) value: Option<&'a str>,
}

const COMMENT: [char; 2] = [';', '#'];
/// The section that holds defaults for the jobs below it.
pub(super) const GLOBAL: &str = "global";
const PRAGMA: &str = "mirrorball:";

/// Reads one line, without its line end.
pub(super) fn content(line: &str) -> Result<Content<'_>, Diagnostic> {
    let line = line.trim();
    let (text, comment) = match line.find(COMMENT) {
        Some(at) => (line[..at].trim_end(), line[at..].trim_start_matches(COMMENT).trim_start()),
        None => (line, ""),
    };
    if let Some(beginning) = misspelt_pragma(comment) {
        let message = format!("`{beginning}` does not begin a `mirrorball:` comment");
        return Err(job_error(message, format!("did you mean `; {PRAGMA}`?")));
    }
    if let Some(words) = comment.strip_prefix(PRAGMA) {
        return if text.is_empty() {
            Ok(Content::Pragma(words.trim()))
        } else {
            Err(job_error("a `mirrorball:` comment after an option", "put it on a line of its own"))
        };
    }
    match text.as_bytes().first() {
        None => Ok(Content::Nothing),
        Some(b'[') => section(text),
        Some(_) => option(text),
    }
}

/// Returns the beginning of a comment that looks like [`PRAGMA`] without being it: in other
/// letters, with a blank before the colon, or without the colon before a word of a pragma.
/// Punctuation in the word and behind it does not count.
fn misspelt_pragma(comment: &str) -> Option<&str> {
    if comment.starts_with(PRAGMA) {
        return None;
    }
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let end = comment.find(|c: char| !in_word(c)).unwrap_or(comment.len());
    let (word, rest) = comment.split_at(end);
    let name = PRAGMA.trim_end_matches(':');
    // Shorter words, such as `mirror`, are words of their own.
    let letters = word.to_lowercase().replace(['-', '_'], "");
    if letters.len() + 2 < name.len() {
        return None;
    }
    closest_name(&letters, [name])?;
    let blanks = rest.len() - rest.trim_start().len();
    if rest.trim_start().starts_with(':') {
        return Some(&comment[..end + blanks + 1]);
    }
    let next = rest.trim_start_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation());
    let (key, _) = next.split_once('=')?;
    pragma::WORDS.contains(&key.trim_end()).then_some(word)
}

fn section(text: &str) -> Result<Content<'_>, Diagnostic> {
    // Of `[name]x` fio cuts the last character.
    let closed = text[1..].strip_suffix(']').or_else(|| Some(text[1..].split_once(']')?.0));
    match closed.map(str::trim) {
        Some(name) if name.starts_with(GLOBAL) && name != GLOBAL => Err(job_error(
            format!("fio would read [{name}] as [{GLOBAL}], because its name begins so"),
            "rename the section",
        )),
        None => {
            Err(job_error(format!("`{text}` has no closing `]`"), "write a section line as [name]"))
        }
        Some("") => Err(job_error("the section has no name", "write a section line as [name]")),
        Some(name) if name.contains(Escaped::is_invisible) => Err(job_error(
            format!("the name of the section [{name}] contains characters that do not print"),
            "use printable characters",
        )),
        Some(name) => Ok(Content::Section(name)),
    }
}

fn option(text: &str) -> Result<Content<'_>, Diagnostic> {
    let include = text.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t', '=']));
    if let Some(path) = include {
        return Ok(Content::Include(path.trim_start_matches('=').trim()));
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.trim_end(), Some(value)),
        None => (text, None),
    };
    if name.is_empty() {
        let help = "write NAME=VALUE, such as bs=4k";
        return Err(job_error("the name of the option is missing", help));
    }
    Ok(Content::Option(Line { name, value }))
}
