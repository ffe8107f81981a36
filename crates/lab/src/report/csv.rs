//! One line per cell, for spreadsheets and plots.
//!
//! Rates and latencies are those of all the job's reads (of its writes, if it reads nothing). With
//! several sets, the first column `set` names each. `share_by_devid` is `devid:fraction` for each
//! member, joined by semicolons. `extra_reads` counts redundant member reads, whose answer came
//! after another mirror's. Quoting follows RFC 4180; lines end in a bare newline, as tools on Unix
//! expect.

use super::{Findings, Style};
use crate::experiment::study::CellSummary;

const COLUMNS: &str = "array,job,policy,seed,iops,mib_per_s,mean_us,p50_us,p99_us,p99_9_us,\
                       p99_99_us,share_by_devid,extra_reads";

pub(super) fn render(findings: &Findings<'_>, _style: Style) -> String {
    let several = findings.sets.len() > 1;
    let mut text = format!("{}{COLUMNS}\n", if several { "set," } else { "" });
    for (label, study) in findings.labelled() {
        let set = label.map_or(String::new(), |label| quoted(label) + ",");
        for cell in &study.cells {
            text += &format!("{set}{}\n", line(cell));
        }
    }
    text
}

fn line(cell: &CellSummary) -> String {
    let figures = cell.main_figures();
    let latencies = figures.percentiles;
    let micros = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let shares: Vec<String> =
        cell.shares.iter().map(|part| format!("{}:{:.4}", part.devid, part.share)).collect();
    let fields = [
        quoted(&cell.array),
        quoted(&cell.job),
        quoted(&cell.policy),
        cell.seed.to_string(),
        format!("{:.3}", figures.iops),
        format!("{:.3}", figures.mib_per_s),
        micros(latencies.mean_ns),
        micros(latencies.p50_ns),
        micros(latencies.p99_ns),
        micros(latencies.p99_9_ns),
        micros(latencies.p99_99_ns),
        shares.join(";"),
        cell.extra_reads.to_string(),
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
