//! Text of `ctl` about scrubs.

use mirrorball_core::units::{counted, format_bytes};
use mirrorball_io::conditions::{limit_text, mismatch_text};
use mirrorball_io::control::protocol::{OddMember, ReportedScrubState, ScrubReport};
use mirrorball_io::scrub::{BadRange, RangeProblem};

fn blocks(count: u64) -> String {
    counted(count, "block of 4 KiB", "blocks of 4 KiB")
}

/// Blocks that a scrub compares, in words.
struct ScrubWords {
    fine: &'static str,
    differing: &'static str,
    differs: &'static str,
    left: &'static str,
    odd: &'static str,
    uncompared: &'static str,
    unreadable: &'static str,
}

const OF_MIRRORS: ScrubWords = ScrubWords {
    fine: "no mirrors differ",
    differing: "mirrors differed in",
    differs: "mirrors differ",
    left: "nothing shows which mirror is right",
    odd: "differed from most mirrors in",
    uncompared: "fewer than two mirrors were in sync",
    unreadable: "no mirror could read",
};

const OF_CHECKSUMS: ScrubWords = ScrubWords {
    odd: "had wrong data in",
    unreadable: "no mirror has the right data of",
    ..OF_MIRRORS
};

/// Only checksums are compared.
const OF_SINGLE: ScrubWords = ScrubWords {
    differs: "wrong data",
    differing: "wrong data in",
    fine: "no wrong data",
    unreadable: "the only copy is wrong or cannot be read:",
    ..OF_CHECKSUMS
};

pub(super) fn scrub_text(scrub: &ScrubReport) -> String {
    let words = &match scrub.mismatched_blocks {
        _ if scrub.single_copy => OF_SINGLE,
        0 => OF_MIRRORS,
        _ => OF_CHECKSUMS,
    };
    let mut text = progress_text(scrub);
    let (differing, repaired) = (scrub.differing_blocks, scrub.repaired_blocks);
    let left = differing.saturating_sub(repaired);
    match differing {
        0 if scrub.checked_bytes == scrub.uncompared_bytes || scrub.mismatched_blocks > 0 => {}
        0 if scrub.state == ReportedScrubState::Finished => {
            text += &format!("  {}\n", words.fine);
        }
        0 => text += "  no difference found so far\n",
        _ => text += &format!("  {} {}\n", words.differing, blocks(differing)),
    }
    if repaired > 0 {
        text += &format!("  {} repaired\n", blocks(repaired));
    }
    if left > 0 && scrub.state != ReportedScrubState::Running {
        let why = match scrub.repair && scrub.state == ReportedScrubState::Finished {
            true => format!(", because {}", words.left),
            false => String::new(),
        };
        let how = if left == 1 { "it was" } else { "they were" };
        text += &format!("  {} left as {how}{why}\n", blocks(left));
    }
    if scrub.mismatched_blocks > 0 {
        let mended = match left + scrub.unreadable_blocks {
            0 => ", rewritten from a mirror that does",
            _ => "",
        };
        text += &format!("  {}{mended}\n", mismatch_text(scrub.mismatched_blocks));
    }
    for OddMember { devid, blocks: count } in &scrub.odd_members {
        text += &format!("  devid {devid} {} {}\n", words.odd, blocks(*count));
    }
    if scrub.uncompared_bytes > 0 {
        let size = format_bytes(scrub.uncompared_bytes);
        text += &format!("  {size} were not compared: {}\n", words.uncompared);
    }
    if scrub.unreadable_blocks > 0 {
        text += &format!("  {} {}\n", words.unreadable, blocks(scrub.unreadable_blocks));
    }
    text += &ranges_text(scrub, words);
    if scrub.left_blocks > 0 {
        let count = blocks(scrub.left_blocks);
        text += &format!("  an earlier scrub left {count} as they were\n");
    }
    text + &rebuilt_text(scrub) + &next_steps(scrub, left)
}

