//! Output to the terminal: plain or coloured text on stdout, and when; and notes on stderr.

use crate::ending::Failure;
use anyhow::Context;
use mirrorball_core::diagnostic::Escaped;
use mirrorball_lab::report::{ColourMode, Style, command_lines, whole_phrases, whole_words};
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};
use terminal_size::terminal_size_of;

/// Narrower than this nothing can be shown in columns.
const WIDTH_MIN: usize = 40;

/// Colours only on a terminal that has them, and never against `NO_COLOR` (no-color.org). As wide
/// as `COLUMNS` says, else as the terminal is, else as a file.
pub(crate) fn style() -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    let has_colours = stdout().is_terminal() && !refused && !dumb;
    Style {
        ink: if has_colours { ColourMode::Coloured } else { ColourMode::Plain },
        width_columns: width_columns().unwrap_or(Style::FILE.width_columns),
    }
}

/// How wide lines may be: as `COLUMNS` says, else as the terminal is; `None` if neither is known.
pub(crate) fn width_columns() -> Option<usize> {
    let terminal = || terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0));
    Some(columns_asked().or_else(terminal)?.max(WIDTH_MIN))
}

fn columns_asked() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|value| value.parse().ok())
}

/// Notes that [`say_later`] keeps.
static LATER: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a note for stderr until the answer is on stdout, or the program ends: the answer is what
/// users read first.
pub(crate) fn say_later(line: impl Display) {
    LATER.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_string());
}

pub(crate) fn say_kept() {
    let kept = std::mem::take(&mut *LATER.lock().unwrap_or_else(PoisonError::into_inner));
    kept.iter().for_each(say);
}

/// An answer as JSON.
pub(crate) fn json(answer: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(answer).expect("an answer is plain data") + "\n"
}

/// Writes to stdout, then the notes that were kept. A reader that has seen enough (`| head`) is no
/// failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let written = write(text).map(|_| ());
    say_kept();
    written
}

/// Writes a line to stdout at once. Returns false if the reader has seen enough.
pub(crate) fn print_line(line: &str) -> Result<bool, Failure> {
    write(&format!("{line}\n"))
}

fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout").map_err(Failure::Fault)
        }
        result => Ok(result.is_ok()),
    }
}

/// Breaks lines that are wider than the terminal, and indents what follows a break; as they are if
/// no width is known.
pub(crate) fn broken(text: &str) -> String {
    width_columns().map_or_else(|| text.to_owned(), |columns| broken_at(text, columns))
}

fn broken_at(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        if line.chars().count() <= columns {
            return line.to_owned();
        }
        let indent = line.len() - line.trim_start().len();
        let hanging = format!("\n{:1$}", "", indent + 4);
        if line.starts_with("  ") && line.trim_start().starts_with("mirrorball ") {
            let (command, remark) = line.trim_start().split_once("  # ").unwrap_or((line, ""));
            // A backslash behind each line but the last, and a sign in front of a remark.
            let width = columns.saturating_sub(indent + 6);
            let command = command_lines(command.trim_start(), width);
            let command = command.join(&format!(" \\{hanging}"));
            let remark = whole_words(remark, width).into_iter().filter(|it| !it.is_empty());
            let remark: String = remark.map(|it| format!("{hanging}# {it}")).collect();
            return format!("{:indent$}{command}{remark}", "");
        }
        // What users copy, such as a UUID or a command in backticks, stays whole.
        let parts = whole_phrases(line.trim_start(), columns.saturating_sub(indent + 4));
        format!("{:indent$}{}", "", parts.join(&hanging))
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    lines.join("\n")
}

/// Writes a line to stderr, broken as wide as the terminal there is; the only way there, for
/// `eprintln!` panics if stderr is closed, and what a command does and how it ends must not depend
/// on that.
///
/// Names and paths in it may hold any character, so control characters are escaped: on a terminal
/// they could colour, move or erase text.
pub(crate) fn say(line: impl Display) {
    let text = escaped(&line.to_string());
    let terminal = || terminal_size_of(stderr()).map(|(width, _)| usize::from(width.0));
    let columns = columns_asked().or_else(terminal).map(|columns| columns.max(WIDTH_MIN));
    let text = columns.map_or_else(|| text.clone(), |columns| broken_at(&text, columns));
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}

/// The text without control characters other than line ends and tabs. Labels and services, which
/// others wrote, may have any in a name.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for part in text.split_inclusive(['\n', '\t']) {
        let end = part.strip_suffix(['\n', '\t']).map_or(part.len(), str::len);
        escaped += &Escaped(&part[..end]).to_string();
        escaped += &part[end..];
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{broken_at, escaped};

    #[test]
    fn long_lines_are_broken_and_indented() {
        let text = "one: two three four\n  devid 1: a disk of a model\n\nshort\n";
        let expected = "one: two\n    three\n    four\n  devid\n      1: a\n      disk\n      \
                        of a\n      model\n\nshort\n";
        assert_eq!(broken_at(text, 12), expected);
        assert_eq!(broken_at(text, 80), text);
        let copied = "UUID 8162d8f0-c7c2 of `a b c d`";
        assert_eq!(broken_at(copied, 13), "UUID\n    8162d8f0-c7c2\n    of\n    `a b c d`");
        let long = "put `echo 'a b c d' > /sys/x` there";
        let expected = "put\n    `echo 'a b c d' \\\n    > /sys/x`\n    there";
        assert_eq!(broken_at(long, 18), expected, "a shell joins the lines of a command");
        let command = "name one:\n  mirrorball advise 'a b' --sysroot data  # md of two disks";
        let expected = "name one:\n  mirrorball advise \\\n      'a b' --sysroot \\\n      \
                        data\n      # md of two disks";
        assert_eq!(broken_at(command, 25), expected, "a shell joins its lines");
    }

    #[test]
    fn control_characters_are_escaped_but_lines_and_tabs_stay() {
        let text = "no file `x\u{1b}[31m\r`\n\thint: \u{202e}y\n";
        assert_eq!(escaped(text), "no file `x\\u{1b}[31m\\r`\n\thint: \\u{202e}y\n");
        assert_eq!(escaped(""), "");
        assert_eq!(escaped("größer\n\n2"), "größer\n\n2");
    }
}
