//! Members whose files were removed or replaced at their paths while they are used: what is
//! written to such a file is lost when the service ends.

use super::protocol::{Misplaced, StateChange};
use crate::executor::Executor;
use crate::rebuild::Rebuild;
use crate::reopen::PathState;
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;

/// Interval at which the paths are looked at.
const INTERVAL: Nanos = Nanos::from_secs(10);

/// What is known of the paths of members.
#[derive(Default)]
pub(super) struct PathWatch {
    looked_at: Option<Nanos>,
    misplaced: Vec<Misplaced>,
}

impl PathWatch {
    /// Looks at the paths if it is time to, and returns the events of members that were well at the
    /// last look.
    pub(super) fn changes(&mut self, executor: &Executor, rebuild: &Rebuild) -> Vec<StateChange> {
        if self.remaining(executor, rebuild) != Some(Nanos::ZERO) {
            return Vec::new();
        }
        self.looked_at = Some(executor.driver.now());
        let known = std::mem::replace(&mut self.misplaced, misplaced(executor, rebuild));
        let new = self.misplaced.iter().filter(|member| !known.contains(member));
        let change = |member: &Misplaced| StateChange::MemberMisplaced {
            devid: member.devid,
            at_path: member.at_path.clone(),
            path: member.path.clone(),
        };
        new.map(change).collect()
    }

    /// The time until the next look; `None` if no paths are known.
    pub(super) fn remaining(&self, executor: &Executor, rebuild: &Rebuild) -> Option<Nanos> {
        let due = self.looked_at.map_or(Nanos::ZERO, |at| at + INTERVAL);
        rebuild.knows_paths().then(|| due.saturating_sub(executor.driver.now()))
    }
}

/// Members that work although their file is no longer at their path.
pub(crate) fn misplaced(executor: &Executor, rebuild: &Rebuild) -> Vec<Misplaced> {
    let Some(volume) = executor.volume() else { return Vec::new() };
    let working = volume.members().iter().filter(|(_, it)| it.state != MemberState::Failed);
    let misplaced = working.filter_map(|(index, member)| {
        let (at_path, path) = match rebuild.path_state(index, executor) {
            PathState::Same => return None,
            PathState::Replaced(path) => ("another file", path),
            PathState::Missing(path) => ("nothing", path),
        };
        Some(Misplaced {
            devid: member.config.devid,
            at_path: at_path.to_owned(),
            path: path.display().to_string(),
            size_bytes: member.config.size_bytes,
        })
    });
    misplaced.collect()
}
