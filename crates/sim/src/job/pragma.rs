//! Pragmas: comments that ask for what fio cannot express.
//!
//! `; mirrorball: background=scrub rate=100MB/s` adds background work. `; mirrorball: counts=no`
//! within a section excludes the section from the score of a policy. `; mirrorball: replay=open`
//! says how a trace is replayed. To fio all are comments.
//! Every word of a pragma must be known: a mistyped one that was ignored would make an idle run
//! look like a loaded one.

use super::error::job_error;
use super::file;
use super::pragma_words::{YES_NO, one_of, words};
use super::replay_draft::{self, ReplayPragma};
use super::spec::FileSpec;
use mirrorball_core::diagnostic::Diagnostic;
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

pub(super) fn parse(text: &str, line: usize) -> Result<Pragma, Diagnostic> {
    let text = text.replace(" =", "=").replace("= ", "=");
    if text.split_whitespace().any(|word| word.starts_with("replay=")) {
        return replay_draft::parse_pragma(&text).map(Pragma::Replay);
    }
    if text.split_whitespace().any(|word| word.starts_with("file=")) {
        return file::parse_pragma(&text).map(Pragma::File);
    }
    let words = words(&text, &WORDS)?;
    let value = |key: &str| words.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    if let Some(counts) = value("counts") {
        if words.len() > 1 {
            let help = "write `; mirrorball: counts=no` on its own line";
            return Err(job_error("`counts` cannot be combined with other words", help));
        }
        return one_of("value of counts", counts, &YES_NO).map(Pragma::Counts);
    }
    let kind = value("background")
        .ok_or_else(|| job_error("the `mirrorball:` comment has no `background=`", EXAMPLE))?;
    for (word, only) in [("devid", "rebuild"), ("as", "rebuild"), ("from", "scrub")] {
        if value(word).is_some() && kind != only {
            let error = format!("`{word}` is allowed only with `background={only}`");
            return Err(job_error(error, "remove it"));
        }
    }
    let rebuilder = value("as").map(|name| one_of("rebuilder", name, &REBUILDERS));
    Ok(Pragma::Background(Background {
        kind: one_of("background", kind, &KINDS)?,
        rate_bytes_per_s: value("rate").map(parse_rate_of).transpose()?,
        devid: value("devid").map(parse_devid).transpose()?,
        rebuilder: rebuilder.transpose()?,
        from_percent: value("from").map(parse_from).transpose()?,
        line,
    }))
}

fn parse_from(value: &str) -> Result<u8, Diagnostic> {
    let percent = value.strip_suffix('%').and_then(|number| number.parse().ok());
    percent.filter(|percent| *percent < 100).ok_or_else(|| {
        job_error(format!("`from={value}` does not leave a part of the volume"), "write 0% to 99%")
    })
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
