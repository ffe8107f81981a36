//! Golden decisions of btrfs's policies, worked out from `find_live_mirror` and what it calls.

use super::script::{Script, Step, complete, follow, members, read, read_by, read_long};
use crate::units::KIB;

#[test]
fn pid() {
    follow(
        "pid",
        members(3, |_| ()),
        &[
            read_by(1000, 2, "1000 % 3 = 1: the second stripe"),
            read_by(1001, 3, "1001 % 3 = 2: the third"),
            read_by(1002, 1, "1002 % 3 = 0: the first"),
            read_by(1000, 2, "the same process again, though its queue is longer"),
            Step::Eligible(&[2, 3]),
            read_by(1001, 3, "the third of three stripes, not of the two that live"),
            read_by(1002, 2, "the first is dead: the lowest live one serves"),
            Step::Eligible(&[1, 3]),
            read_by(1000, 1, "the second is dead: the lowest live one serves"),
            Step::Eligible(&[1, 2, 3]),
            complete(2, 900),
            read_by(1000, 2, "rebuilt: it gets its share again, however slow it is"),
            read(4096, 1, "stream 0, wherever it reads"),
            read_by(1003, 2, "1003 % 3 = 1: always the same as 1000"),
        ],
    );
}

/// Turns of 8 KiB are two blocks; three mirrors.
#[test]
fn round_robin() {
    follow(
        "round-robin:8K",
        members(3, |_| ()),
        &[
            read(0, 1, "0 blocks: 0 / 2 % 3 = 0"),
            read(0, 1, "1 block: still 0"),
            read(0, 2, "2 blocks: 2 / 2 = 1"),
            read_long(0, 16 * KIB, 2, "3 blocks: still 1; adds 4"),
            read(0, 1, "7 blocks: 7 / 2 = 3, 3 % 3 = 0"),
            Step::Write { devid: 1, offset: 0, length: 64 * KIB },
            read(0, 2, "8 blocks, for writes do not count: 4 % 3 = 1"),
            read(0, 2, "9 blocks: still 4"),
            read(0, 3, "10 blocks: 5 % 3 = 2"),
            Step::Eligible(&[1, 3]),
            read(0, 1, "11 blocks: still 2, the turn of the missing: the lowest live serves"),
            read(0, 1, "12 blocks: 6 % 3 = 0"),
            read(0, 1, "13 blocks: still 6"),
            read(0, 3, "14 blocks: 7 % 3 = 1, the second live by devid"),
        ],
    );
}

/// Turns of 8 KiB are two reads, of whatever size; three mirrors.
#[test]
fn rotation() {
    follow(
        "btrfs/rotation:8K",
        members(3, |_| ()),
        &[
            read(0, 1, "the first read counts as one: 1 / 2 % 3 = 0"),
            read_long(0, 256 * KIB, 2, "2 / 2 = 1, though nothing of 8 KiB was read"),
            read(0, 2, "3 / 2 = 1: the long read counted as one"),
            Step::Write { devid: 1, offset: 0, length: 64 * KIB },
            read(0, 3, "4 / 2 = 2: writes do not count"),
            Step::Eligible(&[1, 2]),
            read(0, 1, "5 / 2 = 2, the turn of the missing: the lowest live serves"),
            read(0, 1, "6 / 2 % 3 = 0"),
            read(0, 1, "7 / 2 = 3, 3 % 3 = 0"),
            read(0, 2, "8 / 2 % 3 = 1"),
        ],
    );
    let script = Script::new("rotation", members(2, |_| ()));
    script.with_stripes(&[2, 1]).follow(&[
        read(0, 2, "sector by sector: 1 % 2 = 1, by devid and not by stripe"),
        read(0, 1, "2 % 2 = 0"),
        read(0, 2, "3 % 2 = 1"),
    ]);
}

#[test]
fn round_robin_orders_by_devid_not_by_stripe() {
    let script = Script::new("round-robin:4096", members(3, |_| ()));
    script.with_stripes(&[3, 1, 2]).follow(&[
        read(0, 1, "the lowest devid, though it is the second stripe"),
        read(0, 2, "the next devid"),
        read(0, 3, "the highest, though it is the first stripe"),
        read(0, 1, "around"),
    ]);
}

