//! The words of pragmas, and the values that are words.

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::did_you_mean;

/// Values of a word that is on or off.
pub(super) const YES_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

/// The words of a pragma, `key=value`, each of which is known and given once.
pub(super) fn words<'a>(
    text: &'a str,
    known: &[&str],
) -> Result<Vec<(&'a str, &'a str)>, Diagnostic> {
    let mut words: Vec<(&str, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if !known.contains(&key) {
            return Err(unknown("word", key, known));
        }
        if words.iter().any(|(other, _)| *other == key) {
            return Err(job_error(format!("`{key}` is given twice"), "keep one of them"));
        }
        words.push((key, value));
    }
    Ok(words)
}

/// The meaning of one of several values.
pub(super) fn one_of<T: Copy>(
    what: &str,
    value: &str,
    known: &[(&str, T)],
) -> Result<T, Diagnostic> {
    let found = known.iter().find(|(name, _)| *name == value).map(|&(_, meaning)| meaning);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| unknown(what, value, &names))
}

fn unknown(what: &str, word: &str, known: &[&str]) -> Diagnostic {
    let help = did_you_mean(word, known.iter().copied());
    let help = help.unwrap_or_else(|| format!("known are {}", known.join(", ")));
    job_error(format!("unknown {what} `{word}` in a `mirrorball:` comment"), help)
}
