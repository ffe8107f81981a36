//! Why a run cannot start.

use crate::job::JobError;
use mirrorball_core::policies::spec::PolicyError;
use mirrorball_disk::array_file::ArrayError;

/// Why a run cannot start: its text is meant for the user.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The array cannot be simulated.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A job, or the work beside the jobs, does not fit the array.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The policy cannot be built for the array.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}
