//! Contents of a device before it becomes a member: a label, or data of another program.

use super::open::Open;
use crate::examine::{label_from, spare_block};
use crate::member::guard;

/// Contents of a device, if anything is known to be there.
pub(super) fn occupant(open: &Open) -> Option<String> {
    let read = |offset, length| open.read(offset, length);
    if let Ok(found) = label_from(read) {
        return Some(format!("a member of the volume `{}`", found.found.label.array.name));
    }
    if let Some(block) = spare_block(read) {
        return Some(format!("a spare of the volume `{}`", block.name));
    }
    guard::contents_by_blocks(open.size_bytes(), read).map(str::to_owned)
}
