//! The canary: a policy that breaks the rules, to prove that the rules are watched.
//!
//! It behaves like `mirrorball/first` until its hundredth choice, for which it names a mirror that
//! is not there. A run with it must not end well.

use mirrorball_core::member::Members;
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

const LAWFUL_CHOICES: u32 = 99;

/// The policy that breaks the rules.
#[derive(Default)]
pub(crate) struct Canary {
    choices: u32,
}

impl ReadPolicy for Canary {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        self.choices += 1;
        Choice::Mirror(if self.choices > LAWFUL_CHOICES { mirrors.len() } else { 0 })
    }
}
