//! The header, the host's constants and what the host writes have one layout.

use crate::common::{compile, load, toolchain};
use mirrorball_core::io::{IoError, IoId, MemberIo, Op, Outcome, Purpose, ReadRole, RequestId};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::PolicyProgram;
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_program::Loader;
use mirrorball_program::abi;
use std::path::Path;

/// The header does not compile with these lines unless the sizes are those of the host.
#[test]
fn sizes_in_the_header_are_those_of_the_host() {
    let Some(toolchain) = toolchain() else { return };
    let sizes = [
        ("sizeof(struct mb_member)", abi::MEMBER_BYTES),
        ("sizeof(struct mb_mirror)", abi::MIRROR_BYTES),
        ("sizeof(struct mb_choose)", abi::CONTEXT_BYTES),
        ("sizeof(struct mb_event)", abi::EVENT_BYTES),
        ("sizeof(struct mb_program)", abi::PROGRAM_BYTES),
        ("sizeof(struct mb_param)", abi::PARAMETER_BYTES),
        ("MB_ABI", abi::VERSION as usize),
        ("MB_MIRRORS_MAX", abi::MIRRORS_MAX),
    ];
    let lines = sizes.map(|(size, is)| format!("_Static_assert({size} == {is}, \"{size}\");\n"));
    compile(&toolchain, &lines.concat());
}

/// The program compares each field with the value that it is given here, and calls `mb_error` with
/// the number of its line if it differs.
#[test]
fn every_field_is_where_the_header_has_it() {
    let Some(toolchain) = toolchain() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/layout/fields.c");
    let object = toolchain.compile(&source).unwrap_or_else(|error| panic!("{error}")).object;
    let program = Loader::new().unwrap().load_program(&object).unwrap();
    let stated = (program.version(), program.fallback(), program.summary());
    assert_eq!(stated, ("1.2", "btrfs/pid", "compares fields"));
    assert!(program.name().starts_with("program/fields@"), "{}", program.name());
    let [first, second] = program.parameters() else { panic!("{:?}", program.parameters()) };
    assert_eq!((&*first.name, first.default, first.range.clone()), ("first", 7, 1..=9));
    assert_eq!((&*second.name, &*second.meaning), ("second", "the second, in bytes"));

    let mut policy = program.build(&[9, 10], &[1001, 2001]).unwrap();
    let members = members();
    policy.on_members_change(&members);
    let mut rng = Rng::new(1);
    let mut ctx = Ctx { now: Nanos(101), members: &members, rng: &mut rng };
    let (read, mirrors) = read();
    let choice = policy.choose(&read, &mirrors, &mut ctx);
    assert_eq!(policy.fault(), None);
    assert_eq!(choice, Choice::Hedge { first: 1, backup: 0, after: Nanos(77) });

    ctx.now = Nanos(301);
    policy.on_submit(&io(), &mut ctx);
    ctx.now = Nanos(401);
    let (read, outcome) = completion();
    policy.on_complete(&read, &outcome, &mut ctx);
    assert_eq!(policy.fault(), None);
    let counters = policy.counters();
    let counters: Vec<(&str, i64)> = counters.iter().map(|it| (it.name, it.value)).collect();
    let own = [("count_3", -4), ("count_4", 1), ("count_5", 1)];
    assert_eq!(counters[2..], own);
}

