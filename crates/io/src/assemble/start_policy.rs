//! The policy that a volume starts with, by its labels.
//!
//! They may name a program by its file. The volume starts with the program only if the file
//! still has the object that was recorded, and no fault has ended it; otherwise with its fallback,
//! which they have as the policy.

use super::fallback::FallbackPolicy;
use crate::kept_policy::KeptPolicy;
use crate::programs::ProgramReference;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{PolicyProgram, Registry, Spec, short_policy_name};
use mirrorball_core::policy::KeptProgram;
use mirrorball_core::policy::ReadPolicy;

pub(super) struct StartPolicy {
    /// The canonical string.
    pub(super) name: String,
    pub(super) policy: Box<dyn ReadPolicy>,
    /// Why the fallback of a program decides from the start.
    pub(super) note: Option<String>,
}

/// The policy that the user asks for, or the one that is kept. Fails if the policy is unknown or
/// does not fit the members. A program that is kept and cannot be used is no error: its fallback
/// decides.
pub(super) fn start_policy(
    asked: Option<&str>,
    kept: &KeptPolicy,
    registry: &Registry,
    devids: &[u64],
) -> Result<StartPolicy, Diagnostic> {
    let program = kept.program.as_ref();
    if let Some(text) = asked {
        let spec = registry.parse(text)?;
        let has_faulted = program.filter(|it| it.has_faulted && is_of(&spec, it));
        return match (has_faulted, spec.fallback()?) {
            (Some(program), Some(fallback)) => replaced(&fallback, fault_reason(program), devids),
            _ => built(&spec, devids),
        };
    }
    match program.map(|program| start_program(program, registry, devids)) {
        Some(Ok(started)) => Ok(started),
        Some(Err(reason)) => replaced(&registry.parse(&kept.policy)?, reason, devids),
        // It may be written as a user wrote it.
        None => built(&registry.parse(&kept.policy)?, devids),
    }
}

/// Starts a program that is kept, or says why it is not used.
fn start_program(
    program: &KeptProgram,
    registry: &Registry,
    devids: &[u64],
) -> Result<StartPolicy, String> {
    let KeptProgram { reference, name, has_faulted } = program;
    if *has_faulted {
        return Err(fault_reason(program));
    }
    // Programs of other registries are of no interest to this one.
    let mut registry = registry.clone();
    let mut load = || {
        let file = ProgramReference::parse(reference).ok_or_else(|| {
            Diagnostic::new(format!("no path of it is recorded, but `{reference}`"))
        })?;
        let text = file.load(&file.read()?, &mut registry)?;
        registry.parse(&text)
    };
    let unusable = |error: Diagnostic| {
        format!("{} cannot be used: {}", short_policy_name(name), error.message)
    };
    let spec = load().map_err(unusable)?;
    if !is_of(&spec, program) {
        let found = spec.program().map(PolicyProgram::name).unwrap_or_default();
        return Err(format!(
            "{} cannot be used: its file has another program now, {}; `ctl policy {reference} \
             --keep` uses that",
            short_policy_name(name),
            short_policy_name(found)
        ));
    }
    built(&spec, devids).map_err(unusable)
}

fn is_of(spec: &Spec, program: &KeptProgram) -> bool {
    spec.program().is_some_and(|it| it.name() == program.name)
}

fn fault_reason(program: &KeptProgram) -> String {
    let KeptProgram { reference, name, .. } = program;
    format!(
        "{} was ended by a fault before; `ctl policy {reference} --keep` uses it again",
        short_policy_name(name)
    )
}

fn built(spec: &Spec, devids: &[u64]) -> Result<StartPolicy, Diagnostic> {
    Ok(StartPolicy { name: spec.to_string(), policy: spec.build(devids)?, note: None })
}

fn replaced(fallback: &Spec, reason: String, devids: &[u64]) -> Result<StartPolicy, Diagnostic> {
    let name = fallback.to_string();
    let note = Some(format!("the volume starts with the fallback {name}: {reason}"));
    let policy = Box::new(FallbackPolicy::new(fallback.build(devids)?, reason));
    Ok(StartPolicy { name, policy, note })
}
