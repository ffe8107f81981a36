//! The two slots of a label on one member.
//!
//! An update overwrites the slot that does not hold the newest label, so a torn write leaves the
//! label before it.

use super::block::BlockError;
use super::contents::{LABEL_SLOTS, Label, MemberLabel};

/// The label of a member, and the slot that it is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewestLabel {
    pub found: MemberLabel,
    /// Index in [`LABEL_SLOTS`].
    pub slot: usize,
    /// The older label in the other slot, if it can be read.
    pub previous: Option<Label>,
}

/// The newest label of a member, from the bytes of its slots.
///
/// # Errors
/// [`BlockError::Absent`] if neither slot was ever written, else why no label can be used. A label
/// of a newer format counts even if the other slot can be read: it may be the newest.
///
/// A member that returned may have a label of its own past, of the generation that was announced to
/// it next. Neither was committed. The one counts that does not call the member in sync.
pub fn newest_label(slots: [&[u8]; 2]) -> Result<NewestLabel, BlockError> {
    let read = |slot: usize| {
        let found = Label::decode(slots[slot], LABEL_SLOTS[slot]);
        found.map(|found| NewestLabel { found, slot, previous: None })
    };
    match (read(0), read(1)) {
        (Err(error @ BlockError::Unsupported { .. }), _)
        | (_, Err(error @ BlockError::Unsupported { .. })) => Err(error),
        (Ok(first), Ok(second)) => {
            let (this, that) = (&first.found, &second.found);
            if this.member != that.member || this.label.array.uuid != that.label.array.uuid {
                return Err(BlockError::Malformed("slots of two members"));
            }
            match this.label.generation.cmp(&that.label.generation) {
                std::cmp::Ordering::Less => Ok(after(first, second)),
                std::cmp::Ordering::Greater => Ok(after(second, first)),
                std::cmp::Ordering::Equal if this == that => Ok(first),
                std::cmp::Ordering::Equal if !this.calls_in_sync(this.member) => Ok(first),
                std::cmp::Ordering::Equal if !that.calls_in_sync(that.member) => Ok(second),
                std::cmp::Ordering::Equal => {
                    Err(BlockError::Malformed("slots of one generation that differ"))
                }
            }
        }
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(BlockError::Absent), Err(error)) => Err(error),
        (Err(error), Err(_)) => Err(error),
    }
}

fn after(older: NewestLabel, newer: NewestLabel) -> NewestLabel {
    assert!(older.found.label.generation < newer.found.label.generation, "the newer one counts");
    assert_ne!(older.slot, newer.slot, "an update goes to the other slot");
    NewestLabel { previous: Some(older.found.label), ..newer }
}
