//! The examples as BPF objects: stock clang compiles them from the same source, and they decide as
//! the built-ins.

use crate::bpf::Machine;
use crate::common::{example, load, toolchain};
use crate::examples::{ARRAYS, Build, builtin, replay};
use mirrorball_core::io::{MemberIo, Outcome};
use mirrorball_core::member::Members;
use mirrorball_core::policies::PolicyProgram;
use mirrorball_core::policy::{Choice, Ctx, Mirror, MirrorSet, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_program::abi::MEMBER_BYTES;
use mirrorball_program::contexts::{write_choose, write_event, write_member};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

/// Options of clang but for files; mirrorball_kernel.h names them.
const OPTIONS: [&str; 7] =
    ["--target=bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-DMB_KERNEL"];

/// Option of clang for objects that PREVAIL can follow.
const UNROLL: &str = "-DMB_UNROLL";

/// Steps of a history for an object, and for an unrolled one, which decides alike.
const STEPS: [(&[&str], u64); 2] = [(&[], 20_000), (&[UNROLL], 5_000)];

/// Decisions of `mb_wish`.
const NOTHING: u32 = 0;
const SPLIT: u32 = 2;
const ALL: u32 = 3;

/// True if this machine has a clang that knows BPF.
fn has_clang() -> bool {
    let targets = Command::new("clang").arg("-print-targets").output();
    let is_there =
        targets.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("bpf "));
    if !is_there {
        eprintln!("skipped: no clang with the target bpf");
    }
    is_there
}

/// Compiles an example to a BPF object, with further options.
fn compile(name: &str, options: &[&str]) -> (Output, PathBuf) {
    let file = format!("{name}{}.bpf.o", options.concat());
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut clang = Command::new("clang");
    clang.args(OPTIONS).args(options).arg("-I").arg(include);
    let clang = clang.arg("-c").arg(example(&format!("{name}.c"))).arg("-o").arg(&object);
    (clang.output().unwrap(), object)
}

/// Compiles an example that must compile without warnings.
fn compile_cleanly(name: &str, options: &[&str]) -> PathBuf {
    let (output, object) = compile(name, options);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name} {options:?}");
    assert!(output.status.success(), "{name} {options:?}");
    object
}

struct BpfPolicy {
    machine: Machine,
    has_begun: bool,
    records: Option<BufWriter<File>>,
}

/// Folder for records of every call, which `read-policy-in-qemu.sh` has a kernel repeat, and the
/// steps of the history, of which about a third are reads.
const RECORDS: &str = "MIRRORBALL_RECORDS";
const RECORDED_STEPS: &str = "MIRRORBALL_RECORDED_STEPS";
/// Kinds of records, whose form is in `kernel/read_policy.c`.
const READ: u32 = 0;
const SUBMIT: u32 = 1;
const COMPLETE: u32 = 2;
const MEMBERS: u32 = 3;

impl BpfPolicy {
    fn load(object: &[u8]) -> BpfPolicy {
        BpfPolicy { machine: Machine::load(object), has_begun: false, records: None }
    }

    /// Records a call: its kind, the choice or number of members, what it may draw, and what it is
    /// shown.
    fn record(&mut self, kind: u32, number: u32, rng: &mut Rng, shown: &[u8]) {
        let Some(file) = &mut self.records else { return };
        let mut bytes = [kind.to_le_bytes(), number.to_le_bytes()].concat();
        bytes.extend((0..6).flat_map(|_| rng.next_u64().to_le_bytes()));
        bytes.extend(&shown[..shown.len().min(512 - bytes.len())]);
        bytes.resize(512, 0);
        file.write_all(&bytes).unwrap();
    }

    fn show_members(&mut self, members: &Members) {
        let mut records = vec![0; members.len() * MEMBER_BYTES];
        for ((index, member), bytes) in members.iter().zip(records.chunks_exact_mut(MEMBER_BYTES)) {
            write_member(bytes, index, member);
        }
        // An unrolled object has them in a variable.
        if self.machine.has("mb_members") {
            self.machine.variable("mb_members")[..records.len()].copy_from_slice(&records);
            let count = self.machine.variable("mb_members_nr");
            count[..4].copy_from_slice(&(members.len() as u32).to_le_bytes());
        }
        self.machine.members = records;
    }

