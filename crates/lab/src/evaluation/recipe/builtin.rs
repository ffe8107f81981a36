//! The recipes compiled in, so that the program repeats them from any folder.

/// A file of a recipe: its name and its text.
pub(super) type Named = (&'static str, &'static str);

/// A recipe and its files, in the order given.
macro_rules! recipe {
    ($name:literal: $($file:literal),+) => {
        (
            $name,
            &[$((
                $file,
                include_str!(concat!("../../../recipes/", $name, "/", $file)),
            )),+],
        )
    };
}

/// The recipes, the files of each.
pub(super) const BUILTINS: [(&str, &[Named]); 24] = [
    recipe!(
        "btrfs-2025-hetero-hdd": "recipe.toml", "array.toml", "no-cache.toml", "qd1-defrag.fio",
        "qd1.fio", "qd32-defrag.fio", "qd32-same.fio", "qd32.fio", "seq-defrag.fio", "seq.fio"
    ),
    recipe!(
        "linux-7.2-two-delays": "recipe.toml", "array.toml", "far.toml", "rand-qd1.fio",
        "rand-qd4x4.fio", "rand-qd8.fio", "read-128k.fio", "read-64k.fio"
    ),
    recipe!(
        "linux-6.12-md-raid1-2": "recipe.toml", "md-raid1-2-mixed-128k.toml",
        "md-raid1-2-mixed-wm1-128k.toml", "md-raid1-2-mixed-wm1.toml",
        "md-raid1-2-mixed-wm2-128k.toml", "md-raid1-2-mixed-wm2.toml", "md-raid1-2-mixed.toml",
        "md-raid1-2-rotational-128k.toml", "md-raid1-2-rotational-wm1-128k.toml",
        "md-raid1-2-rotational-wm1.toml", "md-raid1-2-rotational-wm2-128k.toml",
        "md-raid1-2-rotational-wm2.toml", "md-raid1-2-rotational.toml",
        "md-raid1-2-solid-128k.toml", "md-raid1-2-solid-wm1-128k.toml", "md-raid1-2-solid-wm1.toml",
        "md-raid1-2-solid-wm2-128k.toml", "md-raid1-2-solid-wm2.toml", "md-raid1-2-solid.toml",
        "rand-qd1.fio", "rand-qd8.fio", "read-128k.fio"
    ),
    recipe!(
        "linux-6.12-md-raid1-3": "recipe.toml", "md-raid1-3-mixed-128k.toml",
        "md-raid1-3-mixed-256k.toml", "md-raid1-3-mixed-wm1-128k.toml",
        "md-raid1-3-mixed-wm1-256k.toml", "md-raid1-3-mixed-wm1.toml", "md-raid1-3-mixed.toml",
        "md-raid1-3-rotational-128k.toml", "md-raid1-3-rotational-256k.toml",
        "md-raid1-3-rotational-wm1-128k.toml", "md-raid1-3-rotational-wm1-256k.toml",
        "md-raid1-3-rotational-wm1.toml", "md-raid1-3-rotational.toml",
        "md-raid1-3-solid-128k.toml", "md-raid1-3-solid-256k.toml",
        "md-raid1-3-solid-wm1-128k.toml", "md-raid1-3-solid-wm1-256k.toml",
        "md-raid1-3-solid-wm1.toml", "md-raid1-3-solid.toml", "rand-qd1.fio", "rand-qd8.fio",
        "randrw-qd8.fio", "read-128k.fio", "read-3x256k.fio"
    ),
    recipe!(
        "linux-6.12-md-raid1-4": "recipe.toml", "md-raid1-4-mixed-128k.toml",
        "md-raid1-4-mixed-wm1-128k.toml", "md-raid1-4-mixed-wm1.toml", "md-raid1-4-mixed.toml",
        "md-raid1-4-rotational-128k.toml", "md-raid1-4-rotational-wm1-128k.toml",
        "md-raid1-4-rotational-wm1.toml", "md-raid1-4-rotational.toml",
        "md-raid1-4-solid-128k.toml", "md-raid1-4-solid-wm1-128k.toml", "md-raid1-4-solid-wm1.toml",
        "md-raid1-4-solid.toml", "rand-qd1.fio", "rand-qd8.fio", "read-128k.fio"
    ),
    recipe!(
        "linux-6.12-md-raid10": "recipe.toml", "md-raid10-far-128k.toml", "md-raid10-far-64k.toml",
        "md-raid10-far.toml", "md-raid10-near-128k.toml", "md-raid10-near-64k.toml",
        "md-raid10-near.toml", "md-raid10-offset-128k.toml", "md-raid10-offset-64k.toml",
        "md-raid10-offset.toml", "rand-qd1.fio", "rand-qd8.fio", "read-128k.fio", "read-64k.fio"
    ),
    recipe!(
        "linux-6.12-dm-multipath": "recipe.toml", "dm-2-128k.toml", "dm-2.toml", "dm-3-128k.toml",
        "dm-3.toml", "rand-qd1.fio", "rand-qd8.fio", "read-128k.fio"
    ),
    recipe!(
        "linux-6.12-nvme-multipath": "recipe.toml", "nvme-2-128k.toml", "nvme-2.toml",
        "nvme-3-128k.toml", "nvme-3.toml", "rand-qd1.fio", "rand-qd8.fio", "read-128k.fio"
    ),
    recipe!(
        "linux-6.12-dm-mirror": "recipe.toml", "dm-mirror-2-128k.toml", "dm-mirror-2.toml",
        "dm-mirror-3-128k.toml", "dm-mirror-3.toml", "rand-qd1.fio", "rand-qd8.fio",
        "read-128k.fio"
    ),
    recipe!(
        "linux-6.12-lvm-raid1": "recipe.toml", "lvm-raid1-mixed-wm1.toml",
        "lvm-raid1-mixed-wm2.toml", "lvm-raid1-mixed.toml", "lvm-raid1-rotational-wm1.toml",
        "lvm-raid1-rotational-wm2.toml", "lvm-raid1-rotational.toml", "lvm-raid1-solid-wm1.toml",
        "lvm-raid1-solid-wm2.toml", "lvm-raid1-solid.toml", "rand-qd1.fio", "rand-qd8.fio"
    ),
    recipe!(
        "linux-6.12-btrfs-raid1": "recipe.toml", "btrfs-raid1-4.toml", "rand-qd1.fio",
        "rand-qd8.fio"
    ),
    recipe!("gmirror-2009-rebuild": "recipe.toml", "array.toml", "rebuild.fio"),
    recipe!("gmirror-2009-random": "recipe.toml", "array.toml", "random.fio"),
    recipe!("btrfs-2024-randrw": "recipe.toml", "v1.toml", "v2.toml", "v1.fio", "v2.fio"),
    recipe!("btrfs-2024-defrag": "recipe.toml", "v1.toml", "v2.toml", "defrag.fio"),
    recipe!(
        "btrfs-2008-multidevice": "recipe.toml", "card-raid10.toml", "md-raid10.toml", "raid0.toml",
        "raid1.toml", "raid10.toml", "single.toml", "phases.fio"
    ),
    recipe!("btrfs-2025-forza": "recipe.toml", "hdd.toml", "ssd.toml", "qd1.fio", "qd32.fio"),
    recipe!(
        "zfs-mixed-mirror": "recipe.toml", "array.toml", "three-dd-prefetch.fio", "three-dd.fio"
    ),
    recipe!("btrfs-2021-rostecki": "recipe.toml", "hdds.toml", "mixed.toml", "seqread.fio"),
    recipe!(
        "xfs-2016-raid6": "recipe.toml", "array.toml", "raw.fio", "preallocated.fio", "sparse.fio",
        "raw-locked.fio", "raw-short.fio", "raw-misaligned.fio", "raw-sequential.fio",
        "file-locked.fio", "file-swalloc.fio", "file-whole-ags.fio",
        "sparse-locked.fio"
    ),
    recipe!("nvme-2025-adaptive": "recipe.toml", "array.toml", "randread.fio"),
    recipe!(
        "spdk-raid1": "recipe.toml", "one.toml", "two.toml", "three.toml", "4k.fio", "mixed.fio"
    ),
    recipe!("prequal-2024-rules": "recipe.toml", "array.toml", "70.fio", "90.fio"),
    recipe!("tail-at-scale-2013": "recipe.toml", "array.toml", "idle.fio", "sort.fio"),
];

