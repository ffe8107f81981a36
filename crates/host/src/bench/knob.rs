//! Knobs: places that hold a setting, read, set and put back.
//!
//! Most are files of the kernel, of four kinds. A *choice* shows all its values with the active one
//! in brackets, and a value may carry a parameter: `pid [round-robin:262144] devid:1`. A *flag* is
//! one word among those of md's `state` of a member: `in_sync,write_mostly`; it is written as
//! `writemostly` and `-writemostly`. A *plain* knob shows what was written. A *tool* sets others,
//! and a *text* is a file of ours.
//!
//! In a recorded copy of a machine's files, a write changes the text as the kernel would.

use super::knob_path::KnobPath;
use super::tool_knob;
use crate::detect::Sysroot;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Write};

/// Text in the file of a flag, and the text that sets it.
const FLAG_SHOWN: &str = "write_mostly";
const FLAG_WRITTEN: &str = "writemostly";
/// Value of a flag that is set, and of one that is not.
const ON: &str = "on";
const OFF: &str = "off";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KnobKind {
    /// One of several values, the active one in brackets.
    Choice,
    /// The word for write-mostly in the state of a member of md.
    Flag,
    /// The text itself.
    Plain,
    /// The value that a tool shows and sets.
    Tool,
    /// The whole text of a file of ours; empty if it is not there.
    Text,
}

/// A place that holds a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Knob {
    pub(crate) path: String,
    pub(crate) kind: KnobKind,
}

impl KnobKind {
    /// The kind of the knob at `path` that shows `raw`.
    pub(crate) fn of(path: &str, raw: &str) -> KnobKind {
        match KnobPath::of(path) {
            Some(KnobPath::LvmFlag { .. } | KnobPath::ZpoolScheduler { .. }) => {
                return KnobKind::Tool;
            }
            Some(KnobPath::OwnFile) => return KnobKind::Text,
            Some(KnobPath::Kernel) | None => {}
        }
        if path.contains("/md/dev-") && path.ends_with("/state") {
            KnobKind::Flag
        } else if raw.contains('[') {
            KnobKind::Choice
        } else {
            KnobKind::Plain
        }
    }

    /// The value that is in force in the text of the file.
    pub(crate) fn value(self, raw: &str) -> String {
        match self {
            KnobKind::Choice => {
                let active = tokens(raw).find_map(|it| it.strip_prefix('[')?.strip_suffix(']'));
                active.unwrap_or(raw.trim()).to_owned()
            }
            KnobKind::Flag => {
                let is_set = raw.trim().split(',').any(|word| word.trim() == FLAG_SHOWN);
                if is_set { ON } else { OFF }.to_owned()
            }
            KnobKind::Plain | KnobKind::Tool => raw.trim().to_owned(),
            KnobKind::Text => raw.to_owned(),
        }
    }

    /// The value that writing `text` sets.
    pub(crate) fn value_of_written(self, text: &str) -> String {
        match self {
            KnobKind::Flag if text.trim() == FLAG_WRITTEN => ON.to_owned(),
            KnobKind::Flag => OFF.to_owned(),
            KnobKind::Text => text.to_owned(),
            KnobKind::Choice | KnobKind::Plain | KnobKind::Tool => text.trim().to_owned(),
        }
    }

    /// Text to write for `value`.
    fn text_for(self, value: &str) -> String {
        match self {
            KnobKind::Flag if value == ON => FLAG_WRITTEN.to_owned(),
            KnobKind::Flag => format!("-{FLAG_WRITTEN}"),
            _ => value.to_owned(),
        }
    }

    /// The writes that lead from a file that shows `now` to one that shows `before`. Parameters of
    /// values that are not active count too: they are written first, the active value last.
    pub(crate) fn writes_to_restore(self, before: &str, now: &str) -> Vec<String> {
        if before.trim() == now.trim() {
            return Vec::new();
        }
        let active = self.text_for(&self.value(before));
        let mut writes = Vec::new();
        if self == KnobKind::Choice {
            let shown_now: Vec<&str> = tokens(now).map(bare).collect();
            let changed = parameterised(before).filter(|token| !shown_now.contains(token));
            writes.extend(changed.map(str::to_owned));
        }
        if !writes.is_empty() || self.value(now) != self.value(before) {
            writes.retain(|text| *text != active);
            writes.push(active);
        }
        writes
    }

    /// True if a restore of `before` that was ended early may leave `value` in force.
    pub(crate) fn may_be_left_by_restore(self, before: &str, value: &str) -> bool {
        self == KnobKind::Choice && parameterised(before).any(|token| token == value)
    }

