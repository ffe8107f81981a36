//! The policy that a labelled volume starts with.
//!
//! A label may name a program by its file. The volume starts with the program only if the file
//! still has the object that was recorded, and no fault has ended it; otherwise with its fallback,
//! which the label has as the policy.

use super::fallback::FallbackPolicy;
use super::{LabelledError, LabelledOptions};
use crate::programs::ProgramReference;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::label::{Label, LabelledProgram};
use mirrorball_core::policies::{PolicyProgram, Spec, short_policy_name};
use mirrorball_core::policy::ReadPolicy;

/// The policy of a volume at its start.
pub(super) struct StartPolicy {
    /// Its canonical string.
    pub(super) name: String,
    pub(super) policy: Box<dyn ReadPolicy>,
    /// Why the fallback of a program decides from the start.
    pub(super) note: Option<String>,
}

/// The policy that the user asks for, or the one of the label.
///
/// # Errors
/// If the policy is unknown or does not fit the members. A program of the label that cannot be used
/// is none: its fallback decides.
pub(super) fn start_policy(
    serving: &LabelledOptions,
    newest: &Label,
) -> Result<StartPolicy, LabelledError> {
    let devids: Vec<u64> = newest.members.iter().map(|member| member.devid).collect();
    let wrong = |error: Diagnostic| LabelledError::Policy(error.to_string());
    let program = newest.program.as_ref();
    if let Some(text) = &serving.policy {
        let spec = serving.registry.parse(text).map_err(wrong)?;
        let has_faulted = program.filter(|it| it.has_faulted && is_of(&spec, it));
        return match (has_faulted, spec.fallback().map_err(wrong)?) {
            (Some(program), Some(fallback)) => {
                replaced(&fallback, fault_reason(program), &devids).map_err(wrong)
            }
            _ => built(&spec, &devids).map_err(wrong),
        };
    }
    let started = program.map(|program| start_program(program, serving, &devids));
    match started {
        Some(Ok(started)) => Ok(started),
        Some(Err(reason)) => {
            let fallback = serving.registry.parse(&newest.policy).map_err(wrong)?;
            replaced(&fallback, reason, &devids).map_err(wrong)
        }
        // Labels may have the policy as a user wrote it.
        None => {
            let spec = serving.registry.parse(&newest.policy).map_err(wrong)?;
            built(&spec, &devids).map_err(wrong)
        }
    }
}

/// Starts the program of a label, or says why it is not used.
fn start_program(
    program: &LabelledProgram,
    serving: &LabelledOptions,
    devids: &[u64],
) -> Result<StartPolicy, String> {
    let LabelledProgram { reference, name, has_faulted } = program;
    if *has_faulted {
        return Err(fault_reason(program));
    }
    // Programs of other registries are of no interest to this one.
    let mut registry = serving.registry.clone();
    let mut load = || {
        let file = ProgramReference::parse(reference).ok_or_else(|| {
            Diagnostic::new(format!("the labels have no path of it, but `{reference}`"))
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

/// True if the policy is this program.
fn is_of(spec: &Spec, program: &LabelledProgram) -> bool {
    spec.program().is_some_and(|it| it.name() == program.name)
}

fn fault_reason(program: &LabelledProgram) -> String {
    let LabelledProgram { reference, name, .. } = program;
    format!(
        "{} was ended by a fault before; `ctl policy {reference} --keep` uses it again",
        short_policy_name(name)
    )
}

fn built(spec: &Spec, devids: &[u64]) -> Result<StartPolicy, Diagnostic> {
    Ok(StartPolicy { name: spec.to_string(), policy: spec.build(devids)?, note: None })
}

/// The fallback in place of a program.
fn replaced(fallback: &Spec, reason: String, devids: &[u64]) -> Result<StartPolicy, Diagnostic> {
    let name = fallback.to_string();
    let note = Some(format!("the volume starts with the fallback {name}: {reason}"));
    let policy = Box::new(FallbackPolicy::new(fallback.build(devids)?, reason));
    Ok(StartPolicy { name, policy, note })
}