/// Programs that compare what they are shown with what was shown to ones that failed.
#[test]
fn a_fault_has_what_was_shown_as_a_structure_of_c() {
    let Some(toolchain) = toolchain() else { return };
    let policy = |operations: &str| {
        let text = format!("MB_PROGRAM(\"shown\", \"1\", \"\", \"\");\n{operations}");
        let program = load(&toolchain, &text).unwrap_or_else(|error| panic!("{text}{error}"));
        let mut policy = program.build(&[], &[1001, 2001]).unwrap();
        policy.on_members_change(&members());
        policy
    };
    let choose = |policy: &mut dyn ReadPolicy| {
        let (read, mirrors) = read();
        let ctx = &mut Ctx { now: Nanos(101), members: &members(), rng: &mut Rng::new(1) };
        policy.choose(&read, &mirrors, ctx);
        policy.fault().cloned()
    };
    let complete = |policy: &mut dyn ReadPolicy| {
        let (io, outcome) = completion();
        let ctx = &mut Ctx { now: Nanos(401), members: &members(), rng: &mut Rng::new(1) };
        policy.on_complete(&io, &outcome, ctx);
        policy.fault().cloned()
    };
    let same = "static void same(const u64 *shown, const u64 *then, u32 bytes)\n\
                { for (u32 i = 0; i < bytes / 8; i++) if (shown[i] != then[i]) mb_error(i); }\n";

    let fault = choose(&mut *policy("MB_CHOOSE(c) { mb_error(c->nr); }\n")).unwrap();
    let (_, shown) = fault.dump.split_once("mb_context = (struct mb_choose) ").unwrap();
    let compares = format!(
        "{same}static const struct mb_choose then = {shown}MB_CHOOSE(c) {{ same((const u64 *)c, \
         (const u64 *)&then, 64 + 160 * c->nr); return 0; }}\n"
    );
    assert_eq!(choose(&mut *policy(&compares)), None, "{shown}");

    let none = "MB_CHOOSE(c) { return c->nr - 1; }\n";
    let fails = format!("{none}MB_COMPLETE(e) {{ mb_error(e->member); }}\n");
    let fault = complete(&mut *policy(&fails)).unwrap();
    let (_, shown) = fault.dump.split_once("struct mb_event event = ").unwrap();
    let compares = format!(
        "{none}{same}static const struct mb_event then = {shown}MB_COMPLETE(e) {{ same((const u64 \
         *)e, (const u64 *)&then, sizeof(then)); }}\n"
    );
    assert_eq!(complete(&mut *policy(&compares)), None, "{shown}");
}

/// A read of two mirrors.
fn read() -> (Read, [Mirror; 2]) {
    let read =
        Read { offset: 102, length: 103, stream: 104, cpu: 105, background: true, copies: 3 };
    let mirror = |place: u16| Mirror {
        member: MemberIndex(1 - place),
        offset: 200 + u64::from(place),
        copy: 1 + place as u8,
    };
    (read, [mirror(0), mirror(1)])
}

fn completion() -> (MemberIo, Outcome) {
    let read = MemberIo {
        op: Op::Read,
        purpose: Purpose::User,
        role: ReadRole::Extra,
        background: false,
        ..io()
    };
    let (completed_at, wait) = (Nanos(401), Nanos(402));
    let outcome = Outcome { result: Err(IoError::Cancelled), completed_at, wait, superseded: true };
    (read, outcome)
}

/// Members whose fields have the values that `fields.c` expects.
fn members() -> Members {
    let config = |index: u64| MemberConfig {
        devid: 1000 * (index + 1) + 1,
        size_bytes: 1000 * (index + 1) + 2,
        optimal_io_bytes: 1000 * (index + 1) + 3,
        queue_depth: 1000 * (index as u32 + 1) + 4,
        priority: 1000 * (index as u32 + 1) + 5,
        rotational: index == 0,
        write_mostly: index == 1,
        state: match index {
            0 => MemberState::Rebuilding { recovered_bytes: 5 },
            _ => MemberState::Failed,
        },
    };
    let mut members = Members::new([config(0), config(1)]);
    for index in 0..2 {
        let n = 1000 * (u64::from(index) + 1);
        let member = members.get_mut(MemberIndex(index));
        member.reads_in_flight = n as u32 + 6;
        member.writes_in_flight = n as u32 + 7;
        member.bytes_in_flight = n + 8;
        member.submitted_end = n + 9;
        member.completed_end = n + 10;
        member.submitted_at = Nanos(n + 11);
        member.last_wait = Nanos(n + 12);
        member.reads_completed = n + 13;
        member.read_bytes = n + 14;
        member.read_wait = Nanos(n + 15);
        member.writes_completed = n + 16;
        member.written_bytes = n + 17;
        member.write_wait = Nanos(n + 18);
        member.errors = n + 19;
    }
    members
}

fn io() -> MemberIo {
    MemberIo {
        id: IoId(306),
        request: RequestId(0),
        member: MemberIndex(1),
        op: Op::Discard,
        purpose: Purpose::Metadata,
        offset: 302,
        length: 303,
        volume_offset: 305,
        stream: 304,
        background: true,
        role: ReadRole::Only,
        submitted_at: Nanos(301),
    }
}