/// Which members were rebuilt, so that what was found may be gone.
fn rebuilt_text(scrub: &ScrubReport) -> String {
    if scrub.is_well() || scrub.rebuilt_since.is_empty() {
        return String::new();
    }
    let devids: Vec<String> = scrub.rebuilt_since.iter().map(u64::to_string).collect();
    let (devids, was) = match devids.len() {
        1 => (devids.concat(), "was"),
        _ => (devids.join(" and "), "were"),
    };
    format!(
        "  devid {devids} {was} rebuilt since this scrub started: `ctl scrub start` shows what is \
         left\n"
    )
}

/// Advice for blocks that were left as they were, and for those without a right copy.
fn next_steps(scrub: &ScrubReport, left: u64) -> String {
    if scrub.state == ReportedScrubState::Running || scrub.read_only {
        return String::new();
    }
    let mut text = String::new();
    let step = match scrub.copies {
        _ if left == 0 => None,
        3.. if !scrub.repair => {
            Some("`ctl scrub start --repair` copies the data that most mirrors have to the others")
        }
        2.. => Some(
            "find out which member is right (error logs of the disks, a checksum of a file), then \
             `ctl scrub start --repair --from DEVID` copies its data to the others",
        ),
        _ => None,
    };
    text.extend(step.map(|step| format!("  next: {step}\n")));
    if scrub.unreadable_blocks > 0 {
        text += "  next: restore what is without a right copy from a backup: a block can be read \
                 again once it is written\n";
    }
    text
}

/// Checks that the last scrub shows that the volume is well. Fails if it does not; the reason,
/// where the text about the scrub does not say it.
pub(super) fn check_scrub(scrub: Option<&ScrubReport>) -> Result<(), Option<&'static str>> {
    let scrub = scrub.filter(|scrub| scrub.is_well()).ok_or(None)?;
    match scrub.state {
        ReportedScrubState::Finished => Ok(()),
        ReportedScrubState::Running if scrub.has_finished => Ok(()),
        ReportedScrubState::Running => {
            Err(Some("no scrub has finished yet that compared everything"))
        }
        ReportedScrubState::Paused => {
            Err(Some("the scrub is paused\n  help: `ctl scrub resume` goes on with it"))
        }
        ReportedScrubState::Cancelled => Err(Some("the last scrub was cancelled")),
    }
}

/// Where blocks are without a right copy.
fn ranges_text(scrub: &ScrubReport, words: &ScrubWords) -> String {
    let mut text = String::new();
    for BadRange { offset, length, problem } in &scrub.bad_ranges {
        let what = match problem {
            RangeProblem::Differs => words.differs,
            RangeProblem::Unreadable => "no right copy",
        };
        text += &format!("  bytes {offset} to {} of the volume: {what}\n", offset + length - 1);
    }
    if scrub.has_more_bad_ranges {
        text += "  and more ranges, which are not listed\n";
    }
    text
}

