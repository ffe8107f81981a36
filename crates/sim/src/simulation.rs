//! The description of one run: an array, a job file, a policy and a seed.

use crate::job::{Direction, JobFile, Mix, Section};
use crate::policy_under_test::PolicyUnderTest;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArraySpec;

#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    pub array: &'a ArraySpec,
    /// The job file: sections and background work.
    pub job: &'a JobFile,
    pub policy: PolicyUnderTest<'a>,
    /// Seed of every random draw in the run.
    pub seed: u64,
    /// Makes every section time-based with this runtime, and bounds its ramp to the same time.
    pub duration: Option<Nanos>,
    /// Whether the checkers run.
    pub checks: Checks,
}

impl Simulation<'_> {
    pub(crate) fn devids(&self) -> Vec<u64> {
        self.array.members.iter().map(|member| member.devid).collect()
    }

    /// The sections of the job file as this run plays them: with `duration` applied.
    pub(crate) fn sections(&self) -> Result<Vec<Section>, Diagnostic> {
        let sections = self.job.sections.iter();
        sections.map(|section| self.section(section)).collect()
    }

    fn section(&self, section: &Section) -> Result<Section, Diagnostic> {
        if self.array.profile.parities() > 0 && trims(section) {
            let message = format!(
                "section `{}` trims, which does nothing on an array with parity",
                section.name
            );
            let help = "leave the section out, or add replay_skip=trim if it replays a trace; md, \
                        too, refuses discards on raid5 and raid6 unless \
                        raid456.devices_handle_discard_safely is set";
            let error = Diagnostic::new(message).with_help(help);
            return Err(error.in_file(&self.job.file).at_line(section.line));
        }
        let mut section = section.clone();
        let Some(duration) = self.duration else {
            return Ok(section);
        };
        section.start_delay = self.delay(section.start_delay, duration);
        section.runtime = Some(duration);
        section.time_based = true;
        section.ramp = section.ramp.min(duration);
        Ok(section)
    }

    /// A `startdelay` in a run of `duration`. If any is longer, all shrink as the longest `runtime`
    /// does, so that sections still begin within each other, and to half of the duration at most.
    fn delay(&self, delay: Nanos, duration: Nanos) -> Nanos {
        let sections = &self.job.sections;
        if sections.iter().all(|section| section.start_delay <= duration) {
            return delay;
        }
        let runtime = sections.iter().filter_map(|section| section.runtime).max();
        let part = duration.as_secs_f64() / runtime.unwrap_or(duration).max(duration).as_secs_f64();
        Nanos((delay.0 as f64 * part) as u64).min(Nanos(duration.0 / 2))
    }
}

/// Whether a section discards, and nothing else unless it replays a trace.
fn trims(section: &Section) -> bool {
    match &section.replay {
        Some(replay) => replay.trims(),
        None => section.mix == Mix::Only(Direction::Trim),
    }
}

/// Whether the checkers run; they cost about half of the speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    On,
    Off,
}
