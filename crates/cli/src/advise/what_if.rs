//! `--what-if`: the same question about the array after a change of hardware.

use super::Args;
use super::question::Question;
use super::target::{self, AdviseTarget};
use crate::ending::Failure;
use crate::screen;
use anyhow::{Context, Result, anyhow, bail};
use mirrorball_core::geometry::{ArrayLayout, LayoutKind};
use mirrorball_core::units::format_bytes;
use mirrorball_disk::array_file::{AddedMember, ArrayEdit, ArrayFile};
use mirrorball_lab::experiment::inputs::load_array;
use std::fmt;
use std::str::FromStr;

/// A change of hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HardwareChange {
    /// Another disk in the place of a member.
    Replace {
        /// The member.
        devid: u64,
        /// The model of the new disk.
        model: String,
    },
    /// One more disk of this model.
    Add(String),
}

impl FromStr for HardwareChange {
    type Err = String;

    fn from_str(text: &str) -> Result<HardwareChange, String> {
        let expected = "write replace=DEVID:MODEL or add=MODEL, for example replace=1:ssd-sata-plp";
        match text.split_once('=') {
            Some(("add", model)) if !model.is_empty() => Ok(HardwareChange::Add(model.to_owned())),
            Some(("add", _)) => Err(format!("the model is missing; {expected}")),
            Some(("replace", change)) => match change.split_once(':') {
                Some((devid, model)) if !model.is_empty() => {
                    let devid = devid.parse().map_err(|_| {
                        format!("`{devid}` is not a devid, the number of a member; {expected}")
                    })?;
                    Ok(HardwareChange::Replace { devid, model: model.to_owned() })
                }
                _ => Err(format!("the model is missing; {expected}")),
            },
            _ => Err(expected.to_owned()),
        }
    }
}

