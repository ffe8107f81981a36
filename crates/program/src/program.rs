//! A loaded program, of which any number of policies can be made.

use crate::instance::{InstanceSource, ProgramInstance};
use crate::metadata::Metadata;
use crate::policy::ProgramPolicy;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{PolicyProgram, ProgramParameter, Spec};
use mirrorball_core::policy::ReadPolicy;
use std::fmt;

/// Address of a `struct mb_param`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParameterPlace(pub(crate) u32);

pub struct Program {
    /// `program/NAME@HASH`.
    pub(crate) name: String,
    pub(crate) object: Vec<u8>,
    pub(crate) metadata: Metadata,
    pub(crate) parameters: Vec<ProgramParameter>,
    pub(crate) places: Vec<ParameterPlace>,
    /// True if it calls `mb_member`, so that members have to be shown.
    pub(crate) asks_members: bool,
    pub(crate) source: InstanceSource,
}

impl Program {
    pub fn version(&self) -> &str {
        &self.metadata.version
    }

    /// Summary of the policy, in one line.
    pub fn summary(&self) -> &str {
        &self.metadata.summary
    }

    pub fn operations(&self) -> Vec<&'static str> {
        let names = ["choose", "submit", "complete", "init", "change"];
        let module = self.source.module.module();
        names.into_iter().filter(|name| module.get_export(name).is_some()).collect()
    }

    pub(crate) fn start(&self, values: &[u64]) -> Result<ProgramInstance, Diagnostic> {
        let mut instance = self.source.start().map_err(|fault| {
            Diagnostic::new(format!("{} cannot start: {}", self.name, fault.summary()))
        })?;
        let memory = instance.memory_mut();
        for (&ParameterPlace(place), value) in self.places.iter().zip(values) {
            let place = place as usize;
            memory[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        Ok(instance)
    }
}

impl Program {
    /// As [`PolicyProgram::build`].
    pub(crate) fn policy(
        &self,
        values: &[u64],
        devids: &[u64],
    ) -> Result<ProgramPolicy, Diagnostic> {
        let fallback = Spec::parse(&self.metadata.fallback)?.build(devids).map_err(|error| {
            let message = format!("{}: the fallback {}", self.name, error.message);
            Diagnostic { message, ..error }
        })?;
        let (name, instance) = (self.name.clone(), self.start(values)?);
        let source = self.source.clone();
        Ok(ProgramPolicy::new(name, source, instance, self.asks_members, fallback))
    }
}

impl PolicyProgram for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn object(&self) -> &[u8] {
        &self.object
    }

    fn fallback(&self) -> &str {
        &self.metadata.fallback
    }

    fn parameters(&self) -> &[ProgramParameter] {
        &self.parameters
    }

    fn build(&self, values: &[u64], devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
        Ok(Box::new(self.policy(values, devids)?))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}
