//! Changes the policy of a running volume, and records it in the labels.

use super::protocol::{RequestError, RequestErrorKind};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::label::POLICY_BYTES_MAX;
use mirrorball_core::policies::Spec;
use mirrorball_core::volume::Volume;

/// Where a policy is to be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Nowhere.
    No,
    /// In the labels of the members.
    InLabels,
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
    if kept != Kept::No {
        keep_policy(&spec, kept, volume)
            .map_err(|error| RequestError { error, kind: RequestErrorKind::Refused })?;
    }
    volume.set_policy(policy);
    Ok(spec.to_string())
}

/// Records a policy in the labels, or says why it cannot.
fn keep_policy(spec: &Spec, kept: Kept, volume: &mut Volume) -> Result<(), String> {
    let name = &spec.to_string();
    let why = if kept == Kept::InNoLabels {
        format!(
            "the members are emulated\n  help: leave out --keep, and start `emulate` with --policy \
             {name}"
        )
    } else if volume.label().is_none() {
        "the members have no labels\n  help: leave out --keep; `mirrorball adopt` labels files and \
         devices while the server is stopped"
            .to_owned()
    } else if spec.info().is_none() {
        "labels do not hold programs\n  help: leave out --keep, and start `serve` with --policy \
         program:FILE"
            .to_owned()
    } else if name.len() > POLICY_BYTES_MAX {
        format!(
            "its name has {} bytes, but a label holds {POLICY_BYTES_MAX}\n  help: leave out --keep",
            name.len()
        )
    } else if volume.keep_policy(name) {
        return Ok(());
    } else {
        "the volume is read-only\n  help: leave out --keep, or restart the server without \
         --read-only"
            .to_owned()
    };
    Err(format!("the policy cannot be kept: {why}"))
}
