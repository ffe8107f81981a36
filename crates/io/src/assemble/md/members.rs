//! Which members of an md raid1 have the data of the array: decided from what all superblocks say.

use super::MdError;
use crate::md_superblock::{Role, Superblock};
use mirrorball_core::geometry::MAX_COPIES;
use mirrorball_core::units::format_bytes;

/// A device and what it says of itself.
#[derive(Clone, Debug)]
pub(super) struct FoundMember {
    /// Its path or URI.
    pub(super) device: String,
    /// Its size.
    pub(super) size_bytes: u64,
    pub(super) superblock: Superblock,
    /// True if blocks of it cannot be read, or were not written.
    pub(super) has_bad_blocks: bool,
}

/// An array whose data can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Assembled {
    pub(super) name: String,
    /// For each slot of the array the index of the device to read, if there is one.
    pub(super) slots: Vec<Option<usize>>,
    /// First byte of the data on each of these.
    pub(super) data_offset_bytes: u64,
    /// Size of the array.
    pub(super) size_bytes: u64,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// Decides which of the devices of an array to read.
///
/// # Errors
/// If they are of several arrays, ran without each other, or none has all data.
///
/// # Panics
/// If there is no device.
pub(super) fn assemble(found: &[&FoundMember]) -> Result<Assembled, MdError> {
    check_one_array(found)?;
    // A spare has as many events as the active members. Of equal ones the first.
    let age = |member: &&&FoundMember| {
        let own = &member.superblock;
        (own.events, is_active(own, own.number))
    };
    let newest = *found.iter().rev().max_by_key(age).expect("a device");
    let name = newest.superblock.name.clone();
    check_diverged(found, newest)?;
    let raid_disks = newest.superblock.raid_disks;
    if raid_disks == 0 || raid_disks as usize > MAX_COPIES {
        return Err(MdError::Members { name, raid_disks });
    }
    let mut slots: Vec<Option<usize>> = vec![None; raid_disks as usize];
    let mut not_read = Vec::new();
    for (at, member) in found.iter().enumerate() {
        match standing(member, &newest.superblock) {
            Ok(slot) => match &mut slots[usize::from(slot)] {
                Some(other) => return Err(cloned(&name, found[*other], member)),
                slot => *slot = Some(at),
            },
            Err(reason) => not_read.push(format!("`{}` {reason}", member.device)),
        }
    }
    if slots.iter().all(Option::is_none) {
        return Err(MdError::Incomplete { name, reasons: not_read.join("; ") });
    }
    let mut notes: Vec<String> =
        not_read.into_iter().map(|reason| format!("{reason}, and is not read")).collect();
    if !newest.superblock.is_clean {
        notes.extend(keep_one(found, &mut slots, &name));
    }
    notes.extend(missing(&slots, &name));
    let Superblock { data_offset_bytes, size_bytes, .. } = newest.superblock;
    check_sizes(found, &slots, &newest.superblock)?;
    notes.push(format!(
        "`{name}` is an md raid1 of {raid_disks} members and {}, served read-only",
        format_bytes(size_bytes)
    ));
    Ok(Assembled { name, slots, data_offset_bytes, size_bytes, notes })
}

/// The slot whose data a device has, or why it has not all data of the array.
fn standing(member: &FoundMember, newest: &Superblock) -> Result<u16, String> {
    let own = &member.superblock;
    if own.events < newest.events {
        return Err(format!(
            "missed writes: it has {} events, and the newest member {}",
            own.events, newest.events
        ));
    }
    let slot = match newest.role(own.number) {
        Role::Active(slot) if u32::from(slot) < newest.raid_disks => slot,
        Role::Active(_) | Role::Faulty => return Err("failed in the array".to_owned()),
        Role::Spare => return Err("is a spare of the array".to_owned()),
    };
    match own {
        Superblock { recovered_bytes: Some(_), .. } => Err("is being recovered".to_owned()),
        _ if member.has_bad_blocks => Err("has bad blocks".to_owned()),
        _ if (own.data_offset_bytes, own.size_bytes)
            != (newest.data_offset_bytes, newest.size_bytes) =>
        {
            Err("has its data elsewhere than the newest member".to_owned())
        }
        _ => Ok(slot),
    }
}

fn check_one_array(found: &[&FoundMember]) -> Result<(), MdError> {
    let first = found.first().expect("a device");
    let is_other = |member: &&&FoundMember| member.superblock.array != first.superblock.array;
    match found.iter().find(is_other) {
        None => Ok(()),
        Some(other) => {
            let (one, other) = (first.device.clone(), other.device.clone());
            Err(MdError::Several { one, other })
        }
    }
}

fn is_active(superblock: &Superblock, number: u32) -> bool {
    matches!(superblock.role(number), Role::Active(_))
}

/// Checks that no device went on without another that went on as well. Those with the most events
/// have the same roles. One that is behind and was active to the end knew the newest as active:
/// otherwise the newest was lost to it, and it went on. md calls a lost member faulty, and one that
/// was not there at a start a spare.
fn check_diverged(found: &[&FoundMember], newest: &FoundMember) -> Result<(), MdError> {
    for member in found {
        let own = &member.superblock;
        let is_diverged = match own.events == newest.superblock.events {
            true => !own.has_same_roles(&newest.superblock),
            false => is_active(own, own.number) && !is_active(own, newest.superblock.number),
        };
        if is_diverged {
            return Err(MdError::Diverged {
                name: own.name.clone(),
                one: newest.device.clone(),
                other: member.device.clone(),
            });
        }
    }
    Ok(())
}

fn cloned(name: &str, one: &FoundMember, other: &FoundMember) -> MdError {
    let (one, other) = (one.device.clone(), other.device.clone());
    MdError::Cloned { name: name.to_owned(), one, other }
}

/// Keeps one device of an array that was not stopped in good order, so that a block reads the same
/// each time: that of the first slot, which md reads as well until its members are equal.
fn keep_one(found: &[&FoundMember], slots: &mut [Option<usize>], name: &str) -> Option<String> {
    let kept = slots.iter().flatten().next().copied()?;
    if slots.iter().flatten().count() == 1 {
        return None;
    }
    slots.iter_mut().filter(|slot| **slot != Some(kept)).for_each(|slot| *slot = None);
    Some(format!(
        "`{name}` was not stopped in good order, so its members may differ: only `{}` is read",
        found[kept].device
    ))
}

/// A note about slots without a device that is read.
fn missing(slots: &[Option<usize>], name: &str) -> Option<String> {
    let count = slots.iter().filter(|slot| slot.is_none()).count();
    let verb = if count == 1 { "is" } else { "are" };
    (count > 0).then(|| {
        format!("of the {} members of `{name}` {count} {verb} missing or not read", slots.len())
    })
}

/// Checks that the data are within each device that is read.
fn check_sizes(
    found: &[&FoundMember],
    slots: &[Option<usize>],
    newest: &Superblock,
) -> Result<(), MdError> {
    let needed_bytes = newest.data_offset_bytes + newest.size_bytes;
    let read = slots.iter().flatten().map(|&at| found[at]);
    match read.into_iter().find(|member| member.size_bytes < needed_bytes) {
        None => Ok(()),
        Some(FoundMember { device, size_bytes, .. }) => Err(MdError::Shrunk {
            name: newest.name.clone(),
            device: device.clone(),
            size_bytes: *size_bytes,
            needed_bytes,
        }),
    }
}
