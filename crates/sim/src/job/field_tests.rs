//! Job files from the field: meaning and notes of each.

use super::tests::parse;
use super::{Direction, JobContext, JobFile, JobTarget, Section};
use mirrorball_core::units::{KIB, MIB};

const TIB: u64 = 1 << 40;

/// Depth, page cache, sizes and places of the first requests of a section, in KiB.
fn described(job: &Section) -> String {
    let direction = job.mix.directions()[0];
    let sizes: Vec<String> =
        job.sizes[direction].iter().map(|it| format!("{}/{}", it.bytes / KIB, it.weight)).collect();
    let regions = (0..job.clones).map(|clone| {
        let regions = job.regions(clone, TIB).into_iter();
        let regions = regions.map(|it| it.region);
        let regions = regions.map(|it| format!("{}+{}", it.offset / MIB, it.bytes / MIB));
        regions.collect::<Vec<_>>().join(",")
    });
    let cache = if job.direct { "direct" } else { "cached" };
    let regions: Vec<String> = regions.collect();
    format!("{} {cache} {} at {}", job.depth, sizes.join(":"), regions.join(" "))
}

/// Options that the notes are about, without `ioengine`.
fn noted(file: &JobFile) -> String {
    let options = file.notes.iter().map(|note| note.option.as_str());
    options.filter(|option| *option != "ioengine").collect::<Vec<_>>().join(" ")
}

const AIO: &str = "ioengine=libaio\ndirect=1\n";

#[test]
fn options_of_public_job_files_are_understood() {
    let read = "1 cached 4/100 at 0+1024";
    for (options, expected, notes) in [
        // What fio reads in part, or with what is around it.
        ("size=1g:1g\nnumjobs=1*2\nloops=0", read, "size numjobs"),
        ("blocksize=4k-512k\nsize=1g", read, "blocksize"),
        ("filename= /dev/sdb\nsize=1g", read, "filename"),
        ("bs=$pagesize\nsize=1g", read, ""),
        ("size=1m-2m", "", ""),
        // Engines without a page cache, and with a depth.
        ("ioengine=nbd\nsize=1g\nuri=nbd://x", "1 direct 4/100 at 0+1024", "uri"),
        ("ioengine=rbd\niodepth=32\nsize=1g", "32 direct 4/100 at 0+1024", ""),
        ("ioengine=linuxaio\niodepth=4\nsize=1g\ndirect=1", "4 direct 4/100 at 0+1024", ""),
        ("ioengine=/opt/spdk/fio_bdev\niodepth=8\nsize=1g", "8 direct 4/100 at 0+1024", ""),
        ("ioengine=sg\nfilename=/dev/sda\niodepth=8", "1 direct 4/100 at 0+1048576", "iodepth"),
        ("ioengine=sg\nfilename=/dev/sg1\niodepth=8", "8 direct 4/100 at 0+1048576", ""),
        ("io_submit_mode=offload\niodepth=8\nsize=1g", "8 cached 4/100 at 0+1024", ""),
        // Sizes.
        ("bssplit=4k/60:16k/30:64k/9\nsize=1g", "1 cached 4/61:16/30:64/9 at 0+1024", ""),
        ("bssplit= 4k/50 : 8k / 50\nsize=1g", "", ""),
        ("bssplit=4k/50 :8k/50\nsize=1g", "1 cached 4/50:8/50 at 0+1024", ""),
        ("bsrange=4k-16k\nsize=1g", "1 cached 4/4096:8/4096:12/4096:16/4096 at 0+1024", ""),
        ("bsrange=4k-6k\nsize=1g", "1 cached 4/4096:6/2048 at 0+1024", "bsrange"),
        ("bssplit=8k/100\nbs=64k\nsize=1g", "1 cached 8/100 at 0+1024", ""),
        ("rw=randrw\nbs=4k,16k\ndirect=1\nsize=1g", "1 direct 4/100 at 0+1024", "bs"),
        ("bs=512\nsize=1g", "1 cached 0/100 at 0+1024", "bs"),
        ("blocksize=8k\nba=8k\nsize=1g", "1 cached 8/100 at 0+1024", ""),
        // Region.
        ("filesize=2g\nfilename=data", "1 cached 4/100 at 0+2048", ""),
        ("size=100%%", "1 cached 4/100 at 0+1048576", ""),
        ("size=0", "1 cached 4/100 at 0+1048576", ""),
        ("offset=10%\noffset_align=1m\nsize=1g", "1 cached 4/100 at 104858+1024", ""),
        ("size=1g\nfill_device=1", "1 cached 4/100 at 0+1048576", ""),
        // Options that change nothing, or little.
        ("size=1g\ntime_based", read, "time_based"),
        ("size=1g\nthreads=1\ndisable_bw=1\nratecycle=500", read, "threads disable_bw ratecycle"),
        ("size=1g\niodepth_batch=16\niodepth_batch_complete_min=1", read, "iodepth_batch"),
        ("size=1g\nss=iops:5%\nss_dur=300", read, "ss ss_dur"),
        ("size=1g\nsync=0\natomic=0", read, ""),
        ("size=1g\nverify=md5", read, ""),
        (
            "size=1g\nrw=randwrite\nverify=md5\ndo_verify=0\ndirect=1",
            "1 direct 4/100 at 0+1024",
            "",
        ),
        ("size=1g\nrw=randwrite\nverify=md5\ndirect=1", "1 direct 4/100 at 0+1024", "verify"),
        ("size=1g\nrw=write", read, "rw"),
        ("size=1g\nprio=4\nprioclass=2\ncmdprio=0", read, "prio prioclass"),
        (
            "size=1g\nrw=randtrim\nnum_range=8\niodepth=4\nioengine=io_uring_cmd",
            { "32 direct 4/100 at 0+1024" },
            "num_range",
        ),
        ("size=1g\nlatency_target=500\nlatency_percentile=99.9", read, "latency_target"),
        (
            "size=1g\nrw=randwrite\ndirect=1\nsprandom=1\nspr_op=0.15",
            { "1 direct 4/100 at 0+1024" },
            "sprandom spr_op",
        ),
        ("size=1g\nrw=write\nsync=dsync", read, "sync"),
    ] {
        assert_understood(options, expected, notes);
    }
}

