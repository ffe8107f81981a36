//! The sub-commands of `mirrorball program`, and the page of a program.

use super::ProgramAction;
use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, anyhow};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{PROGRAM_FILE, PolicyProgram, Registry};
use mirrorball_core::units::Nanos;
use mirrorball_io::programs::load_programs;
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_program::Loader;
use mirrorball_program::check::{CheckReport, OperationCost, check, costs_of};
use mirrorball_program::measured::MeasuringLoader;
use mirrorball_program::program::Program;
use mirrorball_program::toolchain::{Toolchain, ToolchainError};
use mirrorball_sim::SimError;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Simulations of `check`: array, job and simulated time. Hard disks and SSDs, with two or three
/// mirrors, writes, sequential streams and background work.
const SIMULATIONS: [(&str, &str, Nanos); 5] = [
    ("hdd-ssd-raid1", "rand-4k-qd32", Nanos::from_millis(100)),
    ("two-ssd-raid1", "mixed-sizes", Nanos::from_millis(100)),
    ("three-nvme-raid1c3", "randrw-4k-70-30", Nanos::from_millis(100)),
    ("hetero-hdd-raid1", "seq-read-defrag", Nanos::from_secs(2)),
    ("eight-hdd-raid10", "four-streams", Nanos::from_secs(2)),
];

pub(super) fn run(action: &ProgramAction) -> Result<Ending, Failure> {
    match action {
        ProgramAction::Build { source, output } => {
            let output = output.clone().unwrap_or_else(|| source.with_extension("wasm"));
            build(source, &output)
        }
        ProgramAction::Check { program } => check_program(program),
        _ => super::kernel::run(action),
    }
}

/// True if nothing is lost when this file is written: it is not there, or is an object. So the
/// source is safe, however its path is spelt.
fn may_be_written(output: &Path) -> bool {
    match fs::read(output) {
        Ok(bytes) => bytes.starts_with(b"\0asm"),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Compiles a policy, and checks that it is one before the object is written.
fn build(source: &Path, output: &Path) -> Result<Ending, Failure> {
    if !may_be_written(output) {
        return Err(Failure::WrongUse(anyhow!(
            "`{}` exists and is no WebAssembly object\n  help: give another name with -o",
            output.display()
        )));
    }
    let compiled = Toolchain::find().and_then(|tools| tools.compile(source));
    let compiled = compiled.map_err(|error| match error {
        ToolchainError::System { .. } => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    if !compiled.warnings.is_empty() {
        screen::say(&compiled.warnings);
    }
    let loader = Loader::new().map_err(|error| Failure::Fault(error.into()))?;
    let program = loader
        .load_program(&compiled.object)
        .map_err(|error| Failure::WrongUse(anyhow!("{}: {error}", source.display())))?;
    fs::write(output, &compiled.object)
        .with_context(|| format!("cannot write `{}`", output.display()))
        .map_err(Failure::Fault)?;
    let (name, size) = (program.name(), compiled.object.len());
    screen::say(format_args!("wrote {}: {name}, {size} bytes", output.display()));
    Ok(Ending::Done)
}

/// Loads a program that is named by its file, with or without `program:`; returns the values of its
/// parameters, too.
pub(super) fn load(text: &str) -> Result<(Program, Vec<u64>), Failure> {
    let wrong = |error: Diagnostic| Failure::WrongUse(error.into());
    let text = text.strip_prefix(PROGRAM_FILE).unwrap_or(text);
    let loader = Arc::new(Loader::new().map_err(|error| Failure::Fault(error.into()))?);
    let mut registry = Registry::with_loader(loader.clone());
    let name = load_programs(&format!("{PROGRAM_FILE}{text}"), &mut registry).map_err(wrong)?;
    let values = registry.parse(&name).map_err(wrong)?.program_values();
    let program = loader.load_program(registry.programs()[0].object()).map_err(wrong)?;
    Ok((program, values))
}

/// Adds what the calls of a program take in short simulations, whose seeds are fixed.
fn simulated(
    text: &str,
    program: &Program,
    mut report: CheckReport,
) -> Result<CheckReport, Failure> {
    let wrong = |error: Diagnostic| Failure::WrongUse(error.into());
    let loader = Arc::new(MeasuringLoader::new(costs_of(program)).map_err(wrong)?);
    let mut registry = Registry::with_loader(loader.clone());
    let text = text.strip_prefix(PROGRAM_FILE).unwrap_or(text);
    let name = load_programs(&format!("{PROGRAM_FILE}{text}"), &mut registry).map_err(wrong)?;
    let policy = registry.parse(&name).map_err(wrong)?;
    for (array, job, duration) in SIMULATIONS {
        let inputs = Inputs::load(array, &[job.to_owned()]).map_err(Failure::Fault)?;
        let simulation = Simulation {
            array: &inputs.array,
            job: &inputs.jobs[0],
            policy: PolicyUnderTest::Parsed(&policy),
            seed: 1,
            duration: Some(duration),
            checks: Checks::Off,
        };
        match engine::run(&simulation) {
            Ok(_) => {}
            Err(SimError::Program(fault)) => {
                report.fault = Some(fault);
                // None of the times is of a program that works.
                report.costs.iter_mut().for_each(|cost| cost.call_ns = None);
                break;
            }
            Err(error) => return Err(Failure::Fault(error.into())),
        }
    }
    report.add(&loader.costs());
    Ok(report)
}

/// Runs a program on random reads and in simulations, and prints what its calls took.
fn check_program(text: &str) -> Result<Ending, Failure> {
    let (program, values) = load(text)?;
    let report = check(&program, &values).map_err(|error| Failure::WrongUse(error.into()))?;
    let report = match report.fault {
        Some(_) => report,
        None => simulated(text, &program, report)?,
    };
    let mut text = page(&program);
    text += "\noperation     calls  most fuel     of  ns per call\n";
    for OperationCost { operation, calls, fuel_max, fuel_limit, call_ns } in &report.costs {
        let time = call_ns.map_or_else(|| "fault".to_owned(), |it| format!("{it:.0}"));
        text += &format!("{operation:<9} {calls:>9} {fuel_max:>10} {fuel_limit:>6} {time:>12}\n");
    }
    screen::print(&text)?;
    match &report.fault {
        Some(fault) => {
            screen::say(format_args!("fault: {}\n{}", fault.summary, fault.dump.trim_end()));
            Ok(Ending::FoundFailure)
        }
        None => {
            screen::say("no fault");
            Ok(Ending::Done)
        }
    }
}

/// The page of a program: name, operations, fallback and parameters.
pub(super) fn page(program: &Program) -> String {
    let mut text = format!("{}, version {}\n", program.name(), program.version());
    text += &format!("  {}\n", program.summary());
    text += &format!("  operations: {}\n", program.operations().join(", "));
    text += &format!("  after a fault: {}\n", program.fallback());
    for parameter in program.parameters() {
        let (name, meaning, default) = (&parameter.name, &parameter.meaning, parameter.default);
        let (least, most) = (parameter.range.start(), parameter.range.end());
        text += &format!("  ?{name}={default}: {meaning}, {least} to {most}\n");
    }
    text
}
