//! The reader against what fio 3.33 does, and what it says of bad input.

use super::value::{self, KbBase};
use super::*;
use mirrorball_core::units::{GIB, KIB, MIB, Nanos};

pub(super) fn parse(text: &str) -> Result<JobFile, Diagnostic> {
    JobFile::parse(text, "test.fio", &JobContext::empty())
}

fn job(options: &str) -> Section {
    let file = parse(&format!("[job]\n{options}")).unwrap_or_else(|error| panic!("{error}"));
    file.sections.into_iter().next().unwrap()
}

/// Measured with `fio --parse-only --debug=parse`, fio 3.33.
#[test]
fn sizes_are_read_as_fio_reads_them() {
    for (text, with_1024, with_1000) in [
        ("4096", 4096, 4096),
        ("4096b", 4096, 4096),
        ("4k", 4096, 4000),
        ("4K", 4096, 4000),
        ("4kb", 4096, 4000),
        ("4kB", 4096, 4000),
        ("4ki", 4096, 4000),
        ("4KiB", 4000, 4096),
        ("4kib", 4000, 4096),
        ("4m", 4 * MIB, 4_000_000),
        ("4MiB", 4_000_000, 4 * MIB),
        ("4g", 4 * GIB, 4_000_000_000),
        ("4t", 4096 * GIB, 4_000_000_000_000),
        ("4p", 4_503_599_627_370_496, 4_000_000_000_000_000),
        ("4pib", 4_000_000_000_000_000, 4_503_599_627_370_496),
        ("0x10", 16, 16),
        ("010", 10, 10),
    ] {
        assert_eq!(value::integer(text, KbBase(1024)), Ok(with_1024), "{text}");
        assert_eq!(value::integer(text, KbBase(1000)), Ok(with_1000), "{text} at 1000");
    }
}

/// fio takes each of these for something else than it says, or refuses it.
#[test]
fn sizes_that_fio_would_misread_are_refused() {
    for text in [
        "", "k", "1.5k", "4kk", "4x", "4k4", "4 k", "+4k", "-1", "1e4", "0x10k", "0x", "0x+1",
        "(4*1024)", "10%", "99999999999999999999", "9999999p", "4e",
    ] {
        assert!(value::integer(text, KbBase(1024)).is_err(), "{text}");
    }
}

