//! Ranking and reference of policies: the options of `compare` and of `report`.

use anyhow::{Result, anyhow};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use mirrorball_lab::experiment::study::goal::RankedSection;
use mirrorball_lab::experiment::study::{Criteria, Goal, IoKind, distinct_names};
use mirrorball_sim::job::{Direction, JobFile, Section};

/// The default reference policy: the rule that btrfs uses by default.
const BASELINE: &str = "btrfs/pid";

/// Options that choose what policies are ranked by, and compared with.
#[derive(Debug, clap::Args)]
pub(crate) struct RankingArgs {
    /// Figures to rank by instead of the default score, with weights: small.p99:2,large.mib
    ///
    /// Each is FIGURE, KIND.FIGURE, SECTION.FIGURE or SECTION.KIND.FIGURE. SECTION is the name of a
    /// section in the job file, as in `[small]`. FIGURE alone counts for every section, KIND.FIGURE
    /// for every section with requests of that kind. The weight after `:` is 1 if left out.
    /// Figures: iops and mib, of which more is better; mean, p50, p90, p95, p99, p99.9 and p99.99,
    /// latencies, of which less is better. Kinds: read, write, trim, fsync. The default score of a
    /// job is the geometric mean over its sections of requests per second, or of 1/mean latency for
    /// a section whose job file sets the request rate.
    #[arg(long, value_name = "LIST", value_parser = goal)]
    rank: Option<Goal>,

    /// Reference policy: speedups are relative to it [default: btrfs/pid if it is compared]
    #[arg(long, value_name = "POLICY")]
    baseline: Option<String>,
}

fn goal(text: &str) -> Result<Goal> {
    if text.trim().is_empty() {
        return Err(anyhow!("expected a list of figures, for example small.p99:2,large.mib"));
    }
    Goal::parse(text)
}

/// The sections of a job file, as far as a goal can name them.
pub(crate) fn sections_of_job(job: &JobFile) -> Vec<RankedSection> {
    let names = distinct_names(job.sections.iter().map(|section| section.name.as_str()));
    let sections = names.into_iter().zip(&job.sections);
    let ranked = sections.map(|(name, section)| RankedSection {
        name,
        kinds: kinds_of(section),
        is_background: !section.counts,
    });
    ranked.collect()
}

fn kinds_of(section: &Section) -> Vec<IoKind> {
    let kind = |direction: &Direction| match direction {
        Direction::Read => IoKind::Read,
        Direction::Write => IoKind::Write,
        Direction::Trim => IoKind::Trim,
    };
    let mut kinds: Vec<IoKind> = section.mix.directions().iter().map(kind).collect();
    if section.fsync > 0 || section.fdatasync > 0 || section.final_flush {
        kinds.push(IoKind::Fsync);
    }
    kinds
}

impl RankingArgs {
    /// The canonical name of the reference policy that the user named.
    fn named_baseline(&self) -> Option<String> {
        let name = self.baseline.as_ref()?;
        Some(Spec::parse(name).map_or(name.clone(), |spec| spec.to_string()))
    }

    /// Checks that the reference policy, if one is named, is one of the policies of a new
    /// comparison.
    pub(crate) fn check_compared(&self, policies: &[Spec]) -> Result<(), Diagnostic> {
        match self.named_baseline() {
            Some(name)
                if Spec::parse(&name).is_ok()
                    && policies.iter().all(|spec| spec.to_string() != name) =>
            {
                let error =
                    Diagnostic::new(format!("`{name}` is not one of the compared policies"));
                Err(error.with_help("add it to --policy"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the reference policy, if one is named, is one of the policies of saved results.
    pub(crate) fn check_saved(&self, policies: &[&str]) -> Result<()> {
        let Some(name) = self.named_baseline() else { return Ok(()) };
        if policies.contains(&name.as_str()) {
            return Ok(());
        }
        let mut saved = policies.to_vec();
        saved.sort_unstable();
        saved.dedup();
        Err(anyhow!(
            "--baseline: `{name}` is not one of the compared policies\n  help: they are {}",
            saved.join(", ")
        ))
    }

    /// The criteria, before they are checked.
    pub(crate) fn criteria(&self) -> Criteria {
        Criteria {
            goal: self.rank.clone().unwrap_or_default(),
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

    /// Checks that the figures can be ranked by in `jobs`, each with its name and its sections, and
    /// that the reference policy is one of the built-in policies or of `policies`.
    pub(crate) fn check(
        &self,
        jobs: &[(String, Vec<RankedSection>)],
        policies: &[&str],
    ) -> Result<()> {
        let goal = self.rank.clone().unwrap_or_default();
        goal.check(jobs).map_err(|error| anyhow!("--rank: {error}"))?;
        let Some(baseline) = self.baseline.as_deref() else { return Ok(()) };
        match Spec::parse(baseline) {
            Err(error) if !policies.contains(&baseline) => Err(anyhow!("--baseline: {error}")),
            _ => Ok(()),
        }
    }
}
