//! Policies that were compiled outside of this build.
//!
//! `core` does not know how programs run: a [`ProgramLoader`] makes a [`PolicyProgram`] of an
//! object.

use crate::diagnostic::Diagnostic;
use crate::policy::ReadPolicy;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// First part of the names of programs.
pub const PROGRAM_FAMILY: &str = "program/";
/// Start of the policy strings in which users name a program by the file of its object.
pub const PROGRAM_FILE: &str = "program:";
/// Highest number of bytes of an object.
pub const OBJECT_BYTES_MAX: usize = 256 << 10;

/// Makes programs of objects.
pub trait ProgramLoader: fmt::Debug + Send + Sync {
    /// Checks an object and compiles it.
    ///
    /// # Errors
    /// If the object is not a program that this build can run.
    fn load(&self, object: &[u8]) -> Result<Arc<dyn PolicyProgram>, Diagnostic>;
}

/// A policy that was compiled outside of this build.
pub trait PolicyProgram: fmt::Debug + Send + Sync {
    /// Canonical name, `program/NAME@HASH`. The hash is of the whole object.
    fn name(&self) -> &str;

    /// The object that was loaded.
    fn object(&self) -> &[u8];

    /// Its parameters, in the order of the object.
    fn parameters(&self) -> &[ProgramParameter];

    /// Builds a policy with its own state; `values` holds a value for each of the parameters, and
    /// `devids` those of the array in the order of its members.
    ///
    /// # Errors
    /// If the program cannot be started, or its fallback does not fit the array.
    fn build(&self, values: &[u64], devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic>;
}

/// A number that a user may set when a program is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramParameter {
    /// Name of the parameter.
    pub name: String,
    /// Value if none is given.
    pub default: u64,
    /// Accepted values.
    pub range: RangeInclusive<u64>,
    /// Effect of the parameter and its unit, as a noun phrase.
    pub meaning: String,
}