/// Reads per devid of a sequential reader of `requests` requests on two mirrors.
fn shares(spec: &str, request_bytes: u64, requests: u64) -> [u64; 2] {
    let mut script = Script::new(spec, members(2, |_| ()));
    let mut counts = [0; 2];
    for request in 0..requests {
        let devid = script.read(request * request_bytes, request_bytes, 0);
        counts[devid as usize - 1] += 1;
        script.play(&complete(devid, 1));
    }
    counts
}

/// The shares that the v5 cover letter of btrfs's round-robin reports (2532 to 1276, 1907 to 1901),
/// less the metadata reads in its measurement.
#[test]
fn round_robin_aliases_as_measured() {
    assert_eq!(shares("round-robin:192K", 128 * KIB, 3808), [2539, 1269], "two to one");
    assert_eq!(
        shares("round-robin:192K", 256 * KIB, 3808),
        [2539, 1269],
        "0, 64, 128 blocks of 48"
    );
    assert_eq!(shares("round-robin:256K", 128 * KIB, 3808), [1904, 1904]);
    assert_eq!(
        shares("round-robin:256K", 512 * KIB, 3808),
        [3808, 0],
        "one mirror serves all reads"
    );
    assert_eq!(shares("round-robin", 512 * KIB, 3808), [3808, 0], "256K is the default");
    assert_eq!(shares("round-robin:4096", 128 * KIB, 3808), [3808, 0]);
}

#[test]
fn round_robin_counts_blocks_in_32_bits() {
    let mut script = Script::new("round-robin:8K", members(2, |_| ()));
    let half = 1 << 43;
    script.read(0, half, 0);
    assert_eq!(script.counter("blocks_read", None), 1 << 31);
    script.read(0, half, 0);
    assert_eq!(script.counter("blocks_read", None), 0, "16 TiB of 4 KiB blocks wrap to zero");
}

#[test]
fn devid() {
    follow(
        "devid:2",
        members(3, |_| ()),
        &[
            read(0, 2, "the named member"),
            read_by(7, 2, "for any reader"),
            Step::Eligible(&[1, 3]),
            read(0, 1, "it is dead: the lowest live stripe"),
            Step::Eligible(&[3]),
            read(0, 3, "the only one"),
            Step::Eligible(&[1, 2]),
            read(0, 2, "it is back"),
            read(1 << 20, 2, "wherever the read is"),
            complete(2, 900),
            read((1 << 20) + 4096, 2, "a stream stays, however slow"),
            Step::Eligible(&[1, 3]),
            read(1 << 29, 1, "2 is being rebuilt there: the lowest live stripe"),
            Step::Eligible(&[1, 2, 3]),
            read(1 << 19, 2, "the rebuild has passed here"),
            read(1 << 29, 2, "and there"),
        ],
    );
    let script = Script::new("devid:2", members(3, |_| ()));
    script.with_stripes(&[3, 1]).follow(&[read(0, 3, "no mirror here: the first stripe")]);
    follow("devid", members(2, |_| ()), &[read(0, 1, "the array's first by default")]);
}

#[test]
fn latency() {
    follow(
        "latency",
        members(3, |_| ()),
        &[
            read(0, 1, "no mean is known: the lowest stripe"),
            complete(1, 10),
            read(0, 2, "2 and 3 are unknown, which beats 10 ms; the lower stripe"),
            complete(2, 5),
            read(0, 3, "3 is unknown"),
            complete(3, 7),
            read(0, 2, "5 ms is lowest"),
            complete(2, 11),
            read(0, 3, "2 has (5 + 11) / 2 = 8 ms, 3 has 7 ms"),
            complete(3, 9),
            read(0, 2, "3 has (7 + 9) / 2 = 8 ms as 2 has: ties to the lower stripe"),
            complete(2, 8),
            Step::Eligible(&[1, 3]),
            read(0, 3, "of 10 and 8 ms"),
            complete(3, 100),
            read(0, 1, "3 has 116 / 3 ms over its whole lifetime"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 2, "rebuilt: of 10, 24 / 3 = 8 and 38 ms"),
            complete(1, 4),
            read(4096, 1, "1 has (10 + 4) / 2 = 7 ms; that 2 read before it does not count"),
        ],
    );
}

#[test]
fn latency_counts_reads_only() {
    follow(
        "latency",
        members(2, |_| ()),
        &[
            read(0, 1, "unknown both"),
            complete(1, 5),
            read(0, 2, "2 is unknown"),
            complete(2, 9),
            Step::Write { devid: 1, offset: 0, length: 4096 },
            complete(1, 500),
            read(0, 1, "a slow write does not count: 5 against 9 ms"),
        ],
    );
}
