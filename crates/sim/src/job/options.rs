//! The table of fio's options: which are supported, which have no effect, which are refused.
//!
//! **To add an option, add one row**, and one setter if no existing kind of value fits. A row lists
//! the aliases of one option, or several options with the same reason. The names are those of fio
//! 3.33 (`fio --cmdhelp=all`, `--enghelp`).
//!
//! A row has one of three kinds. *takes*: the option is supported. *ignored*: it has no effect on a
//! simulation, and the reader adds a note. *refused*: it would change the result, so it is an error
//! unless it has one of the listed values.

use super::error::job_error;
use super::pragma;
use super::setters::{self, Setter};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::Nanos;

/// Options with the same treatment.
pub(super) struct OptionRow {
    /// One option with its aliases, or several with one reason.
    pub(super) names: &'static [&'static str],
    pub(super) support: Support,
    /// Note to the user about a supported option.
    pub(super) note: Option<&'static str>,
}

/// Treatment of an option.
#[derive(Clone, Copy)]
pub(super) enum Support {
    Takes(Setter),
    /// Has no effect on a simulation, for this reason.
    Ignored(&'static str),
    /// Would change the result unless it has one of these values, for this reason, which may be
    /// followed by a line with what to write instead.
    Refused {
        unless: &'static [&'static str],
        reason: &'static str,
    },
}

pub(super) fn find(name: &str) -> Result<&'static OptionRow, Diagnostic> {
    ROWS.iter().find(|row| row.names.contains(&name)).ok_or_else(|| {
        let known = ROWS.iter().flat_map(|row| row.names).copied();
        let help = match closest_name(name, known) {
            _ if pragma::WORDS.contains(&name) => pragma::help_for_option(name),
            Some(near) => format!("did you mean `{near}`?"),
            None => match spaced(name) {
                Some((option, value)) => {
                    format!("write `=` between the option and its value: {option}={value}")
                }
                None => "fio 3.33 has no option of this name".to_owned(),
            },
        };
        job_error(format!("unknown option `{name}`"), help)
    })
}

/// The option and the value of a line with a space between them.
fn spaced(line: &str) -> Option<(&str, &str)> {
    let (option, value) = line.split_once(char::is_whitespace)?;
    ROWS.iter().any(|row| row.names.contains(&option)).then(|| (option, value.trim()))
}

const MAX: u64 = u32::MAX as u64;
const COUNT: [u64; 2] = [1, MAX];
const ANY: [u64; 2] = [0, MAX];
const WIDE: [u64; 2] = [0, u64::MAX];
/// Numbers of clones and depths above these are taken as typing errors; fio itself allows at most
/// 4096 jobs.
const CLONES: [u64; 2] = [1, 4096];
const DEPTH: [u64; 2] = [1, 1 << 16];
const PERCENT: [u64; 2] = [0, 100];
const SECOND: Nanos = Nanos::from_secs(1);
const MICROSECOND: Nanos = Nanos::from_micros(1);
/// Values that turn an option off.
const OFF: &[&str] = &["0", "none"];
const ONE: &[&str] = &["1"];

const NO_FILE: &str = "the simulation accesses the volume directly and creates no files";
const NO_KERNEL: &str = "has no effect: the simulation makes no system calls";
const NO_DATA: &str = "simulated I/O carries no data";
const NO_CPU: &str = "simulated jobs do not run on the CPUs of this machine";
const REPORTING: &str = "results are reported by mirrorball, not by fio";
const OWN_SEEDS: &str = "the seed of the run determines all random numbers";
const FAILURES: &str =
    "a job ends at its first failed request, and requests fail only on an array with faults";
const ONE_FILE: &str = "a job works on one file, the volume";
const VERIFY: &str = "simulated I/O carries no data that could be verified";
const MERGE: &str = "traces are not merged\nuse one section for each trace";
const REPLAY: &str = "the trace decides: rw, bs, size and offset have no effect; iodepth is 1024 \
                      unless it is set or the replay is closed";
const ZONES: &str = "zoned devices are not modelled";
const PRIORITY: &str = "priorities are not modelled";
const BATCHES: &str = "requests are submitted and completed one by one";
const EARLY_END: &str = "a job ends only after its size or its runtime";