impl HardwareChange {
    /// The change, and the steps that it takes if md cannot make it to an array of this layout.
    pub(super) fn described(&self, layout: ArrayLayout) -> String {
        match (self, layout.kind()) {
            (HardwareChange::Add(_), LayoutKind::MdRaid10Far) => {
                format!("{self} (md cannot reshape a far layout: create the array again)")
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for HardwareChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HardwareChange::Replace { devid, model } => {
                write!(formatter, "devid {devid} is replaced by {model}")
            }
            HardwareChange::Add(model) => write!(formatter, "{model} is added"),
        }
    }
}

/// The target with a disk in the place of each missing member that a change replaces, if no read
/// has a choice of members without it; and the changes that are left.
///
/// # Errors
/// If there is no such model.
pub(super) fn with_missing_replaced(
    args: &Args,
    mut target: AdviseTarget,
) -> Result<(AdviseTarget, Vec<HardwareChange>), Failure> {
    let changes = args.what_if.clone();
    if changes.is_empty() {
        return Ok((target, changes));
    }
    let (_, spec) = load_array(&target.array).map_err(Failure::WrongUse)?;
    if target::check_choice(&target.array, &spec).is_ok() {
        return Ok((target, changes));
    }
    let is_missing = |change: &HardwareChange| match change {
        HardwareChange::Replace { devid, .. } => spec.members.iter().any(|member| {
            member.devid == *devid && !member.is_in_service() && member.device.is_none()
        }),
        HardwareChange::Add(_) => false,
    };
    let (made, left): (Vec<HardwareChange>, Vec<HardwareChange>) =
        changes.into_iter().partition(is_missing);
    if made.is_empty() {
        return Ok((target, left));
    }
    let file = target::read(&target.array).map_err(Failure::WrongUse)?;
    let mut edit = ArrayEdit::new(&file);
    for change in &made {
        if let HardwareChange::Replace { devid, model } = change {
            let replaced = edit.replace(*devid, model).context("--what-if");
            replaced.map_err(Failure::WrongUse)?;
        }
    }
    let name = format!("{}-what-if", spec.name);
    let path = target::save(&name, &edit.text()).map_err(Failure::WrongUse)?;
    target.array = path.display().to_string();
    let made: Vec<String> = made.iter().map(ToString::to_string).collect();
    let condition = target.condition.or(spec.source.and_then(|source| source.condition));
    let condition = condition.unwrap_or_else(|| "a member is missing".to_owned());
    target.condition = Some(format!("{condition}, and {}", made.join(", ")));
    Ok((target, left))
}

/// The question about the changed array; `None` if no change is asked for.
///
/// # Errors
/// If there is no such member or model, or the array cannot be changed like this.
pub(super) fn changed(
    args: &Args,
    changes: &[HardwareChange],
    question: &Question,
) -> Result<Option<Question>, Failure> {
    if changes.is_empty() {
        return Ok(None);
    }
    let text = edited(changes, question).context("--what-if").map_err(Failure::WrongUse)?;
    let name = format!("{}-what-if", question.inputs.array.name);
    let path = target::save(&name, &text).map_err(Failure::WrongUse)?;
    let path = path.display().to_string();
    let mut changed = Question::about(args, &path, &question.chosen, &question.jobs)?;
    let is_replaced = |devid: u64| {
        changes.iter().any(|change| match change {
            HardwareChange::Replace { devid: replaced, .. } => *replaced == devid,
            HardwareChange::Add(_) => false,
        })
    };
    note_if_smaller(question, &changed);
    let out = question.out_of_service.iter().filter(|member| !is_replaced(member.devid));
    changed.out_of_service = out.copied().collect();
    Ok(Some(changed))
}

/// Says if a new disk is too small for what the array holds.
fn note_if_smaller(before: &Question, after: &Question) {
    let capacity = |question: &Question| {
        question.inputs.array.chunk_map().map_or(0, |map| map.capacity_bytes())
    };
    let (before, after) = (capacity(before), capacity(after));
    if after < before {
        screen::say(format_args!(
            "note: the volume has {} after the change, and {} now: a new disk is smaller than its \
             part of the data, which most systems refuse",
            format_bytes(after),
            format_bytes(before)
        ));
    }
}

/// The text of the changed array.
fn edited(changes: &[HardwareChange], question: &Question) -> Result<String> {
    let system = question.chosen.system;
    if system.is_multipath {
        bail!(
            "the members of {} are paths to one device, so no disk can be replaced or added\n  \
             help: leave out --what-if",
            question.inputs.array.name
        );
    }
    // btrfs places the same number of copies on more disks.
    let brings = match system.name {
        "btrfs" => AddedMember::MoreSpace,
        _ => AddedMember::MoreCopies,
    };
    let mut edit = ArrayEdit::new(&target::read(&question.array)?);
    let mut in_force = question.now().to_owned();
    let mut replaced = Vec::new();
    for change in changes {
        match change {
            HardwareChange::Replace { devid, model } => {
                if replaced.contains(devid) {
                    bail!("devid {devid} is replaced twice\n  help: give one of the two");
                }
                replaced.push(*devid);
                edit.replace(*devid, model)?;
                // A new disk has no flag.
                let flag = format!("write-mostly:{devid}");
                let parts: Vec<&str> = in_force.split('+').filter(|part| *part != flag).collect();
                in_force = parts.join("+");
            }
            HardwareChange::Add(model) => _ = edit.add(model, brings)?,
        }
    }
    edit.set_in_force(system.name, &in_force);
    edit.rename(&format!("{} after the change", question.inputs.array.name));
    let text = edit.text();
    ArrayFile::parse(&text, "the changed array").map_err(|error| anyhow!("{error}"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::HardwareChange;

    #[test]
    fn changes_are_read_and_mistakes_named() {
        let replace = HardwareChange::Replace { devid: 7, model: "nvme-gen3".to_owned() };
        assert_eq!("replace=7:nvme-gen3".parse(), Ok(replace));
        assert_eq!("add=a/b.toml".parse(), Ok(HardwareChange::Add("a/b.toml".to_owned())));
        for (text, message) in [
            ("", "write replace=DEVID:MODEL"),
            ("remove=1", "write replace=DEVID:MODEL"),
            ("add=", "the model is missing"),
            ("replace=1", "the model is missing"),
            ("replace=1:", "the model is missing"),
            ("replace=sda:nvme-gen3", "`sda` is not a devid"),
        ] {
            let error = text.parse::<HardwareChange>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
