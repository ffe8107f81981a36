//! The one table of fio's options: which are supported, which change nothing, which are refused.
//!
//! **Adding an option is one row**, and one setter if no existing kind of value fits. A row names
//! the options it holds for: aliases of one option, or several that share a reason. Names are those
//! of fio 3.33 (`fio --cmdhelp=all`, `--enghelp`).
//!
//! Three ways: *takes* (it counts), *ignored* (it changes nothing in simulation, and the reader
//! notes so), *refused* (it would change the result; the values listed would not, and pass).

use super::error::job_error;
use super::setters::{self, Setter};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::Nanos;

/// Options that are treated alike.
pub(super) struct Row {
    /// One option with its aliases, or several with one reason.
    pub(super) names: &'static [&'static str],
    pub(super) support: Support,
    /// What a user should know of an option that counts.
    pub(super) note: Option<&'static str>,
}

/// What becomes of an option.
#[derive(Clone, Copy)]
pub(super) enum Support {
    Takes(Setter),
    /// Changes nothing in simulation, because …
    Ignored(&'static str),
    /// Would change the result unless it has one of these values, because …
    Refused {
        unless: &'static [&'static str],
        reason: &'static str,
    },
}

/// The row of an option.
pub(super) fn find(name: &str) -> Result<&'static Row, Diagnostic> {
    ROWS.iter().find(|row| row.names.contains(&name)).ok_or_else(|| {
        let known = ROWS.iter().flat_map(|row| row.names).copied();
        let help = match closest_name(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "fio 3.33 has no option of this name".to_owned(),
        };
        job_error(format!("unknown option `{name}`"), help)
    })
}

const MAX: u64 = u32::MAX as u64;
const COUNT: [u64; 2] = [1, MAX];
const ANY: [u64; 2] = [0, MAX];
const WIDE: [u64; 2] = [0, u64::MAX];
/// Clones and depths beyond these would be slips of the pen; fio itself stops at 4096 jobs.
const CLONES: [u64; 2] = [1, 4096];
const DEPTH: [u64; 2] = [1, 1 << 16];
const PERCENT: [u64; 2] = [0, 100];
const SECOND: Nanos = Nanos::from_secs(1);
const MICROSECOND: Nanos = Nanos::from_micros(1);
/// Values that leave a switch off.
const OFF: &[&str] = &["0", "none"];
const ONE: &[&str] = &["1"];

const NO_FILE: &str = "simulation works on the volume and makes no files";
const NO_KERNEL: &str = "the simulation makes no system calls";
const NO_DATA: &str = "simulated I/O carries no data";
const NO_CPU: &str = "simulated jobs run on no CPU of this machine";
const REPORTING: &str = "results are reported by mirrorball, not by fio";
const OWN_SEEDS: &str = "the seed of the run decides all draws of chance, the same in every run";
const FAILURES: &str =
    "a clone ends at its first failed request; only an array with faults has any";
const ONE_FILE: &str = "a job works on one file, the volume";
const VERIFY: &str = "simulated I/O carries no data that could be verified";
const TRACE: &str = "a trace is not a job";
const ZONES: &str = "zoned devices are not modelled";
const PRIORITY: &str = "priorities are not modelled";
const BATCHES: &str = "requests are submitted and reaped one by one";
const EARLY_END: &str = "a job ends by its own size or runtime only";