    fn context(&mut self) -> &mut [u8] {
        match self.machine.has("mb_context") {
            true => self.machine.variable("mb_context"),
            false => &mut self.machine.context,
        }
    }

    fn notify(
        &mut self,
        operation: &str,
        io: &MemberIo,
        outcome: Option<&Outcome>,
        ctx: &mut Ctx<'_>,
    ) {
        if self.machine.has(operation) {
            write_event(self.context(), io, outcome, ctx.now);
            let kind = if outcome.is_some() { COMPLETE } else { SUBMIT };
            let shown = self.context()[..64].to_vec();
            self.record(kind, 0, &mut ctx.rng.clone(), &shown);
            self.machine.call(operation, ctx.rng);
        }
    }
}

impl ReadPolicy for BpfPolicy {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.show_members(ctx.members);
        write_choose(self.context(), read, mirrors, ctx.members, ctx.now);
        let mut draws = ctx.rng.clone();
        let place = self.machine.call("choose", ctx.rng) as usize;
        let shown = self.context().to_vec();
        self.record(READ, place as u32, &mut draws, &shown);
        let wish = self.machine.variable("mb_wish");
        let word = |at: usize| u32::from_le_bytes(wish[at..at + 4].try_into().unwrap());
        let set = MirrorSet::of_bits(word(4) as u16);
        match word(0) {
            NOTHING => Choice::Mirror(place),
            SPLIT => Choice::Split(set.unwrap()),
            ALL => Choice::All(set.unwrap()),
            wish => panic!("no example wishes for {wish}"),
        }
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.notify("submit", io, None, ctx);
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.notify("complete", io, Some(outcome), ctx);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.show_members(members);
        let operation = if self.has_begun { "change" } else { "init" };
        self.has_begun = true;
        let shown = self.machine.members.clone();
        self.record(MEMBERS, members.len() as u32, &mut Rng::new(0), &shown);
        if self.machine.has(operation) {
            // Nothing is drawn here.
            self.machine.call(operation, &mut Rng::new(0));
        }
    }
}

/// Compares the BPF object of an example with another policy on all arrays.
fn compare_object<'a>(
    (name, options, steps): (&str, &[&str], u64),
    reference: impl Fn() -> Build<'a>,
) {
    let object = std::fs::read(compile_cleanly(name, options)).unwrap();
    if let Some(folder) = std::env::var_os(RECORDS).filter(|_| options.is_empty()) {
        let file = File::create(Path::new(&folder).join(name)).unwrap();
        let records = Some(BufWriter::new(file));
        let policy = BpfPolicy { records, ..BpfPolicy::load(&object) };
        let recorded = std::env::var(RECORDED_STEPS).map(|text| text.parse().unwrap());
        replay(|_| Box::new(policy), reference(), (0, recorded.unwrap_or(100_000)));
    }
    for array in 0..ARRAYS.len() {
        let policy = BpfPolicy::load(&object);
        let tally = replay(|_| Box::new(policy), reference(), (array, steps));
        let decisions = tally.decisions.load(Ordering::Relaxed);
        assert!(decisions > steps / 7, "only {decisions} decisions on array {array}");
    }
}

/// Compares the BPF objects of an example with a built-in.
fn compare(name: &str, policy: &str) {
    if has_clang() {
        for (options, steps) in STEPS {
            compare_object((name, options, steps), || builtin(policy));
        }
    }
}

#[test]
fn btrfs_pid_as_bpf_decides_as_the_builtin() {
    compare("btrfs-pid", "btrfs/pid");
}

#[test]
fn btrfs_round_robin_as_bpf_decides_as_the_builtin() {
    compare("btrfs-round-robin", "btrfs/round-robin");
}

#[test]
fn latency_rr_as_bpf_decides_as_the_builtin() {
    compare("latency-rr", "kakra/latency-rr");
}

#[test]
fn md_raid1_as_bpf_decides_as_the_builtin() {
    compare("md-raid1", "md/raid1");
}

#[test]
fn nvme_queue_depth_as_bpf_decides_as_the_builtin() {
    compare("nvme-queue-depth", "nvme/queue-depth");
}

