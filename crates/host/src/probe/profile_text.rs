//! Writes what a probe found as a model profile.
//!
//! Intervals, origins and the comparison with what was measured are comments, so that every reader
//! of profiles takes the file.

use super::estimate::{Notation, ParameterEstimate};
use super::outcome::{ProbeOutcome, ProbeVerdict};
use mirrorball_core::units::format_bytes;
use std::fmt::Write;

/// Column in which comments begin, where the value is shorter.
const COMMENT_COLUMN: usize = 36;

impl ProbeOutcome {
    /// The profile as TOML, for `model = "disk.toml"` in an array file.
    pub fn profile_text(&self) -> String {
        write(self)
    }
}

fn write(outcome: &ProbeOutcome) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# Written by `mirrorball probe`: {}", one_line(&outcome.target));
    text.push_str(&verdict_lines(&outcome.verdict));
    for note in &outcome.notes {
        let _ = writeln!(text, "# Note: {}", one_line(note));
    }
    let name = file_stem(&outcome.target);
    let _ = writeln!(text, "name = \"{name}\"");
    let size = format_bytes(outcome.capacity_bytes);
    let _ = writeln!(text, "summary = \"{name} as measured by `mirrorball probe`, {size}\"");
    let _ = writeln!(text, "kind = \"{}\"", outcome.kind);
    let _ = writeln!(text, "capacity = {}", outcome.capacity_bytes);
    let _ = writeln!(text, "\n[parameters]");
    for parameter in &outcome.parameters {
        let assignment = format!("{} = {}", parameter.name, parameter.text);
        let comment = comment(parameter);
        let _ = match assignment.len() + comment.len() > 95 {
            true => writeln!(text, "# {comment}\n{assignment}"),
            false => writeln!(text, "{assignment:COMMENT_COLUMN$}# {comment}"),
        };
    }
    text.push_str(&link_lines(outcome));
    text.push_str(&workload_lines(outcome));
    text
}

/// The link, which belongs into the array file.
fn link_lines(outcome: &ProbeOutcome) -> String {
    let Some(link) = &outcome.link else { return String::new() };
    let rate = link.read_rate.unwrap_or(u64::MAX) as f64;
    let write = |name: &str, value: String| format!("#   {name} = {value}\n");
    let mut text = String::from(
        "\n# The link before it belongs into the array file, and `link = \"network\"` into the \
         member:\n#   [[link]]\n",
    );
    text += &write("name", format!("\"{}\"", link.name));
    text += &write("latency", Notation::Duration.write(link.latency.as_secs_f64()));
    text += &write("jitter", Notation::Duration.write(link.jitter.as_secs_f64()));
    text += &write("read", Notation::Rate.write(rate));
    text
}

/// `measured, 7199 to 7201: remark`.
fn comment(parameter: &ParameterEstimate) -> String {
    let bare = |text: &str| text.trim_matches('"').to_owned();
    let interval = parameter.interval.as_ref();
    let interval = interval.map(|(low, high)| format!(", {} to {}", bare(low), bare(high)));
    let note = match parameter.note.as_str() {
        "" => String::new(),
        note => format!(": {note}"),
    };
    format!("{}{}{note}", parameter.origin.name(), interval.unwrap_or_default())
}

fn verdict_lines(verdict: &ProbeVerdict) -> String {
    let (word, reasons): (&str, &[String]) = match verdict {
        ProbeVerdict::Good => ("good", &[]),
        ProbeVerdict::UsableForRanking(reasons) => ("usable for ranking", reasons),
        ProbeVerdict::Late(reasons) => ("usable for ranking, doubtful", reasons),
        ProbeVerdict::Doubtful(reasons) => ("doubtful", reasons),
    };
    let mut text = format!("# Verdict: {word}\n");
    for reason in reasons {
        let _ = writeln!(text, "#   {}", one_line(reason));
    }
    text
}

fn workload_lines(outcome: &ProbeOutcome) -> String {
    if outcome.workloads.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n# Distance between the latencies measured and those of this model (demerit), and its \
         floor:\n# what chance alone gives. Both as a share of the mean.\n",
    );
    for workload in &outcome.workloads {
        let held_out = if workload.is_held_out { " (held out)" } else { "" };
        let _ = writeln!(
            text,
            "#   {:28} {:5.1} %, floor {:4.1} %, IOPS {:+.1} %",
            format!("{}{held_out}", workload.name),
            100.0 * workload.demerit_of_mean(),
            100.0 * workload.floor_of_mean(),
            100.0 * workload.iops_error()
        );
    }
    text
}

/// The target as a name: its last part, without what a name may not hold.
fn file_stem(target: &str) -> String {
    let last = target.trim_end_matches('/').rsplit('/').next().unwrap_or(target);
    let keep = |it: char| if it.is_ascii_alphanumeric() || "-_.".contains(it) { it } else { '-' };
    last.chars().map(keep).collect()
}

/// The text without control characters, which would end a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}
