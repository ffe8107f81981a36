//! The files of the league compiled in: its list, its arrays and its jobs.

/// The list of arrays and jobs, and the length of their runs.
pub(super) const LIST: &str = include_str!("../../../league/league.toml");

/// The arrays by name, in the order of the list.
pub(super) const ARRAYS: [(&str, &str); 16] = [
    ("equal-hdd", include_str!("../../../league/arrays/equal-hdd.toml")),
    ("unequal-hdd", include_str!("../../../league/arrays/unequal-hdd.toml")),
    ("six-hdd", include_str!("../../../league/arrays/six-hdd.toml")),
    ("hdd-ssd", include_str!("../../../league/arrays/hdd-ssd.toml")),
    ("equal-ssd", include_str!("../../../league/arrays/equal-ssd.toml")),
    ("unequal-ssd", include_str!("../../../league/arrays/unequal-ssd.toml")),
    ("nvme-sata", include_str!("../../../league/arrays/nvme-sata.toml")),
    ("three-copies", include_str!("../../../league/arrays/three-copies.toml")),
    ("four-copies", include_str!("../../../league/arrays/four-copies.toml")),
    ("raid10-eight", include_str!("../../../league/arrays/raid10-eight.toml")),
    ("narrow-link", include_str!("../../../league/arrays/narrow-link.toml")),
    ("network", include_str!("../../../league/arrays/network.toml")),
    ("slowing-hdd", include_str!("../../../league/arrays/slowing-hdd.toml")),
    ("slowing-ssd", include_str!("../../../league/arrays/slowing-ssd.toml")),
    ("rebuilding", include_str!("../../../league/arrays/rebuilding.toml")),
    ("stalling-ssd", include_str!("../../../league/arrays/stalling-ssd.toml")),
];

/// The jobs by name, in the order of the list.
pub(super) const JOBS: [(&str, &str); 27] = [
    ("rand-4k-qd1", include_str!("../../../league/jobs/rand-4k-qd1.fio")),
    ("rand-4k-qd4", include_str!("../../../league/jobs/rand-4k-qd4.fio")),
    ("rand-4k-qd16", include_str!("../../../league/jobs/rand-4k-qd16.fio")),
    ("rand-4k-qd64", include_str!("../../../league/jobs/rand-4k-qd64.fio")),
    ("rand-4k-qd256", include_str!("../../../league/jobs/rand-4k-qd256.fio")),
    ("rand-16k-qd16", include_str!("../../../league/jobs/rand-16k-qd16.fio")),
    ("rand-64k-qd16", include_str!("../../../league/jobs/rand-64k-qd16.fio")),
    ("rand-1m-qd1", include_str!("../../../league/jobs/rand-1m-qd1.fio")),
    ("rand-1m-qd8", include_str!("../../../league/jobs/rand-1m-qd8.fio")),
    ("seq-1-direct", include_str!("../../../league/jobs/seq-1-direct.fio")),
    ("seq-4-direct", include_str!("../../../league/jobs/seq-4-direct.fio")),
    ("seq-16-direct", include_str!("../../../league/jobs/seq-16-direct.fio")),
    ("seq-1-buffered", include_str!("../../../league/jobs/seq-1-buffered.fio")),
    ("seq-4-buffered", include_str!("../../../league/jobs/seq-4-buffered.fio")),
    ("seq-16-buffered", include_str!("../../../league/jobs/seq-16-buffered.fio")),
    ("mixed-sizes-qd16", include_str!("../../../league/jobs/mixed-sizes-qd16.fio")),
    ("write-30-qd16", include_str!("../../../league/jobs/write-30-qd16.fio")),
    ("write-50-qd16", include_str!("../../../league/jobs/write-50-qd16.fio")),
    ("zipf-4k-qd16", include_str!("../../../league/jobs/zipf-4k-qd16.fio")),
    ("poisson-30", include_str!("../../../league/jobs/poisson-30.fio")),
    ("poisson-60", include_str!("../../../league/jobs/poisson-60.fio")),
    ("poisson-90", include_str!("../../../league/jobs/poisson-90.fio")),
    ("rand-4k-qd1-scrub", include_str!("../../../league/jobs/rand-4k-qd1-scrub.fio")),
    ("rand-4k-qd16-scrub", include_str!("../../../league/jobs/rand-4k-qd16-scrub.fio")),
    ("rand-4k-qd1-defrag", include_str!("../../../league/jobs/rand-4k-qd1-defrag.fio")),
    ("rand-4k-qd16-defrag", include_str!("../../../league/jobs/rand-4k-qd16-defrag.fio")),
    ("seq-4-defrag", include_str!("../../../league/jobs/seq-4-defrag.fio")),
];

/// The text of one of them.
///
/// # Panics
/// If no file has that name; a test checks that every name of the list has one.
pub(super) fn text(files: &[(&str, &'static str)], name: &str) -> &'static str {
    let found = files.iter().find(|(known, _)| *known == name);
    found.expect("the list names what is compiled in").1
}