    /// True if `value` marks a member as one that is not read where another can be.
    pub(crate) fn is_mark(self, value: &str) -> bool {
        match self {
            KnobKind::Flag => value == ON,
            KnobKind::Tool => value == tool_knob::FLAG_VALUES[1],
            KnobKind::Choice | KnobKind::Plain | KnobKind::Text => false,
        }
    }

    /// True if the setting survives a restart of the machine.
    pub(crate) fn is_lasting(self) -> bool {
        matches!(self, KnobKind::Flag | KnobKind::Tool | KnobKind::Text)
    }

    /// Text of the file after a write of `text`, if it showed `raw`.
    pub(crate) fn shown_after(self, raw: &str, text: &str) -> String {
        let end = if raw.ends_with('\n') { "\n" } else { "" };
        let shown = match self {
            KnobKind::Plain | KnobKind::Tool => text.trim().to_owned(),
            KnobKind::Text => return text.to_owned(),
            KnobKind::Choice => {
                let name = |token: &str| token.split(':').next().unwrap_or_default().to_owned();
                let show = |token: &str| match name(bare(token)) == name(text) {
                    true => format!("[{text}]"),
                    false => bare(token).to_owned(),
                };
                tokens(raw).map(show).collect::<Vec<String>>().join(" ")
            }
            KnobKind::Flag => {
                let words = raw.trim().split(',').filter(|word| *word != FLAG_SHOWN);
                let mut words: Vec<&str> = words.collect();
                if text == FLAG_WRITTEN {
                    words.push(FLAG_SHOWN);
                }
                words.join(",")
            }
        };
        shown + end
    }
}

impl Knob {
    /// The knob at a path, and the text that it shows; `None` if it cannot be read.
    pub(crate) fn found(sysroot: &Sysroot, path: &str) -> Option<(Knob, String)> {
        let kind = KnobKind::of(path, "");
        let knob = Knob { path: path.to_owned(), kind };
        let raw = knob.raw(sysroot)?;
        Some((Knob { kind: KnobKind::of(path, &raw), ..knob }, raw))
    }

    /// The text of the file; `None` if it cannot be read.
    pub(crate) fn raw(&self, sysroot: &Sysroot) -> Option<String> {
        match self.kind {
            KnobKind::Tool | KnobKind::Text => tool_knob::read(sysroot, &self.path),
            _ => sysroot.raw_text(&self.path),
        }
    }

    pub(crate) fn value(&self, sysroot: &Sysroot) -> io::Result<String> {
        let missing = || io::Error::other(format!("cannot read {}", self.path));
        self.raw(sysroot).map(|raw| self.kind.value(&raw)).ok_or_else(missing)
    }

    /// Sets a value and reads it back. Fails if the kernel refuses it, or shows another value after
    /// it.
    pub(crate) fn set(&self, sysroot: &Sysroot, value: &str) -> io::Result<()> {
        self.write(sysroot, &self.kind.text_for(value))?;
        let shown = self.value(sysroot)?;
        if shown == value {
            return Ok(());
        }
        Err(io::Error::other(format!("{} shows `{shown}` after `{value}` was set", self.path)))
    }

    /// Writes a text to the file. Fails if the file cannot be written, or the kernel refuses the
    /// text.
    pub(crate) fn write(&self, sysroot: &Sysroot, text: &str) -> io::Result<()> {
        if matches!(self.kind, KnobKind::Tool | KnobKind::Text) {
            return tool_knob::write(sysroot, &self.path, text);
        }
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot write `{text}` to {}: {error}", self.path))
        };
        let missing = || about(io::ErrorKind::NotFound.into());
        let resolved = sysroot.resolve(&self.path).ok_or_else(missing)?;
        if !resolved.starts_with("/sys/") {
            return Err(about(io::Error::other(format!(
                "it is {resolved}, no file of the kernel"
            ))));
        }
        let path = sysroot.host_path(&resolved);
        if sysroot.is_live() {
            let mut file = OpenOptions::new().write(true).open(path).map_err(about)?;
            return file.write_all(text.as_bytes()).map_err(about);
        }
        let raw = std::fs::read_to_string(&path).map_err(about)?;
        std::fs::write(path, self.kind.shown_after(&raw, text)).map_err(about)
    }
}

fn tokens(raw: &str) -> impl Iterator<Item = &str> {
    raw.split_whitespace()
}

