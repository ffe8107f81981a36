//! The table of fio's options: which are supported, which have no effect, which are refused.
//!
//! **To add an option, add one row**, and one setter if no existing kind of value fits. A row lists
//! the aliases of one option, or several options with the same reason. The names are those of fio
//! 3.33 and 3.42 (`fio --cmdhelp=all`, `--enghelp`).
//!
//! A row has one of four kinds. *takes*: the option is supported. *ignored*: it has no effect on a
//! simulation, and the reader adds a note. *left out*: its effect is small and left out, with a
//! note unless it has one of the listed values. *refused*: it would change the result, so it is an
//! error unless it has one of the listed values.

use super::error::job_error;
use super::layout::FILES_MAX;
use super::lists;
use super::pragma;
use super::setters::{self, Setter};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::did_you_mean;
use mirrorball_core::units::Nanos;

/// Options with the same treatment.
pub(super) struct OptionRow {
    /// One option with its aliases, or several with one reason, separated by blanks.
    names: &'static str,
    pub(super) support: Support,
    /// Note to the user about a supported option.
    pub(super) note: Option<&'static str>,
}

#[derive(Clone, Copy)]
pub(super) enum Support {
    Takes(Setter),
    /// Has no effect on a simulation, for this reason, and needs no note with one of these values.
    Ignored {
        unless: &'static [&'static str],
        reason: &'static str,
    },
    /// Would change the result unless it has one of these values, for this reason, which may be
    /// followed by a line with what to write instead.
    Refused {
        unless: &'static [&'static str],
        reason: &'static str,
    },
}

impl OptionRow {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The first of its names.
    pub(super) fn name(&self) -> &'static str {
        self.names().next().unwrap_or(self.names)
    }
}

pub(super) fn find(name: &str) -> Result<&'static OptionRow, Diagnostic> {
    ROWS.iter().find(|row| row.has(name)).ok_or_else(|| {
        let known = ROWS.iter().flat_map(OptionRow::names);
        let help = match did_you_mean(name, known) {
            _ if pragma::WORDS.contains(&name) => pragma::help_for_option(name),
            Some(near) => near,
            None => match spaced(name) {
                Some((option, value)) => {
                    format!("write `=` between the option and its value: {option}={value}")
                }
                None => "fio 3.42 has no option of this name".to_owned(),
            },
        };
        job_error(format!("unknown option `{name}`"), help)
    })
}

/// The error for a line above the first section, which may be any text if the file is no job file.
pub(super) fn outside_section(option: &str, file: &str) -> Diagnostic {
    if option.starts_with("fio ") || option.starts_with("--") {
        let help = "write a line such as [job], and each option of the command without `--` on a \
                    line below it";
        return job_error("a command line of fio, and no job file", help);
    }
    match find(option) {
        Ok(_) => above_first_section(option),
        Err(unknown) if file.ends_with(".fio") => unknown,
        Err(unknown) => {
            let help = unknown.help.as_ref().map(|help| format!("{help}; ")).unwrap_or_default();
            unknown.with_help(format!(
                "{help}is it a job file? those of arrays end in .toml, and a trace is replayed by \
                 a job with read_iolog={file}, or fitted by `advise ARRAY --load {file}`"
            ))
        }
    }
}

/// The error for an option that belongs to no section.
pub(super) fn above_first_section(option: &str) -> Diagnostic {
    job_error(
        format!("the option `{option}` is above the first section"),
        "add a line such as [global] above it",
    )
}

