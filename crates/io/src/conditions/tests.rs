//! The texts of conditions, and when an event is due.

use super::*;
use rustix::io::Errno;

fn served(has_spares: bool, has_left_blocks: bool) -> Situation {
    Situation::Served { has_spares, has_left_blocks }
}

fn member() -> ConditionSubject {
    ConditionSubject::member(3, Some("/dev/sdc".to_owned()))
}

fn failed() -> Problem<'static> {
    use crate::executor::{FailedIo, FaultCause};
    let io =
        FailedIo { op: mirrorball_core::io::Op::Flush, offset: 0, length: 0, is_read_back: false };
    let fault = Some(MemberFault::Io(io, FaultCause::System(Errno::IO)));
    Problem::MemberFailed { fault, is_kept_out: false }
}

#[test]
fn a_failed_member_is_shown_with_its_device_its_error_and_the_commands() {
    let condition = failed().describe(&member(), Situation::SERVED);
    assert_eq!(
        condition.to_string(),
        "devid 3 (/dev/sdc) has failed: flush: Input/output error (os error 5)\n  help: \
         `mirrorball ctl members rebuild 3` takes it back; `mirrorball ctl members replace 3 \
         DEVICE` rebuilds it on another device; `mirrorball ctl members remove 3` closes the \
         device, so that it can be taken out; the next start takes it back by itself, unless \
         `mirrorball ctl members fail 3` comes first"
    );
    assert_eq!((condition.severity, condition.devid), (Severity::Error, Some(3)));
    let help = |situation| failed().describe(&member(), situation).help;
    assert!(help(served(true, true)).unwrap().starts_with("a spare that is large enough"));
    assert!(help(served(false, true)).unwrap().contains("replace 3 /dev/sdc` copies all"));
    assert_eq!(
        help(Situation::Emulated).unwrap(),
        "`mirrorball ctl members rebuild 3` takes it back"
    );
}

fn copy() -> MemberCopy {
    let address = crate::device_address::DeviceAddress::parse("/dev/sdd").unwrap();
    MemberCopy {
        member: mirrorball_core::member::MemberIndex(2),
        place: crate::reopen::MemberPlace::Moved(address),
        copied_bytes: 1,
        error: Some("flush: no space".to_owned()),
    }
}

fn all() -> Vec<Problem<'static>> {
    let recovery =
        Recovery { recovered_bytes: 1, total_bytes: 8, only_missed: true, rate: Some(50) };
    let copy = Box::leak(Box::new(copy()));
    let last_error = Some(("devid 1".to_owned(), MemberFault::Ended, Nanos::from_secs(150)));
    vec![
        failed(),
        Problem::MemberFailing(Some(MemberFault::Ended)),
        Problem::MemberMissing,
        Problem::MemberDiverged,
        Problem::MemberRemoved,
        Problem::MemberUnreachable { needs_restart: true },
        Problem::MemberStalled(Nanos::from_secs(12), 5),
        Problem::MemberRebuilding(recovery),
        Problem::MemberReplacing(recovery, copy),
        Problem::ReplaceFailed(copy),
        Problem::ReplaceStalled(copy, Nanos::from_secs(31), 2),
        Problem::RebuildStalled(VolumeError::Unreadable),
        Problem::RebuildLeftBlocks(2),
        Problem::ChecksumMismatch(9),
        Problem::ChecksumsLost(2),
        Problem::MirrorsUnsynced(4 << 20),
        Problem::RequestsFailed(FailedCounts { reads: 7, writes: 1, last_error }),
        Problem::ScrubLeftBlocks(3),
        Problem::ScrubIncomplete(4 << 20),
        Problem::SpareMissing(None),
        Problem::SpareFailed("cannot be read"),
        Problem::PolicyFault("choose returned 2"),
    ]
}

/// Of a read-only volume nothing is rebuilt or synchronised, and no member is replaced.
#[test]
fn no_help_for_a_read_only_volume_names_a_command_that_is_refused() {
    for problem in all() {
        let text = problem.describe(&member(), Situation::ReadOnly).to_string();
        for command in ["ctl members re", "ctl scrub start", "being rebuilt", "being sync"] {
            assert!(!text.contains(command), "`{command}` in {text}");
        }
    }
}

#[test]
fn texts_have_their_figures() {
    let texts: Vec<String> =
        all().iter().map(|it| it.describe(&member(), Situation::SERVED).text).collect();
    for part in [
        "devid 3 (/dev/sdc) is being rebuilt: 12.5 %, 1 of 8 bytes, only what it missed, at \
         most 50 bytes/s",
        "devid 3 (/dev/sdc): 9 blocks of 4 KiB did not match their checksums",
        "the checksums of 1024 blocks could not be read",
        "mirrors may differ in 4 MiB, which are being synchronised",
        "7 reads and 1 write of clients failed since",
        "last error of devid 1, 2 min ago: its file or device is smaller than it was",
    ] {
        assert!(texts.iter().any(|text| text.contains(part)), "no `{part}` in {texts:?}");
    }
}

#[test]
fn a_failed_member_that_stays_out_at_the_next_start_says_so() {
    let Problem::MemberFailed { fault, .. } = failed() else { unreachable!() };
    let kept_out = |fault| Problem::MemberFailed { fault, is_kept_out: true };
    let shown = kept_out(fault).describe(&member(), Situation::SERVED);
    assert!(shown.text.ends_with("os error 5); then requested by an operator"), "{shown}");
    assert!(!shown.to_string().contains("the next start"), "{shown}");
    assert_ne!(kept_out(fault).step(), failed().step(), "an event is due");
    let requested = kept_out(Some(MemberFault::Requested)).describe(&member(), Situation::SERVED);
    assert_eq!(requested.text, "devid 3 (/dev/sdc) has failed: requested by an operator");
}

#[test]
fn an_event_is_due_with_each_fifth_of_a_rebuild_and_when_a_count_has_doubled() {
    let rebuilding = |recovered_bytes| {
        let (total_bytes, only_missed, rate) = (100, false, None);
        Problem::MemberRebuilding(Recovery { recovered_bytes, total_bytes, only_missed, rate })
            .step()
    };
    assert_eq!([0, 19, 20, 65, 80, 100].map(rebuilding), [0, 0, 1, 3, 4, 4]);
    let blocks = |count| Problem::ChecksumMismatch(count).step();
    assert_eq!([1, 2, 3, 4, 7, 8].map(blocks), [0, 1, 1, 2, 2, 3]);
}

#[test]
fn a_limit_is_shown_with_the_time_that_it_leaves() {
    assert_eq!(limit_text(None, 1 << 40), "");
    assert_eq!(limit_text(Some(50 << 20), 1 << 30), ", at most 50 MiB/s");
    let hdd = 16_000_000_000_000;
    assert_eq!(limit_text(Some(100_000_000), hdd), ", at most 95.4 MiB/s: at least 44 h left");
    assert_eq!(limit_text(Some(5), hdd), ", at most 5 bytes/s: at least 37037037 days left");
}
