//! The summary of a job file that `mirrorball check` prints.

use mirrorball_core::units::{Nanos, format_bytes as size};
use mirrorball_sim::job::{
    Access, AddressModifier, Arrivals, Background, Direction, Distribution, FileOrder, JobFile,
    JobTarget, Mix, Note, Region, Section, SizeOrPercent, SizeShare, Zone,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The sections of a job, its background work and its notes, a line each. A note that is among
/// `noted` was printed with another job, and is left out.
pub(crate) fn summary(file: &JobFile, noted: &mut BTreeSet<(String, String)>) -> String {
    let (jobs, background) = (file.sections.len(), file.background.len());
    let mut text = format!("sections: {jobs}, background loads: {background}\n");
    let mut group = file.sections.first().map_or(0, |job| job.group);
    for job in &file.sections {
        if std::mem::replace(&mut group, job.group) != job.group {
            text += "  then, when those above have ended:\n";
        }
        text += &format!("  [{}] {}\n", job.name, job_line(job));
        let own = if job.replay.is_some() { None } else { order_of(job) };
        for line in [own, amount_of(job), laid_out(job)].into_iter().flatten() {
            text += &format!("    {line}\n");
        }
    }
    for work in &file.background {
        text += &format!("  background: {}\n", background_line(work));
    }
    for Note { file, line, option, reason } in &file.notes {
        if !noted.insert((option.clone(), reason.clone())) {
            continue;
        }
        text += &format!("  note: {file}:{line}: `{option}`: {reason}\n");
    }
    text
}

fn background_line(work: &Background) -> String {
    let rate = work.rate_bytes_per_s.map(|rate| format!(" at {}/s", size(rate)));
    let member = work.devid.map(|devid| format!(" of devid {devid}"));
    let system = work.rebuilder.map(|system| format!(" as by {system:?}").to_lowercase());
    let from = work.from_percent.map(|percent| format!(" from {percent} % on"));
    format!("{:?}", work.kind).to_lowercase()
        + &member.unwrap_or_default()
        + &system.unwrap_or_default()
        + &from.unwrap_or_default()
        + &rate.unwrap_or(" without a rate limit".to_owned())
}

fn pauses(job: &Section) -> String {
    let flow = job.flow.map(|flow| format!(", {} parts of flow {}", flow.weight, flow.id));
    let goal = job.depth_goal.map(|goal| {
        format!(", the depth at which {} % take at most {}", goal.percentile, goal.latency)
    });
    let ended = if job.think_lag > 0 { " that have ended" } else { "" };
    let pause = match (job.think_time, job.think_ios) {
        (Nanos::ZERO, _) => String::new(),
        (time, 1) if job.think_lag == 0 => format!(", a pause of {time} after each request"),
        (time, 1) => format!(", a pause of {time} after each request that has ended"),
        (time, ios) => format!(", a pause of {time} after every {ios} requests{ended}"),
    };
    pause + &flow.unwrap_or_default() + &goal.unwrap_or_default()
}

fn job_line(job: &Section) -> String {
    let clones = match (job.clones, &job.replay) {
        (1, _) => String::new(),
        (clones, None) => format!(", {clones} processes"),
        (clones, Some(_)) => format!(", by each of {clones} processes"),
    };
    let cache = if job.direct { "" } else { ", through the page cache" };
    let until = match (job.runtime, job.time_based) {
        (Some(runtime), true) if job.replay.is_none() => format!(", for {runtime}"),
        (Some(runtime), _) => format!(", for {runtime} at most"),
        (None, _) => String::new(),
    };
    let end = if job.ends.is_some() { ", and the first to end ends its group" } else { "" };
    let ramp = if job.ramp == Nanos::ZERO { String::new() } else { format!(" after {}", job.ramp) };
    let score = if job.counts { "" } else { ", not in the score" };
    let requests = match &job.replay {
        Some(replay) => {
            format!("{}, at most {} in flight{clones}", replay.describe(), job.depth)
        }
        None => {
            let (rates, pauses, flushes) = (rates(job), pauses(job), flushes(job));
            format!("{}{clones}{rates}{pauses}{flushes}", generated(job))
        }
    };
    format!("{requests}{cache}{until}{ramp}{end}{score}")
}

/// The requests of a section without a trace, and where they go.
fn generated(job: &Section) -> String {
    let access = match job.access {
        Access::Sequential => "sequential",
        Access::Random => "random",
    };
    let mix = match job.mix {
        Mix::Only(Direction::Read) => "reads".to_owned(),
        Mix::Only(Direction::Write) => "writes".to_owned(),
        Mix::Only(Direction::Trim) => "trims".to_owned(),
        Mix::TrimWrite => "trims and writes".to_owned(),
        Mix::ReadWrite { read_percent } => match job.mix.directions() {
            [reads, writes] if sizes_of(job, *reads) != sizes_of(job, *writes) => {
                let reads = sizes_of(job, *reads);
                format!("reads ({read_percent} %) of {reads} and writes")
            }
            _ => format!("reads ({read_percent} %) and writes"),
        },
    };
    let target = match &job.target {
        JobTarget::Files(_) => "file",
        target if target.is_volume() => "volume",
        JobTarget::Devices { .. } => "device",
    };
    let offset = match job.offset {
        SizeOrPercent::Bytes(0) | SizeOrPercent::Percent(0) => String::new(),
        SizeOrPercent::Bytes(bytes) => format!(" from {} on", size(bytes)),
        SizeOrPercent::Percent(percent) => format!(" from {percent} % of the {target} on"),
    };
    let region = match job.size {
        None if offset.is_empty() => format!("the whole {target}"),
        None => format!("the {target}"),
        Some(SizeOrPercent::Bytes(bytes)) => size(bytes),
        Some(SizeOrPercent::Percent(percent)) => format!("{percent} % of the {target}"),
    };
    let sizes = sizes_of(job, *job.mix.directions().last().expect("a job has a direction"));
    format!("{access} {mix} of {sizes} over {region}{offset}, {} in flight", job.depth)
}

/// Parts of a line in words; none if there are none.
fn line_of(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How addresses and files follow each other, where that is unusual.
fn order_of(job: &Section) -> Option<String> {
    let is_random = job.access == Access::Random;
    let directions = job.mix.directions();
    let percents: Vec<u64> = directions.iter().map(|&it| job.random_percent[it]).collect();
    let aligned = directions.iter().find_map(|&it| job.align_bytes[it]);
    let is_on_files = matches!(&job.target, JobTarget::Files(it) if it.sets[0].len() > 1);
    line_of([
        match job.modifier {
            AddressModifier::None => None,
            AddressModifier::Skip(bytes) if bytes < 0 => {
                Some(format!("backwards by {} each", size(bytes.unsigned_abs())))
            }
            AddressModifier::Skip(bytes) => {
                Some(format!("{} left out after each", size(bytes.unsigned_abs())))
            }
            AddressModifier::Runs { length, is_identical: false } => {
                Some(format!("a random address for every {length} in a row"))
            }
            AddressModifier::Runs { length, .. } => Some(format!("{length} at each address")),
        },
        (is_random && percents.iter().any(|it| *it < 100)).then(|| match percents[..] {
            [reads, writes] if reads != writes && job.mix != Mix::TrimWrite => {
                format!("{reads} % of reads and {writes} % of writes at random addresses")
            }
            _ => format!("{} % at random addresses", percents[0]),
        }),
        distributed(job),
        job.zones.map(|it| {
            let [zone, range, skip] = [it.size_bytes, it.range_bytes, it.skip_bytes].map(size);
            format!("{zone} of each {range}, then {skip} left out")
        }),
        aligned.map(|bytes| format!("at multiples of {}", size(bytes))),
        match (is_on_files, &job.file_order) {
            (false, _) => None,
            (_, FileOrder::RoundRobin) => Some("files in turn".to_owned()),
            (_, FileOrder::Sequential) => Some("one file after the other".to_owned()),
            (_, FileOrder::Drawn(_)) => Some("files at random".to_owned()),
        },
        job.open_files.filter(|_| is_on_files).map(|count| format!("{count} open at a time")),
        (is_on_files && job.file_ios > 1).then(|| format!("{} in a row of each", job.file_ios)),
        match (job.offset_increment, job.clones) {
            (SizeOrPercent::Bytes(0) | SizeOrPercent::Percent(0), _) | (_, 1) => None,
            (SizeOrPercent::Bytes(by), _) => Some(format!("each process {} further on", size(by))),
            (SizeOrPercent::Percent(by), _) => Some(format!("each process {by} % further on")),
        },
    ])
}

/// The distribution of random addresses, unless each block comes once.
fn distributed(job: &Section) -> Option<String> {
    if job.access != Access::Random {
        return None;
    }
    Some(match &job.distribution {
        Distribution::Uniform if !job.random_map => "addresses may recur".to_owned(),
        Distribution::Uniform => return None,
        Distribution::Zipf { theta, .. } => format!("zipf {theta}"),
        Distribution::Pareto { h, .. } => format!("pareto {h}"),
        Distribution::Normal { deviation, .. } => format!("normal, {deviation} % wide"),
        Distribution::Zoned(zones) => {
            let directions = job.mix.directions();
            let of = |direction: &Direction| zones_of(&zones[*direction]);
            match directions.iter().all(|it| zones[*it] == zones[directions[0]]) {
                true => of(&directions[0]),
                false => {
                    let names = ["reads", "writes", "trims"];
                    let named = |it: &Direction| format!("{}: {}", names[*it as usize], of(it));
                    directions.iter().map(named).collect::<Vec<_>>().join("; ")
                }
            }
        }
        Distribution::Sequence { blocks, .. } => format!("{} blocks again and again", blocks.len()),
    })
}

/// Zones, and the share of the requests to each.
fn zones_of(zones: &[Zone]) -> String {
    let zone = |zone: &Zone| {
        let bytes = match zone.size {
            SizeOrPercent::Bytes(bytes) => size(bytes),
            SizeOrPercent::Percent(percent) => format!("{percent} %"),
        };
        format!("{} % in {bytes}", zone.access_percent)
    };
    match zones {
        [] => "evenly".to_owned(),
        zones => zones.iter().map(zone).collect::<Vec<_>>().join(", then "),
    }
}

/// How much is requested, and when it begins, where that is unusual.
fn amount_of(job: &Section) -> Option<String> {
    let delay =
        (job.start_delay > Nanos::ZERO).then(|| format!("begins after {}", job.start_delay));
    // The time alone ends it.
    if job.time_based && job.runtime.is_some() {
        return delay;
    }
    let each = if job.clones > 1 { " by each process" } else { "" };
    let within = |bytes: u64| match job.size {
        Some(SizeOrPercent::Bytes(all)) => bytes.min(all),
        _ => bytes,
    };
    let (pass, total) = match (job.passes_end_with_file, job.pass_bytes.map(within)) {
        (true, pass) => (None, job.io_bytes.or(pass)),
        (false, pass) => (pass, job.io_bytes),
    };
    line_of([
        delay,
        total.map(|bytes| match job.loops {
            1 => format!("{} in all{each}", size(bytes)),
            loops => format!("at most {} in all{each}", size(bytes.saturating_mul(loops))),
        }),
        job.io_percent.map(|percent| format!("{percent} % of it in a pass")),
        pass.map(|bytes| format!("{} in a pass{each}", size(bytes))),
        job.number_ios.map(|count| format!("at most {count} requests in a pass{each}")),
        (job.loops > 1).then(|| match (job.size, pass, total, job.io_percent) {
            (Some(SizeOrPercent::Bytes(bytes)), pass, None, None) => {
                let all = pass.unwrap_or(bytes).saturating_mul(job.loops);
                format!("{} passes, {} in all{each}", job.loops, size(all))
            }
            _ => format!("{} passes", job.loops),
        }),
    ])
}

/// Sizes beyond this number are given as a range, with the share of the most frequent.
const SIZES_MAX: usize = 6;

fn sizes_of(job: &Section, direction: Direction) -> String {
    let sizes = &job.sizes[direction];
    let total: u64 = sizes.iter().map(|share| share.weight).sum();
    let percent = |share: &SizeShare| match share.weight * 100 % total.max(1) {
        0 => format!("{} %", share.weight * 100 / total.max(1)),
        _ => format!("{:.1} %", share.weight as f64 * 100.0 / total as f64),
    };
    match &sizes[..] {
        [one] => size(one.bytes),
        [first, .., last] if sizes.len() > SIZES_MAX => {
            let range = format!("{} to {}", size(first.bytes), size(last.bytes));
            match sizes.iter().max_by_key(|share| (share.weight, Reverse(share.bytes))) {
                Some(most) if sizes.iter().any(|share| share.weight < most.weight) => {
                    format!("{range} ({}: {})", size(most.bytes), percent(most))
                }
                _ => range,
            }
        }
        several => {
            let each = several.iter().map(|it| format!("{} ({})", size(it.bytes), percent(it)));
            each.collect::<Vec<String>>().join(" or ")
        }
    }
}

/// Files beyond this number are counted only.
const FILES_MAX: usize = 4;

fn laid_out(job: &Section) -> Option<String> {
    let files: Vec<&Region> = match &job.target {
        JobTarget::Files(layout) => layout.sets.iter().flatten().collect(),
        target if target.is_volume() => return None,
        JobTarget::Devices { parts, of } => {
            let parts: Vec<String> = parts.iter().map(|part| (part + 1).to_string()).collect();
            return Some(format!("on part {} of {of} of the volume", parts.join(" and ")));
        }
    };
    let place = |file: &&Region| format!("{} at {}", size(file.bytes), size(file.offset));
    if files.len() <= FILES_MAX {
        let places: Vec<String> = files.iter().map(place).collect();
        return Some(format!("files: {}", places.join(", ")));
    }
    let (first, last) = (files.first()?, files.last()?);
    Some(format!("files: {}, from {} to {}", files.len(), place(first), place(last)))
}

/// The maximum rates of a section, of each clone.
fn rates(job: &Section) -> String {
    let directions = job.mix.directions();
    let rates = directions.iter().filter_map(|&direction| {
        let rate = match (job.rate_bytes_per_s[direction], job.rate_ios_per_s[direction]) {
            (Some(bytes), _) => format!("at most {}/s", size(bytes)),
            (None, Some(ios)) => format!("at most {ios} IOPS"),
            (None, None) => return None,
        };
        let what = match (directions.len(), direction) {
            (1, _) => "",
            (_, Direction::Read) => " of reads",
            (_, Direction::Write) => " of writes",
            (_, Direction::Trim) => " of trims",
        };
        Some(format!(", {rate}{what}"))
    });
    let each = if job.clones == 1 { "" } else { " each" };
    let rates: String = rates.map(|rate| rate + each).collect();
    let process = match job.arrivals {
        Arrivals::Poisson if !rates.is_empty() => " at random times",
        Arrivals::Poisson | Arrivals::Linear => "",
    };
    rates + process
}

fn flushes(job: &Section) -> String {
    let every = |option: &str, writes: u64| match writes {
        0 => String::new(),
        1 => format!(", {option} after each write"),
        _ => format!(", {option} after every {writes} writes"),
    };
    if !job.mix.directions().contains(&Direction::Write) {
        return String::new();
    }
    let last = if job.final_flush { ", a flush after the last write" } else { "" };
    every("fsync", job.fsync) + &every("fdatasync", job.fdatasync) + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_sim::job::JobContext;

    #[test]
    fn rates_and_flushes_are_in_the_summary_of_a_section() {
        let line = |options: &str| {
            let text = format!("[log]\nsize=1g\n{options}\n");
            job_line(&JobFile::parse(&text, "a.fio", &JobContext::empty()).unwrap().sections[0])
        };
        let log = line("rw=write\nrate_iops=50\nfsync=1");
        assert!(log.contains(", 1 in flight, at most 50 IOPS, fsync after each write"), "{log}");
        let mixed = line("rw=randrw\nrate=1m,2m\nnumjobs=2\nfdatasync=8\nend_fsync=1");
        let expected = ", at most 1 MiB/s of reads each, at most 2 MiB/s of writes each, \
                        fdatasync after every 8 writes, a flush after the last write";
        assert!(mixed.contains(expected), "{mixed}");
        let paused = line("rw=read\nthinktime=2ms\nthinktime_blocks=8");
        assert!(paused.contains(", a pause of 2.00ms after every 8 requests"), "{paused}");
        let paused = line("ioengine=libaio\niodepth=4\nrw=read\nthinktime=2ms\n");
        assert!(paused.contains("after each request that has ended"), "{paused}");
        let work = "; mirrorball: background=rebuild devid=2 as=md rate=20MB/s\n[a]\n";
        let work = JobFile::parse(work, "a.fio", &JobContext::empty()).unwrap();
        let expected = "rebuild of devid 2 as by md at 19.1 MiB/s";
        assert_eq!(background_line(&work.background[0]), expected);
        let zipf = "[a]\nsize=1g\nrw=read\nrandom_distribution=zipf:1.2\n";
        let zipf = JobFile::parse(zipf, "a.fio", &JobContext::empty()).unwrap();
        assert_eq!(distributed(&zipf.sections[0]), None, "a sequential section draws nothing");
        let split = line("rw=randread\nbssplit=4k/70:8k/20:64k/10");
        assert!(
            split.contains("reads of 4 KiB (70 %) or 8 KiB (20 %) or 64 KiB (10 %)"),
            "{split}"
        );
        let many = line("rw=randread\nbssplit=4k/40:8k/10:12k/10:16k/10:20k/10:24k/10:28k/10");
        assert!(many.contains("reads of 4 KiB to 28 KiB (4 KiB: 40 %) over"), "{many}");
        let range = line("rw=randread\nbsrange=4k-64k");
        assert!(range.contains("reads of 4 KiB to 64 KiB over"), "{range}");
        let poisson = line("rw=randread\nrate_iops=50\nrate_process=poisson");
        assert!(poisson.contains("at most 50 IOPS at random times"), "{poisson}");
    }

    /// Found by a trial: jobs of very different loads were one line.
    #[test]
    fn each_option_that_changes_the_load_changes_the_summary() {
        let shown = |options: &str| {
            let text = format!("[a]\nrw=randrw\nsize=1g\ndirect=1\n{options}\n");
            let file = JobFile::parse(&text, "a.fio", &JobContext::empty());
            let file = file.unwrap_or_else(|error| panic!("{options}: {error}"));
            summary(&JobFile { notes: Vec::new(), ..file }, &mut BTreeSet::new())
        };
        let base = shown("");
        for options in [
            "loops=5",
            "io_size=100g",
            "io_size=50%",
            "number_ios=1000",
            "startdelay=60",
            "random_distribution=zipf:1.2",
            "random_distribution=pareto:0.3",
            "random_distribution=normal:20",
            "random_distribution=zoned:60/10:40/90",
            "; mirrorball: counts=no\n[b]\nsize=1g",
            "percentage_random=20",
            "norandommap",
            "zonemode=strided\nzonesize=1m\nzonerange=2m\nzoneskip=4m",
            "rw=randrw:8",
            "rw=randread:8",
            "rw=rw",
            "rw=read:64k",
            "ba=64k",
            "bs=8k",
            "iodepth=8\nioengine=libaio",
            "numjobs=2\noffset_increment=1m\nfilename=x",
            "runtime=5\ntime_based",
            "ramp_time=3\nruntime=5\ntime_based",
            "thinktime=5ms",
            "rate_iops=50",
            "fsync=4",
            "rwmixread=70",
            "direct=0",
            "offset=1m",
        ] {
            assert_ne!(shown(options), base, "{options}");
        }
        let expected = "0 % of reads and 100 % of writes at random addresses";
        assert!(shown("percentage_random=0,100").contains(expected));
        let zones = |shares: &str| shown(&format!("random_distribution={shares}"));
        let expected = "60 % in 10 %, then 40 % in 90 %\n";
        assert!(zones("zoned:60/10:40/90").contains(expected), "{}", zones("zoned:60/10:40/90"));
        let of_reads = zones("zoned_abs:60/10m:40/90m,100/1g");
        let expected = "reads: 60 % in 10 MiB, then 40 % in 90 MiB; writes: 100 % in 1 GiB\n";
        assert!(of_reads.contains(expected), "{of_reads}");
        let uncounted = shown("; mirrorball: counts=no\n[b]\nsize=1g");
        assert!(uncounted.contains("1 in flight, not in the score\n"), "{uncounted}");
        let files = "nrfiles=4\nfilesize=64m";
        for options in ["file_service_type=sequential", "file_service_type=random", "openfiles=2"] {
            assert_ne!(shown(&format!("{files}\n{options}")), shown(files), "{options}");
        }
        let two = |option: &str| shown(&format!("[b]\nrw=read\nsize=1g\n{option}"));
        assert!(two("stonewall").contains("  then, when those above have ended:\n  [b]"));
        assert!(!two("").contains("then, when"));
        assert!(shown("loops=5").contains("\n    5 passes, 5 GiB in all\n"));
        assert!(shown("io_size=3g\nloops=5").contains("at most 15 GiB in all, 5 passes\n"));
        let reads = shown("rw=read\nfsync=1\nend_fsync=1");
        assert!(!reads.contains("fsync") && !reads.contains("flush"), "{reads}");
    }

    #[test]
    fn files_are_shown_with_their_places() {
        let shown = |text: &str| {
            let file = JobFile::parse(text, "a.fio", &JobContext::empty()).unwrap();
            summary(&file, &mut BTreeSet::new())
        };
        let own = shown("[a]\nrw=read\nsize=2g\nnumjobs=3\n");
        assert!(
            own.contains("\n    files: 2 GiB at 0 bytes, 2 GiB at 2 GiB, 2 GiB at 4 GiB\n"),
            "{own}"
        );
        let many = shown("[a]\nrw=read\nsize=1g\nnrfiles=1000\n");
        let expected = "files: 1000, from 1.0 MiB at 0 bytes to 1.0 MiB at 2.0 GiB";
        assert!(many.contains(expected), "{many}");
        let devices = shown("[a]\nfilename=/dev/sda:/dev/sdb\n[b]\nfilename=/dev/sdb\n");
        assert!(devices.contains("on part 1 and 2 of 2 of the volume"), "{devices}");
        assert!(devices.contains("on part 2 of 2 of the volume"), "{devices}");
        let whole = shown("[a]\nfilename=/dev/sda\n");
        assert!(whole.contains("over the whole volume") && !whole.contains("part"), "{whole}");
    }
}
