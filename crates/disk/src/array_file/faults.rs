//! The `fault = [...]` list of a member.
//!
//! Each entry is one fault. One of its keys names its kind; a table has the kinds with the other
//! keys that each allows.

use super::reader::TomlSection;
use crate::fault::{Fault, FaultWindow};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{format_bytes, parse_bytes, parse_duration};

/// A kind of fault: the key that names it, the other keys that it allows, and its reader.
struct FaultKind {
    word: &'static str,
    others: &'static [&'static str],
    read: fn(&TomlSection<'_>) -> Result<Fault, Diagnostic>,
}

const WINDOW: &[&str] = &["from", "until"];

const KINDS: [FaultKind; 5] = [
    FaultKind { word: "slow", others: WINDOW, read: read_slow },
    FaultKind { word: "stall", others: &["at"], read: read_stall },
    FaultKind { word: "error_rate", others: WINDOW, read: read_errors },
    FaultKind { word: "bad", others: &[], read: read_bad },
    FaultKind { word: "dead", others: WINDOW, read: read_dead },
];

/// Reads the faults of a member of `size_bytes` (unknown for a real one).
pub(super) fn read_faults(
    member: &TomlSection<'_>,
    size_bytes: u64,
) -> Result<Vec<Fault>, Diagnostic> {
    let mut faults = Vec::new();
    for entry in member.tables("fault", "a fault")? {
        let fault = read_fault(&entry)?;
        if let Fault::Bad { offset, length } = fault
            && offset.saturating_add(length) > size_bytes
        {
            let message = format!(
                "the bad range ends after the end of the member, which has {}",
                format_bytes(size_bytes)
            );
            return Err(entry.error_at("bad", message).with_help("reduce `offset` or `length`"));
        }
        faults.push(fault);
    }
    Ok(faults)
}

fn read_fault(entry: &TomlSection<'_>) -> Result<Fault, Diagnostic> {
    let words = KINDS.map(|kind| kind.word);
    let Some(word) = entry.one_of(&words)? else {
        // A mistyped word is more likely than an empty entry.
        let mut all: Vec<&str> = words.to_vec();
        for other in KINDS.iter().flat_map(|kind| kind.others) {
            if !all.contains(other) {
                all.push(other);
            }
        }
        let help = "one of slow, stall, error_rate, bad, dead, with `from` and `until` or `at`; \
                    write for example fault = [{ slow = 4.0, from = \"10s\" }]";
        entry.allow_only(&all).map_err(|error| match &error.help {
            Some(text) if text.starts_with("did you mean") => error,
            _ => error.with_help(help),
        })?;
        let help = format!("add one of {}", words.join(", "));
        return Err(entry.error("the fault has no kind").with_help(help));
    };
    let kind = KINDS.iter().find(|kind| kind.word == word).expect("a word of the table");
    entry.allow_only(&[&[kind.word], kind.others].concat())?;
    (kind.read)(entry)
}

fn read_slow(entry: &TomlSection<'_>) -> Result<Fault, Diagnostic> {
    let factor = entry.number("slow")?.unwrap_or_default();
    if !(1.0..=1e6).contains(&factor) {
        let message = format!("`slow` is {factor}, but must be a factor from 1 to 1000000");
        return Err(entry.error_at("slow", message).with_help("4.0 takes four times as long"));
    }
    Ok(Fault::Slow { factor_milli: (factor * 1000.0).round() as u64, during: read_window(entry)? })
}

fn read_stall(entry: &TomlSection<'_>) -> Result<Fault, Diagnostic> {
    let length = entry.quantity("stall", parse_duration)?.unwrap_or_default();
    let Some(at) = entry.quantity("at", parse_duration)? else {
        let help = "for example { stall = \"2s\", at = \"30s\" }";
        return Err(entry.error("`stall` needs `at`, the time when it begins").with_help(help));
    };
    Ok(Fault::Stall { at, length })
}

fn read_errors(entry: &TomlSection<'_>) -> Result<Fault, Diagnostic> {
    let rate = entry.number("error_rate")?.unwrap_or_default();
    if !(0.0..=1.0).contains(&rate) {
        let message = format!("`error_rate` is {rate}, but must be a probability from 0 to 1");
        let help = "0.01 fails one request in a hundred";
        return Err(entry.error_at("error_rate", message).with_help(help));
    }
    Ok(Fault::Errors { rate, during: read_window(entry)? })
}

fn read_bad(entry: &TomlSection<'_>) -> Result<Fault, Diagnostic> {
    let range = entry.table("bad", "`bad`")?.expect("the key is there");
    range.allow_only(&["offset", "length"])?;
    let offset = range.quantity("offset", parse_bytes)?;
    let length = range.quantity("length", parse_bytes)?;
    match (offset, length) {
        (Some(offset), Some(length)) => Ok(Fault::Bad { offset, length }),
        _ => {
            let help = "for example { bad = { offset = \"1GiB\", length = \"64K\" } }";
            Err(range.error("`bad` needs `offset` and `length`").with_help(help))
        }
    }
}

fn read_dead(entry: &TomlSection<'_>) -> Result<Fault, Diagnostic> {
    if entry.flag("dead")? != Some(true) {
        let error = entry.error_at("dead", "`dead` must be true in a fault");
        return Err(error.with_help("remove the entry"));
    }
    Ok(Fault::Dead { during: read_window(entry)? })
}

/// Reads `from` and `until`. The defaults are the start of the run and never.
fn read_window(entry: &TomlSection<'_>) -> Result<FaultWindow, Diagnostic> {
    let from = entry.quantity("from", parse_duration)?.unwrap_or(FaultWindow::ALWAYS.from);
    let until = entry.quantity("until", parse_duration)?.unwrap_or(FaultWindow::ALWAYS.until);
    if until <= from {
        let message = format!("the fault ends at {until}, before it begins at {from}");
        return Err(entry.error_at("until", message).with_help("give a later `until`"));
    }
    Ok(FaultWindow { from, until })
}