/// Published experiments that are not repeated, and why.
pub(super) const NOT_REPEATED: [(&str, &str); 7] = [
    (
        "Titovets, patch V9 of May 2019: 18.9 to 26.5 MiB/s on RAID1, 30.7 to 30.7 on RAID10",
        "the source describes neither the disks nor the job: no size of the requests, no \
         depth, and no number of readers, on which a rule with a threshold of 8 requests depends",
    ),
    (
        "Jain, v4 of January 2021: 744 to 2072 MiB/s at random and 809 to 2008 in order, on an \
         NVMe and an SSD",
        "the source describes neither the job nor the devices; with these figures alone any \
         pair of devices and rates could be fitted to the only two policies",
    ),
    (
        "Rostecki, February 2021, eight readers: 1569 to 1733 MiB/s",
        "they read one file through one page cache, which we do not model; see btrfs-2021-rostecki",
    ),
    (
        "NVMe multipath `adaptive`, writes: 65.9, 125, 385 and 446 MiB/s",
        "a write goes down one path, and to all mirrors of a volume; see nvme-2025-adaptive",
    ),
    (
        "kakra, PR #40: `queue` and `queue-adaptive` against the older policies",
        "the rules of `queue-adaptive` and the tables are not at hand",
    ),
    (
        "Dean and Barroso, 2013: 1,800 to 74 ms by hedging after 10 ms",
        "that is the 99.9th percentile of the slowest of 1,000 reads from 100 servers, and their \
         times of service are not published; see tail-at-scale-2013",
    ),
    (
        "C3, NSDI 2015: 99th percentiles of the simulation with servers of changing speed",
        "its figures are not at hand as numbers, and many clients choose there, each by what it \
         measured itself, where a volume is one client",
    ),
];
