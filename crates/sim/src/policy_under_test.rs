//! The policy of a run: one of the policy table, the oracle or the canary.

use crate::canary::Canary;
use crate::oracle::{CompletionForecast, Oracle};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;

/// The policy that chooses mirrors in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyUnderTest<'a> {
    /// A policy of the table, by its policy string.
    Policy(&'a str),
    /// The greedy oracle, which asks the models of the disks.
    Oracle,
    /// The policy that breaks the rules on purpose.
    Canary,
}

impl PolicyUnderTest<'_> {
    /// Builds the policy for an array of these devids. The oracle comes with the forecast that the
    /// engine has to update before each choice.
    pub(crate) fn build(
        self,
        devids: &[u64],
    ) -> Result<(Box<dyn ReadPolicy>, Option<CompletionForecast>), Diagnostic> {
        Ok(match self {
            PolicyUnderTest::Policy(text) => (Spec::parse(text)?.build(devids)?, None),
            PolicyUnderTest::Oracle => {
                let forecast = CompletionForecast::default();
                (Box::new(Oracle::new(forecast.clone())), Some(forecast))
            }
            PolicyUnderTest::Canary => (Box::new(Canary::default()), None),
        })
    }
}
