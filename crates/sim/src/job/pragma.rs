//! Pragmas: comments that ask for what fio cannot express.
//!
//! `; mirrorball: background=scrub rate=100MB/s` adds background work. `; mirrorball: counts=no`
//! within a section excludes the section from the score of a policy. `; mirrorball: replay=open`
//! says how a trace is replayed. To fio all are comments.
//! Every word of a pragma must be known: a mistyped one that was ignored would make an idle run
//! look like a loaded one.

use super::error::job_error;
use super::file;
use super::replay_draft::{self, ReplayPragma};
use super::spec::FileSpec;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::parse_rate;
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Pragma {
    Background(Background),
    /// Sets whether the section counts for the score.
    Counts(bool),
    /// Says how the section replays its trace.
    Replay(ReplayPragma),
    /// Puts a file between the section and the volume.
    File(FileSpec),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum BackgroundKind {
    /// Reads scattered extents and writes them in one run elsewhere.
    Defrag,
    /// Copies a member that is being rebuilt.
    Rebuild,
    /// Reads every copy of the volume.
    Scrub,
}

/// Background work: requests that belong to no section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Background {
    pub kind: BackgroundKind,
    /// Maximum bytes read per second; unlimited if `None`.
    pub rate_bytes_per_s: Option<u64>,
    /// The member to rebuild, or `None` for the last one. Only a rebuild has it.
    pub devid: Option<u64>,
    /// The system that rebuilds; gmirror if `None`. Only a rebuild has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilder: Option<Rebuilder>,
    /// Where it begins, in percent of the volume; at the start if `None`. Only a scrub has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_percent: Option<u8>,
    /// The line of the pragma, from one.
    #[serde(skip)]
    pub line: usize,
}

/// Systems whose rebuilds differ in what they have in flight, and in how they keep a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Rebuilder {
    /// 128 KiB at a time, two at once (`kern.geom.mirror.sync_requests`), evenly paced.
    Gmirror,
    /// 2 MiB at once (`RESYNC_DEPTH` times `RESYNC_BLOCK_SIZE`), and pauses of half a second
    /// whenever its mean rate is above the limit (`md_do_sync`).
    Md,
}

const REBUILDERS: [(&str, Rebuilder); 2] = [("gmirror", Rebuilder::Gmirror), ("md", Rebuilder::Md)];
const KINDS: [(&str, BackgroundKind); 3] = [
    ("defrag", BackgroundKind::Defrag),
    ("rebuild", BackgroundKind::Rebuild),
    ("scrub", BackgroundKind::Scrub),
];
pub(super) const WORDS: [&str; 8] =
    ["background", "rate", "devid", "as", "from", "counts", "replay", "file"];
/// Where to write a word that was taken for an option.
pub(super) fn help_for_option(word: &str) -> String {
    let example = match word {
        "counts" => "counts=no",
        "replay" => "replay=open",
        "file" => "file=sparse",
        _ => "background=scrub",
    };
    format!("write it in a comment on a line of its own, such as `; mirrorball: {example}`")
}

const EXAMPLE: &str = "write for example `; mirrorball: background=defrag rate=100MB/s`";

pub(super) fn parse(words: &str, line: usize) -> Result<Pragma, Diagnostic> {
    if words.split_whitespace().any(|word| word.starts_with("replay=")) {
        return replay_draft::parse_pragma(words).map(Pragma::Replay);
    }
    if words.split_whitespace().any(|word| word.starts_with("file=")) {
        return file::parse_pragma(words).map(Pragma::File);
    }
    let (mut kind, mut rate_bytes_per_s, mut devid, mut counts) = (None, None, None, None);
    let (mut from_percent, mut rebuilder) = (None, None);
    for word in words.replace(" =", "=").replace("= ", "=").split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let repeated = match key {
            "background" => kind.replace(parse_kind(value)?).is_some(),
            "rate" => rate_bytes_per_s.replace(parse_rate_of(value)?).is_some(),
            "devid" => devid.replace(parse_devid(value)?).is_some(),
            "as" => rebuilder.replace(parse_rebuilder(value)?).is_some(),
            "from" => from_percent.replace(parse_from(value)?).is_some(),
            "counts" => counts.replace(parse_counts(value)?).is_some(),
            _ => return Err(unknown("word", key, &WORDS)),
        };
        if repeated {
            return Err(job_error(format!("`{key}` is given twice"), "keep one of them"));
        }
    }
    if let Some(counts) = counts {
        let others = [rate_bytes_per_s.is_some(), devid.is_some(), from_percent.is_some()];
        if kind.is_some() || rebuilder.is_some() || others.contains(&true) {
            let help = "write `; mirrorball: counts=no` on its own line";
            return Err(job_error("`counts` cannot be combined with other words", help));
        }
        return Ok(Pragma::Counts(counts));
    }
    let kind =
        kind.ok_or_else(|| job_error("the `mirrorball:` comment has no `background=`", EXAMPLE))?;
    for (word, is_given) in [("devid", devid.is_some()), ("as", rebuilder.is_some())] {
        if is_given && kind != BackgroundKind::Rebuild {
            let error = format!("`{word}` is allowed only with `background=rebuild`");
            return Err(job_error(error, "remove it"));
        }
    }
    if from_percent.is_some() && kind != BackgroundKind::Scrub {
        return Err(job_error("`from` is allowed only with `background=scrub`", "remove it"));
    }
    Ok(Pragma::Background(Background {
        kind,
        rate_bytes_per_s,
        devid,
        rebuilder,
        from_percent,
        line,
    }))
}

fn parse_rebuilder(value: &str) -> Result<Rebuilder, Diagnostic> {
    let found = REBUILDERS.iter().find(|(name, _)| *name == value).map(|&(_, it)| it);
    found.ok_or_else(|| unknown("rebuilder", value, &REBUILDERS.map(|(name, _)| name)))
}

fn parse_from(value: &str) -> Result<u8, Diagnostic> {
    let percent = value.strip_suffix('%').and_then(|number| number.parse().ok());
    percent.filter(|percent| *percent < 100).ok_or_else(|| {
        job_error(format!("`from={value}` does not leave a part of the volume"), "write 0% to 99%")
    })
}

fn parse_counts(value: &str) -> Result<bool, Diagnostic> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(job_error(
            format!("`counts={value}` is neither yes nor no"),
            "write counts=yes or counts=no",
        )),
    }
}

fn parse_kind(value: &str) -> Result<BackgroundKind, Diagnostic> {
    let found = KINDS.iter().find(|(name, _)| *name == value).map(|&(_, kind)| kind);
    found.ok_or_else(|| unknown("background", value, &KINDS.map(|(name, _)| name)))
}

fn parse_rate_of(value: &str) -> Result<u64, Diagnostic> {
    let example = "write for example rate=100MB/s";
    let rate = parse_rate(value).map_err(|error| job_error(error.to_string(), example))?;
    if rate == 0 {
        return Err(job_error("`rate` is zero", "remove it for an unlimited rate"));
    }
    Ok(rate)
}

fn parse_devid(value: &str) -> Result<u64, Diagnostic> {
    value.parse().map_err(|_| {
        job_error(format!("`{value}` is not a devid"), "write a number, for example devid=2")
    })
}

fn unknown(what: &str, word: &str, known: &[&str]) -> Diagnostic {
    let help = match closest_name(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    job_error(format!("unknown {what} `{word}` in a `mirrorball:` comment"), help)
}
