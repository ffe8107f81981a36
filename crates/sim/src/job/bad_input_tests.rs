//! Errors of the reader on bad input, word for word, and that no input makes it panic.

use super::tests::parse;
use super::{JobContext, JobFile};
use proptest::prelude::{any, prop};
use proptest::{prop_assert, proptest};

/// Text, line, message, help.
const BAD: &[(&str, usize, &str, &str)] = &[
    ("", 1, "the file has no job", "add a section such as [random-reads]"),
    ("[global]\nbs=4k", 1, "the file has no job", "add a section such as [random-reads]"),
    (
        "bs=4k\n[a]",
        1,
        "the option `bs` is above the first section",
        "add a line such as [global] above it",
    ),
    (
        "include x",
        1,
        "the option `include` is above the first section",
        "add a line such as [global] above it",
    ),
    ("[a", 1, "`[a` has no closing `]`", "write a section line as [name]"),
    ("[]", 1, "the section has no name", "write a section line as [name]"),
    (
        "[global-reads]",
        1,
        "fio would read [global-reads] as [global], because its name begins so",
        "rename the section",
    ),
    ("[a]\nio_depth=4", 2, "unknown option `io_depth`", "did you mean `iodepth`?"),
    ("hello\n[a]", 1, "unknown option `hello`", "fio 3.33 has no option of this name"),
    (
        "[a]\nrw randread",
        2,
        "unknown option `rw randread`",
        "write `=` between the option and its value: rw=randread",
    ),
    ("[a]\niodepth=abc", 2, "iodepth: `abc` is not a whole number", "write 1 to 65536"),
    ("[a]\nfsync=-1", 2, "fsync: `-1` is less than 0", "write 0 or more"),
    (
        "[a]\nrandom_distribution=zipf:abc",
        2,
        "random_distribution: in the values of zipf, `abc` is not a number from 0 to 100",
        "write for example zipf:1.2",
    ),
    ("[a]\nzebra=4", 2, "unknown option `zebra`", "fio 3.33 has no option of this name"),
    (
        "[a]\nbackground=scrub",
        2,
        "unknown option `background`",
        "write it in a comment on a line of its own, such as `; mirrorball: background=scrub`",
    ),
    (
        "[a]\ncounts=no",
        2,
        "unknown option `counts`",
        "write it in a comment on a line of its own, such as `; mirrorball: counts=no`",
    ),
    ("[a]\n=3", 2, "the name of the option is missing", "write NAME=VALUE, such as bs=4k"),
    (
        "[a]\n\nrw= read",
        3,
        "a space after `rw=`",
        "remove it: fio would read it as part of the value",
    ),
    ("[a]\nrw=randraed", 2, "rw: `randraed` is not supported", "did you mean `randread`?"),
    (
        "[a]\nrw=randread:8",
        2,
        "rw: the modifier `:8` is not supported",
        "for runs within random requests use percentage_random",
    ),
    (
        "[a]\nrw=trimwrite",
        2,
        "rw: `trimwrite` is not supported",
        "use two jobs, one of trims and one of writes",
    ),
    ("[a]\nrw", 2, "`rw` has no value", "write for example `rw=randread`"),
    ("[a]\niodepth=", 2, "`iodepth` has no value", "write for example `iodepth=1`"),
    ("[a]\nruntime", 2, "`runtime` has no value", "write for example `runtime=500ms`"),
    (
        "[a]\nbs=4q",
        2,
        "bs: `4q` is not a size or number",
        "write a whole number, with or without k, m, g, t or p, such as 4096, 4k or 50g",
    ),
    (
        "[a]\nsize=1.5g",
        2,
        "size: `1.5g` is not a size or number",
        "fio accepts whole numbers only: write it in a smaller unit, as 1536 for 1.5k",
    ),
    (
        "[a]\nsize=(2*1g)",
        2,
        "size: `(2*1g)` is not a size or number",
        "arithmetic is not supported: write the result",
    ),
    (
        "[a]\nbs=4KiB",
        2,
        "bs: `4KiB` is not a whole number of sectors",
        "fio reads `4KiB` as 4000 bytes: write 4K, or set kb_base=1000",
    ),
    (
        "[a]\nbs=512",
        2,
        "bs: `512` is not a whole number of sectors",
        "write a multiple of 4k: sectors have 4096 bytes",
    ),
    ("[a]\nbs=0", 2, "bs: the block size is zero", "write a size, for example 4k"),
    (
        "[a]\nbs=4k,4k,4k,4k",
        2,
        "bs: `4k,4k,4k,4k` has 4 values",
        "write up to three: reads,writes,trims",
    ),
    ("[a]\nsize=101%", 2, "size: `101%` is not a percentage", "write 1% to 100%"),
    ("[a]\nsize=0", 2, "size: the size is zero", "remove `size` to use the whole volume"),
    (
        "[a]\nruntime=1min",
        2,
        "runtime: `1min` is not a time",
        "write a whole number of seconds, or one with us, ms, s, m, h or d",
    ),
    (
        "[a]\nthinktime=1y",
        2,
        "thinktime: `1y` is not a time",
        "write a whole number of microseconds, or one with us, ms, s, m, h or d",
    ),
    ("[a]\ndirect=yes", 2, "direct: `yes` is neither 0 nor 1", "write 1 for yes, 0 for no"),
    (
        "[a]\nioengine=libaio\ndirect=1\nnumjobs=256\niodepth=8192",
        1,
        "the sections that run together keep 2097152 requests in flight, but at most 1048576 are \
         possible; most are of [a]: numjobs=256 times iodepth=8192",
        "reduce numjobs or iodepth, or run sections one after the other with stonewall",
    ),
    (
        "[global]\nioengine=libaio\ndirect=1\niodepth=65536\nnumjobs=8\n[a]\n[b]\n[c]\niodepth=1\n",
        8,
        "the sections that run together keep 1048584 requests in flight, but at most 1048576 are \
         possible; most are of [b]: numjobs=8 times iodepth=65536",
        "reduce numjobs or iodepth, or run sections one after the other with stonewall",
    ),
    ("[a]\niodepth=0", 2, "iodepth: `0` is too small", "write 1 or more"),
    ("[a]\nrwmixread=101", 2, "rwmixread: `101` is too large", "write 100 or less"),
    (
        "[a]\nbssplit=4k/60:8k/60",
        2,
        "bssplit: the percentages add up to 120, not 100",
        "make them add up to 100, or leave one empty",
    ),
    (
        "[a]\nrandom_distribution=zipf:1",
        2,
        "random_distribution: zipf cannot have a theta of 1",
        "write a theta above 0 other than 1, as in zipf:1.1",
    ),
    (
        "[a]\nrandom_distribution=zoned:60/10:30/90",
        2,
        "random_distribution: the shares of the requests add up to 90 %, not 100 %",
        "the first number of each pair is its share of the requests",
    ),
    (
        "[a]\ntime_based",
        1,
        "job `a` has time_based but no runtime",
        "add a time limit, for example runtime=60",
    ),
    (
        "[a]\nrate_process=poisson",
        1,
        "job `a` has rate_process=poisson but no rate",
        "add a rate, for example rate_iops=200",
    ),
    (
        "[a]\nverify=crc32c",
        2,
        "`verify` is not supported: fio would read the data again after writing them",
        "remove it, or write verify=0",
    ),
    (
        "[a]\nbsrange=4k-8k",
        2,
        "`bsrange` is not supported: sizes need shares",
        "write for example bssplit=4k/50:16k/50",
    ),
    (
        "[a]\nioengine=cpuio",
        2,
        "ioengine: `cpuio` is not supported",
        "supported are psync, sync, vsync, pvsync, pvsync2, mmap, splice, \
         sg, libaio, io_uring, io_uring_cmd, posixaio, windowsaio, solarisaio, nbd, libiscsi, null",
    ),
    (
        "[a]\nfilename=/dev/sda:/dev/sdb",
        2,
        "filename: `/dev/sda:/dev/sdb` names several files",
        "write one job for each file",
    ),
    (
        "[a]\nbs=${BS}",
        2,
        "the environment variable `BS` is not set",
        "set it for the command: `BS=VALUE mirrorball …`",
    ),
    (
        "[a]\nsize=$mb_memory",
        2,
        "`$mb_memory` depends on the machine that fio runs on",
        "write the number itself",
    ),
    (
        "; mirrorball: background=defrg\n[a]",
        1,
        "unknown background `defrg` in a `mirrorball:` comment",
        "did you mean `defrag`?",
    ),
    (
        "; mirrorball: background=defrag speed=1MB/s\n[a]",
        1,
        "unknown word `speed` in a `mirrorball:` comment",
        "known are background, rate, devid, from, counts, replay, file",
    ),
    (
        "; mirrorball: file=sparse\n[a]",
        1,
        "`file` outside the section of a job",
        "move it below the first line of its section, such as [load]",
    ),
    (
        "[a]\n; mirrorball: file=dense",
        2,
        "`file=dense` is not known",
        "known are raw, preallocated, sparse",
    ),
    (
        "[a]\n; mirrorball: file=sparse su=1000",
        2,
        "`su=1000` is no size in whole blocks of 4 KiB",
        "write for example su=1M",
    ),
    ("[a]\n; mirrorball: file=sparse sw=0", 2, "`sw=0` is no number from 1 to 64", "write sw=3"),
    (
        "[a]\n; mirrorball: file=sparse su=1M agsize=1000K",
        2,
        "`agsize` is no multiple of `su`",
        "mkfs.xfs rounds it to stripe units; write for example agsize=3200M",
    ),
    (
        "[a]\n; mirrorball: file=sparse lok=shared",
        2,
        "unknown word `lok` in a `mirrorball:` comment",
        "did you mean `lock`?",
    ),
    (
        "[a]\n; mirrorball: file=sparse",
        1,
        "section `a` has a `file` and goes through the page cache",
        "add direct=1",
    ),
    (
        "[a]\n; mirrorball: file=raw lock=exclusive\nnumjobs=2",
        1,
        "section `a` has a `file` and numjobs above 1",
        "remove numjobs, and raise iodepth",
    ),
    (
        "[a]\n; mirrorball: file=sparse\ndirect=1\n[b]\n; mirrorball: file=sparse\ndirect=1",
        4,
        "section `b` has a `file` as another has",
        "one section of a job may have a file",
    ),
    (
        "# mirrorball: background=scrub rate=100MB",
        1,
        "`100MB` is not a rate such as 190MB/s or 1.2GB/s (K, M, G, T, P, E and KiB … EiB are \
         powers of 1024, KB … EB powers of 1000)",
        "write for example rate=100MB/s",
    ),
    (
        "; mirrorball:",
        1,
        "the `mirrorball:` comment has no `background=`",
        "write for example `; mirrorball: background=defrag rate=100MB/s`",
    ),
    (
        "; mirrorball: background=scrub devid=2",
        1,
        "`devid` is allowed only with `background=rebuild`",
        "remove it",
    ),
    (
        "; mirrorball: background=rebuild from=50%",
        1,
        "`from` is allowed only with `background=scrub`",
        "remove it",
    ),
    (
        "; mirrorball: background=scrub from=100%",
        1,
        "`from=100%` does not leave a part of the volume",
        "write 0% to 99%",
    ),
    (
        "[a]\nbs=4k ; mirrorball: background=scrub",
        2,
        "a `mirrorball:` comment after an option",
        "put it on a line of its own",
    ),
    (
        "; mirrorball: counts=no\n[a]",
        1,
        "`counts` outside the section of a job",
        "move it below the first line of its section, such as [load]",
    ),
    (
        "[global]\n; mirrorball: counts=no\n[a]",
        2,
        "`counts` outside the section of a job",
        "move it below the first line of its section, such as [load]",
    ),
    (
        "[a]\n; mirrorball: counts=false",
        2,
        "`counts=false` is neither yes nor no",
        "write counts=yes or counts=no",
    ),
    (
        "[a]\n; mirrorball: counts=no\n[b]\n; mirrorball: counts=no",
        1,
        "every section has `counts=no`, so the job has no score",
        "remove `counts=no` from at least one section",
    ),
    (
        "[a]\n; mirrorball: counts=no background=scrub",
        2,
        "`counts` cannot be combined with other words",
        "write `; mirrorball: counts=no` on its own line",
    ),
    (
        "; Mirrorball: background=scrub\n[a]",
        1,
        "`Mirrorball:` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
    (
        "#mirorball:background=scrub\n[a]",
        1,
        "`mirorball:` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
    (
        "; mirrorball : background=scrub\n[a]",
        1,
        "`mirrorball :` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
    (
        "; mirrorball= background=scrub\n[a]",
        1,
        "`mirrorball` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
    (
        "; mirrorball; counts = no\n[a]",
        1,
        "`mirrorball` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
    (
        "; miror-ball: background=scrub\n[a]",
        1,
        "`miror-ball:` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
    (
        "[a\u{1b}[31m]",
        1,
        "the name of the section [a\u{1b}[31m] contains characters that do not print",
        "use printable characters",
    ),
    (
        "; mirrorball background=scrub\n[a]",
        1,
        "`mirrorball` does not begin a `mirrorball:` comment",
        "did you mean `; mirrorball:`?",
    ),
];

#[test]
fn prose_that_mentions_the_program_is_a_comment() {
    for comment in [
        "mirrorball reads the next line",
        "see mirrorball: it simulates",
        "Mirrorball and fio: both read this",
        "miracle: not a pragma",
        "mirror: two disks",
        "a job for mirrorball with background=none",
    ] {
        parse(&format!("; {comment}\n[a]\nbs=4k ; {comment}\n")).expect(comment);
    }
}

#[test]
fn bad_input_is_refused_with_line_and_help() {
    for &(text, line, message, help) in BAD {
        let error = parse(text).expect_err(text);
        let given = (error.line, error.message.as_str(), error.help.as_deref());
        assert_eq!(given, (Some(line), message, Some(help)), "{text}");
    }
    let other = JobFile::parse("hello\n", "x.txt", &JobContext::empty()).unwrap_err();
    assert!(other.help.unwrap().ends_with("; the names of fio job files end in .fio"));
    let shown = parse("[a]\nio_depth=4").unwrap_err().to_string();
    assert_eq!(shown, "test.fio:2: unknown option `io_depth`\n  help: did you mean `iodepth`?");
}

const VALID: &str = "[global]\nioengine=libaio\ndirect=1\nbs=4k,8k\n[a]\nrw=randrw\nsize=50%\n\
    bssplit=4k/50:64k/\nrandom_distribution=zipf:1.2:0.5\nrate_iops=100,50\nruntime=10s\n\
    time_based\n; mirrorball: background=scrub rate=1MB/s\n[b]\nstonewall\noffset=${X}%\n\
    offset_increment=10%\nnumjobs=3\nthinktime=5ms\nfsync=4\n";

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    /// What is accepted is also resolved: the regions on a volume are computed or refused.
    #[test]
    fn no_mutation_panics(
        cuts in prop::collection::vec((0..VALID.len(), 0usize..6, "[ -~\n%:/,0-9]{0,4}"), 1..5),
        volume_bytes: u64,
    ) {
        let mut text = VALID.to_owned();
        for (at, length, with) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &with);
        }
        let variable = |_: &str| Some("7".to_owned());
        let include = |_: &str| Ok("bs=8k".to_owned());
        let environment =
            JobContext { variable: &variable, include: &include, ..JobContext::empty() };
        match JobFile::parse(&text, "test.fio", &environment) {
            Ok(file) => drop(file.validate_against(volume_bytes)),
            Err(error) => {
                prop_assert!(error.line.is_some_and(|line| line >= 1) && error.help.is_some());
            }
        }
    }
}
