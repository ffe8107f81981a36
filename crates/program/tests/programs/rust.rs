//! Policies in Rust: the crate has the layout of the header, and programs of it run.

use crate::common::{compile, rust_toolchain, toolchain};
use mirrorball_core::policies::PolicyProgram;
use mirrorball_policy as policy;
use mirrorball_program::Loader;
use mirrorball_program::abi;
use std::mem::{offset_of, size_of};
use std::path::Path;

/// Name of a field in C, its offset and its size.
type Field = (&'static str, usize, usize);

/// The fields of a structure; a field that is left out does not compile.
macro_rules! fields {
    ($type:path, [$($field:ident $(as $name:literal)?),+ $(,)?]) => {{
        fn size_of_field<T, F>(_field: fn(&T) -> &F) -> usize {
            size_of::<F>()
        }
        let _all_fields = |value: $type| {
            let $type { $($field: _),+ } = value;
        };
        vec![$((
            [$($name,)? stringify!($field)][0],
            offset_of!($type, $field),
            size_of_field::<$type, _>(|value| &value.$field),
        )),+]
    }};
}

fn structures() -> [(&'static str, usize, Vec<Field>); 6] {
    let member = fields!(
        policy::Member,
        [
            index, flags, devid, size_bytes, optimal_io_bytes, queue_depth, priority,
            reads_in_flight, writes_in_flight, bytes_in_flight, submitted_end, completed_end,
            submitted_at_ns, last_wait_ns, reads_completed, read_bytes, read_wait_ns,
            writes_completed, written_bytes, write_wait_ns, errors
        ]
    );
    let mirror = fields!(policy::Mirror, [offset, copy, reserved, member as "m"]);
    let choose = fields!(
        policy::Choose,
        [abi, nr, now_ns, offset, length, stream, cpu, flags, copies, members, reserved, mirror]
    );
    let event = fields!(
        policy::Event,
        [
            now_ns, offset, length, wait_ns, stream, member, op, purpose, result, flags,
            volume_offset, id
        ]
    );
    let program = fields!(policy::Program, [abi, reserved, name, version, fallback, summary]);
    let parameter = fields!(policy::Parameter, [value, min, max, meaning]);
    [
        ("mb_member", size_of::<policy::Member>(), member),
        ("mb_mirror", size_of::<policy::Mirror>(), mirror),
        ("mb_choose", size_of::<policy::Choose>(), choose),
        ("mb_event", size_of::<policy::Event>(), event),
        ("mb_program", size_of::<policy::Program>(), program),
        ("mb_param", size_of::<policy::Parameter>(), parameter),
    ]
}

/// The header does not compile with these lines unless each field has the place and size that it
/// has in the crate. The fields fill the structures, so the header has no other field.
#[test]
fn the_crate_has_the_layout_of_the_header() {
    let Some(toolchain) = toolchain() else { return };
    let mut lines = String::new();
    for (structure, size, fields) in structures() {
        assert_eq!(fields.iter().map(|field| field.2).sum::<usize>(), size, "{structure}");
        lines += &format!("_Static_assert(sizeof(struct {structure}) == {size}, \"\");\n");
        for (name, offset, size) in fields {
            let what = format!("\"{name} of {structure}\"");
            lines += &format!(
                "_Static_assert(__builtin_offsetof(struct {structure}, {name}) == {offset} && \
                 sizeof(((struct {structure} *)0)->{name}) == {size}, {what});\n"
            );
        }
    }
    compile(&toolchain, &lines);
    assert_eq!(size_of::<policy::Choose>(), abi::CONTEXT_BYTES);
    assert_eq!(size_of::<policy::Event>(), abi::EVENT_BYTES);
}

#[test]
fn the_crate_has_the_constants_of_the_header() {
    let Some(toolchain) = toolchain() else { return };
    let numbers = [
        ("MB_ABI", policy::ABI),
        ("MB_MIRRORS_MAX", policy::MIRRORS_MAX as u32),
        ("MB_ROTATIONAL", policy::ROTATIONAL),
        ("MB_WRITE_MOSTLY", policy::WRITE_MOSTLY),
        ("MB_REBUILDING", policy::REBUILDING),
        ("MB_FAILED", policy::FAILED),
        ("MB_BACKGROUND", policy::BACKGROUND),
        ("MB_COPIES_APART", policy::COPIES_APART),
        ("MB_EXPLAINED", policy::EXPLAINED),
        ("MB_READ", policy::READ.into()),
        ("MB_WRITE", policy::WRITE.into()),
        ("MB_FLUSH", policy::FLUSH.into()),
        ("MB_DISCARD", policy::DISCARD.into()),
        ("MB_USER", policy::USER.into()),
        ("MB_REPAIR", policy::REPAIR.into()),
        ("MB_SCRUB", policy::SCRUB.into()),
        ("MB_REBUILD", policy::REBUILD.into()),
        ("MB_METADATA", policy::METADATA.into()),
        ("MB_OK", policy::OK.into()),
        ("MB_MEDIUM", policy::MEDIUM.into()),
        ("MB_TRANSPORT", policy::TRANSPORT.into()),
        ("MB_GONE", policy::GONE.into()),
        ("MB_CANCELLED", policy::CANCELLED.into()),
        ("MB_EVENT_BACKGROUND", policy::EVENT_BACKGROUND.into()),
        ("MB_EVENT_EXTRA", policy::EVENT_EXTRA.into()),
        ("MB_EVENT_SUPERSEDED", policy::EVENT_SUPERSEDED.into()),
    ];
    let lines = numbers.map(|(name, is)| format!("_Static_assert({name} == {is}u, \"{name}\");\n"));
    compile(&toolchain, &lines.concat());
}

/// All helpers and operations are exported and imported under the names that the host knows.
#[test]
fn a_program_in_rust_may_use_the_whole_interface() {
    let Some(toolchain) = rust_toolchain() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rust/whole.rs");
    let compiled = toolchain.compile(&source).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(compiled.warnings, "");
    let again = toolchain.compile(&source).unwrap_or_else(|error| panic!("{error}"));
    assert!(again.object == compiled.object, "the object depends on where it was compiled");
    let program = Loader::new().unwrap().load_program(&compiled.object).unwrap();
    assert_eq!(program.operations(), ["choose", "submit", "complete", "init", "change"]);
    let stated = (program.version(), program.fallback(), program.summary());
    assert_eq!(stated, ("1.2", "btrfs/pid", "calls every helper"));
}
