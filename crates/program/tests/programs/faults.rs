//! Programs that misbehave: the fault is found and named, and the fallback decides.

use crate::common::{compile, load, toolchain};
use mirrorball_core::member::{MemberConfig, MemberIndex, Members};
use mirrorball_core::policies::{PolicyProgram, ProgramLoader, Registry};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, Nanos};
use mirrorball_program::Loader;
use mirrorball_program::check::check;
use std::sync::Arc;

const PROGRAM: &str = "MB_PROGRAM(\"bad\", \"1\", \"\", \"misbehaves\");\n";

/// A policy and what it is shown: two idle members.
struct Shown {
    policy: Box<dyn ReadPolicy>,
    members: Members,
    rng: Rng,
}

impl Shown {
    fn new(program: &dyn PolicyProgram) -> Shown {
        let members = Members::new([1, 2].map(|devid| MemberConfig::new(devid, GIB)));
        let mut policy = program.build(&[], &[1, 2]).unwrap();
        policy.on_members_change(&members);
        Shown { policy, members, rng: Rng::new(1) }
    }

    fn choose(&mut self) -> Choice {
        let read =
            Read { offset: 8192, length: 4096, stream: 1, cpu: 0, background: false, copies: 2 };
        let mirror = |n: u16| Mirror { member: MemberIndex(n), offset: 8192, copy: n as u8 };
        let mut ctx = Ctx { now: Nanos(5_000_000), members: &self.members, rng: &mut self.rng };
        self.policy.choose(&read, &[mirror(0), mirror(1)], &mut ctx)
    }

    fn submit(&mut self) {
        let read =
            Read { offset: 0, length: 4096, stream: 1, cpu: 0, background: false, copies: 2 };
        let mirror = Mirror { member: MemberIndex(0), offset: 0, copy: 0 };
        let io = read.io(&mirror, Nanos(1));
        let ctx = &mut Ctx { now: Nanos(1), members: &self.members, rng: &mut self.rng };
        self.policy.on_submit(&io, ctx);
    }

    fn counter(&self, name: &str) -> i64 {
        let counters = self.policy.counters();
        counters.iter().find(|it| it.name == name).map_or(0, |it| it.value)
    }
}

/// Bodies of `choose`, and what is said of them.
const BAD_CHOICES: [(&str, &str); 17] = [
    ("return c->nr;", "choose returned 2, but nr is 2"),
    ("(void)c; return -1;", "choose returned -1, but nr is 2"),
    ("(void)c; return 1ull << 63;", "choose returned -9223372036854775808, but nr is 2"),
    (
        "for (volatile u32 i = 0; ; i++) if (i == ~0u) return c->cpu;",
        "choose did not end within its limit of instructions",
    ),
    ("return *(volatile u64 *)0x7fffffff + c->nr;", "choose used a place outside of its memory"),
    ("return *(volatile u64 *)~0ul + c->nr;", "choose used a place outside of its memory"),
    ("*(volatile u64 *)0xfffffff0 = c->nr; return 0;", "choose used a place outside of its memory"),
    (
        "volatile u64 many[4096]; many[c->nr] = c->length; return many[c->nr] & 1;",
        "choose used a place outside of its memory",
    ),
    ("return c->length / c->cpu;", "choose divided by zero"),
    (
        "return ((s32)c->nr - 3 + (s32)0x80000001) / ((s32)c->cpu - 1);",
        "choose had a result that does not fit",
    ),
    ("mb_error(c->nr + 40);", "choose called mb_error(42)"),
    ("mb_hedge(0, 1); return c->cpu;", "choose returned 0 with a hedge to mirror 0 of 2"),
    (
        "mb_split(6); return c->nr - 1;",
        "choose split over 0b110: a mirror of the set does not exist",
    ),
    ("mb_split(2); return c->cpu;", "the mirror that it returned is not in the set"),
    (
        "mb_read_all(7); return c->cpu;",
        "choose read from all of 0b111: a mirror of the set does not exist",
    ),
    ("mb_count(16, 1); return c->cpu;", "called mb_count for counter 16"),
    (
        "mb_member(0, (struct mb_member *)~0ul); return c->cpu;",
        "choose gave mb_member a place outside of its memory",
    ),
];

