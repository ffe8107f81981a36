//! Who can choose mirrors in a run: the policies of the table, and two that are in none.

use crate::canary::Canary;
use crate::oracle::{Foresight, Oracle};
use mirrorball_core::policies::{PolicyError, Spec};
use mirrorball_core::policy::ReadPolicy;

/// Who chooses mirrors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender<'a> {
    /// A policy of the table, by its policy string.
    Policy(&'a str),
    /// The greedy clairvoyant.
    Oracle,
    /// The policy that breaks the rules.
    Canary,
}

impl Contender<'_> {
    /// Builds it for an array of these devids, with what the engine has to post if it wants that.
    pub(crate) fn build(
        self,
        devids: &[u64],
    ) -> Result<(Box<dyn ReadPolicy>, Option<Foresight>), PolicyError> {
        Ok(match self {
            Contender::Policy(text) => (Spec::parse(text)?.build(devids)?, None),
            Contender::Oracle => {
                let foresight = Foresight::default();
                (Box::new(Oracle::new(foresight.clone())), Some(foresight))
            }
            Contender::Canary => (Box::new(Canary::default()), None),
        })
    }
}
