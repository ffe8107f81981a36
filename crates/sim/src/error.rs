//! Reasons why a run has no result.

use mirrorball_core::diagnostic::Diagnostic;

/// Why a run has no result; the text is meant for the user.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The array cannot be simulated, or a job, its background load or the policy does not fit the
    /// array.
    #[error(transparent)]
    Input(#[from] Diagnostic),
    /// The caller stopped the run before its end.
    #[error("the simulation was stopped")]
    Stopped,
}