#[test]
fn a_bad_choice_ends_the_program_and_the_fallback_decides() {
    let Some(toolchain) = toolchain() else { return };
    for (body, expected) in BAD_CHOICES {
        let text = format!("{PROGRAM}MB_CHOOSE(c) {{ {body} }}\n");
        let mut shown = Shown::new(&load(&toolchain, &text).unwrap());
        assert_eq!(shown.policy.fault(), None);
        assert_eq!(shown.choose(), Choice::Mirror(0), "{body}");
        let fault = shown.policy.fault().cloned().unwrap_or_else(|| panic!("no fault: {body}"));
        assert!(fault.summary.contains(expected), "{body}: {}", fault.summary);
        assert!(fault.summary.starts_with("program/bad@"), "{}", fault.summary);
        assert!(fault.dump.contains(".offset = 8192,") && fault.dump.contains(".mirror[1] = {"));
        // The fallback goes by the volume's statistics.
        shown.members.get_mut(MemberIndex(0)).reads_in_flight = 3;
        assert_eq!(shown.choose(), Choice::Mirror(1), "{body}");
        assert_eq!((shown.counter("faults"), shown.counter("fallback_reads")), (1, 2));
        assert_eq!(shown.policy.fault(), Some(&fault));
    }
}

/// An explanation that ends in a fault leaves neither the stack pointer nor memory changed.
#[test]
fn an_explanation_that_fails_changes_nothing() {
    let Some(toolchain) = toolchain() else { return };
    let text = format!(
        "{PROGRAM}static u64 calls;\nMB_CHOOSE(c)\n{{\n\
         volatile u64 many[128];\nmany[c->nr] = 1;\ncalls += many[c->nr];\n\
         mb_note(0, (s64)calls);\nmb_note(1, (s64)calls);\n\
         if (c->length == 512)\n\tmb_error(1);\nreturn calls & 1;\n}}\n"
    );
    let mut shown = Shown::new(&load(&toolchain, &text).unwrap());
    let mirrors = [0, 1].map(|n| Mirror { member: MemberIndex(n), offset: 8192, copy: n as u8 });
    let explain = |shown: &Shown, length| {
        let read = Read { offset: 8192, length, stream: 1, cpu: 0, background: false, copies: 2 };
        let (members, rng) = (&shown.members, &mut Rng::new(1));
        let ctx = &Ctx { now: Nanos(5_000_000), members, rng };
        let scores = shown.policy.explain(&read, &mirrors, ctx);
        scores.iter().map(|it| it.score.value).collect::<Vec<i64>>()
    };
    for _ in 0..100 {
        explain(&shown, 512);
        assert_eq!(explain(&shown, 4096), [1, 1]);
    }
    assert_eq!(shown.choose(), Choice::Mirror(1));
    assert_eq!(explain(&shown, 4096), [2, 2]);
    assert_eq!(shown.choose(), Choice::Mirror(0));
    assert_eq!(shown.policy.fault(), None);
}

#[test]
fn a_check_has_no_times_of_a_program_that_fails_while_it_is_timed() {
    let Some(toolchain) = toolchain() else { return };
    // Random reads differ; the timed one is repeated.
    let text = format!(
        "{PROGRAM}static u64 last;\nMB_CHOOSE(c)\n{{\nif (c->offset == last)\n\tmb_error(7);\n\
         last = c->offset;\nreturn 0;\n}}\n"
    );
    let report = check(&load(&toolchain, &text).unwrap(), &[]).unwrap();
    assert_eq!(report.costs.len(), 1);
    assert!(report.costs[0].calls > 0 && report.costs[0].call_ns.is_none(), "{report:?}");
    let fault = report.fault.expect("the program fails when a read is repeated");
    assert!(fault.summary.contains("choose called mb_error(7)"), "{}", fault.summary);
}

#[test]
fn a_fault_says_where_in_the_object_it_was() {
    let Some(toolchain) = toolchain() else { return };
    let text = format!("{PROGRAM}MB_CHOOSE(c) {{ return c->length / c->cpu; }}\n");
    let mut shown = Shown::new(&load(&toolchain, &text).unwrap());
    shown.choose();
    let fault = shown.policy.fault().unwrap();
    assert!(fault.dump.starts_with("in mb_op_choose at offset 0x"), "{}", fault.dump);
}

#[test]
fn faults_of_other_operations_end_the_program_too() {
    let Some(toolchain) = toolchain() else { return };
    let choose = "MB_CHOOSE(c) { mb_count(2, 5); return c->nr - 1; }\n";
    for (operation, expected) in [
        ("MB_SUBMIT(e) { if (e->length) mb_error(3); }", "submit called mb_error(3)"),
        ("MB_SUBMIT(e) { mb_hedge(e->op, 1); }", "submit called mb_hedge, which submit may not"),
        ("MB_SUBMIT(e) { mb_member(e->op, 0); }", "submit called mb_member, which submit may not"),
        ("MB_SUBMIT(e) { for (volatile u32 n = e->op; ; ) n++; }", "limit of instructions"),
    ] {
        let mut shown =
            Shown::new(&load(&toolchain, &format!("{PROGRAM}{choose}{operation}\n")).unwrap());
        assert_eq!(shown.choose(), Choice::Mirror(1));
        shown.submit();
        let summary = &shown.policy.fault().unwrap().summary;
        assert!(summary.contains(expected), "{summary}");
        assert_eq!((shown.choose(), shown.counter("count_2")), (Choice::Mirror(0), 5));
    }
    let text = format!("{PROGRAM}{choose}MB_INIT() {{ mb_random(); }}\n");
    let shown = Shown::new(&load(&toolchain, &text).unwrap());
    let summary = &shown.policy.fault().unwrap().summary;
    assert!(summary.contains("init called mb_random, which init may not call"), "{summary}");
}

