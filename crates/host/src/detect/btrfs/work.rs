//! The state of a btrfs: devices that are missing, and work in the background.

use super::Btrfs;
use crate::detect::array::{ArrayCondition, DetectedMember};
use crate::detect::live;

use crate::detect::mounts::MountEntry;
use crate::detect::pasted::{MADE_UP_FSID, WORK};
use mirrorball_core::diagnostic::quoted;
use std::path::Path;

/// A balance that does not run, as the kernel and its tool call it.
const BALANCE_PAUSED: &str = "balance paused";

impl Btrfs<'_> {
    pub(super) fn condition(
        &self,
        mount: Option<&MountEntry>,
        members: &[DetectedMember],
        notes: &mut Vec<String>,
    ) -> ArrayCondition {
        let missing = members.iter().filter(|member| member.is_failed).count();
        let has_option =
            mount.is_some_and(|mount| mount.options.split(',').any(|it| it == "degraded"));
        if has_option && missing == 0 {
            notes.push("mounted with the option degraded, but no member is missing now".to_owned());
        }
        let operation = self.text("exclusive_operation").filter(|operation| operation != "none");
        let printed = self.printed_work();
        let work = match &printed {
            Some((work, ..)) if operation.is_none() => Some(work.clone()),
            _ => operation.or_else(|| self.scrub(mount, members, notes)),
        };
        let is_paused = work.as_deref() == Some(BALANCE_PAUSED);
        let place = mount.map_or("MOUNT-POINT", |mount| mount.point.as_str());
        notes.extend(is_paused.then(|| {
            format!("a balance is paused: `btrfs balance resume {}` continues it", quoted(place))
        }));
        let figures = |(_, percent, hours)| (percent, hours);
        let (progress_percent, hours_left) = printed.map_or((None, None), figures);
        ArrayCondition {
            degraded: missing > 0,
            missing,
            activity: work.filter(|_| !is_paused),
            progress_percent,
            hours_left,
            ..ArrayCondition::default()
        }
    }

    /// The work that a pasted output of btrfs names, how much of it is done in percent, and how
    /// many hours are left.
    fn printed_work(&self) -> Option<(String, Option<f64>, Option<f64>)> {
        let text = self.sysroot.raw_text(WORK)?;
        let is_own = |fsid| fsid == self.fsid || fsid == "-" || self.fsid.starts_with(MADE_UP_FSID);
        let mut all = text.lines().map(|line| line.split('|').collect::<Vec<&str>>());
        all.find_map(|row| match row[..] {
            [work, fsid, percent, hours] if is_own(fsid) => {
                Some((work.to_owned(), percent.parse().ok(), hours.parse().ok()))
            }
            _ => None,
        })
    }

    /// `scrub`, if one runs, as the kernel says; else by the file of root in which the tool that
    /// started it keeps its state. If that tool was killed, the file says for ever that one runs.
    fn scrub(
        &self,
        mount: Option<&MountEntry>,
        members: &[DetectedMember],
        notes: &mut Vec<String>,
    ) -> Option<String> {
        let devids: Vec<u64> = members.iter().map(|member| member.devid).collect();
        if let Some(mount) = mount.filter(|_| self.sysroot.is_live())
            && let Ok(is_scrubbed) = live::is_scrubbed(Path::new(&mount.point), &devids)
        {
            return is_scrubbed.then(|| "scrub".to_owned());
        }
        let path = format!("/var/lib/btrfs/scrub.status.{}", self.fsid);
        let Some(text) = self.sysroot.raw_text(&path) else {
            let is_recorded = !self.sysroot.is_live() && !self.sysroot.is_pasted();
            if is_recorded || self.sysroot.exists(&path) {
                let place = match self.sysroot.is_live() {
                    true => path,
                    false => format!("{path} of the recorded copy"),
                };
                notes.push(format!("whether a scrub runs is not known: {place} cannot be read"));
            }
            return None;
        };
        let runs = |line: &str| {
            let has = |field: &str| line.split('|').any(|it| it == field);
            line.contains("|t_start:") && has("canceled:0") && has("finished:0")
        };
        text.lines().any(runs).then(|| "scrub".to_owned())
    }
}
