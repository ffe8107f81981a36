//! What a device contains before it becomes a member: a label, or data of another program.

use super::AssembleError;
use super::open::Open;
use crate::examine::{label_from, spare_block};
use crate::member::file::{MemberAccess, Occupied, OpenOptions};
use crate::member::guard;
use mirrorball_core::geometry::{ChunkMap, RESERVED_BYTES};
use mirrorball_core::member::{MemberConfig, MemberIndex};
use rustix::io::Errno;

/// What a device contains, if anything is known to be there.
pub(super) fn occupant(open: &Open) -> Option<String> {
    let read = |offset, length| read_part(open, offset, length);
    labelled(open)
        .or_else(|| guard::contents_by(open.size_bytes(), read).ok().flatten().map(str::to_owned))
}

/// What a device contains in front of the data of a volume.
pub(super) fn occupant_before_data(open: &Open) -> Option<String> {
    // One read, because the device may be on another machine.
    let begin = open.read(0, RESERVED_BYTES as u32).unwrap_or_default();
    let read = |offset: u64, length| match begin.get(offset as usize..offset as usize + length) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => read_part(open, offset, length),
    };
    labelled(open)
        .or_else(|| guard::contents_before_data_by(read).ok().flatten().map(str::to_owned))
}

/// Refuses members without labels that contain data of another program in front of those of the
/// volume: the volume never wrote there, so clients would overwrite a filesystem of that program.
///
/// # Errors
/// Names the first member that does, unless its contents are given up.
pub(super) fn refuse_occupied(
    members: &[(MemberConfig, Open)],
    map: &ChunkMap,
    options: OpenOptions,
    place: impl Fn(MemberIndex) -> String,
) -> Result<(), AssembleError> {
    if options.occupied == Occupied::Allow || options.access == MemberAccess::ReadOnly {
        return Ok(());
    }
    for (index, (_, open)) in (0..).zip(members) {
        let member = MemberIndex(index);
        // Some layouts have the data of the volume there.
        if map.allocated(member).start < RESERVED_BYTES {
            continue;
        }
        if let Some(what) = occupant_before_data(open) {
            let what = format!(
                "contains {what}, which clients would overwrite\n  help: check `path`: an array \
                 has its data from 1 MiB on, so these are of another program, or left from an \
                 earlier use; --occupied serves it all the same"
            );
            return Err(AssembleError::Unfit { place: place(member), what });
        }
    }
    Ok(())
}

/// The volume of which a device is a member or a spare, in words.
fn labelled(open: &Open) -> Option<String> {
    let read = |offset, length| open.read(offset, length);
    if let Ok(found) = label_from(read) {
        return Some(format!("a member of the volume `{}`", found.found.label.array.name));
    }
    let block = spare_block(read)?;
    Some(format!("a spare of the volume `{}`", block.name))
}

/// Reads a part of a device; the result is shorter at its end.
fn read_part(open: &Open, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let start = offset - offset % 4096;
    let until = (offset + length as u64).next_multiple_of(4096);
    let read = |until: u64| open.read(start, until.saturating_sub(start) as u32);
    // Behind the end direct I/O reads less, and a server nothing.
    let bytes = read(until).or_else(|_| read(until.min(open.size_bytes())));
    let bytes = bytes.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let skip = (offset - start) as usize;
    Ok(bytes.get(skip..skip + length).map(<[u8]>::to_vec).unwrap_or_default())
}
