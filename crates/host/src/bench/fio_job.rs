//! A job file as fio gets it: the job's own text with the places and times of the run.
//!
//! Options that `bench` decides are taken out of every section, and put in again, first thing in
//! each section that is a job. All else is left as it is.

use mirrorball_core::units::Nanos;
use std::collections::BTreeSet;

/// Options that stay: those that say which I/O there is, when, and by how many. All others are
/// taken out. fio runs as root, and among the others are ones that run programs, write or remove
/// files (`mem=mmap:FILE` does), or leave the data of one run in the page cache for the next.
/// Threads are processes here, because the mirror of `btrfs/pid` follows from these.
const KEPT: [&str; 76] = [
    "ba",
    "blockalign",
    "blocksize",
    "blocksize_range",
    "blocksize_unaligned",
    "bs",
    "bs_unaligned",
    "bsrange",
    "bssplit",
    "buffered",
    "clat_percentiles",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "dedupe_percentage",
    "description",
    "direct",
    "end_fsync",
    "fdatasync",
    "file_service_type",
    "fixedbufs",
    "fsync",
    "fsync_on_close",
    "gtod_reduce",
    "group_reporting",
    "hipri",
    "io_limit",
    "io_size",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "ioengine",
    "name",
    "new_group",
    "nice",
    "nonvectored",
    "norandommap",
    "number_ios",
    "numjobs",
    "offset",
    "offset_align",
    "offset_increment",
    "percentage_random",
    "percentile_list",
    "random_distribution",
    "random_generator",
    "randommap",
    "rate",
    "rate_cycle",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "rate_process",
    "readwrite",
    "refill_buffers",
    "registerfiles",
    "rw",
    "rw_sequencer",
    "rwmixread",
    "rwmixwrite",
    "scramble_buffers",
    "size",
    "slat_percentiles",
    "softrandommap",
    "sqthread_poll",
    "startdelay",
    "stonewall",
    "sync",
    "thinktime",
    "thinktime_blocks",
    "wait_for_previous",
    "zero_buffers",
];
/// Engines that do I/O on the file that the job names, and nowhere else.
const ENGINES: [&str; 9] =
    ["io_uring", "libaio", "mmap", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync"];
/// Options that are taken out: those that are put in, and where a job's files and logs go.
const DECIDED: [&str; 19] = [
    "allow_file_create", "directory", "filename", "filename_format", "filesize", "lat_percentiles",
    "loops", "nrfiles", "opendir", "ramp_time", "randrepeat", "randseed", "runtime", "time_based",
    "timeout", "write_bw_log", "write_hist_log", "write_iops_log", "write_lat_log",
];

/// Options that a run decides.
#[derive(Clone, Debug)]
pub(super) struct JobPlace<'a> {
    pub(super) file: &'a str,
    pub(super) settle: Nanos,
    pub(super) measure: Nanos,
    pub(super) seed: u64,
}

pub(super) fn job_for_fio(text: &str, place: &JobPlace<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        let name = option_name(bare);
        if !name.is_empty() && !KEPT.contains(&name) {
            continue;
        }
        lines.push(line.to_owned());
        // In other letters it is a job to fio, and without these lines one with files of its own.
        let is_job = bare.starts_with('[') && !bare.starts_with("[global]");
        if is_job {
            lines.extend(decided(place));
        }
    }
    lines.join("\n") + "\n"
}

/// The options of a job that are taken out and not replaced, each once.
pub(super) fn left_out(text: &str) -> Vec<String> {
    let names: BTreeSet<&str> = text.lines().map(|line| option_name(line.trim())).collect();
    let is_left_out =
        |name: &&str| !name.is_empty() && !KEPT.contains(name) && !DECIDED.contains(name);
    let names = names.into_iter().filter(is_left_out);
    names.map(|name| format!("`{name}`")).collect()
}

/// The first engine of a job that may do I/O elsewhere than on the file that it gets.
pub(super) fn foreign_engine(text: &str) -> Option<&str> {
    let values = text.lines().map(str::trim).filter(|line| option_name(line) == "ioengine");
    let mut values = values.map(|line| line.split_once('=').map_or("", |(_, value)| value.trim()));
    values.find(|engine| !ENGINES.contains(engine))
}

/// True if fio would read another file as part of the job.
pub(super) fn includes_a_file(text: &str) -> bool {
    let words = text.lines().map(|line| line.split_whitespace().next());
    words.into_iter().any(|word| word == Some("include"))
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

    #[test]
    fn a_global_section_in_other_letters_is_a_job_as_for_fio() {
        let job = job_for_fio("[GLOBAL]\nsize=1m\n[a]\nrw=read\n", &PLACE);
        assert_eq!(job.matches("filename=").count(), 2, "{job}");
    }

    /// Offsets of the first reads of fio under a seed; none if fio cannot be run.
    fn offsets(folder: &Path, seed: u64) -> Option<Vec<String>> {
        let (data, log) = (folder.join("data"), folder.join(format!("log-{seed}")));
        fs::write(&data, vec![0; 1 << 20]).unwrap();
        let place = JobPlace {
            file: data.to_str().unwrap(),
            settle: Nanos::ZERO,
            measure: Nanos::from_millis(500),
            seed,
        };
        let text = job_for_fio("[job]\nioengine=psync\nrw=randread\nbs=4k\n", &place);
        let job = folder.join("job.fio");
        fs::write(&job, format!("{text}write_iolog={}\n", log.to_str().unwrap())).unwrap();
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

    /// fio runs as root.
    #[test]
    fn options_that_change_the_machine_or_the_next_run_are_left_out() {
        let text = "[one]\nwrite_iolog=/etc/passwd\nexec_prerun=reboot\nunlink\ninvalidate = 0\n\
            unlink=1\nthread\nmem=mmapshared:/etc/passwd\nrw=randread\n";
        let job = job_for_fio(text, &PLACE);
        assert!(job.ends_with("ramp_time=5000000us\nrw=randread\n"), "{job}");
        let names = left_out(text).join(" ");
        assert_eq!(names, "`exec_prerun` `invalidate` `mem` `thread` `unlink` `write_iolog`");
        assert_eq!(foreign_engine(text), None);
        assert_eq!(foreign_engine("[a]\nioengine=psync\n[b]\nioengine = nbd\n"), Some("nbd"));
        assert_eq!(foreign_engine("ioengine=external:/tmp/x.so"), Some("external:/tmp/x.so"));
        assert!(!includes_a_file(text) && includes_a_file("[one]\n include more.fio\n"));
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
