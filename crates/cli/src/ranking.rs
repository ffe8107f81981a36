//! Ranking and reference of policies: the options of `compare` and of `report`.

use crate::programs;
use anyhow::{Result, anyhow};
use mirrorball_core::diagnostic::{Diagnostic, quoted};
use mirrorball_core::policies::{PROGRAM_FAMILY, Registry, Spec, names_program};
use mirrorball_lab::experiment::plan::Plan;
use mirrorball_lab::experiment::study::{Criteria, Goal};

/// The default reference policy: the rule that btrfs uses by default.
const BASELINE: &str = "btrfs/pid";

/// Options that choose what policies are ranked by, and compared with.
#[derive(Debug, clap::Args)]
pub(crate) struct RankingArgs {
    /// Figure of every section to rank by, instead of the default score: iops or mib, of which
    /// more is better; or mean, p50, p90, p95, p99, p99.9 or p99.99, latencies
    ///
    /// The default score of a job is the geometric mean over its sections of requests per second,
    /// or of 1/mean latency for a section whose job file sets the request rate.
    #[arg(long, value_name = "FIGURE", value_parser = Goal::parse)]
    rank: Option<Goal>,

    /// Reference policy, or program: speedups are relative to it [default: btrfs/pid if it is
    /// compared]
    #[arg(long, value_name = "POLICY")]
    baseline: Option<String>,
}

impl RankingArgs {
    /// The same, with the canonical name of a reference policy that is a program named by its file.
    pub(crate) fn loaded(&self, registry: &mut Option<Registry>) -> Result<RankingArgs> {
        let load = |text: &String| programs::load_into(registry, "--baseline", text);
        let baseline = self.baseline.as_ref().map(load).transpose()?;
        Ok(RankingArgs { rank: self.rank, baseline })
    }

    /// The canonical name of the reference policy that the user named; of a program, as far as it
    /// was written.
    fn named_baseline(&self) -> Option<String> {
        let name = self.baseline.as_ref()?;
        Some(Spec::parse(name).map_or(name.clone(), |spec| spec.to_string()))
    }

    /// Has a plan say what its policies are ranked by and compared with.
    pub(crate) fn write_into(&self, plan: &mut Plan) {
        plan.rank = self.rank.filter(|rank| !rank.is_default()).map(|rank| rank.to_string());
        plan.baseline = self.named_baseline();
        let options = [("--rank", &plan.rank), ("--baseline", &plan.baseline)];
        for (option, value) in options {
            let words = value.iter().map(|value| format!(" {option} {}", quoted(value)));
            plan.command.extend(words);
        }
    }

    /// The options as they were when the plan was made, where none are given now.
    pub(crate) fn or_of(&self, plan: &Plan) -> RankingArgs {
        let rank = plan.rank.as_ref().and_then(|rank| Goal::parse(rank).ok());
        match (self.rank, &self.baseline) {
            (None, None) => RankingArgs { rank, baseline: plan.baseline.clone() },
            _ => RankingArgs { rank: self.rank, baseline: self.baseline.clone() },
        }
    }

    /// The criteria, before they are checked.
    pub(crate) fn criteria(&self) -> Criteria {
        Criteria {
            goal: self.rank.unwrap_or_default(),
            baseline: Some(self.named_baseline().unwrap_or(BASELINE.to_owned())),
        }
    }

    /// The criteria where a policy is in force: gains are stated against it, unless the user named
    /// another.
    pub(crate) fn criteria_against(&self, in_force: Option<&str>) -> Criteria {
        let criteria = self.criteria();
        match in_force {
            Some(in_force) if self.baseline.is_none() => {
                Criteria { baseline: Some(in_force.to_owned()), ..criteria }
            }
            _ => criteria,
        }
    }

    /// Checks that the reference policy, if one is named, is one of `policies`; `help` is for one
    /// that is not.
    pub(crate) fn check(&self, policies: &[&str], help: impl FnOnce() -> String) -> Result<()> {
        let Some(name) = self.named_baseline() else { return Ok(()) };
        if policies.iter().any(|policy| *policy == name || names_program(&name, policy)) {
            return Ok(());
        }
        if !name.starts_with(PROGRAM_FAMILY) {
            Spec::parse(&name).map_err(|error| anyhow!("--baseline: {error}"))?;
        }
        let what = format!("`{name}` is not one of the compared policies");
        Err(anyhow!("--baseline: {}", Diagnostic::new(what).with_help(help())))
    }
}
