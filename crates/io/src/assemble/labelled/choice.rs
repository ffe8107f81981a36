//! Which of several volumes is served.

use super::{LabelledError, LabelledOptions, is_called};
use crate::examine::{ExaminedDevice, ExaminedVolume};

pub(super) fn choose(
    mut volumes: Vec<ExaminedVolume>,
    serving: &LabelledOptions,
    devices: &[ExaminedDevice],
) -> Result<ExaminedVolume, LabelledError> {
    if let Some(wanted) = &serving.volume {
        volumes.retain(|volume| is_called(&volume.assembly.newest, wanted));
        if volumes.is_empty() {
            return Err(no_such_volume(wanted, devices));
        }
    }
    if volumes.len() > 1 {
        let describe = |volume: &ExaminedVolume| {
            let name = &volume.assembly.newest.array.name;
            let devices: Vec<String> =
                volume.devices.iter().map(|&index| devices[index].address.to_string()).collect();
            format!("`{name}` ({}, on {})", volume.uuid, devices.join(" and "))
        };
        let list: Vec<String> = volumes.iter().map(describe).collect();
        let list = list.join(", ");
        return Err(match &serving.volume {
            Some(name) => LabelledError::SameName { name: name.clone(), list },
            None => LabelledError::Several { list, choice: choice(&volumes) },
        });
    }
    volumes.pop().ok_or(LabelledError::Nothing)
}

/// How to choose one of several volumes: by a UUID if names are equal.
fn choice(volumes: &[ExaminedVolume]) -> &'static str {
    let mut names: Vec<&str> =
        volumes.iter().map(|volume| volume.assembly.newest.array.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).any(|pair| pair[0] == pair[1]) {
        true => "names are equal; choose one with --volume UUID",
        false => "choose one with --volume NAME",
    }
}

pub(super) fn no_such_volume(wanted: &str, devices: &[ExaminedDevice]) -> LabelledError {
    let labels = devices.iter().flat_map(ExaminedDevice::label);
    let mut names: Vec<&str> = labels.map(|it| it.found.label.array.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let found = match &names[..] {
        [] => String::new(),
        [name] => format!("\n  help: the volume found is {name}"),
        names => format!("\n  help: the volumes found are {}", names.join(", ")),
    };
    LabelledError::NoSuchVolume { wanted: wanted.to_owned(), found }
}