const ROWS: &[OptionRow] = &[
    // Name and target of the job.
    takes(&["name"], Setter::Text(setters::name)),
    takes(&["description"], Setter::Text(setters::description)),
    noted(&["filename"], Setter::Text(setters::filename), "every job works on the volume"),
    noted(&["ioengine"], Setter::Text(setters::engine), NO_KERNEL),
    takes(&["kb_base"], Setter::Text(setters::kb_base)),
    // Traces in place of generated requests.
    noted(&["read_iolog"], Setter::Text(setters::replay_path), REPLAY),
    takes(&["replay_no_stall"], Setter::Flag(|draft, is_set| draft.replay.no_stall = is_set)),
    takes(
        &["replay_time_scale"],
        Setter::Number(COUNT, |draft, value| draft.replay.time_scale_percent = value),
    ),
    takes(
        &["replay_scale"],
        Setter::Number(COUNT, |draft, value| draft.replay.offset_divisor = value),
    ),
    takes(&["replay_align"], Setter::Text(setters::replay_align)),
    takes(&["replay_skip"], Setter::Text(setters::replay_skip)),
    ignored(&["replay_redirect"], "every job works on the volume"),
    ignored(&["read_iolog_chunked"], "a trace is always read in parts"),
    // Kind and order of its requests.
    takes(&["rw", "readwrite"], Setter::Text(setters::direction)),
    takes(&["bs", "blocksize"], Setter::Text(setters::block_size)),
    takes(&["bssplit"], Setter::Text(setters::block_split)),
    takes(&["rwmixread"], Setter::Number(PERCENT, |draft, value| draft.read_percent = value)),
    takes(
        &["rwmixwrite"],
        Setter::Number(PERCENT, |draft, value| draft.read_percent = 100 - value),
    ),
    takes(&["percentage_random"], Setter::Text(setters::random_percent)),
    takes(&["random_distribution"], Setter::Text(setters::distribution)),
    takes(&["norandommap"], Setter::Flag(|draft, on| draft.job.random_map = !on)),
    takes(&["randseed"], Setter::Number(WIDE, |draft, seed| draft.job.random_seed = Some(seed))),
    takes(
        &["randrepeat", "allrandrepeat"],
        Setter::Truth(|draft, on| draft.job.random_repeat = on),
    ),
    takes(&["direct"], Setter::Truth(|draft, on| draft.job.direct = on)),
    takes(&["buffered"], Setter::Truth(|draft, on| draft.job.direct = !on)),
    takes(&["fsync"], Setter::Number(ANY, |draft, writes| draft.job.fsync = writes)),
    takes(&["fdatasync"], Setter::Number(ANY, |draft, writes| draft.job.fdatasync = writes)),
    takes(&["end_fsync"], Setter::Truth(|draft, on| draft.job.final_flush = on)),
    takes(&["fsync_on_close"], Setter::Truth(|draft, on| draft.job.final_flush |= on)),
    // Region and number of requests.
    takes(&["size"], Setter::Text(setters::size)),
    takes(&["offset", "fileoffset"], Setter::Text(setters::offset)),
    takes(&["offset_increment"], Setter::Text(setters::offset_increment)),
    takes(
        &["io_size", "io_limit"],
        Setter::Number(WIDE, |draft, bytes| draft.job.io_bytes = some(bytes)),
    ),
    takes(&["number_ios"], Setter::Number(WIDE, |draft, ios| draft.job.number_ios = some(ios))),
    takes(&["loops"], Setter::Number(COUNT, |draft, loops| draft.job.loops = loops)),
    // Queue depth, rate and time.
    takes(&["iodepth"], Setter::Number(DEPTH, |draft, depth| draft.job.depth = depth as u32)),
    takes(&["numjobs"], Setter::Number(CLONES, |draft, clones| draft.job.clones = clones as u32)),
    takes(
        &["runtime", "timeout"],
        Setter::Time(SECOND, |draft, time| draft.job.runtime = some_time(time)),
    ),
    takes(&["time_based"], Setter::Flag(|draft, on| draft.job.time_based = on)),
    takes(&["ramp_time"], Setter::IdleTime(|draft, time| draft.job.ramp = time)),
    takes(&["startdelay"], Setter::IdleTime(|draft, time| draft.job.start_delay = time)),
    takes(&["stonewall", "wait_for_previous"], Setter::Flag(|draft, on| draft.stonewall = on)),
    takes(&["rate"], Setter::Text(setters::rate)),
    takes(&["rate_iops"], Setter::Text(setters::rate_ios)),
    takes(&["rate_process"], Setter::Text(setters::arrivals)),
    takes(&["thinktime"], Setter::Time(MICROSECOND, |draft, time| draft.job.think_time = time)),
    takes(&["thinktime_blocks"], Setter::Number(COUNT, |draft, ios| draft.job.think_ios = ios)),
    takes(&["group_reporting"], Setter::Flag(|draft, on| draft.job.group_reporting = on)),
    // Options without an effect.
    ignored(&["random_generator"], OWN_SEEDS),
    ignored(&["softrandommap"], "the simulation always has the memory for the random map"),
    ignored(
        &[
            "directory", "filename_format", "unique_filename", "openfiles", "file_service_type",
            "fallocate", "overwrite", "create_serialize", "create_fsync", "create_on_open",
            "allow_file_create", "allow_mounted_write", "unlink", "unlink_each_loop",
        ],
        NO_FILE,
    ),
    ignored(&["invalidate"], "the page cache is empty when a simulated job starts"),
    ignored(
        &[
            "fadvise_hint", "mem", "iomem", "iomem_align", "mem_align", "lockmem", "hugepage-size",
            "clocksource", "gtod_reduce", "gtod_cpu", "exec_prerun", "exec_postrun", "uid", "gid",
            "thread", "io_submit_mode", "hipri", "hipri_percentage", "fixedbufs", "registerfiles",
            "sqthread_poll", "sqthread_poll_cpu", "nonvectored", "force_async", "userspace_reap",
            "nowait", "cmd_type", "uri", "write_hint",
        ],
        NO_KERNEL,
    ),
    ignored(
        &[
            "zero_buffers",
            "refill_buffers",
            "scramble_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "dedupe_mode",
            "dedupe_working_set_percentage",
            "dedupe_global",
        ],
        NO_DATA,
    ),
    ignored(
        &[
            "cpumask", "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy",
            "nice", "thinktime_spin", "cgroup", "cgroup_nodelete",
        ],
        NO_CPU,
    ),
    ignored(
        &[
            "new_group",
            "unified_rw_reporting",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "clat_percentiles",
            "lat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "significant_figures",
            "disk_util",
            "unit_base",
            "per_job_logs",
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "write_iolog",
            "bwavgtime",
            "iopsavgtime",
            "log_entries",
            "log_avg_msec",
            "log_hist_msec",
            "log_hist_coarseness",
            "log_max_value",
            "log_offset",
            "log_prio",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "block_error_percentiles",
            "rate_cycle",
            "eta",
            "eta-newline",
            "status-interval",
        ],
        REPORTING,
    ),
    ignored(
        &["continue_on_error", "ignore_error", "error_dump", "exitall_on_error", "exit_what"],
        FAILURES,
    ),
    ignored(
        &[
            "do_verify", "verify_interval", "verify_offset", "verify_pattern", "verify_fatal",
            "verify_dump", "verify_async", "verify_async_cpus", "verify_backlog",
            "verify_backlog_batch", "verify_state_load", "verify_state_save",
            "experimental_verify",
        ],
        VERIFY,
    ),
    // Options that would change the result.
    refused(&["verify", "verify_only"], OFF, "fio would read the data again after writing them"),
    refused(
        &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"],
        OFF,
        VERIFY,
    ),
    refused(&["nrfiles", "nr_files"], ONE, ONE_FILE),
    refused(&["opendir", "lockfile", "fill_device", "fill_fs", "file_append"], OFF, ONE_FILE),
    refused(
        &["filesize"],
        &[],
        "the size of the volume comes from the array; `size` limits the region of a job",
    ),
    refused(&["pre_read"], OFF, "the page cache would serve every read"),
    refused(&["create_only"], OFF, "fio would create files and run no job"),
    refused(
        &["bsrange", "blocksize_range"],
        &[],
        "sizes need shares\nwrite for example bssplit=4k/50:16k/50",
    ),
    refused(&["ba", "blockalign", "offset_align"], &[], "addresses are aligned to the block size"),
    refused(
        &["bs_unaligned", "blocksize_unaligned", "bs_is_seq_rand"],
        OFF,
        "requests are aligned, and their sizes do not depend on the access pattern",
    ),
    refused(&["rw_sequencer"], &["sequential"], "`rw` with a modifier is not supported"),
    refused(
        &["sync", "atomic", "write_barrier", "sync_file_range"],
        OFF,
        "the only supported flushes are `fsync` and `fdatasync`",
    ),
    refused(
        &["uncached"],
        OFF,
        "a job uses the page cache for all requests or for none: see `direct`",
    ),
    refused(&["wait_for", "exitall"], OFF, "the only supported order of jobs is `stonewall`"),
    refused(
        &[
            "iodepth_batch",
            "iodepth_batch_submit",
            "iodepth_batch_complete",
            "iodepth_batch_complete_min",
            "iodepth_batch_complete_max",
        ],
        ONE,
        BATCHES,
    ),
    refused(&["iodepth_low", "serialize_overlap"], OFF, BATCHES),
    refused(
        &["thinktime_blocks_type"],
        &["complete", "issue"],
        "the only types are `complete` and `issue`, which have the same effect",
    ),
    refused(
        &["thinktime_iotime", "rate_ignore_thinktime"],
        OFF,
        "a pause starts after a number of requests, and rates include pauses",
    ),
    refused(
        &[
            "rate_min", "rate_iops_min", "max_latency", "latency_target", "latency_window",
            "latency_percentile", "latency_run", "steadystate", "ss", "steadystate_duration",
            "ss_dur", "steadystate_ramp_time", "ss_ramp",
        ],
        OFF,
        EARLY_END,
    ),
    refused(&["flow", "flow_id", "flow_sleep"], OFF, "jobs do not wait for each other's progress"),
    refused(
        &[
            "prio", "prioclass", "cgroup_weight", "cmdprio", "cmdprio_percentage", "cmdprio_class",
            "cmdprio_bssplit",
        ],
        OFF,
        PRIORITY,
    ),
    refused(
        &["ioscheduler"],
        OFF,
        "the only scheduler that is simulated is the one inside the disk",
    ),
    refused(&["stats"], ONE, "the statistics of a job are always kept"),
    refused(&["merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters"], OFF, MERGE),
    refused(
        &[
            "zonemode", "zonesize", "zonecapacity", "zonerange", "zoneskip", "read_beyond_wp",
            "max_open_zones", "job_max_open_zones", "ignore_zone_limits", "zone_reset_threshold",
            "zone_reset_frequency",
        ],
        OFF,
        ZONES,
    ),
    refused(&["profile"], &[], "a profile of fio replaces the job"),
];

const fn takes(names: &'static [&'static str], setter: Setter) -> OptionRow {
    OptionRow { names, support: Support::Takes(setter), note: None }
}

const fn noted(names: &'static [&'static str], setter: Setter, note: &'static str) -> OptionRow {
    OptionRow { names, support: Support::Takes(setter), note: Some(note) }
}

const fn ignored(names: &'static [&'static str], reason: &'static str) -> OptionRow {
    OptionRow { names, support: Support::Ignored(reason), note: None }
}

const fn refused(
    names: &'static [&'static str],
    unless: &'static [&'static str],
    reason: &'static str,
) -> OptionRow {
    OptionRow { names, support: Support::Refused { unless, reason }, note: None }
}

/// `None` for zero, which in fio means no limit.
fn some(value: u64) -> Option<u64> {
    Some(value).filter(|&value| value > 0)
}

fn some_time(time: Nanos) -> Option<Nanos> {
    Some(time).filter(|&time| time > Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::ROWS;
    use std::collections::BTreeSet;

    #[test]
    fn every_option_is_in_one_row() {
        let mut seen = BTreeSet::new();
        for name in ROWS.iter().flat_map(|row| row.names) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
