//! Golden decisions of btrfs's policies, worked out from `find_live_mirror` and what it calls.

use super::script::{Script, complete, members};
use crate::units::KIB;

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