#[track_caller]
fn assert_understood(options: &str, expected: &str, notes: &str) {
    match parse(&format!("[job]\n{options}")) {
        Ok(file) => {
            assert_eq!(described(&file.sections[0]), expected, "{options}");
            assert_eq!(noted(&file), notes, "{options}");
        }
        Err(error) => assert_eq!(expected, "", "{options}: {error}"),
    }
}

/// As fio 3.33, where the sizes of discards are the third ones.
#[test]
fn values_are_divided_by_commas_else_colons_else_dashes() {
    for (sizes, of_trims) in
        [("4k-16k-32k", 32), ("8k,4k:16k", 16), ("4k-16k,8k", 8), ("16k-8k,", 4), ("4k-64k", 64)]
    {
        let options = format!("rw=trim\ndirect=1\nsize=1g\nbs={sizes}");
        assert_understood(&options, &format!("1 direct {of_trims}/100 at 0+1024"), "bs");
    }
}

#[test]
fn options_that_another_one_leaves_without_effect_are_noted() {
    let read = "1 cached 4/100 at 0+1024";
    assert_understood("ioengine=mmap\ndirect=1\nsize=1g", read, "direct");
    assert_understood("ioengine=splice\ndirect=1\nsize=1g", "1 direct 4/100 at 0+1024", "");
    assert_understood("size=1g\nrw=write\nsync=1\nfsync=2", read, "fsync sync");
}

#[test]
fn the_note_of_a_latency_goal_says_when_a_slow_request_ends_the_job() {
    let file = parse("[job]\nsize=1g\nlatency_target=500\nlatency_percentile=95").unwrap();
    let note = format!("{:?}", file.notes);
    assert!(note.contains("if latency_percentile is 100, the default, and goes on"), "{note}");
}

