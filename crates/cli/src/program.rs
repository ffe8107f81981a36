//! `mirrorball program`: writes, compiles and checks policies as programs, and loads them into a
//! kernel.

#[cfg(feature = "programs")]
mod commands;
mod kernel;
mod new;

use crate::ending::{Ending, Failure};
use clap::Subcommand;
use mirrorball_core::policies::PROGRAM_FILE;
use std::path::PathBuf;

/// Write, compile, check or load a policy as a program
///
/// A program is a read policy in one file of C, compiled to WebAssembly and run in a
/// sandbox; a kernel with the modules of `kernel/` runs it compiled to a BPF object. Name it
/// wherever a policy can be named: --policy program:FILE.wasm, with parameters
/// --policy 'program:FILE.wasm?gain=4&floor=2'.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball program new my-policy
  mirrorball program build my-policy/my-policy.c
  mirrorball program check my-policy/my-policy.wasm
  mirrorball compare two-ssd-raid1 rand-4k-qd32 -p program:my-policy/my-policy.wasm,md/raid1")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ProgramAction,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProgramAction {
    /// Write a folder with a commented policy, its headers, and a Makefile
    New {
        /// Name of the policy and of the folder: a to z, 0 to 9, - and _
        name: String,
    },
    /// Compile a policy by clang
    #[command(alias = "compile")]
    Build {
        /// Source of the policy
        source: PathBuf,
        /// Object to write [default: the source with the ending .wasm]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Load a program into this machine's kernel, for one array; needs a kernel with the hook
    ///
    /// The object is compiled for a kernel: clang --target=bpf -DMB_KERNEL. The kernel checks it,
    /// and has its own rule where the program fails. Needs root and bpftool.
    Load {
        /// Object: FILE.bpf.o
        object: PathBuf,
        /// The array: its device, or a folder of a file system on it
        path: PathBuf,
    },
    /// Take the program out of an array, which then reads by its built-in rule
    Unload {
        /// The array: its device, or a folder of a file system on it
        path: PathBuf,
    },
    /// Print the arrays that can have a program, and their programs and counts
    Status,
    /// Run a program on random reads and in simulations, and print its instructions and time per
    /// call
    ///
    /// Exits with code 1 if a call has a fault.
    Check {
        /// Object that `program build` wrote, and parameters: FILE.wasm or 'FILE.wasm?gain=4'
        program: String,
    },
}

/// True if a name means a program by its file.
pub(crate) fn is_named(name: &str) -> bool {
    name.starts_with(PROGRAM_FILE) || name.ends_with(".wasm")
}

/// The page of a program, which is named by its file.
#[cfg(feature = "programs")]
pub(crate) fn page(name: &str) -> Result<String, Failure> {
    commands::load(name).map(|(program, _)| commands::page(&program))
}

/// The reason why there is no page.
#[cfg(not(feature = "programs"))]
pub(crate) fn page(_name: &str) -> Result<String, Failure> {
    Err(no_programs())
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    match &args.action {
        ProgramAction::New { name } => new::run(name),
        action @ (ProgramAction::Load { .. }
        | ProgramAction::Unload { .. }
        | ProgramAction::Status) => kernel::run(action),
        #[cfg(feature = "programs")]
        action => commands::run(action),
        #[cfg(not(feature = "programs"))]
        _ => Err(no_programs()),
    }
}

/// Note of this build about programs.
#[cfg(not(feature = "programs"))]
fn no_programs() -> Failure {
    Failure::WrongUse(mirrorball_core::policies::Registry::no_loader().into())
}
