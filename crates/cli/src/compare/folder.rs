//! The default results folder, where `-o` is not given.
//!
//! The same command must lead to the same folder, so that it resumes. Another command, or the same
//! one after an edit of a file or of the program, must lead to another, so that it is not refused.

use crate::folders;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::DEFAULT_JOBS;
use mirrorball_lab::experiment::plan::{Cell, Plan};
use mirrorball_lab::experiment::results::Results;
use std::path::PathBuf;

/// Names of jobs longer than this together are shortened.
const JOBS_LENGTH_MAX: usize = 48;

/// `mirrorball-results/ARRAY-JOBS`, with a hash of the other options unless they are the defaults.
/// If that folder holds another plan, a hash of the keys of all cells is added.
pub(super) fn default_folder(plan: &Plan, usual_choices: bool) -> PathBuf {
    let names: Vec<&str> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
    let mut name = format!("{}-{}", plan.array.name, jobs_part(&names));
    if !usual_choices {
        let seeds = format!("{:?}", plan.seeds);
        let duration = format!("{:?}", plan.duration_ns);
        let policies = plan.policies.join(",");
        name += &format!("-{}", short_hash(&[&policies, &seeds, &duration]));
    }
    let in_results = |name: &str| folders::results().join(name);
    let folder = in_results(&name);
    if Results::check(&folder, plan).is_ok() {
        return folder;
    }
    let keys: Vec<String> = plan.cells().iter().map(Cell::key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    in_results(&format!("{name}-{}", short_hash(&keys)))
}

fn jobs_part(names: &[&str]) -> String {
    if names == DEFAULT_JOBS {
        return "default-jobs".to_owned();
    }
    let joined = names.join("+");
    if joined.chars().count() <= JOBS_LENGTH_MAX {
        return joined;
    }
    let first: String = names[0].chars().take(JOBS_LENGTH_MAX).collect();
    format!("{first}+{}-more-{}", names.len() - 1, short_hash(names))
}

fn short_hash(parts: &[&str]) -> String {
    stable_hash(parts.iter().copied())[..6].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_tell_lists_apart() {
        assert_eq!(jobs_part(&DEFAULT_JOBS), "default-jobs");
        assert_eq!(jobs_part(&["a", "b"]), "a+b");
        let many: Vec<String> = (0..20).map(|n| format!("a-rather-long-name-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (all, fewer) = (jobs_part(&many), jobs_part(&many[..19]));
        assert!(all.starts_with("a-rather-long-name-0+19-more-"), "{all}");
        assert!(all.len() < 60);
        assert_ne!(all[..all.len() - 6], fewer);
    }
}
