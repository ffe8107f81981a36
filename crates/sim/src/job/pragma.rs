//! Comments that ask for work fio has no word for: `; mirrorball: background=scrub rate=100MB/s`.
//!
//! To fio they are comments. Here every word must be known: a mistyped one that vanished would make
//! an idle run pass for a loaded one.

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::parse_rate;

/// The kinds of work beside the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackgroundKind {
    /// Reads scattered extents and writes them in one run elsewhere.
    Defrag,
    /// Copies a member that is being rebuilt.
    Rebuild,
    /// Reads every copy of the volume.
    Scrub,
}

/// Work beside the jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Background {
    /// What is done.
    pub kind: BackgroundKind,
    /// At most so many bytes a second are read; unlimited if `None`.
    pub rate_bytes_per_s: Option<u64>,
    /// The member to rebuild, or `None` for the last one. Only a rebuild has it.
    pub devid: Option<u64>,
    /// The line of the pragma, from one.
    pub line: usize,
}

const KINDS: [(&str, BackgroundKind); 3] = [
    ("defrag", BackgroundKind::Defrag),
    ("rebuild", BackgroundKind::Rebuild),
    ("scrub", BackgroundKind::Scrub),
];
const WORDS: [&str; 3] = ["background", "rate", "devid"];
const EXAMPLE: &str = "write for example `; mirrorball: background=defrag rate=100MB/s`";

/// Reads the words of a pragma.
pub(super) fn parse(words: &str, line: usize) -> Result<Background, Diagnostic> {
    let (mut kind, mut rate_bytes_per_s, mut devid) = (None, None, None);
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let repeated = match key {
            "background" => kind.replace(parse_kind(value)?).is_some(),
            "rate" => rate_bytes_per_s.replace(parse_rate_of(value)?).is_some(),
            "devid" => devid.replace(parse_devid(value)?).is_some(),
            _ => return Err(unknown("word", key, &WORDS)),
        };
        if repeated {
            return Err(job_error(format!("`{key}` stands twice"), "give each pragma one"));
        }
    }
    let kind = kind.ok_or_else(|| job_error("a pragma without `background=`", EXAMPLE))?;
    if devid.is_some() && kind != BackgroundKind::Rebuild {
        return Err(job_error("`devid` is for a rebuild", "remove it"));
    }
    Ok(Background { kind, rate_bytes_per_s, devid, line })
}

fn parse_kind(value: &str) -> Result<BackgroundKind, Diagnostic> {
    let found = KINDS.iter().find(|(name, _)| *name == value).map(|&(_, kind)| kind);
    found.ok_or_else(|| unknown("background", value, &KINDS.map(|(name, _)| name)))
}

fn parse_rate_of(value: &str) -> Result<u64, Diagnostic> {
    let rate = parse_rate(value).map_err(|error| job_error(error.to_string(), EXAMPLE))?;
    if rate == 0 {
        return Err(job_error("`rate` is zero", "leave it out for an unlimited rate"));
    }
    Ok(rate)
}

fn parse_devid(value: &str) -> Result<u64, Diagnostic> {
    value.parse().map_err(|_| job_error(format!("`{value}` is not a devid"), "write devid=2"))
}

fn unknown(what: &str, word: &str, known: &[&str]) -> Diagnostic {
    let help = match closest_name(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    job_error(format!("unknown {what} `{word}` in a `mirrorball:` comment"), help)
}