const ROWS: &[Row] = &[
    // What the job is called.
    takes(&["name"], Setter::Text(setters::name)),
    takes(&["description"], Setter::Text(setters::description)),
    noted(&["filename"], Setter::Text(setters::filename), "every job works on the volume"),
    noted(&["ioengine"], Setter::Text(setters::engine), NO_KERNEL),
    takes(&["kb_base"], Setter::Text(setters::kb_base)),
    // What it does.
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
    takes(&["direct"], Setter::Truth(|draft, on| draft.job.direct = on)),
    takes(&["buffered"], Setter::Truth(|draft, on| draft.job.direct = !on)),
    takes(&["fsync"], Setter::Number(ANY, |draft, writes| draft.job.fsync = writes)),
    takes(&["fdatasync"], Setter::Number(ANY, |draft, writes| draft.job.fdatasync = writes)),
    takes(&["end_fsync"], Setter::Truth(|draft, on| draft.job.final_flush = on)),
    takes(&["fsync_on_close"], Setter::Truth(|draft, on| draft.job.final_flush |= on)),
    // Where, and how much.
    takes(&["size"], Setter::Text(setters::size)),
    takes(&["offset", "fileoffset"], Setter::Text(setters::offset)),
    takes(&["offset_increment"], Setter::Text(setters::offset_increment)),
    takes(
        &["io_size", "io_limit"],
        Setter::Number(WIDE, |draft, bytes| draft.job.io_bytes = some(bytes)),
    ),
    takes(&["number_ios"], Setter::Number(WIDE, |draft, ios| draft.job.number_ios = some(ios))),
    takes(&["loops"], Setter::Number(COUNT, |draft, loops| draft.job.loops = loops)),
    // How much at once, and when.
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
    // What changes nothing.
    ignored(&["randrepeat", "allrandrepeat", "random_generator"], OWN_SEEDS),
    ignored(&["softrandommap"], "the random map takes no memory that could be lacking"),
    ignored(
        &[
            "directory",
            "filename_format",
            "unique_filename",
            "openfiles",
            "file_service_type",
            "fallocate",
            "overwrite",
            "create_serialize",
            "create_fsync",
            "create_on_open",
            "allow_file_create",
            "allow_mounted_write",
            "unlink",
            "unlink_each_loop",
        ],
        NO_FILE,
    ),
    ignored(&["invalidate"], "the page cache is empty when a simulated job starts"),
    ignored(
        &[
            "fadvise_hint",
            "mem",
            "iomem",
            "iomem_align",
            "mem_align",
            "lockmem",
            "hugepage-size",
            "clocksource",
            "gtod_reduce",
            "gtod_cpu",
            "exec_prerun",
            "exec_postrun",
            "uid",
            "gid",
            "thread",
            "io_submit_mode",
            "hipri",
            "hipri_percentage",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "nonvectored",
            "force_async",
            "userspace_reap",
            "nowait",
            "cmd_type",
            "uri",
            "write_hint",
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
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "nice",
            "thinktime_spin",
            "cgroup",
            "cgroup_nodelete",
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
            "do_verify",
            "verify_interval",
            "verify_offset",
            "verify_pattern",
            "verify_fatal",
            "verify_dump",
            "verify_async",
            "verify_async_cpus",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_state_load",
            "verify_state_save",
            "experimental_verify",
        ],
        VERIFY,
    ),
    // What would change the result.
    refused(&["verify", "verify_only"], OFF, "fio would read back what it wrote"),
    refused(
        &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"],
        OFF,
        VERIFY,
    ),
    refused(&["nrfiles", "nr_files"], ONE, ONE_FILE),
    refused(&["opendir", "lockfile", "fill_device", "fill_fs", "file_append"], OFF, ONE_FILE),
    refused(&["filesize"], &[], "it would bound the volume; `size` bounds the job"),
    refused(&["pre_read"], OFF, "every read would be answered by the page cache"),
    refused(&["create_only"], OFF, "nothing would be run"),
    refused(&["bsrange", "blocksize_range"], &[], "`bssplit` names sizes with their shares"),
    refused(&["ba", "blockalign", "offset_align"], &[], "addresses are aligned to the block size"),
    refused(
        &["bs_unaligned", "blocksize_unaligned", "bs_is_seq_rand"],
        OFF,
        "sizes do not depend on addresses",
    ),
    refused(&["rw_sequencer"], &["sequential"], "`rw` with a modifier is not supported"),
    refused(
        &["sync", "atomic", "write_barrier", "sync_file_range"],
        OFF,
        "of flushes only `fsync` and `fdatasync` are modelled",
    ),
    refused(&["uncached"], OFF, "the page cache is all or nothing: see `direct`"),
    refused(&["wait_for", "exitall"], OFF, "of orders between jobs only `stonewall` is modelled"),
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
    refused(&["thinktime_blocks_type"], &["complete", "issue"], "both kinds pause alike here"),
    refused(
        &["thinktime_iotime", "rate_ignore_thinktime"],
        OFF,
        "a pause comes by the number of requests and counts for the rate",
    ),
    refused(
        &[
            "rate_min",
            "rate_iops_min",
            "max_latency",
            "latency_target",
            "latency_window",
            "latency_percentile",
            "latency_run",
            "steadystate",
            "ss",
            "steadystate_duration",
            "ss_dur",
            "steadystate_ramp_time",
            "ss_ramp",
        ],
        OFF,
        EARLY_END,
    ),
    refused(&["flow", "flow_id", "flow_sleep"], OFF, "jobs do not wait for each other's progress"),
    refused(
        &[
            "prio",
            "prioclass",
            "cgroup_weight",
            "cmdprio",
            "cmdprio_percentage",
            "cmdprio_class",
            "cmdprio_bssplit",
        ],
        OFF,
        PRIORITY,
    ),
    refused(&["ioscheduler"], OFF, "of schedulers only the disk's own is modelled"),
    refused(&["stats"], ONE, "what a job does is always counted"),
    refused(
        &[
            "read_iolog",
            "read_iolog_chunked",
            "replay_no_stall",
            "replay_redirect",
            "replay_scale",
            "replay_align",
            "replay_time_scale",
            "replay_skip",
            "merge_blktrace_file",
            "merge_blktrace_scalars",
            "merge_blktrace_iters",
        ],
        OFF,
        TRACE,
    ),
    refused(
        &[
            "zonemode",
            "zonesize",
            "zonecapacity",
            "zonerange",
            "zoneskip",
            "read_beyond_wp",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
        ],
        OFF,
        ZONES,
    ),
    refused(&["profile"], &[], "a profile of fio is a program of its own"),
];

const fn takes(names: &'static [&'static str], setter: Setter) -> Row {
    Row { names, support: Support::Takes(setter), note: None }
}

const fn noted(names: &'static [&'static str], setter: Setter, note: &'static str) -> Row {
    Row { names, support: Support::Takes(setter), note: Some(note) }
}

const fn ignored(names: &'static [&'static str], reason: &'static str) -> Row {
    Row { names, support: Support::Ignored(reason), note: None }
}

const fn refused(
    names: &'static [&'static str],
    unless: &'static [&'static str],
    reason: &'static str,
) -> Row {
    Row { names, support: Support::Refused { unless, reason }, note: None }
}

/// `None` for zero, fio's word for no limit.
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
    fn no_option_stands_twice() {
        let mut seen = BTreeSet::new();
        for name in ROWS.iter().flat_map(|row| row.names) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
