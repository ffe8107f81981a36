//! `--what-if`: the same question about the array after a change of hardware.

use super::Args;
use super::question::Question;
use super::target;
use crate::ending::Failure;
use anyhow::{Context, Result, anyhow, bail};
use mirrorball_disk::array_file::{AddedMember, ArrayEdit, ArrayFile};
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

/// The question about the changed array; `None` if no change is asked for.
///
/// # Errors
/// If there is no such member or model, or the array cannot be changed like this.
pub(super) fn changed(args: &Args, question: &Question) -> Result<Option<Question>, Failure> {
    if args.what_if.is_empty() {
        return Ok(None);
    }
    let text = edited(args, question).context("--what-if").map_err(Failure::WrongUse)?;
    let name = format!("{}-what-if", question.inputs.array.name);
    let path = target::save(&name, &text).map_err(Failure::WrongUse)?;
    let path = path.display().to_string();
    let mut changed = Question::about(args, &path, &question.chosen, &question.jobs)?;
    let is_replaced = |devid: u64| {
        args.what_if.iter().any(|change| match change {
            HardwareChange::Replace { devid: replaced, .. } => *replaced == devid,
            HardwareChange::Add(_) => false,
        })
    };
    let out = question.out_of_service.iter().filter(|member| !is_replaced(member.devid));
    changed.out_of_service = out.copied().collect();
    Ok(Some(changed))
}

/// The text of the changed array.
fn edited(args: &Args, question: &Question) -> Result<String> {
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
    for change in &args.what_if {
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
