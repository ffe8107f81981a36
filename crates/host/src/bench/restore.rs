//! Puts back what a journal says: by `bench` and `tune` at their end, by their watchdog, or by
//! `bench --restore` and `tune --undo`.
//!
//! A knob that shows a value which is neither ours nor the one before was set by another program,
//! and stays. After a restart of the machine only md's flags are put back: the other settings are
//! lost with the kernel that held them, and what it shows now is what it was started with. Flags of
//! an array that is not there, and a folder on it, are not lost: then the journal is kept.

use super::data_folder;
use super::journal::{self, Journal, JournalFolder, JournalKnob, StartedProcess};
use super::knob::{Knob, KnobKind};
use super::knob_place::{KnobLoss, locate};
use super::process_tree::{children_of, kill_tree, name_of, processes_with_files_in, start_time};
use crate::detect::{Identifiers, Sysroot, array_identifiers, detect_at};
use std::io;
use std::path::Path;

/// Result of restoring the knobs of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Processes that were left, and ended: their names and numbers.
    pub ended: Vec<(String, u32)>,
    /// Paths that were written, each with the value before and the value now in force.
    pub restored: Vec<(String, String, String)>,
    /// Number of settings that were as before, or are gone with the array that had them.
    pub unchanged: usize,
    /// Paths that another program changed, with the value that they show; they were left.
    pub foreign: Vec<(String, String)>,
    /// Paths that the restart of the machine has reset; they were left.
    pub after_restart: Vec<String>,
    /// Members that were replaced, each with the setting that is gone with it.
    pub replaced: Vec<String>,
    /// Knobs that could not be restored, and why.
    pub failed: Vec<String>,
    /// The journal, if it is kept because something could not be put back.
    pub kept: Option<String>,
    /// True if `tune` made the changes, false if `bench` did.
    pub is_of_tune: bool,
}

impl RestoreReport {
    /// True if everything is as it was before `bench`, as far as a restart has not reset it.
    pub fn is_as_before(&self) -> bool {
        self.failed.is_empty() && self.foreign.is_empty()
    }

    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (program, again) = match self.is_of_tune {
            true => ("tune", "tune --undo"),
            false => ("bench", "bench --restore"),
        };
        for (name, process) in &self.ended {
            lines.push(format!("ended {name}, process {process}, which bench had started"));
        }
        for (path, from, to) in &self.restored {
            lines.push(format!("restored {path}: {from} -> {to}"));
        }
        for (path, value) in &self.foreign {
            lines.push(format!("left {path}: it shows `{value}`, which {program} did not set"));
        }
        for path in &self.after_restart {
            lines.push(format!("left {path}: the machine was restarted, which has reset it"));
        }
        for path in &self.replaced {
            lines
                .push(format!("left {path}: its member was replaced, the setting is gone with it"));
        }
        lines.extend(self.failed.iter().map(|reason| format!("not restored: {reason}")));
        lines.extend(self.kept.iter().map(|journal| {
            format!(
                "the journal {journal} is kept: run `mirrorball {again}` again, or remove the \
                 journal if what it lists is gone for good"
            )
        }));
        lines
    }

    fn fail(&mut self, reason: String) {
        if !self.failed.contains(&reason) {
            self.failed.push(reason);
        }
    }
}

/// Puts back what the journal at `path` says, and removes the journal if nothing failed.
pub(crate) fn restore(sysroot: &Sysroot, path: &Path, journal: &Journal) -> RestoreReport {
    let is_of_tune = journal.tuned.is_some();
    let mut report = RestoreReport { is_of_tune, ..RestoreReport::default() };
    let is_later_boot = journal.is_of_earlier_boot(sysroot);
    if !is_later_boot {
        end_fio(journal, &mut report);
    }
    // In reverse, so that what depends on an earlier change is undone before it; and marks of
    // members last, so that never all of them have one.
    let mut knobs: Vec<&JournalKnob> = journal.knobs.iter().rev().collect();
    knobs.sort_by_key(|entry| entry.knob.kind.is_mark(&entry.knob.kind.value(&entry.before)));
    for knob in knobs {
        let is_reset = is_later_boot && !journal.is_kept_over_restarts();
        restore_knob(sysroot, &journal.identity, knob, is_reset, &mut report);
    }
    if let Some(folder) = &journal.folder {
        remove_folder(sysroot, &journal.identity, folder, &mut report);
    }
    if report.failed.is_empty()
        && let Err(error) = journal::remove(path)
    {
        report.fail(format!("cannot remove the journal {}: {error}", path.display()));
    }
    if !report.failed.is_empty() {
        report.kept = Some(path.display().to_string());
    }
    report
}

