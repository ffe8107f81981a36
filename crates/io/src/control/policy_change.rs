//! Changes of the policy of a running volume, and their record in its labels.

use super::protocol::{RequestError, RequestErrorKind};
use crate::label_limits;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_core::volume::Volume;
use mirrorball_disk::array_file::KeptPolicy;

/// A request to change the policy.
#[derive(Clone, Debug)]
pub(super) struct ChangeRequest {
    /// Slot of the client that asked.
    pub(super) client: u32,
    /// Number of the request among those that set a policy.
    pub(super) number: u64,
    /// The policy, as the user named it, if it is to be kept.
    pub(super) kept: Option<String>,
}

/// A policy for a volume that runs.
pub(super) struct NewPolicy {
    /// Its description.
    pub(super) spec: Spec,
    /// The policy.
    pub(super) policy: Box<dyn ReadPolicy>,
}

impl NewPolicy {
    /// Builds a policy for a volume.
    ///
    /// # Errors
    /// If the policy was not parsed, or does not fit the array.
    pub(super) fn build(
        parsed: Result<Spec, Diagnostic>,
        volume: &Volume,
    ) -> Result<NewPolicy, RequestError> {
        let members = volume.members().iter();
        let devids: Vec<u64> = members.map(|(_, member)| member.config.devid).collect();
        let built = parsed.and_then(|spec| Ok(NewPolicy { policy: spec.build(&devids)?, spec }));
        built.map_err(policy_error)
    }

    /// What is recorded of it, if the user named it by `reference`.
    ///
    /// # Errors
    /// If the fallback of its program is unknown.
    pub(super) fn kept(&self, reference: &str) -> Result<KeptPolicy, RequestError> {
        KeptPolicy::new(&self.spec, reference).map_err(policy_error)
    }
}

/// Records a policy in the labels of a volume.
///
/// # Errors
/// If the labels have no room for it, or are not written.
pub(super) fn keep_in_labels(kept: KeptPolicy, volume: &mut Volume) -> Result<(), RequestError> {
    if let Err(why) = label_limits::check_policy(&kept) {
        return Err(not_kept(&format!("{why}\n  help: leave out --keep")));
    }
    match volume.keep_policy(&kept.policy, kept.program) {
        true => Ok(()),
        false => Err(not_kept(
            "the volume is read-only\n  help: leave out --keep, or restart the server without \
             --read-only",
        )),
    }
}

/// The error for a policy that cannot be recorded.
pub(super) fn not_kept(why: &str) -> RequestError {
    RequestError {
        error: format!("the policy cannot be kept: {why}"),
        kind: RequestErrorKind::Refused,
    }
}

fn policy_error(error: Diagnostic) -> RequestError {
    RequestError { error: error.to_string(), kind: RequestErrorKind::Policy }
}
