//! How a command ends, and the exit code that says so.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what was asked.
    Done,
    /// It ran, and what it looked at is not as it should be.
    FoundFailure,
    /// It was asked for something that cannot be.
    WrongUse,
    /// Only the user can decide how to go on: the same command fails again.
    NeedsUser,
    /// A check could not tell.
    CannotTell,
    /// Ctrl-C ended it early.
    Interrupted,
}

/// Why a command could not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user's to mend: nothing was run and nothing written.
    WrongUse(anyhow::Error),
    /// The user's to decide: to try again does not help.
    NeedsUser(anyhow::Error),
    /// Something failed on the way.
    Fault(anyhow::Error),
}

impl Ending {
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Ending::Done => 0,
            Ending::FoundFailure => 1,
            Ending::WrongUse => 2,
            // That of Nagios.
            Ending::CannotTell | Ending::NeedsUser => 3,
            Ending::Interrupted => INTERRUPTED,
        })
    }
}

/// 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

impl Failure {
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Failure::WrongUse(_) => Ending::WrongUse,
            Failure::NeedsUser(_) => Ending::NeedsUser,
            Failure::Fault(_) => Ending::FoundFailure,
        }
    }

    pub(crate) fn into_cause(self) -> anyhow::Error {
        match self {
            Failure::WrongUse(cause) | Failure::NeedsUser(cause) | Failure::Fault(cause) => cause,
        }
    }

    pub(crate) fn cause(&self) -> &anyhow::Error {
        match self {
            Failure::WrongUse(cause) | Failure::NeedsUser(cause) | Failure::Fault(cause) => cause,
        }
    }
}
