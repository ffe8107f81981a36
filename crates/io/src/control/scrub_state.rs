//! The last scrub of a volume, as clients of the control socket see it.

use super::Control;
use super::protocol::{OddMember, ScrubReport};
use crate::Volume;
use crate::executor::Executor;
use crate::scrub::Scrub;
use mirrorball_store::label::{ScrubProgress, ScrubState};

/// How far the last scrub is, and what it found; `None` if there was none.
pub(super) fn scrub_report(
    control: &Control,
    scrub: &Scrub,
    executor: &Executor,
) -> Option<ScrubReport> {
    let progress = scrub.progress()?;
    let (ranges, has_more_bad_ranges) = scrub.bad_ranges();
    let volume = executor.volume();
    let copies = volume.map_or(0, |volume| volume.map().copies());
    Some(ScrubReport {
        state: progress.state.into(),
        repair: progress.repairs,
        from: progress.from,
        checked_bytes: progress.checked_bytes,
        uncompared_bytes: progress.uncompared_bytes,
        repaired_blocks: progress.repaired_blocks,
        odd_members: odd_members(progress, executor),
        total_bytes: volume.map_or(0, Volume::capacity_bytes),
        differing_blocks: progress.differing_blocks,
        mismatched_blocks: progress.mismatched_blocks,
        unreadable_blocks: progress.unreadable_blocks,
        left_blocks: match progress.state {
            ScrubState::Finished => 0,
            _ => progress.left_blocks,
        },
        has_finished: progress.has_finished(),
        waits: progress.state == ScrubState::Running && scrub.waits(executor),
        bad_ranges: ranges.to_vec(),
        has_more_bad_ranges,
        single_copy: copies == 1,
        copies,
        read_only: volume.is_some_and(Volume::is_read_only),
        rebuilt_since: control.events.rebuilt_since_scrub(),
        rate_bytes_per_s: progress.rate,
    })
}

fn odd_members(progress: &ScrubProgress, executor: &Executor) -> Vec<OddMember> {
    let members = executor.members().zip(progress.odd_blocks).filter(|(_, blocks)| *blocks > 0);
    members.map(|((config, _), blocks)| OddMember { devid: config.devid, blocks }).collect()
}