/// Measured like the sizes; `2min` and `3sec` are microseconds to fio, so they are refused.
#[test]
fn times_are_read_as_fio_reads_them() {
    let second = Nanos::from_secs(1);
    for (text, ns) in [
        ("30", 30_000_000_000),
        ("30s", 30_000_000_000),
        ("5m", 300_000_000_000),
        ("5M", 300_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1d", 86_400_000_000_000),
        ("500ms", 500_000_000),
        ("500MS", 500_000_000),
        ("10msec", 10_000_000),
        ("500us", 500_000),
        ("10usec", 10_000),
    ] {
        assert_eq!(value::parse_time(text, second), Ok(Nanos(ns)), "{text}");
    }
    for text in ["", "s", "1.5s", "2min", "3sec", "1w", "2ns", "30 s", "-1", "0x10", "9999999999d"]
    {
        assert!(value::parse_time(text, second).is_err(), "{text}");
    }
    assert_eq!(job("thinktime=10").think_time, Nanos::from_micros(10));
    assert_eq!(job("thinktime=10s").think_time, Nanos::from_secs(10));
}

#[test]
fn a_whole_file_is_understood() {
    let text = "\
; a comment
[global]
ioengine=libaio
direct=1
runtime=30 ; and another
time_based

[first]
rw=randrw
rwmixread=70
bs=4k,8k,64k
size=50%
offset=1g
iodepth=16
numjobs=4
offset_increment=10%

# mirrorball: background=scrub rate=100MB/s

[global]
ramp_time=2

[second]
stonewall
rw=read
direct=0
fsync=8
";
    let file = parse(text).unwrap();
    let [first, second] = &file.sections[..] else { panic!("two jobs") };
    assert_eq!((first.name.as_str(), first.line, first.index, first.group), ("first", 8, 0, 0));
    assert_eq!(first.mix, Mix::ReadWrite { read_percent: 70 });
    assert_eq!(first.access, Access::Random);
    let bytes = first.sizes.0.each_ref().map(|sizes| sizes[0].bytes);
    assert_eq!(bytes, [4 * KIB, 8 * KIB, 64 * KIB]);
    assert_eq!(first.size, Some(SizeOrPercent::Percent(50)));
    assert_eq!(
        (first.offset, first.offset_increment),
        (SizeOrPercent::Bytes(GIB), SizeOrPercent::Percent(10))
    );
    assert_eq!((first.depth, first.clones), (16, 4));
    assert_eq!((first.runtime, first.time_based), (Some(Nanos::from_secs(30)), true));
    assert_eq!((first.ramp, first.direct), (Nanos::ZERO, true), "a global counts below it only");
    assert_eq!((second.group, second.index), (1, 1));
    assert_eq!((second.ramp, second.direct), (Nanos::from_secs(2), false));
    assert_eq!(second.runtime, Some(Nanos::from_secs(30)), "globals add up");
    assert_eq!(second.fsync, 8);
    let scrub = Background {
        kind: BackgroundKind::Scrub,
        rate_bytes_per_s: Some(100_000_000),
        devid: None,
        rebuilder: None,
        from_percent: None,
        line: 18,
    };
    assert_eq!(file.background, [scrub]);
}

#[test]
fn values_per_direction_follow_the_howto() {
    let sizes = |text: &str| job(text).sizes.0.map(|sizes| sizes[0].bytes / KIB);
    assert_eq!(sizes("bs=256k"), [256; 3]);
    assert_eq!(sizes("bs=8k,32k"), [8, 32, 32]);
    assert_eq!(sizes("bs=8k,32k,"), [8, 32, 4]);
    assert_eq!(sizes("bs=,8k"), [4, 8, 8]);
    assert_eq!(sizes("bs=,8k,"), [4, 8, 4]);
    assert_eq!(sizes("bs=8k,"), [8, 4, 4]);
    assert_eq!(sizes("bs=4k,,8k"), [4, 4, 8]);
    assert_eq!(job("percentage_random=50,60").random_percent.0, [50, 60, 60]);
    assert_eq!(job("rate=,5m").rate_bytes_per_s.0, [None, Some(5 * MIB), Some(5 * MIB)]);
    let shares = |text: &str| {
        let share = |share: &SizeShare| (share.bytes / KIB, share.weight);
        job(text).sizes[Direction::Write].iter().map(share).collect::<Vec<_>>()
    };
    assert_eq!(shares("bssplit=4k/10:64k/50:32k/40"), [(4, 10), (64, 50), (32, 40)]);
    assert_eq!(shares("bssplit=4k/50:8k/:32k/"), [(4, 50), (8, 25), (32, 25)]);
    assert_eq!(shares("bssplit=4k:8k:12k"), [(4, 33), (8, 33), (12, 34)]);
    assert_eq!(shares("bssplit=8k,4k/90:8k/10"), [(4, 90), (8, 10)]);
}

#[test]
fn distributions_are_read() {
    let of = |text: &str| job(&format!("rw=randread\nrandom_distribution={text}")).distribution;
    assert_eq!(of("random"), Distribution::Uniform);
    assert_eq!(of("zipf"), Distribution::Zipf { theta: 1.1, center: None });
    assert_eq!(of("zipf:1.2:0.25"), Distribution::Zipf { theta: 1.2, center: Some(0.25) });
    assert_eq!(of("pareto:0.2"), Distribution::Pareto { h: 0.2, center: None });
    assert_eq!(of("normal:10"), Distribution::Normal { deviation: 10.0, center: None });
    let zone = |access_percent, size| Zone { access_percent, size: SizeOrPercent::Percent(size) };
    let reads = vec![zone(60, 10), zone(30, 20), zone(10, 70)];
    let alike = PerDirection([reads.clone(), reads.clone(), reads.clone()]);
    assert_eq!(of("zoned:60/10:30/20:10/"), Distribution::Zoned(alike));
    let writes = vec![zone(100, 100)];
    let unlike = PerDirection([reads, writes.clone(), writes]);
    assert_eq!(of("zoned:60/10:30/20:10/,100/100"), Distribution::Zoned(unlike));
    let sized =
        |access_percent, gib| Zone { access_percent, size: SizeOrPercent::Bytes(gib * GIB) };
    let sized = vec![sized(90, 20), sized(10, 80)];
    let alike = PerDirection([sized.clone(), sized.clone(), sized]);
    assert_eq!(of("zoned_abs:90/20G:10/80G"), Distribution::Zoned(alike));
}

/// Which engines reach a depth: HOWTO, "iodepth".
#[test]
fn a_depth_counts_only_where_fio_would_reach_it() {
    for (options, depth) in [
        ("", 1),
        ("ioengine=psync\ndirect=1", 1),
        ("ioengine=libaio", 1),
        ("ioengine=libaio\ndirect=1", 32),
        ("ioengine=io_uring", 32),
    ] {
        let file = parse(&format!("[job]\niodepth=32\n{options}")).unwrap();
        assert_eq!(file.sections[0].depth, depth, "{options}");
        let noted = file.notes.iter().any(|note| note.option == "iodepth");
        assert_eq!(noted, depth == 1, "{options}");
    }
}

#[test]
fn a_depth_that_does_not_count_is_noted_where_it_stands() {
    for (text, line) in [
        ("[a]\nioengine=sync\niodepth=32\n", 3),
        ("[global]\niodepth=32\n[a]\nrw=read\n", 2),
        ("[global]\niodepth=32\n[a]\niodepth=8\n", 4),
    ] {
        let notes = parse(text).unwrap().notes;
        let note = notes.iter().find(|note| note.option == "iodepth").unwrap();
        assert_eq!((&*note.file, note.line), ("test.fio", line), "{text}");
    }
}

#[test]
fn what_changes_nothing_is_noted_once_where_it_first_stands() {
    let text = "[a]\nioengine=psync\nthread\neta=always\n[b]\nthread=1\nverify=0\nsync=none\n";
    let notes = parse(text).unwrap().notes;
    let noted: Vec<(&str, usize)> =
        notes.iter().map(|note| (note.option.as_str(), note.line)).collect();
    assert_eq!(noted, [("thread", 3), ("eta", 4)]);
}

#[test]
fn includes_are_relative_to_their_file_and_belong_to_the_section() {
    let include = |path: &str| match path {
        "jobs/sub/a.fio" => Ok("bs=8k\ninclude b.fio\n".to_owned()),
        "jobs/sub/b.fio" => Ok("; nothing\niodepth=4\n".to_owned()),
        "jobs/sub/bad.fio" => Ok("\nbs=8q\n".to_owned()),
        "jobs/loop.fio" => Ok("include loop.fio".to_owned()),
        "jobs/section.fio" => Ok("[x]".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let environment = JobContext { include: &include, ..JobContext::empty() };
    let parse = |text: &str| JobFile::parse(text, "jobs/top.fio", &environment);
    let text = "[a]\nioengine=io_uring\ninclude sub/a.fio\n[b]\nrw=read\n";
    let file = parse(text).unwrap();
    assert_eq!((file.sections[0].block_bytes(Direction::Read), file.sections[0].depth), (8192, 4));
    assert_eq!((file.sections[1].block_bytes(Direction::Read), file.sections[1].depth), (4096, 1));
    let place = |text: &str| {
        let error = parse(text).unwrap_err();
        (error.file, error.line, error.message)
    };
    let bad = "bs: `8q` is not a size or number";
    assert_eq!(
        place("[a]\ninclude sub/bad.fio"),
        (Some("jobs/sub/bad.fio".into()), Some(2), bad.into())
    );
    let missing = "cannot include `jobs/none.fio`: no such file";
    assert_eq!(
        place("[a]\n\ninclude none.fio"),
        (Some("jobs/top.fio".into()), Some(3), missing.into())
    );
    assert!(place("[a]\ninclude loop.fio").2.contains("nested deeper than 16"));
    assert_eq!(place("[a]\ninclude section.fio").2, "a section in an included file");
}

#[test]
fn variables_are_replaced() {
    let variable = |name: &str| (name == "BS").then(|| "8k".to_owned());
    let environment = JobContext { variable: &variable, ..JobContext::empty() };
    let text = "[a]\nbs=${BS},2${BS}\nfilename=${TARGET}\nwrite_bw_log=${LOG}\n";
    let job = JobFile::parse(text, "test.fio", &environment).unwrap().sections.remove(0);
    assert_eq!(job.block_bytes(Direction::Read), 8 * KIB);
    assert_eq!(job.block_bytes(Direction::Write), 28 * KIB);
    assert!(job.target.is_volume(), "the name is not known, and neither is its size");
}

#[test]
fn regions_are_resolved_and_held_against_the_volume() {
    let region = |options: &str, clone| job(options).regions(clone, GIB)[0].region;
    assert_eq!(region("", 0), Region { offset: 0, bytes: GIB });
    assert_eq!(region("offset=1m", 0), Region { offset: MIB, bytes: GIB - MIB });
    assert_eq!(region("size=3%\nbs=1m", 0), Region { offset: 0, bytes: 30 * MIB });
    // fio rounds relative offsets up to whole blocks.
    assert_eq!(region("size=8k\noffset=33%", 0).offset, (GIB * 33 / 100).next_multiple_of(4096));
    // It rounds the sum of the start and its increments.
    let thirds = region("size=8k\noffset=10%\noffset_increment=33%\nnumjobs=3", 2).offset;
    assert_eq!(thirds, (GIB / 10 + 2 * (GIB * 33 / 100)).next_multiple_of(4096));
    let step = "size=25%\noffset_increment=25%\nnumjobs=4";
    assert_eq!(region(step, 3), Region { offset: 768 * MIB, bytes: 256 * MIB });
    let with_last_part = Region { offset: 0, bytes: 12 * KIB };
    assert_eq!(region("size=12k\nbs=8k", 0), with_last_part);
    let complaint = |options: &str| {
        let file = parse(&format!("\n[job]\n{options}")).unwrap();
        file.validate_against(GIB).map_err(|error| (error.line, error.message))
    };
    assert_eq!(complaint("size=1g"), Ok(()));
    let too_large = "job `job` ends at 2 GiB, but the volume has 1 GiB";
    assert_eq!(complaint("size=2g"), Err((Some(2), too_large.to_owned())));
    let slightly = "job `job` ends 4 KiB after the end of the volume, which has 1 GiB";
    assert_eq!(complaint("size=1048580k"), Err((Some(2), slightly.to_owned())));
    let behind = "job `job` begins at 2 GiB, but the volume has 1 GiB";
    assert_eq!(complaint("offset=2g"), Err((Some(2), behind.to_owned())));
    let last_clone = "copy 3 of 3 of job `job` ends at 1.2 GiB, but the volume has 1 GiB";
    let steps = "filename=/dev/sdb\nsize=400m\noffset_increment=400m\nnumjobs=3";
    assert_eq!(complaint(steps), Err((Some(2), last_clone.to_owned())));
    let small = "job `job` has a region of 4 KiB, smaller than its block size of 8 KiB";
    assert_eq!(complaint("offset=1048572k\nbs=8k"), Err((Some(2), small.to_owned())));
    assert!(complaint("offset=100%").is_err());
}

#[test]
fn the_jobs_of_the_repository_are_read() {
    let mut count = 0;
    for entry in std::fs::read_dir("../../jobs").unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let file = JobFile::parse(&text, path.to_str().unwrap(), &JobContext::empty());
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        file.validate_against(100 * GIB).unwrap();
        let name = path.to_str().unwrap();
        let has_background = name.contains("defrag") || name.contains("scrub");
        assert_eq!(file.background.len(), usize::from(has_background), "{}", path.display());
        assert!(file.sections.iter().all(|job| job.runtime == Some(Nanos::from_secs(60))));
        count += 1;
    }
    assert!(count >= 12, "{count} jobs");
}

#[test]
fn counts_pragma_marks_the_section_that_it_stands_in() {
    let text = "[global]\nbs=4k\n[load]\nrw=write\n; mirrorball: counts=no\n[small]\nrw=randread\n\
                # mirrorball: counts = yes\n[large]\n";
    let file = parse(text).unwrap();
    let counts: Vec<bool> = file.sections.iter().map(|section| section.counts).collect();
    assert_eq!(counts, [false, true, true]);
}

#[test]
fn section_has_a_rate_if_all_its_directions_have_one() {
    assert!(!job("rw=randread").has_rate());
    assert!(job("rw=randread\nrate=1m").has_rate());
    assert!(job("rw=randread\nrate_iops=10,0").has_rate());
    assert!(!job("rw=randrw\nrate_iops=10,0").has_rate());
    assert!(job("rw=randrw\nrate_iops=10").has_rate());
}

#[test]
fn canonical_form_follows_the_meaning_and_not_the_writing() {
    let canonical = |text: &str| serde_json::to_string(&parse(text).unwrap()).unwrap();
    let text = "; mirrorball: background=scrub rate=1MB/s\n[a]\nrw=randread\nruntime=10\n";
    let rewritten = "# a comment\n; mirrorball: rate=1MB/s background=scrub\n[global]\n\
                     runtime=10s\n\
                     [a]\ndescription=words\nrw=randread\neta=never\ngroup_reporting\n";
    assert_eq!(canonical(text), canonical(rewritten));
    for changed in [
        text.replace("scrub", "defrag"),
        text.replace("1MB/s", "2MB/s"),
        text.replace("[a]", "[b]"),
        text.replace("randread", "read"),
        text.replace("runtime=10", "runtime=11"),
        text.replace("[a]\n", "[b]\n; mirrorball: counts=no\n[a]\n"),
        format!("{text}randseed=1\n"),
        format!("{text}randrepeat=0\n"),
        format!("{text}random_distribution=zipf:1.2\n"),
    ] {
        assert_ne!(canonical(text), canonical(&changed), "{changed}");
    }
}

#[test]
fn included_files_are_bounded_in_number_and_in_size() {
    let include = |path: &str| match path {
        "twice" => Ok("include twice\ninclude twice\n".to_owned()),
        path => Err(format!("no {path}")),
    };
    let environment = JobContext { include: &include, ..JobContext::empty() };
    let error = JobFile::parse("[a]\ninclude twice\n", "a.fio", &environment).unwrap_err();
    assert!(error.message.contains("nested deeper") || error.message.contains("256"), "{error}");
    let flat = |path: &str| if path == "leaf" { Ok(String::new()) } else { Err(String::new()) };
    let environment = JobContext { include: &flat, ..JobContext::empty() };
    let text = format!("[a]\n{}", "include leaf\n".repeat(257));
    let error = JobFile::parse(&text, "a.fio", &environment).unwrap_err();
    assert!(error.message.contains("256 files"), "{error}");
    let endless = JobFile::parse("[a]\ninclude /dev/zero\n", "a.fio", &JobContext::process());
    let error = endless.unwrap_err();
    assert!(error.message.contains("larger than 256 KiB"), "{error}");
}

#[test]
fn delays_and_ramps_beyond_a_day_are_refused() {
    for option in ["startdelay=285y", "ramp_time=9000000000", "startdelay=25h"] {
        assert!(parse(&format!("[a]\n{option}\n")).is_err(), "{option}");
    }
    assert_eq!(job("startdelay=1d").start_delay, Nanos::from_secs(86_400));
}
