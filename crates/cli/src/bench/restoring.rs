//! Report of settings that `bench` changed and restored.

use crate::ending::{Ending, Failure};
use crate::screen;
use mirrorball_core::units::counted;
use mirrorball_host::bench::{RestoreReport, restore_all};
use mirrorball_host::detect::Sysroot;

/// Restores what earlier benchmarks left.
pub(super) fn restore(sysroot: &Sysroot) -> Result<Ending, Failure> {
    let reports = restore_all(sysroot);
    if reports.is_empty() {
        screen::print("nothing to restore: no bench left settings changed\n")?;
    }
    let mut ending = Ending::Done;
    for (array, report) in reports {
        match report {
            Ok(report) => {
                if report.unchanged > 0 {
                    screen::say(format_args!(
                        "{array}: {} did not need to be restored",
                        counted(report.unchanged, "setting", "settings")
                    ));
                }
                if said(&report) != Ending::Done {
                    ending = Ending::FoundFailure;
                }
            }
            Err(error) => {
                screen::say(format_args!("{array}: not restored: {error}"));
                ending = Ending::FoundFailure;
            }
        }
    }
    Ok(ending)
}

/// Says what became of the settings.
pub(super) fn said(report: &RestoreReport) -> Ending {
    for line in report.lines() {
        screen::say(line);
    }
    match report.is_as_before() {
        true => Ending::Done,
        false => Ending::FoundFailure,
    }
}
