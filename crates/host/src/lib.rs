//! The arrays and disks of this machine: describes arrays as array files, and measures disks and
//! arrays.
//!
//! `detect` reads the kernel's files below `/sys` and `/proc`. `probe` reads a disk, and fits a
//! model to what it took. Neither writes. `bench` measures an array under the settings that its
//! system offers, and restores what it set. `tune` applies one of them, keeps it and undoes it.
//! `watch` reads the counters of running disks, `capture` records what an array is asked.
//!
//! Where there is no Unix, as in a browser, `detect` alone is left: it reads pasted texts.

#[cfg(unix)]
pub mod bench;
#[cfg(unix)]
pub mod capture;
pub mod detect;
#[cfg(unix)]
pub mod probe;
#[cfg(unix)]
pub mod tune;
#[cfg(unix)]
pub mod watch;
