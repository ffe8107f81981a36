//! The recipes compiled in, so that the program repeats them from any folder.

/// A file of a recipe: its name and its text.
pub(super) type Named = (&'static str, &'static str);

/// The recipes, the files of each.
pub(super) const BUILTINS: [(&str, &[Named]); 12] = [
    (
        "btrfs-2025-hetero-hdd",
        &[
            (
                "recipe.toml",
                include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/recipe.toml"),
            ),
            ("array.toml", include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/array.toml")),
            (
                "qd1-defrag.fio",
                include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/qd1-defrag.fio"),
            ),
            ("qd1.fio", include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/qd1.fio")),
            (
                "qd32-defrag.fio",
                include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/qd32-defrag.fio"),
            ),
            ("qd32.fio", include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/qd32.fio")),
            (
                "seq-defrag.fio",
                include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/seq-defrag.fio"),
            ),
            ("seq.fio", include_str!("../../../../../recipes/btrfs-2025-hetero-hdd/seq.fio")),
        ],
    ),
    (
        "linux-7.2-two-delays",
        &[
            (
                "recipe.toml",
                include_str!("../../../../../recipes/linux-7.2-two-delays/recipe.toml"),
            ),
            ("array.toml", include_str!("../../../../../recipes/linux-7.2-two-delays/array.toml")),
            ("far.toml", include_str!("../../../../../recipes/linux-7.2-two-delays/far.toml")),
            (
                "rand-qd1.fio",
                include_str!("../../../../../recipes/linux-7.2-two-delays/rand-qd1.fio"),
            ),
            (
                "rand-qd4x4.fio",
                include_str!("../../../../../recipes/linux-7.2-two-delays/rand-qd4x4.fio"),
            ),
            (
                "rand-qd8.fio",
                include_str!("../../../../../recipes/linux-7.2-two-delays/rand-qd8.fio"),
            ),
            (
                "read-128k.fio",
                include_str!("../../../../../recipes/linux-7.2-two-delays/read-128k.fio"),
            ),
            (
                "read-64k.fio",
                include_str!("../../../../../recipes/linux-7.2-two-delays/read-64k.fio"),
            ),
        ],
    ),
    (
        "gmirror-2009-rebuild",
        &[
            (
                "recipe.toml",
                include_str!("../../../../../recipes/gmirror-2009-rebuild/recipe.toml"),
            ),
            ("array.toml", include_str!("../../../../../recipes/gmirror-2009-rebuild/array.toml")),
            (
                "rebuild.fio",
                include_str!("../../../../../recipes/gmirror-2009-rebuild/rebuild.fio"),
            ),
        ],
    ),
    (
        "gmirror-2009-random",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/gmirror-2009-random/recipe.toml")),
            ("array.toml", include_str!("../../../../../recipes/gmirror-2009-random/array.toml")),
            ("random.fio", include_str!("../../../../../recipes/gmirror-2009-random/random.fio")),
        ],
    ),
    (
        "btrfs-2024-randrw",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/btrfs-2024-randrw/recipe.toml")),
            ("v1.toml", include_str!("../../../../../recipes/btrfs-2024-randrw/v1.toml")),
            ("v2.toml", include_str!("../../../../../recipes/btrfs-2024-randrw/v2.toml")),
            ("v1.fio", include_str!("../../../../../recipes/btrfs-2024-randrw/v1.fio")),
            ("v2.fio", include_str!("../../../../../recipes/btrfs-2024-randrw/v2.fio")),
        ],
    ),
    (
        "btrfs-2024-defrag",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/btrfs-2024-defrag/recipe.toml")),
            ("v1.toml", include_str!("../../../../../recipes/btrfs-2024-defrag/v1.toml")),
            ("v2.toml", include_str!("../../../../../recipes/btrfs-2024-defrag/v2.toml")),
            ("defrag.fio", include_str!("../../../../../recipes/btrfs-2024-defrag/defrag.fio")),
        ],
    ),
    (
        "btrfs-2008-multidevice",
        &[
            (
                "recipe.toml",
                include_str!("../../../../../recipes/btrfs-2008-multidevice/recipe.toml"),
            ),
            (
                "raid0.toml",
                include_str!("../../../../../recipes/btrfs-2008-multidevice/raid0.toml"),
            ),
            (
                "raid1.toml",
                include_str!("../../../../../recipes/btrfs-2008-multidevice/raid1.toml"),
            ),
            (
                "raid10.toml",
                include_str!("../../../../../recipes/btrfs-2008-multidevice/raid10.toml"),
            ),
            (
                "single.toml",
                include_str!("../../../../../recipes/btrfs-2008-multidevice/single.toml"),
            ),
            (
                "phases.fio",
                include_str!("../../../../../recipes/btrfs-2008-multidevice/phases.fio"),
            ),
        ],
    ),
    (
        "btrfs-2025-forza",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/btrfs-2025-forza/recipe.toml")),
            ("hdd.toml", include_str!("../../../../../recipes/btrfs-2025-forza/hdd.toml")),
            ("ssd.toml", include_str!("../../../../../recipes/btrfs-2025-forza/ssd.toml")),
            ("qd1.fio", include_str!("../../../../../recipes/btrfs-2025-forza/qd1.fio")),
            ("qd32.fio", include_str!("../../../../../recipes/btrfs-2025-forza/qd32.fio")),
        ],
    ),
    (
        "zfs-mixed-mirror",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/zfs-mixed-mirror/recipe.toml")),
            ("array.toml", include_str!("../../../../../recipes/zfs-mixed-mirror/array.toml")),
            (
                "three-dd-prefetch.fio",
                include_str!("../../../../../recipes/zfs-mixed-mirror/three-dd-prefetch.fio"),
            ),
            ("three-dd.fio", include_str!("../../../../../recipes/zfs-mixed-mirror/three-dd.fio")),
        ],
    ),
    (
        "btrfs-2021-rostecki",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/btrfs-2021-rostecki/recipe.toml")),
            ("hdds.toml", include_str!("../../../../../recipes/btrfs-2021-rostecki/hdds.toml")),
            ("mixed.toml", include_str!("../../../../../recipes/btrfs-2021-rostecki/mixed.toml")),
            ("seqread.fio", include_str!("../../../../../recipes/btrfs-2021-rostecki/seqread.fio")),
        ],
    ),
    (
        "nvme-2025-adaptive",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/nvme-2025-adaptive/recipe.toml")),
            ("array.toml", include_str!("../../../../../recipes/nvme-2025-adaptive/array.toml")),
            (
                "randread.fio",
                include_str!("../../../../../recipes/nvme-2025-adaptive/randread.fio"),
            ),
        ],
    ),
    (
        "spdk-raid1",
        &[
            ("recipe.toml", include_str!("../../../../../recipes/spdk-raid1/recipe.toml")),
            ("one.toml", include_str!("../../../../../recipes/spdk-raid1/one.toml")),
            ("two.toml", include_str!("../../../../../recipes/spdk-raid1/two.toml")),
            ("three.toml", include_str!("../../../../../recipes/spdk-raid1/three.toml")),
            ("4k.fio", include_str!("../../../../../recipes/spdk-raid1/4k.fio")),
            ("mixed.fio", include_str!("../../../../../recipes/spdk-raid1/mixed.fio")),
        ],
    ),
];

/// Published experiments that are not repeated, and why.
pub(super) const NOT_REPEATED: [(&str, &str); 5] = [
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
];
