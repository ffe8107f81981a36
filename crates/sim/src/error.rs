//! Reasons why a run has no result.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policy::PolicyFault;
use mirrorball_core::volume::Volume;

/// Why a run has no result; the text is meant for the user.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The array cannot be simulated, or a job, its background load or the policy does not fit the
    /// array.
    #[error(transparent)]
    Input(#[from] Diagnostic),
    /// A program had a fault, so the rest of the run would be that of its fallback.
    #[error("the program failed: {}\n{}", .0.summary, .0.dump.trim_end())]
    Program(PolicyFault),
    /// The caller stopped the run before its end.
    #[error("the simulation was stopped")]
    Stopped,
}

impl SimError {
    /// Fails if the policy of the volume is a program that had a fault.
    pub(crate) fn check_policy(volume: &Volume) -> Result<(), SimError> {
        match volume.policy_fault() {
            Some(fault) => Err(SimError::Program(fault.clone())),
            None => Ok(()),
        }
    }
}