fn progress_text(scrub: &ScrubReport) -> String {
    let (state, is_under_way) = match scrub.state {
        ReportedScrubState::Running => ("running", true),
        ReportedScrubState::Paused => ("paused", true),
        ReportedScrubState::Finished => ("finished", false),
        ReportedScrubState::Cancelled => ("cancelled", false),
    };
    let (checked, total) = (scrub.checked_bytes, scrub.total_bytes);
    let percent = 100.0 * checked as f64 / total.max(1) as f64;
    let limit = scrub.rate_bytes_per_s.filter(|_| is_under_way);
    let limit = limit_text(limit, total.saturating_sub(checked));
    format!("scrub {state}: {checked} of {total} bytes ({percent:.1} %){limit}\n")
        + if scrub.waits { "  it waits until members are rebuilt and synchronised\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused_scrub() -> ScrubReport {
        ScrubReport {
            state: ReportedScrubState::Paused,
            repair: true,
            from: None,
            checked_bytes: 2,
            total_bytes: 8,
            uncompared_bytes: 4 << 20,
            differing_blocks: 3,
            repaired_blocks: 1,
            odd_members: vec![OddMember { devid: 2, blocks: 1 }],
            mismatched_blocks: 0,
            unreadable_blocks: 1,
            left_blocks: 2,
            has_finished: false,
            waits: true,
            bad_ranges: vec![
                BadRange { offset: 8192, length: 8192, problem: RangeProblem::Differs },
                BadRange { offset: 65536, length: 4096, problem: RangeProblem::Unreadable },
            ],
            has_more_bad_ranges: true,
            single_copy: false,
            copies: 2,
            read_only: false,
            rebuilt_since: vec![3, 4],
            rate_bytes_per_s: None,
        }
    }

    #[test]
    fn ranges_without_a_right_copy_are_listed() {
        let text = scrub_text(&paused_scrub());
        for part in [
            "  bytes 8192 to 16383 of the volume: mirrors differ\n",
            "  bytes 65536 to 69631 of the volume: no right copy\n",
            "  and more ranges, which are not listed\n",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    }

    #[test]
    fn what_a_scrub_left_is_shown_with_the_next_step() {
        let next = |copies, repair| scrub_text(&ScrubReport { copies, repair, ..paused_scrub() });
        for (text, part) in [
            (next(2, false), "then `ctl scrub start --repair --from DEVID` copies its data"),
            (next(3, false), "next: `ctl scrub start --repair` copies the data that most"),
            (next(3, true), "then `ctl scrub start --repair --from DEVID` copies its data"),
            (next(2, true), "restore what is without a right copy from a backup"),
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        let rebuilt =
            "  devid 3 and 4 were rebuilt since this scrub started: `ctl scrub start` shows";
        assert!(next(2, false).contains(rebuilt));
        let none = ScrubReport { read_only: true, ..paused_scrub() };
        assert!(!scrub_text(&none).contains("next: "), "nothing can be written");
    }

    #[test]
    fn a_scrub_shows_that_a_volume_is_well_once_one_has_finished() {
        let at = |state, has_finished| ScrubReport {
            state,
            has_finished,
            uncompared_bytes: 0,
            repaired_blocks: 3,
            unreadable_blocks: 0,
            left_blocks: 0,
            ..paused_scrub()
        };
        use ReportedScrubState::{Cancelled, Finished, Paused, Running};
        let check = |state, has_finished| check_scrub(Some(&at(state, has_finished)));
        assert_eq!((check(Finished, true), check(Running, true)), (Ok(()), Ok(())));
        for (state, has_finished, part) in [
            (Running, false, "no scrub has finished yet"),
            (Paused, true, "is paused"),
            (Cancelled, true, "was cancelled"),
        ] {
            assert!(check(state, has_finished).unwrap_err().unwrap().contains(part));
        }
        let bad = ScrubReport { left_blocks: 1, ..at(Running, true) };
        assert_eq!((check_scrub(None), check_scrub(Some(&bad))), (Err(None), Err(None)));
    }

    #[test]
    fn a_single_copy_has_no_mirrors_that_differ() {
        let fine = ScrubReport {
            state: ReportedScrubState::Finished,
            single_copy: true,
            checked_bytes: 8,
            uncompared_bytes: 0,
            differing_blocks: 0,
            repaired_blocks: 0,
            odd_members: Vec::new(),
            unreadable_blocks: 0,
            left_blocks: 0,
            bad_ranges: Vec::new(),
            has_more_bad_ranges: false,
            waits: false,
            ..paused_scrub()
        };
        let text = scrub_text(&fine);
        assert_eq!(text, "scrub finished: 8 of 8 bytes (100.0 %)\n  no wrong data\n");
        let wrong = ScrubReport { mismatched_blocks: 1, unreadable_blocks: 1, ..fine };
        assert!(!scrub_text(&wrong).contains("mirror"), "{}", scrub_text(&wrong));
    }
}
