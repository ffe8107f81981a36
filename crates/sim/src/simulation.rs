//! The description of one run: an array, a job file, a policy and a seed.

use crate::job::JobFile;
use crate::policy_under_test::PolicyUnderTest;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArraySpec;

/// One run to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// The array.
    pub array: &'a ArraySpec,
    /// The job file: sections and background work.
    pub job: &'a JobFile,
    /// The policy that chooses mirrors.
    pub policy: PolicyUnderTest<'a>,
    /// Seed of every random draw in the run.
    pub seed: u64,
    /// Makes every section time-based with this runtime.
    pub duration: Option<Nanos>,
    /// Whether the checkers run.
    pub checks: Checks,
}

/// Whether the checkers run; they cost about half of the speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    /// Every event is checked.
    On,
    /// Nothing is checked.
    Off,
}
