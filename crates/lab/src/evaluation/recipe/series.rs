//! The `[[series]]` of a recipe: runs that follow one another on one array.
//!
//! For each policy of `order` the `jobs` run in their order, and each run begins with the caches in
//! front of members as the run before left them. A table or a row names the series that its runs
//! are taken from; all others run alone, on the array as its file has it.

use anyhow::{Result, bail, ensure};
use mirrorball_core::policies::Spec;
use serde::Deserialize;

/// Runs that follow one another on one array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// What tables and rows call it.
    pub name: String,
    /// The policies in the order of their runs; canonical once it is read.
    pub order: Vec<String>,
    /// The files of the jobs that run under each policy, in their order.
    pub jobs: Vec<String>,
}

impl Series {
    /// Checks a series and makes the names of its policies canonical.
    pub(super) fn check(mut self, earlier: &[Series]) -> Result<Series> {
        let Series { name, order, jobs } = &mut self;
        ensure!(!earlier.iter().any(|it| it.name == *name), "the series `{name}` is given twice");
        ensure!(!order.is_empty(), "`order` of the series `{name}` has no policy");
        ensure!(!jobs.is_empty(), "`jobs` of the series `{name}` names no job");
        for policy in order.iter_mut() {
            *policy = Spec::parse(policy)?.to_string();
        }
        for names in [&*order, &*jobs] {
            let is_twice = |at: &usize| names[..*at].contains(&names[*at]);
            if let Some(at) = (0..names.len()).find(is_twice) {
                bail!("the series `{name}` has `{}` twice", names[at]);
            }
        }
        Ok(self)
    }

    /// Checks that a row's run is one of the series.
    pub(super) fn check_row(&self, policy: &str, job: &str) -> Result<()> {
        let Series { name, order, jobs } = self;
        ensure!(
            order.iter().any(|it| it == policy),
            "`{policy}` is not in `order` of the series `{name}`"
        );
        ensure!(jobs.iter().any(|it| it == job), "`{job}` is not in `jobs` of the series `{name}`");
        Ok(())
    }

    /// The runs in their order: policy and job.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_policy = |policy| self.jobs.iter().map(move |job: &String| (policy, &**job));
        self.order.iter().flat_map(move |policy: &String| of_policy(&**policy))
    }
}
