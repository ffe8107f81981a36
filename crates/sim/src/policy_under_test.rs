//! The policy of a run: one of the policy table, a program, an oracle or the canary.

use crate::canary::Canary;
use crate::fair_oracle::{FairOracle, ImpactForecast};
use crate::oracle::{CompletionForecast, Oracle};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::model_array::ModelArray;

/// The policy that chooses mirrors in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyUnderTest<'a> {
    /// A policy of the table, by its policy string.
    Policy(&'a str),
    /// A policy of the table, or a program, that was parsed.
    Parsed(&'a Spec),
    /// The greedy oracle, which asks the models of the disks.
    Oracle,
    /// The oracle that is fair to every stream.
    FairOracle,
    /// The policy that breaks the rules on purpose.
    Canary,
}

/// Input of an oracle before each choice.
pub(crate) enum Forecast {
    /// For the greedy oracle.
    Completions(CompletionForecast),
    /// For the fair oracle.
    Impacts(ImpactForecast),
}

impl Forecast {
    /// Stores the models' answers for the next choice, if there is one.
    #[inline]
    pub(crate) fn update(&self, volume: &mut Volume, model_array: &ModelArray, now: Nanos) {
        match self {
            Forecast::Completions(forecast) => forecast.update(volume, model_array, now),
            Forecast::Impacts(forecast) => forecast.update(volume, model_array, now),
        }
    }
}

impl PolicyUnderTest<'_> {
    /// Builds the policy for an array of these devids. The oracle comes with the forecast that the
    /// engine has to update before each choice.
    pub(crate) fn build(
        self,
        devids: &[u64],
    ) -> Result<(Box<dyn ReadPolicy>, Option<Forecast>), Diagnostic> {
        Ok(match self {
            PolicyUnderTest::Policy(text) => (Spec::parse(text)?.build(devids)?, None),
            PolicyUnderTest::Parsed(spec) => (spec.build(devids)?, None),
            PolicyUnderTest::Oracle => {
                let forecast = CompletionForecast::default();
                (Box::new(Oracle::new(forecast.clone())), Some(Forecast::Completions(forecast)))
            }
            PolicyUnderTest::FairOracle => {
                let forecast = ImpactForecast::default();
                (Box::new(FairOracle::new(forecast.clone())), Some(Forecast::Impacts(forecast)))
            }
            PolicyUnderTest::Canary => (Box::new(Canary::default()), None),
        })
    }
}