#[test]
fn sections_wait_for_others_and_end_together() {
    let groups = |text: &str| {
        let file = parse(text).unwrap();
        let section = |it: &Section| format!("{}{}", it.name, it.group);
        let sections: Vec<String> = file.sections.iter().map(section).collect();
        (sections.join(" "), file.sections[0].ends.is_some(), noted(&file))
    };
    let (all, ..) = groups("[a]\n[b]\nwait_for=a\n[c]\nwait_for=a\n[d]\nwait_for=c\nstonewall");
    assert_eq!(all, "a0 b1 c1 d2");
    let (all, ends, notes) = groups("[a]\nexitall\n[b]\nstonewall\nexit_what=all\n[c]\nstonewall");
    assert_eq!((&all[..], ends, &notes[..]), ("a0 b1", true, "exit_what"));
    assert_eq!(groups("[fio-test]G\n[b]").0, "fio-test0 b0");
}

#[test]
fn files_are_places_of_their_own() {
    for (text, expected) in [
        ("[a]\nsize=2g\nnumjobs=3", "0+2048 2048+2048 4096+2048"),
        ("[a]\nsize=2g\nnumjobs=3\nfilename=data", "0+2048 0+2048 0+2048"),
        ("[a]\nsize=2g\n[b]\nsize=1g", "0+2048 | 2048+1024"),
        ("[a]\nsize=2g\nfilename=x\n[b]\nsize=1g\nfilename=x", "0+2048 | 0+1024"),
        ("[a]\nsize=1g\nfilename=x\n[b]\nsize=50%\nfilename=x", "0+1024 | 0+512"),
        ("[a]\nsize=1g\nname=x\n[b]\nsize=1g\nname=x", "0+1024 | 1024+1024"),
        ("[a]\nsize=2g\nfilename=x:y", "0+1024,1024+1024"),
        ("[a]\nsize=3g\nnrfiles=3", "0+1024,1024+1024,2048+1024"),
        ("[a]\nfilesize=1g\nnrfiles=2\nnumjobs=2", "0+1024,1024+1024 2048+1024,3072+1024"),
        ("[a]\nfilename=x\nfilesize=1g\n[b]\nfilename=x\nfilesize=2g", "0+1024 | 0+2048"),
        ("[a]\nsize=1g\noffset=1g\n[b]\nsize=1g", "1024+1024 | 2048+1024"),
        ("[a]\nsize=1g\nnumjobs=2\nfilename_format=f.$filenum", "0+1024 0+1024"),
        ("[a]\nsize=1g\nnumjobs=3\nfilename=x\ndirectory=/m:/n", "0+1024 1024+1024 0+1024"),
        ("[a]\nsize=1g\ndirectory=m\nfilename=x\n[b]\nsize=1g\nfilename=x", {
            "0+1024 | 1024+1024"
        }),
        // Devices, and files of unknown size, share the volume.
        ("[a]\nfilename=/dev/sda\nsize=1g\nnumjobs=2", "0+1024 0+1024"),
        ("[a]\nfilename=/dev/sda:/dev/sdb", "0+524288,524288+524288"),
        ("[a]\nfilename=/dev/sda\n[b]\nfilename=/dev/sdb\nsize=1g", "0+524288 | 524288+1024"),
        ("[a]\nfilename=x\n[b]\nfilename=x\nsize=50%", "0+1048576 | 0+524288"),
        ("[a]\nsize=25%\n[b]\noffset=50%", "0+262144 | 524288+524288"),
        ("[a]\nfilename=/dev/shm/x\nsize=1g\n[b]\nsize=1g", "0+1024 | 1024+1024"),
    ] {
        let file = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        file.validate_against(TIB).unwrap_or_else(|error| panic!("{text}: {error}"));
        let places = |job: &Section| described(job).rsplit(" at ").next().unwrap().to_owned();
        let places: Vec<String> = file.sections.iter().map(places).collect();
        assert_eq!(places.join(" | "), expected, "{text}");
    }
    let sizes = parse("[a]\nfilesize=4k-1m\nnrfiles=20").unwrap();
    let JobTarget::Files(layout) = &sizes.sections[0].target else { panic!("files") };
    let ends =
        layout.sets[0].windows(2).all(|pair| pair[0].offset + pair[0].bytes <= pair[1].offset);
    assert!(ends && layout.sets[0].iter().any(|file| file.bytes > 512 * KIB), "{layout:?}");
}

