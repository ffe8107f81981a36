//! The policy that a volume starts with, as its labels record it.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::KeptProgram;
use mirrorball_store::label::{
    POLICY_BYTES_MAX, PROGRAM_NAME_BYTES_MAX, PROGRAM_REFERENCE_BYTES_MAX,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPolicy {
    /// The policy; for a program, its fallback.
    pub policy: String,
    pub program: Option<KeptProgram>,
}

impl KeptPolicy {
    /// The record of a policy. `reference` names the file of its program, if it is one.
    pub fn new(spec: &Spec, reference: &str) -> Result<KeptPolicy, Diagnostic> {
        let policy = spec.fallback()?.map_or_else(|| spec.to_string(), |it| it.to_string());
        let program = spec.program().map(|program| KeptProgram {
            reference: reference.to_owned(),
            name: program.name().to_owned(),
            has_faulted: false,
        });
        Ok(KeptPolicy { policy, program })
    }

    /// Checks that a label has room for it; the error says what is too long.
    pub(crate) fn check_length(&self) -> Result<(), String> {
        check_length("the policy", &self.policy, POLICY_BYTES_MAX)?;
        let Some(program) = &self.program else { return Ok(()) };
        let (reference, most) = (&program.reference, PROGRAM_REFERENCE_BYTES_MAX);
        check_length("the path of the program with its parameters", reference, most)?;
        check_length("the name of the program", &program.name, PROGRAM_NAME_BYTES_MAX)
    }
}

fn check_length(what: &str, text: &str, most: usize) -> Result<(), String> {
    match text.len() {
        bytes if bytes <= most => Ok(()),
        bytes => Err(format!("{what} has {bytes} bytes, but a label holds {most}")),
    }
}
