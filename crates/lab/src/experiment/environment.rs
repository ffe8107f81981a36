//! The machine that an experiment was run on, as far as it explains a result.
//!
//! Simulated results do not depend on it; it is recorded all the same, so that a folder of results
//! says where it comes from and live results (which do depend on it) look the same.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;

/// Where a cell was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Environment {
    /// Name of the host.
    pub host: String,
    /// Operating system and architecture, `linux x86_64`.
    pub system: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the first CPU.
    pub cpu: String,
    /// CPUs that the program may use.
    pub cpus: usize,
}

impl Environment {
    /// This machine. What cannot be learnt (outside Linux) is `unknown`.
    pub fn current() -> Environment {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu_info.lines().find_map(|line| line.strip_prefix("model name"));
        Environment {
            host: first_line("/proc/sys/kernel/hostname"),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: cpu
                .map_or("unknown", |value| value.trim_start_matches([' ', '\t', ':']).trim())
                .to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}