#[test]
fn gmirror_load_as_bpf_decides_as_the_builtin() {
    compare("gmirror-load", "gmirror/load");
}

#[test]
fn bcachefs_latency_as_bpf_decides_as_the_builtin() {
    compare("bcachefs-latency", "bcachefs/inverse-square-latency");
}

/// For a kernel it is compiled to read one mirror; the same source as WebAssembly decides so, too.
#[test]
fn mirrorball_auto_as_bpf_decides_as_the_builtin_or_the_program() {
    let Some(toolchain) = toolchain().filter(|_| has_clang()) else { return };
    let name = "mirrorball-auto";
    compare_object((name, STEPS[1].0, STEPS[1].1), || builtin("mirrorball/auto"));
    let source = example(&format!("{name}.c"));
    let text = format!("#define MB_ONE_MIRROR\n#include \"{}\"\n", source.display());
    let program = load(&toolchain, &text).unwrap();
    compare_object((name, STEPS[0].0, STEPS[0].1), || {
        Box::new(|devids| program.build(&[0], devids).unwrap())
    });
}

/// A kernel has no floating-point numbers, so this one needs another rule there.
#[test]
fn floating_point_numbers_are_refused_for_a_kernel() {
    if !has_clang() {
        return;
    }
    let (output, _) = compile("peak-ewma", &[]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("__muldf3"), "{errors}");
}

/// Operations that PREVAIL proves: they use no memory but their variables, and they end.
const PROVEN: [(&str, &[&str]); 7] = [
    ("btrfs-pid", &["choose"]),
    ("btrfs-round-robin", &["choose", "submit"]),
    ("latency-rr", &["choose", "submit"]),
    ("md-raid1", &["choose", "init", "change"]),
    ("gmirror-load", &["choose"]),
    ("bcachefs-latency", &["choose", "complete"]),
    // PREVAIL gives no answer in minutes whether its `choose` ends.
    ("mirrorball-auto", &["submit", "complete", "init", "change"]),
];

/// Asks PREVAIL, where it is installed, to prove an operation.
fn prevail(object: &Path, operation: &str) -> std::io::Result<Output> {
    Command::new("prevail").arg("--termination").arg(object).args(["syscall", operation]).output()
}

#[test]
fn prevail_proves_the_examples_safe_and_that_they_end() {
    if !has_clang() {
        return;
    }
    for (name, operations) in PROVEN {
        let object = compile_cleanly(name, &[UNROLL]);
        for operation in operations {
            let output = match prevail(&object, operation) {
                Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return eprintln!("skipped: `prevail` is missing: cargo install prevail");
                }
                Err(error) => panic!("{error}"),
            };
            assert!(output.contains("PASS: syscall/"), "{name} {operation}: {output}");
        }
    }
}

/// `kernel/apply` edits a file of our own that has the places of md's header, and refuses it, with
/// the reason and without a change, where a place is not found exactly once.
#[test]
fn edits_of_a_kernel_are_made_in_known_places_or_refused() {
    let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-source");
    let file = top.join("drivers/md/raid1.h");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let apply = || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/apply");
        Command::new("python3").arg(script).arg(&top).output()
    };
    let text = "struct raid1_info {\n};\nstruct r1conf {\n\tint cluster_sync_high;\n};\n\
                struct r1bio {\n\tint read_disk;\n};\n";
    std::fs::write(&file, text).unwrap();
    let Ok(output) = apply() else { return eprintln!("skipped: no python3") };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "edited drivers/md/raid1.h\n");
    let edited = std::fs::read_to_string(&file).unwrap();
    assert!(edited.contains("read_disk;\n#ifdef CONFIG_READ_POLICY_BPF\n\tstruct read_policy_io"));
    // A second field with the name, as after a change of the kernel.
    let moved = text.replace("\tint read_disk;\n", "\tint read_disk;\n\tint old_read_disk;\n");
    std::fs::write(&file, &moved).unwrap();
    let output = apply().unwrap();
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{output:?}");
    assert!(reason.contains("raid1.h: struct r1bio has 2 lines with `read_disk;`"), "{reason}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), moved);
}
