//! A job file as fio gets it: the job's own text with the places and times of the run.
//!
//! Options that `bench` decides are taken out of every section, and put in again, first thing in
//! each section that is a job. All else is left as it is.

use mirrorball_core::units::Nanos;

/// Options that are taken out: those that are put in, and where a job's files and logs go.
const DECIDED: [&str; 19] = [
    "allow_file_create",
    "directory",
    "filename",
    "filename_format",
    "filesize",
    "lat_percentiles",
    "loops",
    "nrfiles",
    "opendir",
    "ramp_time",
    "randrepeat",
    "randseed",
    "runtime",
    "time_based",
    "timeout",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
];

/// What a run decides.
#[derive(Clone, Debug)]
pub(super) struct JobPlace<'a> {
    /// The file or device that is read.
    pub(super) file: &'a str,
    pub(super) settle: Nanos,
    pub(super) measure: Nanos,
    pub(super) seed: u64,
}

/// The job file of a run.
pub(super) fn job_for_fio(text: &str, place: &JobPlace<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if DECIDED.contains(&option_name(bare)) {
            continue;
        }
        lines.push(line.to_owned());
        let is_job = bare.starts_with('[') && !bare.to_lowercase().starts_with("[global]");
        if is_job {
            lines.extend(decided(place));
        }
    }
    lines.join("\n") + "\n"
}

fn decided(place: &JobPlace<'_>) -> Vec<String> {
    let mut lines = vec![
        format!("filename={}", place.file.replace(':', "\\:")),
        "allow_file_create=0".to_owned(),
        // With randrepeat, fio's default, the offsets do not depend on the seed.
        "randrepeat=0".to_owned(),
        format!("randseed={}", place.seed),
        "time_based".to_owned(),
        format!("runtime={}us", place.measure.0 / 1_000),
        "lat_percentiles=1".to_owned(),
    ];
    if place.settle > Nanos::ZERO {
        lines.push(format!("ramp_time={}us", place.settle.0 / 1_000));
    }
    lines
}

/// The name of the option on a line; empty for comments, sections and blanks.
fn option_name(line: &str) -> &str {
    match line.chars().next() {
        Some(';' | '#' | '[') | None => "",
        Some(_) => line.split('=').next().unwrap_or_default().trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_lab::experiment::inputs::{builtin_job_names, load_job};
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    const PLACE: JobPlace<'static> = JobPlace {
        file: "/mnt/a:b/data",
        settle: Nanos::from_secs(5),
        measure: Nanos::from_secs(20),
        seed: 7,
    };

    #[test]
    fn places_and_times_are_those_of_the_run() {
        let text = "; runtime=1\n[global]\nioengine=libaio\nruntime = 60\ntime_based\n\
            [one]\nfilename=/dev/sda\nrw=randread\n\n[two]\nrandseed=3\nbs=4k\n";
        let expected = "; runtime=1\n[global]\nioengine=libaio\n\
            [one]\nfilename=/mnt/a\\:b/data\nallow_file_create=0\nrandrepeat=0\nrandseed=7\n\
            time_based\nruntime=20000000us\nlat_percentiles=1\nramp_time=5000000us\nrw=randread\n\n\
            [two]\nfilename=/mnt/a\\:b/data\nallow_file_create=0\nrandrepeat=0\nrandseed=7\n\
            time_based\nruntime=20000000us\nlat_percentiles=1\nramp_time=5000000us\nbs=4k\n";
        assert_eq!(job_for_fio(text, &PLACE), expected);
    }

    /// Offsets of the first reads of fio under a seed; none if fio cannot be run.
    fn offsets(folder: &Path, seed: u64) -> Option<Vec<String>> {
        let (data, log) = (folder.join("data"), folder.join(format!("log-{seed}")));
        fs::write(&data, vec![0; 1 << 20]).unwrap();
        let place = JobPlace {
            file: data.to_str().unwrap(),
            settle: Nanos::ZERO,
            measure: Nanos::from_millis(20),
            seed,
        };
        let text = format!(
            "[job]\nioengine=psync\nrw=randread\nbs=4k\nwrite_iolog={}\n",
            log.to_str().unwrap()
        );
        let job = folder.join("job.fio");
        fs::write(&job, job_for_fio(&text, &place)).unwrap();
        let run = Command::new("fio").arg(&job).current_dir(folder).output().ok()?;
        assert!(run.status.success(), "{run:?}");
        let text = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        let reads = text.lines().filter_map(|line| line.split_once(" read "));
        Some(reads.map(|(_, read)| read.to_owned()).take(8).collect())
    }

    #[test]
    fn fio_reads_other_offsets_with_another_seed_and_the_same_with_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let Some(first) = offsets(folder.path(), 1) else {
            return eprintln!("skipped: fio is not installed");
        };
        assert_eq!(first.len(), 8);
        assert_eq!(offsets(folder.path(), 1).unwrap(), first);
        assert_ne!(offsets(folder.path(), 2).unwrap(), first);
    }

    #[test]
    fn every_built_in_job_gets_each_option_once() {
        for name in builtin_job_names() {
            let text = job_for_fio(&load_job(name).unwrap().0.text, &PLACE);
            let sections =
                text.lines().filter(|line| line.starts_with('[') && !line.starts_with("[global]"));
            let sections = sections.count();
            for option in
                ["filename=", "runtime=", "time_based", "randrepeat=", "randseed=", "ramp_time="]
            {
                let count = text.lines().filter(|line| line.starts_with(option)).count();
                assert_eq!(count, sections, "{name}: {option}");
            }
        }
    }
}
