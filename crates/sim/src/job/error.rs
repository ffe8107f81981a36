//! What is wrong with a job file, where, and what to do about it.

use std::fmt;

/// Why a job file was refused. Displays as `file:line: message` and, on a line of its own, a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// The file: the job file itself or one it includes.
    pub file: String,
    /// The line, from one.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// What is wrong and what to do, before it is known where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) hint: String,
}

impl JobError {
    pub(super) fn new(file: &str, line: usize, fault: Fault) -> JobError {
        JobError { file: file.to_owned(), line, message: fault.message, hint: fault.hint }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobError { file, line, message, hint } = self;
        write!(f, "{file}:{line}: {message}\n  hint: {hint}")
    }
}

impl std::error::Error for JobError {}

impl Fault {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault { message: message.into(), hint: hint.into() }
    }
}
