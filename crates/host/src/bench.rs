//! `mirrorball bench`: measures an array under the settings that its running system offers.
//!
//! fio runs the jobs; this module decides in which order, sets the kernel's files between the runs,
//! and puts back what they held. Results are saved as those of simulations are.
//!
//! | module | contents |
//! |---|---|
//! | `knob_path`, `tool_knob`, `knob` | places that hold a setting |
//! | `setting_commands`, `arms` | the settings that they make |
//! | `journal`, `array_lock`, `watchdog`, `changed_array` | nothing is left changed |
//! | `knob_place`, `restore` | what is changed is found and put back |
//! | `design` | the order of runs |
//! | `fio_job`, `data_folder`, `fio_run` | one run of fio |
//! | `process_tree`, `reader_log` | its processes |
//! | `measured_cell`, `stability`, `tables` | what a run gave |
//! | `pid_remainders`, `pid_residue` | the setting whose choice follows from the process |
//! | `block_statistics`, `comparison_tables` | how the settings compare |
//! | `request`, `session`, `runs`, `saved_runs`, `outcome` | everything in its order |
//!
//! **Nothing is left changed.** A journal with the text of each file is on the disk before the
//! first change. It is used at the end, on an error, on a signal and on a panic by `bench` itself;
//! by a watchdog process if `bench` is killed; and by `bench --restore` after a crash of the
//! machine.

pub(crate) mod arms;
pub(crate) mod array_lock;
mod block_statistics;
pub(crate) mod changed_array;
mod comparison_tables;
mod data_folder;
mod design;
mod fio_job;
mod fio_run;
pub(crate) mod journal;
pub(crate) mod knob;
pub(crate) mod knob_path;
pub(crate) mod knob_place;
mod measured_cell;
mod outcome;
mod pid_remainders;
mod pid_residue;
mod process_tree;
mod reader_log;
pub(crate) mod request;
pub(crate) mod restore;
mod runs;
mod saved_runs;
mod session;
mod setting_commands;
mod stability;
mod tables;
pub(crate) mod tool_knob;
mod watchdog;

pub use design::RunTimes;
pub use outcome::{BenchControl, BenchEvent, BenchOutcome, SavedRun};
pub use request::{Bench, BenchRequest};
pub use restore::RestoreReport;
pub use session::restore_all;
pub use stability::Steadiness;
pub use watchdog::watch;