fn restore_knob(
    sysroot: &Sysroot,
    identity: &Identifiers,
    entry: &JournalKnob,
    is_reset: bool,
    report: &mut RestoreReport,
) {
    let JournalKnob { knob, member, before, ours } = entry;
    let is_lasting = knob.kind.is_lasting();
    let located = locate(sysroot, identity, knob, member).and_then(|knob| {
        let raw = knob.raw(sysroot);
        let unread = || KnobLoss::NotThere(format!("cannot read {}", knob.path));
        raw.map(|raw| (knob.clone(), raw)).ok_or_else(unread)
    });
    let (knob, now) = match located {
        Ok(found) => found,
        Err(KnobLoss::NotThere(reason)) if is_lasting => return report.fail(reason),
        Err(KnobLoss::MemberReplaced) if is_lasting => {
            return report.replaced.push(knob.path.clone());
        }
        Err(_) => {
            // The setting is gone with the array, which is stopped or not mounted.
            report.unchanged += 1;
            return;
        }
    };
    let writes = knob.kind.writes_to_restore(before, &now);
    if writes.is_empty() {
        report.unchanged += 1;
        return;
    }
    if is_reset && !is_lasting {
        report.after_restart.push(knob.path);
        return;
    }
    let (old, value) = (knob.kind.value(before), knob.kind.value(&now));
    let is_ours = ours.contains(&value) || knob.kind.may_be_left_by_restore(before, &value);
    let is_file = knob.kind == KnobKind::Text;
    if value != old && !is_ours {
        let shown = if is_file { "another text".to_owned() } else { value };
        report.foreign.push((knob.path, shown));
        return;
    }
    match written(sysroot, &knob, &writes) {
        Ok(shown) if shown == old && is_file => {
            report.restored.push((knob.path, "ours".to_owned(), "removed".to_owned()));
        }
        Ok(shown) if shown == old => report.restored.push((knob.path, value, old)),
        Ok(shown) => report.fail(format!("{} shows `{shown}` after `{old}` was set", knob.path)),
        Err(error) => report.fail(error.to_string()),
    }
}

/// Writes the texts one after the other, and returns the value that is in force then.
fn written(sysroot: &Sysroot, knob: &Knob, texts: &[String]) -> io::Result<String> {
    for text in texts {
        knob.write(sysroot, text)?;
    }
    knob.value(sysroot)
}

/// Ends the fio that `bench` started in this boot, if that did not: it has the file to read open,
/// and goes on for as long as its job says.
fn end_fio(journal: &Journal, report: &mut RestoreReport) {
    let mut jobs = Vec::new();
    let started = journal.fio.filter(|it| start_time(it.process) == Some(it.start_time));
    if let Some(StartedProcess { process, .. }) = started {
        let name = name_of(process).unwrap_or_default();
        jobs = children_of(process);
        kill_tree(process);
        report.ended.push((name, process));
    }
    // Its jobs are processes of their own, and outlive it if it was killed by itself.
    let Some(folder) = &journal.folder else { return };
    for process in processes_with_files_in(Path::new(&folder.path)) {
        let name = name_of(process).unwrap_or_default();
        let is_known = jobs.contains(&process) || report.ended.iter().any(|it| it.1 == process);
        if name == "fio" && !is_known {
            kill_tree(process);
            report.ended.push((name, process));
        }
    }
}

fn remove_folder(
    sysroot: &Sysroot,
    identity: &Identifiers,
    folder: &JournalFolder,
    report: &mut RestoreReport,
) {
    let JournalFolder { path, above, inode } = folder;
    if Path::new(path).symlink_metadata().is_ok() {
        if let Err(error) = data_folder::remove(Path::new(path), *inode) {
            report.fail(format!("cannot remove the folder {path}: {error}"));
        }
        return;
    }
    if !is_on(sysroot, above, identity) {
        report.fail(format!(
            "the folder {path}, which may have a large file, is out of reach: {above} is not on \
             the array ({identity}): mount it there"
        ));
    }
}

/// True if a path is on the array with this identity.
fn is_on(sysroot: &Sysroot, path: &str, identity: &Identifiers) -> bool {
    detect_at(sysroot, path)
        .is_ok_and(|array| identity.matches(&array_identifiers(sysroot, &array)) == Some(true))
}

#[cfg(test)]
mod tests;
