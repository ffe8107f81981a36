//! Changes of the policy of a running volume, and their record in its labels.

use super::protocol::{RequestError, RequestErrorKind};
use crate::Volume;
use crate::kept_policy::KeptPolicy;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;

#[derive(Clone, Debug)]
pub(super) struct ChangeRequest {
    pub(super) client: u32,
    /// Number of the request among those that set a policy.
    pub(super) number: u64,
    /// The policy, as the user named it, if it is to be kept.
    pub(super) kept: Option<String>,
}

/// Records a policy, which the user named by `reference`, in the labels of a volume. Fails if the
/// volume has no labels, or these have no room for it, or are not written.
pub(super) fn keep_policy(
    spec: &Spec,
    reference: &str,
    volume: &mut Volume,
) -> Result<(), RequestError> {
    if volume.gate().is_none() {
        return Err(not_kept(&format!(
            "emulated members have no labels\n  help: leave out --keep, and start `emulate` with \
             --policy '{reference}'"
        )));
    }
    let kept = KeptPolicy::new(spec, reference).map_err(policy_error)?;
    if let Err(why) = kept.check_length() {
        return Err(not_kept(&format!("{why}\n  help: leave out --keep")));
    }
    let KeptPolicy { policy, program } = kept;
    let is_kept = volume.change_gate(|store, array| store.keep_policy(&policy, program, array));
    match is_kept.unwrap_or(false) {
        true => Ok(()),
        false => Err(not_kept(
            "the volume is read-only\n  help: leave out --keep, or restart the server without \
             --read-only",
        )),
    }
}

fn not_kept(why: &str) -> RequestError {
    RequestError::refused(format!("the policy cannot be kept: {why}"))
}

/// The error for a policy that is unknown, or does not fit the array.
pub(super) fn policy_error(error: Diagnostic) -> RequestError {
    RequestError { error: error.to_string(), kind: RequestErrorKind::Policy }
}
