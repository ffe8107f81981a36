//! The recipes compiled in, so that the program repeats them from any folder.

/// A file of a recipe: its name and its text.
pub(super) type Named = (&'static str, &'static str);

/// The recipes, the files of each.
pub(super) const BUILTINS: [(&str, &[Named]); 9] = [
    (
        "btrfs-2025-hetero-hdd",
        &[
            ("recipe.toml", include_str!("../../../../recipes/btrfs-2025-hetero-hdd/recipe.toml")),
            ("array.toml", include_str!("../../../../recipes/btrfs-2025-hetero-hdd/array.toml")),
            (
                "qd1-defrag.fio",
                include_str!("../../../../recipes/btrfs-2025-hetero-hdd/qd1-defrag.fio"),
            ),
            ("qd1.fio", include_str!("../../../../recipes/btrfs-2025-hetero-hdd/qd1.fio")),
            (
                "qd32-defrag.fio",
                include_str!("../../../../recipes/btrfs-2025-hetero-hdd/qd32-defrag.fio"),
            ),
            ("qd32.fio", include_str!("../../../../recipes/btrfs-2025-hetero-hdd/qd32.fio")),
            (
                "seq-defrag.fio",
                include_str!("../../../../recipes/btrfs-2025-hetero-hdd/seq-defrag.fio"),
            ),
            ("seq.fio", include_str!("../../../../recipes/btrfs-2025-hetero-hdd/seq.fio")),
        ],
    ),
    (
        "linux-7.2-two-delays",
        &[
            ("recipe.toml", include_str!("../../../../recipes/linux-7.2-two-delays/recipe.toml")),
            ("array.toml", include_str!("../../../../recipes/linux-7.2-two-delays/array.toml")),
            ("far.toml", include_str!("../../../../recipes/linux-7.2-two-delays/far.toml")),
            ("rand-qd1.fio", include_str!("../../../../recipes/linux-7.2-two-delays/rand-qd1.fio")),
            (
                "rand-qd4x4.fio",
                include_str!("../../../../recipes/linux-7.2-two-delays/rand-qd4x4.fio"),
            ),
            ("rand-qd8.fio", include_str!("../../../../recipes/linux-7.2-two-delays/rand-qd8.fio")),
            (
                "read-128k.fio",
                include_str!("../../../../recipes/linux-7.2-two-delays/read-128k.fio"),
            ),
            ("read-64k.fio", include_str!("../../../../recipes/linux-7.2-two-delays/read-64k.fio")),
        ],
    ),
    (
        "gmirror-2009-rebuild",
        &[
            ("recipe.toml", include_str!("../../../../recipes/gmirror-2009-rebuild/recipe.toml")),
            ("array.toml", include_str!("../../../../recipes/gmirror-2009-rebuild/array.toml")),
            ("rebuild.fio", include_str!("../../../../recipes/gmirror-2009-rebuild/rebuild.fio")),
        ],
    ),
    (
        "gmirror-2009-random",
        &[
            ("recipe.toml", include_str!("../../../../recipes/gmirror-2009-random/recipe.toml")),
            ("array.toml", include_str!("../../../../recipes/gmirror-2009-random/array.toml")),
            ("random.fio", include_str!("../../../../recipes/gmirror-2009-random/random.fio")),
        ],
    ),
    (
        "btrfs-2024-randrw",
        &[
            ("recipe.toml", include_str!("../../../../recipes/btrfs-2024-randrw/recipe.toml")),
            ("v1.toml", include_str!("../../../../recipes/btrfs-2024-randrw/v1.toml")),
            ("v2.toml", include_str!("../../../../recipes/btrfs-2024-randrw/v2.toml")),
            ("v1.fio", include_str!("../../../../recipes/btrfs-2024-randrw/v1.fio")),
            ("v2.fio", include_str!("../../../../recipes/btrfs-2024-randrw/v2.fio")),
        ],
    ),
    (
        "btrfs-2024-defrag",
        &[
            ("recipe.toml", include_str!("../../../../recipes/btrfs-2024-defrag/recipe.toml")),
            ("v1.toml", include_str!("../../../../recipes/btrfs-2024-defrag/v1.toml")),
            ("v2.toml", include_str!("../../../../recipes/btrfs-2024-defrag/v2.toml")),
            ("defrag.fio", include_str!("../../../../recipes/btrfs-2024-defrag/defrag.fio")),
        ],
    ),
    (
        "btrfs-2008-multidevice",
        &[
            ("recipe.toml", include_str!("../../../../recipes/btrfs-2008-multidevice/recipe.toml")),
            ("raid0.toml", include_str!("../../../../recipes/btrfs-2008-multidevice/raid0.toml")),
            ("raid1.toml", include_str!("../../../../recipes/btrfs-2008-multidevice/raid1.toml")),
            ("raid10.toml", include_str!("../../../../recipes/btrfs-2008-multidevice/raid10.toml")),
            ("single.toml", include_str!("../../../../recipes/btrfs-2008-multidevice/single.toml")),
            ("phases.fio", include_str!("../../../../recipes/btrfs-2008-multidevice/phases.fio")),
        ],
    ),
    (
        "btrfs-2025-forza",
        &[
            ("recipe.toml", include_str!("../../../../recipes/btrfs-2025-forza/recipe.toml")),
            ("hdd.toml", include_str!("../../../../recipes/btrfs-2025-forza/hdd.toml")),
            ("ssd.toml", include_str!("../../../../recipes/btrfs-2025-forza/ssd.toml")),
            ("qd1.fio", include_str!("../../../../recipes/btrfs-2025-forza/qd1.fio")),
            ("qd32.fio", include_str!("../../../../recipes/btrfs-2025-forza/qd32.fio")),
        ],
    ),
    (
        "zfs-mixed-mirror",
        &[
            ("recipe.toml", include_str!("../../../../recipes/zfs-mixed-mirror/recipe.toml")),
            ("array.toml", include_str!("../../../../recipes/zfs-mixed-mirror/array.toml")),
            (
                "three-dd-prefetch.fio",
                include_str!("../../../../recipes/zfs-mixed-mirror/three-dd-prefetch.fio"),
            ),
            ("three-dd.fio", include_str!("../../../../recipes/zfs-mixed-mirror/three-dd.fio")),
        ],
    ),
];

/// Published experiments that are not repeated, and why.
pub(super) const NOT_REPEATED: [(&str, &str); 5] = [
    (
        "Titovets, patch V9 of May 2019: 18.9 to 26.5 MiB/s on RAID1, 30.7 to 30.7 on RAID10",
        "what we have of the source names neither disks nor job",
    ),
    ("Jain, v4 of January 2021: 744 to 2072 MiB/s on an NVMe and an SSD", "the same"),
    (
        "Rostecki, February 2021: 217 to 409 MiB/s on three HDDs, 1569 to 1733 with eight jobs",
        "three hard disks do not read 1569 MiB/s: caches did, and we model none of a file's size",
    ),
    (
        "SPDK, raid1 of one, two and three bdevs: 804, 1291 and 1572 thousand IOPS",
        "the curve bends with the CPU; our host costs a request time and no CPU that others need",
    ),
    (
        "NVMe multipath `adaptive`: 50, 105, 230 and 350 MiB/s with one path 30 ms slower",
        "neither the size of its requests nor their depth is told, which decide the rates",
    ),
];
