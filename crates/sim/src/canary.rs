//! The canary: a policy that breaks the rules, to prove that the checks work.
//!
//! It chooses mirror 0 until its hundredth choice, for which it names a mirror that does not exist.
//! A run with it must panic.

use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

const VALID_CHOICES: u32 = 99;

/// A policy that breaks the rules.
#[derive(Default)]
pub(crate) struct Canary {
    choices: u32,
}

impl ReadPolicy for Canary {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        self.choices += 1;
        Choice::Mirror(if self.choices > VALID_CHOICES { mirrors.len() } else { 0 })
    }
}
