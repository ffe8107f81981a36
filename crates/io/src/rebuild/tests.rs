//! The rate of a rebuild, and a rebuild that is restarted during another.

use super::*;
use crate::assemble::{Assembly, ExportMode, emulate_in_memory};
use crate::clock::Speed;

#[test]
fn step_time_follows_the_rate_limit() {
    assert_eq!(pace(STEP_BYTES, 100 << 20), Nanos::from_millis(10));
    assert_eq!(pace(STEP_BYTES, 0), pace(STEP_BYTES, 1));
    assert_eq!(pace(u64::MAX, 1), Nanos::from_secs(86_400));
}

/// Two fast disks, mirrored, emulated with their data in memory.
fn pair() -> Executor {
    let text = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2\nsize = \"8MiB\"\n";
    let Assembly { executor, .. } =
        emulate_in_memory(text, ExportMode::Volume, "first", Speed::REAL, None);
    executor
}

/// Runs until the step in flight ends.
fn finish(rebuild: &mut Rebuild, executor: &mut Executor) {
    let mut done = Vec::new();
    while rebuild.step_in_flight.is_some() {
        executor.turn();
        if let Some(ended) = executor.poll_reply() {
            rebuild.on_reply(ended, executor);
        } else {
            executor.wait(Some(std::time::Duration::from_millis(1)), &mut done).unwrap();
        }
    }
}

#[test]
fn a_step_of_an_earlier_rebuild_does_not_advance_the_next() {
    let mut executor = pair();
    let mut rebuild = Rebuild::new(&mut executor);
    let stale = MemberIndex(1);
    let request = RebuildRequest { devid: 2, replacement: None, rate: None, client: 1 };
    let state = |executor: &Executor| executor.volume().unwrap().members()[stale].state;
    let fail = |executor: &mut Executor| {
        executor.volume_mut().unwrap().set_member_state(stale, MemberState::Failed);
    };
    fail(&mut executor);
    let begin_and_take_two_steps = |rebuild: &mut Rebuild, executor: &mut Executor| {
        assert_eq!(rebuild.begin(request.clone(), executor), Ok(RebuildStart::Started));
        assert!(rebuild.is_opening(stale), "a request to fail it would be undone");
        for _ in 0..3 {
            // The first may be one of an earlier rebuild.
            finish(rebuild, executor);
            rebuild.next_step = Nanos::ZERO;
            rebuild.step(executor);
        }
        assert!(!rebuild.is_opening(stale));
    };
    begin_and_take_two_steps(&mut rebuild, &mut executor);
    let so_far = MemberState::Rebuilding { recovered_bytes: 2 * STEP_BYTES };
    assert_eq!(state(&executor), so_far);
    // It fails while the third step reads from the other.
    executor.turn();
    fail(&mut executor);
    begin_and_take_two_steps(&mut rebuild, &mut executor);
    assert_eq!(state(&executor), so_far, "the third step of before does not count");
}