/// Objects that are refused, and what is said of them.
#[test]
fn a_program_that_cannot_run_is_refused() {
    let Some(toolchain) = toolchain() else { return };
    let choose = "MB_CHOOSE(c) { return c->nr - 1; }\n";
    let refusals = [
        (choose.to_owned(), "does not export `mb_context`"),
        (PROGRAM.to_owned(), "does not export `choose`"),
        (
            format!(
                "{PROGRAM}int printf(const char *, ...);\n\
                 MB_CHOOSE(c) {{ return printf(\"%u\", c->nr); }}"
            ),
            "the program calls `printf` (from `env`), which does not exist",
        ),
        (
            format!(
                "{PROGRAM}MB_OP(choose) s32 mine(const struct mb_choose *c) {{ return c->nr; }}"
            ),
            "exports `choose` with another type",
        ),
        (format!("{PROGRAM}{choose}MB_EXPORT char large[300000];"), "320 KiB of memory"),
        (
            format!("MB_PROGRAM(\"Bad Name\", \"1\", \"\", \"\");\n{choose}"),
            "the program has the name `Bad Name`",
        ),
        (
            format!("MB_PROGRAM(\"bad\", \"1\", \"pidd\", \"\");\n{choose}"),
            "the fallback of the program: unknown policy `pidd`",
        ),
        (
            format!("{PROGRAM}{choose}MB_PARAM(gain, 0, 1, 2, \"\");"),
            "the parameter `gain` has the default 0, which is not from 1 to 2",
        ),
        (
            format!("#undef MB_ABI\n#define MB_ABI 2\n{PROGRAM}{choose}"),
            "interface version 2, but this build runs version 1",
        ),
    ];
    for (text, expected) in refusals {
        let error = load(&toolchain, &text).err().unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn damaged_objects_are_refused() {
    let loader = Loader::new().unwrap();
    for (object, expected) in [
        (&b""[..], "it is not a WebAssembly object"),
        (b"\x7fELF\x02\x01\x01", "it is not a WebAssembly object"),
        (b"\0asm", "it is not a valid program"),
        (b"\0asm\x01\0\0\0", "does not export `choose`"),
        (&vec![0; 300_000], "it has 300000 bytes, but 256 KiB is the most"),
    ] {
        let error = loader.load(object).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let Some(toolchain) = toolchain() else { return };
    let object = compile(&toolchain, &format!("{PROGRAM}MB_CHOOSE(c) {{ return c->nr - 1; }}\n"));
    // A cut within the custom sections at the end leaves a whole program.
    for length in 0..object.len() / 2 {
        assert!(loader.load(&object[..length]).is_err(), "{length} bytes were accepted");
    }
}

#[test]
fn a_registry_names_programs_by_hash_and_parameters() {
    let Some(toolchain) = toolchain() else { return };
    let text = "MB_PROGRAM(\"tuned\", \"1\", \"\", \"\");\nMB_PARAM(gain, 4, 1, 8, \"\");\n\
                MB_PARAM(floor, 0, 0, 9, \"\");\n\
                MB_CHOOSE(c) { return MB_VALUE(gain) & c->nr ? 0 : 1; }";
    let mut registry = Registry::with_loader(Arc::new(Loader::new().unwrap()));
    let program = registry.load(&compile(&toolchain, text)).unwrap();
    let name = program.name().to_owned();
    assert_eq!(name.len(), "program/tuned@".len() + 32);
    let spec = registry.parse(&format!("{name}?floor=3&gain=2+hedge")).unwrap();
    assert_eq!(spec.to_string(), format!("{name}?gain=2&floor=3+hedge"));
    assert!(spec.build(&[1, 2]).is_ok());
    for (written, expected) in [
        ("?gain=9", "bad value `9` for `gain`"),
        ("?gain", "bad value `` for `gain`"),
        ("?gian=3", "has no parameter `gian`"),
        ("?gain=2&gain=3", "is given twice"),
    ] {
        let error = registry.parse(&format!("{name}{written}")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = Registry::default().parse(&name).unwrap_err().to_string();
    assert!(error.contains("is not loaded"), "{error}");
    let error = Registry::default().load(b"").unwrap_err().to_string();
    assert!(error.contains("cannot run programs"), "{error}");
}