#[test]
fn larger_files_than_the_volume_are_refused() {
    let file = parse("[a]\nsize=600g\nnumjobs=2").unwrap();
    let error = file.validate_against(TIB).unwrap_err().to_string();
    let expected = "test.fio:1: the last file of job `a` ends at 1.2 TiB, but the volume has \
                    1 TiB\n  help: reduce size, nrfiles or numjobs, or let the jobs share a file: \
                    filename=data";
    assert_eq!(error, expected);
}

#[test]
fn variables_are_expanded_before_anything_is_judged() {
    let variable = |name: &str| (name == "OFF").then(|| "0".to_owned());
    let context = JobContext { variable: &variable, ..JobContext::empty() };
    let text = format!("[a]\n{AIO}sync=${{OFF}}\nflow=${{OFF}}\natomic=${{OFF}}\nsize=1g");
    let file = JobFile::parse(&text, "test.fio", &context).unwrap();
    assert_eq!(noted(&file), "");
    assert_eq!(file.sections[0].fsync, 0);
}

#[test]
fn flushes_of_a_mix_are_noted() {
    let of = |rw| noted(&parse(&format!("[a]\n{AIO}rw={rw}\nfsync=8\nsize=1g")).unwrap());
    assert_eq!((of("randrw"), of("randwrite")), ("fsync".to_owned(), String::new()));
}

#[test]
fn what_fio_ends_early_is_refused_or_noted() {
    let of = |options: &str| parse(&format!("[a]\n{AIO}rw=randread\n{options}"));
    let refused = |options: &str| {
        let file = of(options);
        let error = file.and_then(|file| file.validate_against(TIB)).unwrap_err();
        error.message
    };
    for (options, expected) in [
        ("random_distribution=zoned_abs:60/4m:40", "the zone `40` has no size"),
        ("size=16m\nrandom_distribution=zoned_abs:60/4m:40/20m", "its region has 16 MiB"),
        ("random_generator=lfsr\nrandom_distribution=zoned:60/10:40/90", "lfsr with zones"),
        ("rw=trimwrite\nzonemode=strided\nzonesize=8k", "trimwrite in strided zones"),
        ("zonesize=8k", "`zonesize` without zonemode=strided: fio refuses it"),
        ("zonemode=none\nzonesize=8k", "`zonesize` without zonemode=strided: fio refuses it"),
        ("zonemode=strided", "zonemode=strided without `zonesize`: fio refuses it"),
        ("ioengine=io_uring_cmd\nwrite_mode=zeroes", "gets another command than a plain write"),
        ("ioengine=sg\nsg_write_mode=verify", "gets another command than a plain write"),
        ("size=-1g", "`-1g` is not a size"),
        ("startdelay=5-10", "startdelay: `5-10` is a range, from which fio draws"),
        ("size=4k\nnrfiles=2", "a region of 2 KiB, smaller than its block size of 4 KiB"),
        ("filesize=2k\nnrfiles=3", "a region of 2 KiB, smaller than its block size of 4 KiB"),
        ("numjobs=64\nnrfiles=1000\nsize=1g\nfilename_format=$filenum", "64000 files together"),
        ("create_only=1", "every section has create_only=1"),
    ] {
        assert!(refused(options).contains(expected), "{}", refused(options));
    }
    assert_eq!(noted(&of("size=1g\nbs=16k,4k").unwrap()), "bs");
    // fio draws no zone without requests, and no address of other jobs from a generator.
    let accepted = [
        "size=16m\nrandom_distribution=zoned_abs:100/4m:0/1g",
        "size=16m\nrw=read\nrandom_generator=lfsr\nrandom_distribution=zoned:60/10:40/90",
        "filesize=2k-8k\nnrfiles=9",
    ];
    for options in accepted {
        of(options).unwrap().validate_against(TIB).expect(options);
    }
    for other in ["bs=16k", "bs=4k,16k", "bs=16k,4k\nnorandommap"] {
        assert_eq!(noted(&of(&format!("size=1g\n{other}")).unwrap()), "", "{other}");
    }
}

