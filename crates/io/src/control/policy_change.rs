//! Changes the policy of a running volume, and records it in the labels.
//!
//! Of a program the labels have the path and the name, with the hash of the object. Their policy is
//! then the fallback of the program.

use super::protocol::{RequestError, RequestErrorKind};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::label::{
    LabelledProgram, POLICY_BYTES_MAX, PROGRAM_NAME_BYTES_MAX, PROGRAM_REFERENCE_BYTES_MAX,
};
use mirrorball_core::policies::Spec;
use mirrorball_core::volume::Volume;

/// Where a policy is to be recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Nowhere.
    No,
    /// In the labels of the members, as the user named it.
    InLabels(String),
    /// In labels, which emulated members do not have.
    InNoLabels,
}

/// Uses another policy from the next decision on; returns its canonical string.
///
/// # Errors
/// If the policy was not parsed, does not fit the array, or cannot be recorded. Then the policy in
/// force stays.
pub(super) fn change_policy(
    parsed: Result<Spec, Diagnostic>,
    kept: Kept,
    volume: &mut Volume,
) -> Result<String, RequestError> {
    let devids: Vec<u64> = volume.members().iter().map(|(_, member)| member.config.devid).collect();
    let built = parsed.and_then(|spec| spec.build(&devids).map(|policy| (spec, policy)));
    let (spec, policy) = built.map_err(|error| RequestError {
        error: error.to_string(),
        kind: RequestErrorKind::Policy,
    })?;
    keep_policy(&spec, kept, volume).map_err(|why| RequestError {
        error: format!("the policy cannot be kept: {why}"),
        kind: RequestErrorKind::Refused,
    })?;
    volume.set_policy(policy);
    Ok(spec.to_string())
}

/// Records a policy in the labels if it is to be kept, or says why it cannot.
fn keep_policy(spec: &Spec, kept: Kept, volume: &mut Volume) -> Result<(), String> {
    let name = spec.to_string();
    let reference = match kept {
        Kept::No => return Ok(()),
        Kept::InNoLabels => {
            return Err(format!(
                "the members are emulated\n  help: leave out --keep, and start `emulate` with \
                 --policy {name}"
            ));
        }
        Kept::InLabels(reference) => reference,
    };
    if volume.label().is_none() {
        return Err("the members have no labels\n  help: leave out --keep; `mirrorball adopt` \
                    labels files and devices while the server is stopped"
            .to_owned());
    }
    let fallback = spec.fallback().map_err(|error| error.to_string())?;
    let policy = fallback.map_or(name, |fallback| fallback.to_string());
    fits("the policy", &policy, POLICY_BYTES_MAX)?;
    let program = spec.program().map(|program| LabelledProgram {
        reference,
        name: program.name().to_owned(),
        has_faulted: false,
    });
    if let Some(LabelledProgram { reference, name, .. }) = &program {
        fits(
            "the path of the program with its parameters",
            reference,
            PROGRAM_REFERENCE_BYTES_MAX,
        )?;
        fits("the name of the program", name, PROGRAM_NAME_BYTES_MAX)?;
    }
    match volume.keep_policy(&policy, program) {
        true => Ok(()),
        false => Err("the volume is read-only\n  help: leave out --keep, or restart the server \
                      without --read-only"
            .to_owned()),
    }
}

/// Checks that a label has room for a text.
fn fits(what: &str, text: &str, most: usize) -> Result<(), String> {
    let bytes = text.len();
    if bytes <= most {
        return Ok(());
    }
    Err(format!("{what} has {bytes} bytes, but a label holds {most}\n  help: leave out --keep"))
}
