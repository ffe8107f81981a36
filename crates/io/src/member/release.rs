//! Waiting for a file or device that a program had open which has ended.
//!
//! The kernel closes the files of a program that used io_uring, and so releases its locks and
//! devices, a while after the program has ended: usually some milliseconds, and seconds on a
//! machine under load. A server that stops in good order closes them itself; a killed one does not.

use rustix::fs::{major, minor, stat};
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an attempt is repeated.
const USUAL: Duration = Duration::from_secs(2);
/// How long it is repeated if the program that has the lock has ended.
const AFTER_END: Duration = Duration::from_secs(60);

/// Repeats an attempt to open or lock a file while it fails with `busy`: for [`USUAL`], and for
/// [`AFTER_END`] if the lock is that of a program that has ended, which `report_wait` is called
/// for.
pub(super) fn when_released<T>(
    busy: Errno,
    (path, report_wait): (&Path, fn(&Path)),
    attempt: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let start = Instant::now();
    let mut is_reported = false;
    loop {
        match attempt() {
            Err(error) if error == busy && start.elapsed() < AFTER_END => {
                if start.elapsed() >= USUAL {
                    if !has_ended_holder(path) {
                        return Err(error);
                    }
                    if !std::mem::replace(&mut is_reported, true) {
                        report_wait(path);
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

/// Returns true if the program that has locked a file has ended.
fn has_ended_holder(path: &Path) -> bool {
    let (Ok(stat), Ok(locks)) = (stat(path), fs::read_to_string("/proc/locks")) else {
        return false;
    };
    let (major, minor) = (major(stat.st_dev), minor(stat.st_dev));
    let file = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let process = |holder| fs::read_to_string(format!("/proc/{holder}/stat"));
    holder(&locks, &file).is_some_and(|holder| has_ended(process(holder).ok().as_deref()))
}

/// The process that has locked a file, from the text of `/proc/locks`.
fn holder<'a>(locks: &'a str, file: &str) -> Option<&'a str> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, holder, locked, ..] if locked == file => Some(holder),
            _ => None,
        }
    })
}

/// Returns true if a process has ended, from the text of its `stat`, if there is one.
fn has_ended(stat: Option<&str>) -> bool {
    let state = |stat: &str| stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    stat.is_none_or(|stat| matches!(state(stat), Some('Z' | 'X')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_program_still_holds_is_tried_again() {
        let attempts = std::cell::Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 3 { Err(Errno::BUSY) } else { Ok(()) }
        };
        let place: (&Path, fn(&Path)) = (Path::new("no-such-file"), |_| {});
        assert_eq!(when_released(Errno::BUSY, place, attempt), Ok(()));
        assert_eq!(attempts.get(), 3);
        let other = || Err::<(), _>(Errno::BUSY);
        assert_eq!(when_released(Errno::AGAIN, place, other), Err(Errno::BUSY));
    }

    #[test]
    fn a_lock_of_a_living_process_is_no_reason_to_wait() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(file.as_file(), lock).unwrap();
        assert!(!has_ended_holder(file.path()));
        assert!(!has_ended_holder(Path::new("no-such-file")));
    }

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let locks = "1: FLOCK  ADVISORY  WRITE 23329 fe:00:7365296 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 7 fe:00:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 8 fe:00:7365296 0 EOF\n";
        assert_eq!(holder(locks, "fe:00:7365296"), Some("23329"));
        assert_eq!(holder(locks, "fe:00:12"), None);
        assert!(has_ended(None));
        assert!(has_ended(Some("5 (a) b) Z 1 5")));
        assert!(!has_ended(Some("5 (Z) S 1 5")));
    }
}
