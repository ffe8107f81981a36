//! Reasons why a run cannot start.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::PolicyError;

/// Why a run cannot start; the text is meant for the user.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The array cannot be simulated, or a job or its background load does not fit the array.
    #[error(transparent)]
    Input(#[from] Diagnostic),
    /// The policy cannot be built for the array.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}
