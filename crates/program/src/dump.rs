//! Input of a program when it failed, as text: a structure of C with the names of
//! `mirrorball_policy.h`, which can be pasted into a test of the policy.

use crate::abi::{CHOOSE_BYTES, CONTEXT_BYTES, EVENT_BYTES, MIRROR_BYTES};
use crate::contexts::{write_choose, write_event};
use mirrorball_core::io::{MemberIo, Outcome};
use mirrorball_core::member::Members;
use mirrorball_core::policy::{Mirror, Read};
use mirrorball_core::units::Nanos;

/// Name of a field, and its bytes.
type DumpField = (&'static str, usize);

/// A field that is zero, and left out.
const RESERVED: &str = "reserved";

const CHOOSE: [DumpField; 10] = [
    ("abi", 4),
    ("nr", 4),
    ("now_ns", 8),
    ("offset", 8),
    ("length", 8),
    ("stream", 8),
    ("cpu", 4),
    ("flags", 4),
    ("copies", 4),
    ("members", 4),
];

const MIRROR: [DumpField; 3] = [("offset", 8), ("copy", 4), (RESERVED, 4)];

const MEMBER: [DumpField; 21] = [
    ("index", 4),
    ("flags", 4),
    ("devid", 8),
    ("size_bytes", 8),
    ("optimal_io_bytes", 8),
    ("queue_depth", 4),
    ("priority", 4),
    ("reads_in_flight", 4),
    ("writes_in_flight", 4),
    ("bytes_in_flight", 8),
    ("submitted_end", 8),
    ("completed_end", 8),
    ("submitted_at_ns", 8),
    ("last_wait_ns", 8),
    ("reads_completed", 8),
    ("read_bytes", 8),
    ("read_wait_ns", 8),
    ("writes_completed", 8),
    ("written_bytes", 8),
    ("write_wait_ns", 8),
    ("errors", 8),
];

const EVENT: [DumpField; 12] = [
    ("now_ns", 8),
    ("offset", 8),
    ("length", 8),
    ("wait_ns", 8),
    ("stream", 8),
    ("member", 4),
    ("op", 1),
    ("purpose", 1),
    ("result", 1),
    ("flags", 1),
    ("volume_offset", 8),
    ("id", 8),
];

/// Columns of a line, if no field is longer.
const COLUMNS: usize = 96;
/// Columns by which a line within braces is indented.
const INDENT: usize = 4;

pub(crate) fn choose_text(
    read: &Read,
    mirrors: &[Mirror],
    members: &Members,
    now: Nanos,
) -> String {
    let mut bytes = vec![0; CONTEXT_BYTES];
    write_choose(&mut bytes, read, mirrors, members, now);
    let (head, places) = bytes.split_at(CHOOSE_BYTES);
    let mut text = "mb_context = (struct mb_choose) {\n   ".to_owned();
    put_fields(&mut text, &CHOOSE, head, INDENT);
    for (place, bytes) in places.chunks_exact(MIRROR_BYTES).take(mirrors.len()).enumerate() {
        text += &format!("\n    .mirror[{place}] = {{");
        let member = put_fields(&mut text, &MIRROR, bytes, 2 * INDENT);
        put(&mut text, ".m = {", 2 * INDENT);
        put_fields(&mut text, &MEMBER, member, 2 * INDENT);
        text += " } },";
    }
    text + "\n};\n"
}

/// The context of an event; `outcome` is that of a completion.
pub(crate) fn event_text(io: &MemberIo, outcome: Option<&Outcome>, now: Nanos) -> String {
    let mut bytes = [0; EVENT_BYTES];
    write_event(&mut bytes, io, outcome, now);
    let mut text = "struct mb_event event = {\n   ".to_owned();
    put_fields(&mut text, &EVENT, &bytes, INDENT);
    text + "\n};\n"
}

/// Appends the fields that begin a structure, little endian; returns the bytes behind them. Lines
/// that it begins are indented by `indent` columns.
fn put_fields<'a>(
    text: &mut String,
    fields: &[DumpField],
    bytes: &'a [u8],
    indent: usize,
) -> &'a [u8] {
    let mut rest = bytes;
    for (name, length) in fields {
        let (value, behind) = rest.split_at(*length);
        let value = value.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        if *name != RESERVED {
            put(text, &format!(".{name} = {value},"), indent);
        }
        rest = behind;
    }
    rest
}

/// Appends an item to the line, or to a new one.
fn put(text: &mut String, item: &str, indent: usize) {
    let begin = text.rfind('\n').map_or(0, |at| at + 1);
    match text.len() - begin + item.len() < COLUMNS {
        true => text.push(' '),
        false => *text += &format!("\n{:indent$}", ""),
    }
    *text += item;
}
