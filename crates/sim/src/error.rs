//! Reasons why a run cannot start.

use mirrorball_core::diagnostic::Diagnostic;

/// Why a run cannot start; the text is meant for the user.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The array cannot be simulated, or a job, its background load or the policy does not fit the
    /// array.
    #[error(transparent)]
    Input(#[from] Diagnostic),
}
