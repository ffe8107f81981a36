//! The job file behind an output of fio, as far as fio repeats it.
//!
//! fio prints the options that were given, apart from those without a value (`time_based`,
//! `stonewall`). Where a run put its files and logs is left out: two runs of one job are then the
//! same text.

use super::document::{Document, FioJob, Options};
use serde_json::Value;

/// Options for file locations, logs and seeds, which do not change the workload.
const ABOUT_PLACE: [&str; 21] = [
    "name", "filename", "filename_format", "directory", "description", "output", "output-format",
    "status-interval", "eta", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
    "write_iolog", "log_avg_msec", "log_hist_msec", "log_offset", "per_job_logs", "randseed",
    "randrepeat", "allrandrepeat",
];

/// The text, without the options of the sections `of_several`, which are not those of all jobs that
/// fio reports there.
pub(super) fn job_text(document: &Document, of_several: &[String]) -> String {
    let mut text = "; the options that fio repeats\n".to_owned() + &global(document);
    let mut named: Option<(u64, &str)> = None;
    for job in &document.jobs {
        // Clones have the same options.
        let own = Some((job.groupid, &job.jobname[..]));
        if std::mem::replace(&mut named, own) == own {
            continue;
        }
        text += &match of_several.contains(&job.jobname) {
            true => format!("; several jobs, whose options differ\n[{}]\n", job.jobname),
            false => section(&job.jobname, &job.options),
        };
    }
    text
}

/// The text of one job.
pub(super) fn of_job(document: &Document, job: &FioJob) -> String {
    global(document) + &section(&job.jobname, &job.options)
}

fn global(document: &Document) -> String {
    let options = &document.global_options;
    if options.is_empty() { String::new() } else { section("global", options) }
}

fn section(name: &str, options: &Options) -> String {
    let mut text = format!("[{name}]\n");
    for (option, value) in options {
        if ABOUT_PLACE.contains(&option.as_str()) {
            continue;
        }
        text += &match value {
            Value::String(value) if value.is_empty() => format!("{option}\n"),
            Value::String(value) => format!("{option}={value}\n"),
            other => format!("{option}={other}\n"),
        };
    }
    text
}