/// The values of a choice that carry a parameter.
fn parameterised(raw: &str) -> impl Iterator<Item = &str> {
    tokens(raw).map(bare).filter(|token| token.contains(':'))
}

/// A token without brackets.
fn bare(token: &str) -> &str {
    token.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(token)
}

#[cfg(test)]
mod tests {
    use super::KnobKind::{self, Choice, Flag, Plain};
    use super::{Knob, Sysroot};
    use proptest::prelude::{Strategy, prop_assert_eq, proptest};

    #[test]
    fn the_kind_follows_from_path_and_text() {
        for (path, raw, kind, value) in [
            ("/sys/fs/btrfs/F/read_policy", "[pid]\n", Choice, "pid"),
            ("/sys/fs/btrfs/F/read_policy", "pid [devid:2]\n", Choice, "devid:2"),
            ("/sys/block/md0/md/dev-sda/state", "in_sync,write_mostly\n", Flag, "on"),
            ("/sys/block/md0/md/dev-sda/state", "in_sync\n", Flag, "off"),
            ("/sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "numa\n", Plain, "numa"),
        ] {
            assert_eq!(KnobKind::of(path, raw), kind, "{path}");
            assert_eq!(kind.value(raw), value);
        }
        assert_eq!(Flag.value_of_written("-writemostly"), "off");
        assert_eq!(Flag.value_of_written("writemostly"), "on");
    }

    #[test]
    fn a_write_shows_as_in_the_kernel() {
        let raw = "[pid] round-robin:262144 devid:1\n";
        let after = "pid [round-robin:4096] devid:1\n";
        assert_eq!(Choice.shown_after(raw, "round-robin:4096"), after);
        assert_eq!(Flag.shown_after("in_sync\n", "writemostly"), "in_sync,write_mostly\n");
        assert_eq!(Flag.shown_after("in_sync,write_mostly\n", "-writemostly"), "in_sync\n");
        assert_eq!(Plain.shown_after("5\n", "20"), "20\n");
    }

    #[test]
    fn a_path_that_leads_out_of_the_files_of_the_kernel_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        for name in ["sys", "etc"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let theirs = folder.path().join("etc/passwd");
        std::fs::write(&theirs, "root").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("sys/knob")).unwrap();
        let knob = Knob { path: "/sys/knob".to_owned(), kind: Plain };
        let error = knob.write(&sysroot, "5").unwrap_err().to_string();
        assert!(error.contains("it is /etc/passwd, no file of the kernel"), "{error}");
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "root");
    }

    #[test]
    fn parameters_of_inactive_values_are_restored_first() {
        let (before, now) = ("[pid] round-robin:262144\n", "pid [round-robin:4096]\n");
        assert_eq!(Choice.writes_to_restore(before, now), ["round-robin:262144", "pid"]);
        assert!(Choice.writes_to_restore(before, before).is_empty());
        let (before, now) = ("pid [round-robin:262144]\n", "[pid] round-robin:4096\n");
        assert_eq!(Choice.writes_to_restore(before, now), ["round-robin:262144"]);
    }

    /// Texts of the file after any sequence of writes.
    fn choice_text() -> impl Strategy<Value = String> {
        let writes = proptest::collection::vec((0..3usize, 0..5u64), 0..6);
        writes.prop_map(|writes| {
            let mut raw = "[pid] round-robin:262144 devid:1\n".to_owned();
            for (name, value) in writes {
                let text = match name {
                    0 => "pid".to_owned(),
                    1 => format!("round-robin:{}", 4096 << value),
                    _ => format!("devid:{value}"),
                };
                raw = Choice.shown_after(&raw, &text);
            }
            raw
        })
    }

    fn flag_text() -> impl Strategy<Value = String> {
        proptest::bool::ANY.prop_map(|is_set| match is_set {
            true => "in_sync,write_mostly\n".to_owned(),
            false => "in_sync\n".to_owned(),
        })
    }

    proptest! {
        #[test]
        fn restoring_leads_back_to_every_text(before in choice_text(), now in choice_text()) {
            let writes = Choice.writes_to_restore(&before, &now);
            let shown = writes.iter().fold(now, |raw, text| Choice.shown_after(&raw, text));
            prop_assert_eq!(shown, before);
        }

        #[test]
        fn flags_are_restored(before in flag_text(), now in flag_text()) {
            let writes = Flag.writes_to_restore(&before, &now);
            let shown = writes.iter().fold(now, |raw, text| Flag.shown_after(&raw, text));
            prop_assert_eq!(shown, before);
        }
    }
}