/// The option and the value of a line with a space between them.
fn spaced(line: &str) -> Option<(&str, &str)> {
    let (option, value) = line.split_once(char::is_whitespace)?;
    ROWS.iter().any(|row| row.has(option)).then(|| (option, value.trim()))
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
/// Options with a value for each direction.
pub(super) const OF_DIRECTIONS: [&str; 7] =
    ["bs", "blocksize", "blockalign", "ba", "percentage_random", "rate", "rate_iops"];
/// Options with one size, of which fio ignores what follows it.
pub(super) const ONE_SIZE: [&str; 6] = ["size", "io_size", "filesize", "offset", "bs", "blocksize"];
/// Values that turn an option off.
const OFF: &[&str] = &["0", "none"];

const NO_FILE: &str = "files are laid out before a simulated job starts";
const NO_KERNEL: &str = "has no effect: the simulation makes no system calls";
const NO_DATA: &str = "simulated I/O carries no data";
const NO_CPU: &str = "simulated jobs do not run on the CPUs of this machine";
const REPORTING: &str = "results are reported by mirrorball, not by fio";
const OWN_SEEDS: &str = "the seed of the run determines all random numbers";
const FAILURES: &str =
    "a job ends at its first failed request, and requests fail only on an array with faults";
const VERIFY: &str = "simulated I/O carries no data that could be verified";
const MERGE: &str = "traces are not merged\nuse one section for each trace";
const REPLAY: &str = "the trace decides: rw, bs, size and offset have no effect; iodepth is 1024 \
                      unless it is set or the replay is closed";
const ZBD: &str = "has no effect without zonemode=zbd";
const PRIORITY: &str = "all requests have one priority: disks and schedulers that heed it are not \
                        modelled";
const PLACEMENT: &str = "disks do not use hints about the placement of data";
const BATCHES: &str = "requests are submitted and completed one by one";
const EARLY_END: &str = "the job is not ended early: it ends after its size or its runtime";
const GOAL: &str = "the requests before the depth is found do not count, as in fio; the job ends \
                    at a request slower than latency_target at a depth of 1 if latency_percentile \
                    is 100, the default, and goes on if it is less";
const PROFILE: &str = "an option of fio's profiles, without effect on a job";
const OF_ENGINE: &str = "an option of the ioengine: only its name decides, see `ioengine`";

const ROWS: &[OptionRow] = &[
    // Name and target of the job.
    takes("name", Setter::Name(|draft, name| draft.job.name = name)),
    takes("description", Setter::Name(|draft, text| draft.job.description = Some(text))),
    takes("filename", Setter::Name(|draft, names| draft.files.names = Some(names))),
    takes("directory", Setter::Name(|draft, names| draft.files.directories = Some(names))),
    takes("filename_format", Setter::Name(|draft, format| draft.files.format = format)),
    takes(
        "nrfiles nr_files",
        Setter::Number([1, FILES_MAX], |draft, files| draft.files.count = files),
    ),
    takes("filesize", Setter::Text(setters::file_size)),
    takes("create_only", Setter::Truth(|draft, on| draft.files.is_only_made = on)),
    takes("file_service_type", Setter::Text(lists::file_order)),
    takes(
        "openfiles",
        Setter::Number(COUNT, |draft, files| draft.job.open_files = Some(files as usize)),
    ),
    takes(
        "fill_device fill_fs",
        Setter::Truth(|draft, on| draft.job.size = draft.job.size.filter(|_| !on)),
    ),
    takes("ioengine", Setter::Text(setters::engine)),
    takes("io_submit_mode", Setter::Text(setters::submit_mode)),
    takes("kb_base", Setter::Text(setters::kb_base)),
    // Traces in place of generated requests.
    noted("read_iolog", Setter::Text(setters::replay_path), REPLAY),
    takes("replay_no_stall", Setter::Flag(|draft, is_set| draft.replay.no_stall = is_set)),
    takes(
        "replay_time_scale",
        Setter::Number(COUNT, |draft, value| draft.replay.time_scale_percent = value),
    ),
    takes(
        "replay_scale",
        Setter::Number(COUNT, |draft, value| draft.replay.offset_divisor = value),
    ),
    takes("replay_align", Setter::Text(setters::replay_align)),
    takes("replay_skip", Setter::Text(setters::replay_skip)),
    ignored("replay_redirect", "a trace is replayed on the volume"),
    ignored("read_iolog_chunked", "a trace is always read in parts"),
    // Kind and order of its requests.
    takes("rw readwrite", Setter::Text(setters::direction)),
    takes("rw_sequencer", Setter::Text(setters::sequencer)),
    takes("bs blocksize", Setter::Text(setters::block_size)),
    takes("bssplit", Setter::Text(lists::block_split)),
    takes("bsrange blocksize_range", Setter::Text(lists::block_range)),
    takes("blockalign ba", Setter::Text(setters::block_align)),
    takes("rwmixread", Setter::Number(PERCENT, |draft, value| draft.read_percent = value)),
    takes("rwmixwrite", Setter::Number(PERCENT, |draft, value| draft.read_percent = 100 - value)),
    takes("percentage_random", Setter::Text(setters::random_percent)),
    takes("random_distribution", Setter::Text(lists::distribution)),
    takes("random_sequence_stride", Setter::Truth(|draft, on| draft.strides = on)),
    takes("norandommap", Setter::Flag(|draft, on| draft.job.random_map = !on)),
    takes("randseed", Setter::Number(WIDE, |draft, seed| draft.job.random_seed = Some(seed))),
    takes("randrepeat allrandrepeat", Setter::Truth(|draft, on| draft.job.random_repeat = on)),
    takes("direct", Setter::Truth(|draft, on| draft.job.direct = on)),
    takes("buffered", Setter::Truth(|draft, on| draft.job.direct = !on)),
    takes("sync", Setter::Text(setters::synchronous)),
    takes("fsync", Setter::Number(ANY, |draft, writes| draft.job.fsync = writes)),
    takes("fdatasync", Setter::Number(ANY, |draft, writes| draft.job.fdatasync = writes)),
    takes("end_fsync", Setter::Truth(|draft, on| draft.job.final_flush = on)),
    takes("fsync_on_close end_syncfs", Setter::Truth(|draft, on| draft.job.final_flush |= on)),
    takes("verify", Setter::Text(setters::verify)),
    takes("verify_only", Setter::Flag(|draft, on| draft.verify.is_only = on)),
    takes("do_verify", Setter::Truth(|draft, on| draft.verify.is_write_only = !on)),
    // Region and number of requests.
    takes("size", Setter::Text(setters::size)),
    takes("offset fileoffset", Setter::Extent(|draft, offset| draft.job.offset = offset)),
    takes("offset_increment", Setter::Extent(|draft, step| draft.job.offset_increment = step)),
    takes("offset_align", Setter::Size(|draft, bytes| draft.job.offset_align = some(bytes))),
    takes("io_size io_limit", Setter::Text(setters::io_size)),
    takes("number_ios", Setter::Number(WIDE, |draft, ios| draft.job.number_ios = some(ios))),
    takes("loops", Setter::Number([0, MAX], |draft, loops| draft.job.loops = loops.max(1))),
    takes("num_range", Setter::Number(COUNT, |draft, ranges| draft.ranges = ranges)),
    takes("zonemode", Setter::Text(setters::zone_mode)),
    takes("zonesize", Setter::Size(|draft, bytes| draft.zones.size_bytes = bytes)),
    takes("zonerange", Setter::Size(|draft, bytes| draft.zones.range_bytes = bytes)),
    takes("zoneskip", Setter::Size(|draft, bytes| draft.zones.skip_bytes = bytes)),
    // Queue depth, rate and time.
    takes("iodepth", Setter::Number(DEPTH, |draft, depth| draft.job.depth = depth as u32)),
    takes("numjobs", Setter::Number(CLONES, |draft, clones| draft.job.clones = clones as u32)),
    takes(
        "runtime timeout",
        Setter::Time(SECOND, |draft, time| draft.job.runtime = some_time(time)),
    ),
    takes("time_based", Setter::Flag(|draft, on| draft.job.time_based = on)),
    takes("ramp_time", Setter::IdleTime(|draft, time| draft.job.ramp = time)),
    takes("startdelay", Setter::IdleTime(|draft, time| draft.job.start_delay = time)),
    takes("stonewall wait_for_previous", Setter::Flag(|draft, on| draft.group.stonewall = on)),
    takes("wait_for", Setter::Name(|draft, name| draft.group.waits_for = Some(name))),
    takes("new_group", Setter::Flag(|draft, on| draft.group.is_new = on)),
    takes("exitall", Setter::Flag(|draft, on| draft.group.ends_together = on)),
    takes("exit_what", Setter::Text(setters::exit_what)),
    takes("rate", Setter::Text(setters::rate)),
    takes("rate_iops", Setter::Text(setters::rate_ios)),
    takes("rate_process", Setter::Text(setters::arrivals)),
    takes("thinktime", Setter::Time(MICROSECOND, |draft, time| draft.job.think_time = time)),
    takes("thinktime_blocks", Setter::Number(COUNT, |draft, ios| draft.job.think_ios = ios)),
    takes("thinktime_blocks_type", Setter::Text(setters::think_type)),
    takes("rate_ignore_thinktime", Setter::Truth(|draft, on| draft.job.rate_skips_pauses = on)),
    takes("flow", Setter::Number(ANY, |draft, weight| draft.flow().weight = weight)),
    takes("flow_id", Setter::Number(WIDE, |draft, id| draft.flow().id = id)),
    takes("flow_sleep", Setter::Time(MICROSECOND, |draft, time| draft.flow().pause = time)),
    noted(
        "latency_target",
        Setter::Time(MICROSECOND, |draft, time| draft.goal().latency = time),
        GOAL,
    ),
    takes("latency_window", Setter::Time(MICROSECOND, |draft, time| draft.goal().window = time)),
    takes("latency_percentile", Setter::Text(setters::latency_percentile)),
    takes("latency_run", Setter::Truth(|draft, on| draft.goal().is_endless = on)),
    takes("group_reporting", Setter::Flag(|draft, on| draft.job.group_reporting = on)),
    // Options without an effect.
    noted("random_generator", Setter::Name(|draft, it| draft.is_lfsr = it == "lfsr"), OWN_SEEDS),
    ignored("softrandommap", "the simulation always has the memory for the random map"),
    ignored(
        "unique_filename filetype fallocate overwrite create_serialize create_fsync \
         create_on_open allow_file_create allow_mounted_write unlink unlink_each_loop",
        NO_FILE,
    ),
    ignored("invalidate", "the page cache is empty when a simulated job starts"),
    ignored(
        "fadvise_hint mem iomem iomem_align mem_align lockmem hugepage-size clocksource \
         gtod_reduce gtod_cpu job_start_clock_id exec_prerun exec_postrun uid gid thread comm \
         gpu_dev_id",
        NO_KERNEL,
    ),
    ignored(
        "cpuload cpuchunks cpumode exit_on_io_done program arguments grace_time std_redirect \
         protocol proto listen nodelay pingpong interface ttl window_size mss bindname verb \
         serverip direct_write_to_pmem busy_wait_polling donorname inplace stat_type namenode \
         hdfsdirectory single_instance hdfs_use_direct https http_host http_user http_pass \
         http_s3_key http_s3_keyid http_s3_region http_s3_security_token \
         http_s3_storage_class http_s3_sse_customer_key http_s3_sse_customer_algorithm \
         http_swift_auth_token http_mode http_verbose object_mode \
         hipri hipri_percentage fixedbufs registerfiles sqthread_poll sqthread_poll_cpu \
         nonvectored force_async userspace_reap libaio_vectored nowait cmd_type cdb_len uri \
         readfua writefua read_mode verify_mode verify_bytchk deac \
         stream_id md_per_io_size pi_act pi_chk apptag apptag_mask thp skip_bad \
         no_completion_thread initiator rbdname rbd_encryption_format pool clientname \
         clustername conf busy_poll touch_objects libblkio_driver libblkio_path \
         libblkio_pre_connect_props libblkio_num_entries libblkio_queue_size \
         libblkio_pre_start_props libblkio_vectored libblkio_write_zeroes_on_trim \
         libblkio_wait_mode libblkio_force_enable_completion_eventfd gpu_dev_ids cuda_io \
         rocm_io xnvme_be xnvme_mem xnvme_async xnvme_sync xnvme_admin xnvme_dev_nsid \
         xnvme_dev_subnqn xnvme_iovec nfs_url volume brick cont chunk_size object_class svcl \
         hostname port spdk_conf spdk_json_conf json_spdk_conf mem_size_mb shm_id log_flags \
         enable_wrr env_context enable_interrupts arbitration_burst low_weight medium_weight \
         high_weight wrr_priority enable_sgl sge_size disable_pcie_sgl_merge bit_bucket_data_len \
         hostnqn digest_enable enable_vmd initial_zone_reset zone_append print_qid_mappings \
         spdk_tracing spdk_mem spdk_single_seg spdk_rpc_listen_addr",
        OF_ENGINE,
    ),
    ignored(
        "zero_buffers refill_buffers scramble_buffers buffer_pattern \
         buffer_compress_percentage buffer_compress_chunk dedupe_percentage dedupe_mode \
         dedupe_working_set_percentage dedupe_global",
        NO_DATA,
    ),
    ignored(
        "cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy nice \
         thinktime_spin thinkcycles cgroup cgroup_nodelete",
        NO_CPU,
    ),
    ignored(
        "unified_rw_reporting disable_lat disable_clat disable_slat \
         disable_bw_measurement disable_bw clat_percentiles lat_percentiles slat_percentiles \
         percentile_list significant_figures disk_util unit_base per_job_logs write_bw_log \
         write_lat_log write_iops_log write_hist_log write_iolog bwavgtime iopsavgtime \
         log_entries log_avg_msec log_hist_msec log_hist_coarseness log_window_value \
         log_max_value log_offset log_prio log_issue_time log_compression \
         log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch \
         log_alternate_epoch_clock_id block_error_percentiles rate_cycle ratecycle eta \
         eta-newline status-interval stats",
        REPORTING,
    ),
    ignored("continue_on_error ignore_error error_dump exitall_on_error", FAILURES),
    ignored(
        "verify_interval verify_offset verify_pattern verify_pattern_interval verify_fatal \
         verify_dump verify_async verify_async_cpus verify_backlog verify_backlog_batch \
         verify_state_load verify_state_save verify_write_sequence verify_header_seed \
         verify_policy verifysort verifysort_nr experimental_verify trim_verify_zero \
         trim_backlog trim_backlog_batch",
        VERIFY,
    ),
    ignored(
        "zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits \
         zone_reset_threshold zone_reset_frequency recover_zbd_write_error \
         write_zone_remainder",
        ZBD,
    ),
    ignored(
        "fdp dataplacement data_placement plid_select fdp_pli_select plids fdp_pli dp_scheme \
         write_hint",
        PLACEMENT,
    ),
    ignored(
        "threads block dir numruns device-names load test-duration threads-per-queue \
         read-req-num-512-blocks large-block-op-kbytes prep",
        PROFILE,
    ),
    ignored("rwmixcycle percentage_sequential flow_watermark", "fio ignores it, too"),
    // Options whose small effect is left out.
    left_out(
        "iodepth_batch iodepth_batch_submit iodepth_batch_complete iodepth_batch_complete_min \
         iodepth_batch_complete_max iodepth_low",
        &["0", "1"],
        BATCHES,
    ),
    left_out("serialize_overlap", OFF, "requests that overlap are not held back"),
    left_out(
        "rate_min ratemin rate_iops_min max_latency steadystate ss steadystate_duration \
         ss_dur steadystate_ramp_time ss_ramp steadystate_check_interval ss_interval",
        OFF,
        EARLY_END,
    ),
    left_out("bs_unaligned blocksize_unaligned", OFF, "sizes are multiples of the smallest size"),
    left_out("sync_file_range write_barrier", OFF, "it is no flush"),
    left_out("atomic", OFF, "simulated writes are always atomic"),
    left_out("uncached", OFF, "the page cache keeps no data that was read before"),
    left_out("file_append", OFF, "files are empty before a simulated job starts"),
    left_out("lockfile", OFF, "clones do not lock their files"),
    left_out("trim_percentage", OFF, "the discards of verified blocks are left out"),
    left_out(
        "prio prioclass priohint cgroup_weight cmdprio cmdprio_percentage cmdprio_class \
         cmdprio_hint cmdprio_bssplit",
        OFF,
        PRIORITY,
    ),
    left_out(
        "sprandom spr_num_regions spr_op spr_cs",
        OFF,
        "the addresses are random; the blocks that fio writes twice are left out",
    ),
    left_out("ioscheduler", OFF, "the only scheduler is the one inside the disk"),
    // Options that would change the result.
    refused(
        "write_mode sg_write_mode",
        &["write"],
        "the device gets another command than a plain write",
    ),
    refused("opendir", OFF, "the simulation has no directory to list\nwrite nrfiles and filesize"),
    refused("pre_read", OFF, "the page cache would serve every read\nremove the section"),
    refused(
        "bs_is_seq_rand",
        OFF,
        "sizes do not depend on the access pattern\nuse two sections, one sequential",
    ),
    refused(
        "thinktime_iotime",
        OFF,
        "a pause starts after a number of requests\nwrite thinktime_blocks",
    ),
    refused("ramp_size", OFF, "a ramp ends after a time\nwrite ramp_time"),
    refused("merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters", OFF, MERGE),
    refused(
        "profile",
        &[],
        "a profile of fio replaces the job\nwrite the requests of the profile as a job",
    ),
];

const fn takes(names: &'static str, setter: Setter) -> OptionRow {
    OptionRow { names, support: Support::Takes(setter), note: None }
}

const fn noted(names: &'static str, setter: Setter, note: &'static str) -> OptionRow {
    OptionRow { names, support: Support::Takes(setter), note: Some(note) }
}

const fn ignored(names: &'static str, reason: &'static str) -> OptionRow {
    left_out(names, &[], reason)
}

const fn left_out(
    names: &'static str,
    unless: &'static [&'static str],
    reason: &'static str,
) -> OptionRow {
    OptionRow { names, support: Support::Ignored { unless, reason }, note: None }
}

const fn refused(
    names: &'static str,
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
        for name in ROWS.iter().flat_map(super::OptionRow::names) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
