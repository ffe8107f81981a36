//! Layouts of systems other than btrfs, run with the checkers on.

use super::{assert_near, iops, jobs, member_reads, simulate};
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};

/// Members of 2 ms with one server each, on a host that costs nothing.
fn array(layout: &str, members: u32) -> ArraySpec {
    let text = format!(
        "{layout}\n[host]\noverhead = \"0us\"\n[[member]]\nmodel = \"delay\"\ncount = {members}\n\
         size = \"16GiB\"\nset = {{ service = \"2ms\" }}\n"
    );
    ArrayFile::parse(&text, "layouts.toml").expect("a valid array").spec
}

const LAYOUTS: [(&str, u32); 10] = [
    ("md-raid1", 2),
    ("md-raid1", 4),
    ("md-raid10-near:2", 3),
    ("md-raid10-near:3", 5),
    ("md-raid10-far:2", 3),
    ("md-raid10-offset:2", 5),
    ("lvm-raid1", 2),
    ("zfs-mirror:2", 4),
    ("zfs-mirror:3", 6),
    ("gmirror", 3),
];

#[test]
fn every_layout_serves_reads_writes_scrubs_and_rebuilds() {
    let mixed = "rw=randrw\nbssplit=4k/50:1m/50\niodepth=16\n[seq]\nrw=read\nbs=1m\niodepth=4";
    let background = "rw=randread\n; mirrorball: background=scrub rate=20MB/s\n";
    for (layout, members) in LAYOUTS {
        let mut array = array(&format!("layout = \"{layout}\""), members);
        for policy in ["md/raid1", "md/raid10", "round-robin", "mirrorball/auto", "gmirror/split"] {
            for options in [mixed, background] {
                let record = simulate(&array, &jobs(options), policy);
                assert!(iops(&record) > 50.0, "{layout} {policy}");
            }
        }
        let half = mirrorball_core::member::MemberState::Rebuilding { recovered_bytes: 8 << 30 };
        array.members[1].state = half;
        let rebuild =
            "rw=randread\niodepth=4\n; mirrorball: background=rebuild devid=2 rate=50MB/s";
        let record = simulate(&array, &jobs(rebuild), "md/raid1");
        assert!(iops(&record) > 100.0, "{layout}");
    }
}

/// At a depth that keeps all members busy, each layout reads from all of them alike.
#[test]
fn random_reads_use_all_members_alike() {
    for (layout, members) in LAYOUTS {
        let array = array(&format!("layout = \"{layout}\""), members);
        let record = simulate(&array, &jobs("rw=randread\niodepth=64"), "dm/queue-length");
        assert_near(iops(&record), 500.0 * f64::from(members), 0.02);
    }
}

/// A sequential reader of md's far layout reads as from a raid0: both disks share each two chunks.
/// With near copies one disk could read it all.
#[test]
fn the_rule_of_md_raid10_is_that_of_the_layout() {
    let reads = |layout| {
        let array = array(layout, 2);
        let record = simulate(&array, &jobs("rw=read\nbs=128k\niodepth=4"), "md/raid10");
        (iops(&record), member_reads(&record))
    };
    let (far, shares) = reads("layout = \"md-raid10-far:2\"\nchunk = \"512K\"");
    // Four reads in flight are often four of one chunk: then one disk serves, and the other waits.
    assert!((500.0..1000.0).contains(&far), "{far}");
    assert!(shares[0].abs_diff(shares[1]) <= 4, "{shares:?}");
    let (small, shares) = reads("layout = \"md-raid10-far:2\"\nchunk = \"128K\"");
    assert_near(small, 1000.0, 0.01);
    assert!(shares[0].abs_diff(shares[1]) <= 4, "{shares:?}");
}
