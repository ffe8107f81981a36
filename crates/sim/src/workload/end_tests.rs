//! Where jobs end, and their requests at the ends of regions, files and devices, against fio 3.33.

use super::tests::{job, log, requests_of};
use mirrorball_core::units::KIB;

/// As fio writes them to `write_iolog`.
#[test]
fn requests_reach_beyond_a_region_but_not_beyond_its_file() {
    for (options, expected) in [
        // fio takes sizes and offsets for addresses in the region.
        ("size=64k\noffset=16k\nrw=read:-8k\nnumber_ios=4", "r56 r52 r48 r44"),
        ("size=20k\noffset=16k\nrw=read:64k", "r16 r32"),
        ("size=64k\noffset=64k\nrw=read:12k", "r64 r80 r96 r112"),
        // A device, or a file that is there, goes on behind the region.
        ("size=30k\nfilename=/dev/sdb", "r0 r4 r8 r12 r16 r20 r24 r28"),
        ("size=14k\nfilename=/dev/sdb\nloops=2", "r0 r4 r8 r12 r0 r4 r8"),
        ("size=64k\nfilename=/dev/sdb\nrw=read:4k", "r0 r8 r16 r24 r32 r40 r48 r56"),
        ("size=66k\nfilename=/dev/sdb\nbs=8k\nrw=read:12k", "r0+8 r20+8 r40+8 r60+8"),
        ("size=20k\noffset=16k\nfilename=/dev/sdb\nrw=read:64k", "r16"),
        ("size=28k\nfilename=/dev/sda:/dev/sdb", "r0 r524288 r4 r524292 r8 r524296 r12"),
        // Files whose end is reached leave the turn to the next one.
        ("size=40k\nnrfiles=3\nfile_service_type=roundrobin:2", {
            "r0 r4 r16 r20 r32 r36 r8 r24 r40"
        }),
        ("size=28k\nfilesize=30k\nnrfiles=2\nfilename=/dev/sda:/dev/sdb", {
            "r0 r524288 r4 r524292 r8 r524296 r12"
        }),
        ("size=32k\nfilename=/dev/sdb\nzonemode=strided\nzonesize=8k\nzoneskip=8k", {
            "r0 r4 r16 r20 r32 r36 r48 r52"
        }),
    ] {
        assert_eq!(log(options), expected, "{options}");
    }
}

/// Numbers of fio 3.33.
#[test]
fn a_part_of_a_block_at_the_end_counts_for_the_size() {
    let counts = |options: &str| -> Vec<usize> {
        let job = job(&format!("rw=randread\nsize=254k\n{options}"));
        (0..512).map(|seed| requests_of(&job, seed, 100).len()).collect()
    };
    assert_eq!(counts(""), [63; 512]);
    assert_eq!(counts("norandommap"), [64; 512]);
    assert_eq!(counts("random_distribution=zipf:1.2\nfilename=/dev/sdb"), [64; 512]);
    // Means of 60 seeds and their errors: 53.4 and 2.5, 46.0 and 2.8, 59.5 and 1.6, 9.9 and 0.7.
    for (options, range) in [
        ("random_distribution=zipf:1.2", 46.0..61.0),
        ("percentage_random=50", 44.0..57.0),
        ("percentage_random=50\nfilename=/dev/sdb", 55.0..63.9),
        ("rw=randread:8\nsize=64k\nfilename=/dev/sdb", 8.0..12.0),
    ] {
        let mean = counts(options).iter().sum::<usize>() as f64 / 512.0;
        assert!(range.contains(&mean), "{options}: {mean}");
    }
    // What follows the end of a region of whole blocks is random.
    let job = job("rw=randread:8\nsize=256k");
    let is_random_at_end = |&seed: &u64| {
        let places: Vec<u64> =
            requests_of(&job, seed, 100).iter().map(|it| it.offset / (4 * KIB)).collect();
        let mut pairs = places.windows(2).enumerate();
        pairs.any(|(at, pair)| (at + 1) % 8 > 0 && pair[0] == 63 && pair[1] > 0)
    };
    assert!((0..32).any(|seed| is_random_at_end(&seed)));
}

#[test]
fn loops_io_size_and_number_ios_end_a_job_as_in_fio() {
    for (options, expected) in [
        ("size=16k\nloops=2", "r0 r4 r8 r12 r0 r4 r8 r12"),
        ("size=16k\nio_size=40k", "r0 r4 r8 r12 r0 r4 r8 r12 r0 r4"),
        ("size=16k\nio_size=8k", "r0 r4"),
        ("size=16k\nio_size=18k", "r0 r4 r8 r12"),
        ("size=16k\nio_size=22k", "r0 r4 r8 r12 r0 r4"),
        ("size=16k\nio_size=24k\nloops=2", "r0 r4 r8 r12 r0 r4 r8 r12"),
        ("size=16k\nio_size=40k\nloops=2", "r0 r4 r8 r12 r0 r4 r8 r12 r0 r4 r8 r12"),
        ("size=16k\nrw=write\nio_size=24k\nloops=2", "w0 w4 w8 w12 w0 w4 w8 w12"),
        ("size=16k\nrw=write\nio_size=22k", "w0 w4 w8 w12 w0 w4"),
        ("size=16k\nnumber_ios=3\nloops=2", "r0 r4 r8 r12 r0 r4"),
        ("size=16k\nnumber_ios=10", "r0 r4 r8 r12"),
        ("size=16k\nio_size=50%", "r0 r4"),
        ("size=8k\nrw=trimwrite", "t0 w0 t4 w4"),
        ("size=8k\nrw=trimwrite\nio_size=12k", "t0 w0 t4 w4"),
        ("size=8k\nrw=trimwrite\nio_size=24k", "t0 w0 t4 w4 t0 w0 t4 w4"),
        ("size=16k\nrw=trimwrite\nio_size=50%", "t0 w0 t4 w4"),
        ("size=16k\nrw=randtrimwrite\nnumber_ios=1\nloops=2\nrandrepeat=1", "t8 w8 t12 w12"),
        ("filesize=16k\nsize=8k\noffset=50%", "r8 r12"),
        // Another pass of a synchronous engine goes on in a larger file.
        ("filesize=32k\nsize=16k\nloops=2", "r0 r4 r8 r12 r0 r4 r8 r12"),
        ("ioengine=psync\nfilesize=24k\nsize=16k\nloops=2", "r0 r4 r8 r12 r16 r20 r0 r4"),
        ("ioengine=psync\nfilesize=24k\nsize=16k\nio_size=20k", "r0 r4 r8 r12 r16"),
        ("ioengine=psync\nfilesize=16k\nsize=64k", "r0 r4 r8 r12"),
        ("ioengine=psync\nfilesize=16k\nsize=64k\nloops=2", "r0 r4 r8 r12 r0 r4 r8 r12"),
    ] {
        assert_eq!(log(options), expected, "{options}");
    }
    // Only the runtime ends a time-based job, and it goes round.
    let timed = log("size=16k\nnumber_ios=3\nio_size=8k\ntime_based\nruntime=1");
    assert!(timed.starts_with("r0 r4 r8 r12 r0 r4 r8 r12 r0"), "{timed}");
}