#[test]
fn pauses_of_offloaded_requests_are_noted() {
    let of = |options: &str| {
        let job = format!("[a]\n{AIO}size=1g\nthinktime=5\niodepth=8\n{options}");
        noted(&parse(&job).unwrap())
    };
    assert_eq!((of(""), of("io_submit_mode=offload")), (String::new(), "thinktime".to_owned()));
    assert_eq!(of("io_submit_mode=offload\nthinktime_blocks_type=issue"), "");
}

#[test]
fn an_engine_without_io_is_noted() {
    let file = parse("[a]\nioengine=null\nsize=1g").unwrap();
    let note = &file.notes[0];
    assert_eq!((&note.option[..], note.line), ("ioengine", 2));
    assert!(note.reason.contains("the disks serve each request"), "{}", note.reason);
}

#[test]
fn tens_of_thousands_of_sections_are_read_at_once() {
    let sections: String = (0..30_000).map(|number| format!("[s{number}]\nexitall\n")).collect();
    let file = parse(&format!("[global]\nfilename=data\nsize=4k\n{sections}")).unwrap();
    assert_eq!(file.sections[29_999].ends, Some([0, 29_999]));
}

#[test]
fn tens_of_thousands_of_names_are_read_at_once() {
    let names = |count: u64| {
        let names: Vec<String> = (0..count).map(|number| format!("/dev/{number:040}")).collect();
        parse(&format!("[a]\n{AIO}filename={}", names.join(":")))
    };
    assert_eq!(names(32768).unwrap().sections[0].target.count(), 32768);
    let error = names(32769).unwrap_err();
    assert!(error.message.contains("at least 32769 files together"), "{error}");
}

/// As fio 3.33, in which each section finds what those above made.
#[test]
fn a_section_may_make_files_for_others() {
    let text = "[make]\nfilename=data\nsize=3m\ncreate_only=1\n\
                [part]\nstonewall\nfilename=data\nsize=1m\n\
                [own]\nsize=1m\nnumjobs=2\nwait_for=make\n\
                [all]\nstonewall\nfilename=data";
    let file = parse(text).unwrap();
    let region = |index: usize| file.sections[index].regions(0, TIB)[0];
    let names: Vec<_> = file.sections.iter().map(|it| (it.index, &it.name[..])).collect();
    assert_eq!(names, [(0, "part"), (1, "own"), (2, "all")]);
    assert_eq!((region(0).region.bytes, region(0).container.bytes), (MIB, 3 * MIB));
    assert_eq!((region(1).region.bytes, region(1).container.bytes), (MIB, MIB));
    assert_eq!((region(2).region.bytes, region(2).container.bytes), (3 * MIB, 3 * MIB));
}

#[test]
fn verification_alone_reads_what_was_written() {
    let file = parse("[a]\nrw=randwrite\nverify=md5\nverify_only\nsize=1g\ndirect=1").unwrap();
    assert_eq!(file.sections[0].mix.directions(), [Direction::Read]);
    assert_eq!(noted(&file), "verify_only");
}

#[test]
fn a_byte_order_mark_is_skipped_with_a_note() {
    let file = parse("\u{feff}[mark]\nrw=read\nsize=1g").unwrap();
    assert_eq!((file.sections[0].name.as_str(), &*noted(&file)), ("mark", "byte order mark"));
}
