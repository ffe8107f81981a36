//! Jobs that fio reports together.
//!
//! With `group_reporting` fio adds up the jobs of a group, and prints the name of the first with
//! the options of the last (fio 3.33). It does not say so, and the option itself is not repeated:
//! the options are contradicted by the name or by the requests that were made.

use super::document::{Document, FioJob, Options};
use super::job_text;
use crate::experiment::record::{DirectionRecord, IoKind, SectionRecord};
use mirrorball_core::units::parse_bytes;
use mirrorball_sim::job::Declared;

/// Part by which a mean size may differ from the size that the options say: requests at the end of
/// a file are short.
const SIZE_MARGIN: f64 = 0.1;
/// Part by which a rate may be more than the options say.
const RATE_MARGIN: f64 = 0.05;

/// True if the options of `job` are not those of all requests of `section`.
pub(super) fn are_of_several(document: &Document, job: &FioJob, section: &SectionRecord) -> bool {
    let options = [&job.options, &document.global_options];
    // The first clone has the name that is given, the others that of the section.
    let is_clone = |it: &FioJob, name: &str| it.jobname == name && it.options == job.options;
    let is_named =
        |name: &str| *name != job.jobname && !document.jobs.iter().any(|it| is_clone(it, name));
    let has_other_name = value(&options[..1], &["name"]).is_some_and(is_named);
    // A log has its own kinds of requests, and what is verified is read.
    let has_others = value(&options, &["read_iolog", "verify"]).is_some();
    let kinds = value(&options, &["rw", "readwrite"]).unwrap_or("read");
    let made = IoKind::SCORED.iter().map(|&kind| (kind, section.direction(kind)));
    let mut made = made.filter(|(_, direction)| direction.ios > 0);
    let declared = Declared::of_text(&job_text::of_job(document, job));
    let asked_iops = declared.first().and_then(|(_, declared)| declared.asked_iops);
    has_other_name
        || made.clone().any(|(kind, _)| !has_others && !has_kind(kinds, kind))
        || made.clone().any(|(_, direction)| is_of_other_size(&options, direction))
        || made.next().zip(asked_iops).is_some_and(|((_, direction), asked)| {
            let asked = asked * section.measured.as_secs_f64();
            direction.ios as f64 - asked > (RATE_MARGIN * asked).max(3.0 * asked.sqrt())
        })
}

/// The value of an option, by any of its names, where it is given first.
fn value<'a>(options: &[&'a Options], names: &[&str]) -> Option<&'a str> {
    let given = |options: &&'a Options| names.iter().find_map(|name| options.get(*name)?.as_str());
    options.iter().find_map(given)
}

/// Whether a value of `rw` has requests of a kind.
fn has_kind(rw: &str, kind: IoKind) -> bool {
    let rw = rw.split(':').next().unwrap_or(rw);
    let is_mixed = rw.ends_with("rw");
    match kind {
        IoKind::Read => is_mixed || rw.contains("read"),
        IoKind::Write => is_mixed || rw.contains("write"),
        IoKind::Trim => rw.contains("trim"),
        IoKind::Fsync => true,
    }
}

/// Whether the requests have another mean size than the one size that the options say.
fn is_of_other_size(options: &[&Options], direction: &DirectionRecord) -> bool {
    let varies = ["bssplit", "bsrange", "blocksize_range", "read_iolog", "bs_unaligned"];
    let text = value(options, &["bs", "blocksize"]).unwrap_or("4k");
    match parse_bytes(&text.to_uppercase()) {
        Ok(bytes) if value(options, &varies).is_none() => {
            let mean = direction.bytes as f64 / direction.ios as f64;
            (mean / bytes as f64 - 1.0).abs() > SIZE_MARGIN
        }
        _ => false,
    }
}
