//! I/O of md raid5 and raid6 for a request, against the counts of a real kernel.
//!
//! Linux 6.12.117 in QEMU, mdadm 4.2: five members in raid5, six in raid6, chunks of 64 KiB, no
//! bitmap, 250 random direct writes of each kind within 2 GiB; counts of `/sys/block/*/stat` over
//! all members. Writes of whole or half strips are in it, aligned and not.
//!
//! I/Os are compared where the kernel does not split a request: it handles pages one by one and
//! merges them again as far as they come together, and it merges across full stripes. Bytes do not
//! depend on that.

use super::{assert_near, jobs, simulate};
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};

/// Level, options of the job; KiB read and written for a request; I/Os, where not split.
type Row = (u32, &'static str, f64, f64, Option<(f64, f64)>);

const KERNEL: [Row; 16] = [
    (5, "bs=4k\niodepth=8", 7.94, 8.0, Some((1.98, 2.0))),
    (5, "bs=16k", 32.0, 32.0, Some((2.0, 2.0))),
    (5, "bs=64k", 128.0, 128.0, Some((2.0, 2.0))),
    (5, "bs=64k\noffset=32k", 128.0, 128.0, None),
    (5, "bs=128k", 128.02, 192.01, Some((2.0, 3.02))),
    (5, "bs=256k", 0.0, 320.0, Some((0.0, 5.0))),
    (5, "bs=256k\noffset=4k", 11.97, 324.0, None),
    (5, "bs=256k\noffset=64k", 192.0, 384.0, None),
    (6, "bs=4k\niodepth=8", 11.9, 12.0, Some((2.98, 3.0))),
    (6, "bs=16k", 48.0, 48.0, Some((3.0, 3.0))),
    (6, "bs=64k", 192.0, 192.0, Some((3.0, 3.0))),
    (6, "bs=64k\noffset=32k", 192.0, 192.0, None),
    (6, "bs=128k", 128.02, 256.01, Some((2.0, 4.02))),
    (6, "bs=256k", 0.0, 384.0, Some((0.0, 6.0))),
    (6, "bs=256k\noffset=4k", 15.95, 392.0, None),
    (6, "bs=256k\noffset=64k", 256.0, 512.0, None),
];

fn array(level: u32) -> ArraySpec {
    let text = format!(
        "layout = \"md-raid{level}\"\nchunk = \"64K\"\n[[member]]\nmodel = \"delay\"\n\
         count = {level}\nsize = \"4GiB\"\n"
    );
    ArrayFile::parse(&text, "md.toml").expect("a valid array").spec
}

#[test]
fn a_write_costs_the_members_what_it_costs_under_md() {
    for (level, options, read_kib, written_kib, ios) in KERNEL {
        let options =
            format!("rw=randwrite\n{options}\nsize=2g\nnorandommap\nnumber_ios=1000\ntime_based=0");
        let record = simulate(&array(level), &jobs(&options), "first");
        let requests = record.sections[0].write.latency.count() as f64;
        assert_near(requests, 1000.0, 0.01);
        let sum = |of: fn(&super::MemberRecord) -> u64| {
            record.members.iter().map(of).sum::<u64>() as f64 / requests
        };
        let held = [
            (sum(|it| it.read_bytes) / 1024.0, read_kib),
            (sum(|it| it.written_bytes) / 1024.0, written_kib),
        ];
        let counts =
            ios.map(|(reads, writes)| [(sum(|it| it.reads), reads), (sum(|it| it.writes), writes)]);
        for (ours, kernel) in held.into_iter().chain(counts.into_iter().flatten()) {
            let off = (ours - kernel).abs();
            assert!(off <= 0.03 * kernel, "raid{level}, {options}: {ours}, kernel {kernel}");
        }
    }
}
