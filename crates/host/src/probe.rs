//! `mirrorball probe`: measures a device by reading it, and fits a model to it.
//!
//! `machine` asks for reads and is given their completions; it has no clock and does no I/O.
//! `virtual_time` runs it against a disk model, `device` against a file or block device. Both give
//! a recording, from which `fit` makes a profile.
//!
//! | module | contents |
//! |---|---|
//! | `plan`, `step`, `patterns` | what is read, by class of device |
//! | `machine`, `recording` | the state machine, and what it saw |
//! | `rotation`, `zones`, `seeks`, `track_map`, `cached_reads` | closed forms of hard disks |
//! | `replay`, `workload_fit`, `search`, `nelder_mead`, `joint_width` | the simulator in the loop |
//! | `hdd`, `ssd`, `network`, `device_fit`, `estimate` | the fit of each class |
//! | `target`, `device`, `measure` | opening and running |
//! | `fit`, `outcome`, `profile_text`, `tables` | the result |
//!
//! Reads never write. What reads cannot show (writes, flushes, caches that hold writes) keeps the
//! default of the class, and is marked so.

mod cached_reads;
mod device;
mod device_fit;
mod estimate;
mod fit;
mod hdd;
mod joint_width;
mod machine;
mod measure;
mod nelder_mead;
mod network;
mod outcome;
mod patterns;
mod plan;
mod profile_text;
mod recording;
mod replay;
mod rotation;
mod search;
mod seeks;
mod ssd;
mod statistics;
mod step;
mod tables;
mod target;
mod track_map;
mod virtual_time;
mod workload_fit;
mod zones;

pub use device::ProbeControl;
pub use estimate::{ParameterEstimate, ValueOrigin};
pub use machine::ProbeProgress;
pub use measure::{ProbeOptions, probe_device, probe_model};
pub use outcome::{ProbeOutcome, ProbeVerdict};
pub use plan::{Budget, DeviceClass, planned_time};
pub(crate) use statistics::quantile;
pub use target::{DeviceFacts, ProbeTarget};
pub use workload_fit::WorkloadFit;

#[cfg(test)]
mod tests;
