//! One line per cell, section of its job and kind of requests, for spreadsheets and plots.
//!
//! `requests` is `read`, `write`, `trim` or `fsync`: a section has a line for each kind that it
//! made. A latency that an imported result lacks is empty, and so is a score that needs it. `score`
//! is that of the whole cell, by which policies are ranked. Where several sets stand
//! side by side, a column `set` in front names each. `share_by_devid` (`devid:fraction` for each
//! member, joined by semicolons) and `extra_reads` (member reads that were not needed, because
//! another mirror had answered before) are of the whole cell too, and so is `cancelled_reads`
//! (member reads of a race that were withdrawn before the member began them). Quoting follows RFC
//! 4180; lines end in a bare newline, as tools on Unix expect.

use super::{Findings, Style};
use crate::experiment::record::{DirectionRecord, IoKind, MemberRecord, SectionRecord};
use crate::experiment::study::{CellSummary, JobStudy, Study};

const COLUMNS: &str = "array,job,section,requests,policy,seed,iops,mib_per_s,mean_us,p50_us,\
                       p99_us,p99_9_us,p99_99_us,errors,score,share_by_devid,extra_reads,\
                       cancelled_reads";

pub(super) fn render(findings: &Findings<'_>, _style: Style) -> String {
    let several = findings.sets.len() > 1;
    let mut text = format!("{}{COLUMNS}\n", if several { "set," } else { "" });
    for (label, study) in findings.labelled() {
        let set = label.map_or(String::new(), |label| quoted(label) + ",");
        for cell in &study.cells {
            for line in lines(study, cell) {
                text += &format!("{set}{line}\n");
            }
        }
    }
    text
}

fn lines(study: &Study, cell: &CellSummary) -> Vec<String> {
    let mut lines = Vec::new();
    let is_lacking = |job: &JobStudy| job.job == cell.identity.job && job.lacks_latencies;
    let is_scored = !study.jobs.iter().any(is_lacking);
    for section in &cell.run.sections {
        let made = IoKind::ALL.into_iter().filter(|&kind| !section.direction(kind).is_idle());
        let mut made: Vec<IoKind> = made.collect();
        if made.is_empty() {
            // A line of zeros shows that nothing was done.
            made.push(study.main_kind(&cell.identity.job, &section.name).unwrap_or(IoKind::Read));
        }
        lines.extend(made.into_iter().map(|kind| line(cell, section, kind, is_scored)));
    }
    lines
}

fn line(cell: &CellSummary, section: &SectionRecord, kind: IoKind, is_scored: bool) -> String {
    let requests = section.direction(kind);
    let DirectionRecord { errors, iops, mib_per_s, percentiles, .. } = requests;
    // Where no request succeeded, there is no latency; an imported result may lack it.
    let micros = |ns: u64, lacks: bool| match *iops > 0.0 && !lacks {
        true => format!("{:.1}", ns as f64 / 1e3),
        false => String::new(),
    };
    let percentile = |ns: u64| micros(ns, requests.lacks_percentiles());
    let CellSummary { identity, score, run } = cell;
    let share = |member: &MemberRecord| format!("{}:{:.4}", member.devid, member.share);
    let shares: Vec<String> = run.members.iter().map(share).collect();
    let fields = [
        quoted(&identity.array),
        quoted(&identity.job),
        quoted(&section.name),
        kind.name().to_owned(),
        quoted(&identity.policy),
        identity.seed.to_string(),
        format!("{iops:.3}"),
        format!("{mib_per_s:.3}"),
        micros(percentiles.mean_ns, requests.lacks_mean()),
        percentile(percentiles.p50_ns),
        percentile(percentiles.p99_ns),
        percentile(percentiles.p99_9_ns),
        percentile(percentiles.p99_99_ns),
        errors.to_string(),
        if is_scored { format!("{score:.3}") } else { String::new() },
        shares.join(";"),
        run.sum_of_members(|member| member.extra_reads).to_string(),
        run.sum_of_members(|member| member.cancelled_reads).to_string(),
    ];
    fields.join(",")
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_with_commas_and_quotes_are_quoted() {
        assert_eq!(super::quoted("plain"), "plain");
        assert_eq!(super::quoted("a,b"), "\"a,b\"");
        assert_eq!(super::quoted("6\" disks"), "\"6\"\" disks\"");
    }
}
