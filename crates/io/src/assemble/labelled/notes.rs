//! Notes about the devices of a labelled volume, and parts of errors.

use crate::Volume;
use crate::device_address::DeviceAddress;
use crate::examine::{ExaminedDevice, ExaminedVolume, device_text};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::format_bytes;
use mirrorball_store::StoreGate;
use mirrorball_store::label::assembly::{LabelAssembly, MemberStanding};
use mirrorball_store::label::{Label, LabelledMember};

/// Note on data that are read without members that the newest label found calls in sync.
pub(super) fn perhaps_older(newest: &Label, is_read_only: bool) -> String {
    let consequence = match is_read_only {
        true => "",
        false => {
            ": then one of the two has to be given up, once this one is written to (--read-only \
             writes nothing)"
        }
    };
    format!(
        "these are the data of generation {}; a missing member may have newer ones{consequence}",
        newest.generation
    )
}

/// Which of the devices are no members, for an error about missing ones.
pub(super) fn not_members(
    volume: &ExaminedVolume,
    discarded: &[usize],
    devices: &[ExaminedDevice],
) -> String {
    let is_left_out = |&at: &usize| {
        matches!(volume.assembly.standings[at], MemberStanding::Unknown | MemberStanding::Diverged)
    };
    let text = |at: usize| match discarded.contains(&volume.devices[at]) {
        true => format!("; {}", discarded_copy(volume, devices, at)),
        false => {
            let device = &devices[volume.devices[at]].address;
            format!("; `{device}`: {}", device_text(volume, devices, at))
        }
    };
    (0..volume.devices.len()).filter(is_left_out).map(text).collect()
}

/// The note about a discarded device that is another copy of a member, which is not rebuilt.
pub(super) fn discarded_copy(
    volume: &ExaminedVolume,
    devices: &[ExaminedDevice],
    at: usize,
) -> String {
    let device = |at: usize| &devices[volume.devices[at]].address;
    let copy = device(at);
    let LabelAssembly { newest, members, .. } = &volume.assembly;
    let label = devices[volume.devices[at]].label().ok();
    let row = label.and_then(|label| newest.row(label.found.member));
    match row.and_then(|row| members[row].found.map(|used| (newest.members[row].devid, used))) {
        Some((devid, used)) => format!(
            "--discard {copy}: it is not used and not changed, because `{}` is the same member \
             (devid {devid})",
            device(used)
        ),
        None => {
            format!("--discard {copy}: it is not used and not changed: it is not a member any more")
        }
    }
}

/// Description of a member that is missing, or a part of it.
pub(super) fn missing_text(volume: &ExaminedVolume, row: usize) -> String {
    let LabelledMember { devid, uuid, .. } = volume.assembly.newest.members[row];
    match volume.assembly.members[row].found {
        None => format!("the member with devid {devid} (UUID {uuid}) is missing"),
        Some(_) => match volume.assembly.members[row].state {
            MemberState::Rebuilding { recovered_bytes } if recovered_bytes > 0 => format!(
                "of the member with devid {devid} only the first {} are in sync, because it is \
                 being rebuilt",
                format_bytes(recovered_bytes)
            ),
            _ => format!("the member with devid {devid} is not in sync"),
        },
    }
}

/// A line for each device that only the user can decide about.
pub(super) fn problems(volume: &ExaminedVolume, devices: &[ExaminedDevice]) -> String {
    let mut text = String::from("its devices do not agree");
    for (at, &index) in volume.devices.iter().enumerate() {
        let device = &devices[index].address;
        text += &format!("\n  `{device}`: {}", device_text(volume, devices, at));
    }
    if volume.assembly.standings.contains(&MemberStanding::Diverged) {
        text +=
            "\n  there is more than one version of the data: members were used without each other";
    }
    if let Some(help) = old_copies_help(volume, devices) {
        return format!("{text}\n  help: {help}");
    }
    text + "\n  help: leave out a device that is not to be used, such as one of two copies, or \
            give up its data with --discard DEVICE: it is rebuilt, if the others still have it as \
            a member"
}

/// Advice for older copies of members in sync; `None` if there are none.
fn old_copies_help(volume: &ExaminedVolume, devices: &[ExaminedDevice]) -> Option<String> {
    let LabelAssembly { newest, standings, .. } = &volume.assembly;
    let copies = (0..standings.len()).filter_map(|at| {
        let device = &devices[volume.devices[at]];
        let label = device.label().ok().filter(|_| standings[at] == MemberStanding::OldCopy);
        Some((newest.members[newest.row(label?.found.member)?].devid, &device.address))
    });
    let copies: Vec<(u64, &DeviceAddress)> = copies.collect();
    let list = |text: fn(&(u64, &DeviceAddress)) -> String, separator: &str| {
        copies.iter().map(text).collect::<Vec<String>>().join(separator)
    };
    let names = list(|(_, copy)| format!("`{copy}`"), " and ");
    let options = list(|(_, copy)| format!("--discard {copy}"), " ");
    let devids = list(|(devid, _)| devid.to_string(), " and ");
    Some(match copies.len() {
        0 => return None,
        1 => format!(
            "give the device that has the current data of devid {devids} in place of {names}; if \
             it is lost, rebuild {names} from the others with {options}"
        ),
        _ => format!(
            "give the devices that have the current data of devid {devids} in place of {names}; if \
             they are lost, rebuild {names} from the others with {options}"
        ),
    })
}

/// Note on mirrors that may differ at the start.
pub(super) fn unsynced_note(
    name: &str,
    (is_clean, is_read_only): (bool, bool),
    volume: &Volume,
) -> Option<String> {
    if volume.members().with_data() <= 1 {
        return (!is_clean).then(|| {
            format!(
                "`{name}` was not stopped in good order; a single member is in sync, so no mirrors \
                 differ"
            )
        });
    }
    let unsynced_bytes = volume.gate().map_or(0, StoreGate::unsynced_bytes);
    let size = format_bytes(unsynced_bytes);
    let when = match is_read_only {
        true => "when the volume is served without --read-only",
        false => "while it is used",
    };
    match is_clean {
        true if unsynced_bytes == 0 => None,
        true => Some(format!(
            "the mirrors of `{name}` are not synchronised yet: {size} are left, which are \
             synchronised {when}"
        )),
        false if unsynced_bytes == 0 => Some(format!(
            "`{name}` was not stopped in good order; no write was under way, so its mirrors are \
             equal"
        )),
        false => Some(format!(
            "`{name}` was not stopped in good order, or before it was synchronised: mirrors may \
             differ in {size}, which are synchronised {when}"
        )),
    }
}
