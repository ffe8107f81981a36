//! Checks and compiles objects.

use crate::abi::{
    CONTEXT_BYTES, HELPER_MODULE, HELPERS, MEMORY_BYTES_MAX, PARAMETER_BYTES, PARAMETER_PREFIX,
    PARAMETERS_MAX, PROGRAM_BYTES,
};
use crate::engine::engine;
use crate::foreign_text::{shown_message, shown_name};
use crate::helpers::{HostState, linker};
use crate::instance::{InstanceSource, ProgramInstance};
use crate::metadata::{Metadata, read_parameter};
use crate::program::{ParameterPlace, Program};
use crate::sha256::hex_digest;
use crate::structure::{self, Refusal};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{OBJECT_BYTES_MAX, PROGRAM_FAMILY, PolicyProgram, ProgramLoader};
use std::fmt;
use std::sync::Arc;
use wasmtime::{Engine, ExternType, Linker, Module, Mutability, Val};

/// Digits of the hash in a program's name. They are 128 bits, which no one can match on purpose.
const HASH_DIGITS: usize = 32;
/// Bytes at the start of every WebAssembly object.
const MAGIC: &[u8] = b"\0asm";

/// Makes programs of WebAssembly objects.
pub struct Loader {
    engine: Engine,
    linker: Linker<HostState>,
}

/// An operation and its type, for messages.
struct OperationType {
    name: &'static str,
    parameters: &'static str,
    results: &'static str,
    is_required: bool,
}

const OPERATIONS: [OperationType; 5] = [
    OperationType { name: "choose", parameters: "i32", results: "i64", is_required: true },
    OperationType { name: "submit", parameters: "i32", results: "", is_required: false },
    OperationType { name: "complete", parameters: "i32", results: "", is_required: false },
    OperationType { name: "init", parameters: "", results: "", is_required: false },
    OperationType { name: "change", parameters: "", results: "", is_required: false },
];

impl Loader {
    /// A loader with an engine of its own.
    ///
    /// # Errors
    /// If this machine cannot run compiled programs.
    pub fn new() -> Result<Loader, Diagnostic> {
        let made = engine().and_then(|engine| Ok((linker(&engine)?, engine)));
        let (linker, engine) = made.map_err(|error| {
            Diagnostic::new(format!("cannot run programs on this machine: {error:#}"))
        })?;
        Ok(Loader { engine, linker })
    }

    /// Loads a program, as [`ProgramLoader::load`] does.
    ///
    /// # Errors
    /// As [`ProgramLoader::load`].
    pub fn load_program(&self, object: &[u8]) -> Result<Program, Diagnostic> {
        let module = self.compile(object)?;
        check_imports(&module)?;
        check_operations(&module)?;
        let unlinked = |error: wasmtime::Error| Diagnostic::new(format!("a helper: {error:#}"));
        let module_linked = self.linker.instantiate_pre(&module).map_err(unlinked)?;
        // The addresses of exported data are constants, which only an instance gives.
        let mut instance = ProgramInstance::start(&self.engine, &module_linked, 0)
            .map_err(|fault| refused(format!("the program cannot start: {}", fault.summary())))?;
        let context = instance.data_place("mb_context", CONTEXT_BYTES)?;
        let place = instance.data_place("mb_program", PROGRAM_BYTES)?;
        let metadata = Metadata::read(instance.bytes_at(place))?;
        let mut parameters = Vec::new();
        for export in module.exports() {
            let Some(name) = export.name().strip_prefix(PARAMETER_PREFIX) else { continue };
            let place = instance.data_place(export.name(), PARAMETER_BYTES)?;
            let info = read_parameter(name, instance.bytes_at(place))?;
            parameters.push((ParameterPlace(place), info));
        }
        if parameters.len() > PARAMETERS_MAX {
            let count = parameters.len();
            return Err(refused(format!(
                "the program has {count} parameters, but {PARAMETERS_MAX} is the most"
            )));
        }
        let (places, parameters) = parameters.into_iter().unzip();
        let hash = &hex_digest(object)[..HASH_DIGITS];
        Ok(Program {
            name: format!("{PROGRAM_FAMILY}{}@{hash}", metadata.name),
            object: object.to_vec(),
            metadata,
            parameters,
            places,
            source: InstanceSource { engine: self.engine.clone(), module: module_linked, context },
            asks_members: module.imports().any(|import| import.name() == "member"),
        })
    }

    fn compile(&self, object: &[u8]) -> Result<Module, Diagnostic> {
        if object.len() > OBJECT_BYTES_MAX {
            let (size, most) = (object.len(), OBJECT_BYTES_MAX >> 10);
            return Err(refused(format!("it has {size} bytes, but {most} KiB is the most")));
        }
        if !object.starts_with(MAGIC) {
            return Err(Diagnostic::new("it is not a WebAssembly object").with_help(
                "`mirrorball program build policy.c` compiles a policy to policy.wasm",
            ));
        }
        let invalid = |error: wasmtime::Error| {
            refused(format!("it is not a valid program: {}", shown_message(&format!("{error:#}"))))
        };
        structure::check(object).map_err(|refusal| match refusal {
            Refusal::Invalid(error) => invalid(error.into()),
            Refusal::Outside(error) => error,
        })?;
        // Otherwise functions would be compiled up to the first that is not valid.
        Module::validate(&self.engine, object).map_err(invalid)?;
        Module::from_binary(&self.engine, object).map_err(invalid)
    }
}

impl ProgramLoader for Loader {
    fn load(&self, object: &[u8]) -> Result<Arc<dyn PolicyProgram>, Diagnostic> {
        Ok(Arc::new(self.load_program(object)?))
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").finish_non_exhaustive()
    }
}

impl ProgramInstance {
    /// Address of exported data of a size, which lie in the program's memory.
    fn data_place(&mut self, name: &str, size: usize) -> Result<u32, Diagnostic> {
        let place = self.exported_constant(name).ok_or_else(|| {
            Diagnostic::new(format!("the program does not export `{name}`"))
                .with_help("use the macros of mirrorball_policy.h, and link with --export-dynamic")
        })?;
        if place as usize + size > self.memory().len() {
            return Err(refused(format!("`{name}` lies outside of the program's memory")));
        }
        Ok(place)
    }

    /// Bytes at a place that [`ProgramInstance::data_place`] returned.
    fn bytes_at<const N: usize>(&self, place: u32) -> &[u8; N] {
        let bytes = &self.memory()[place as usize..place as usize + N];
        bytes.try_into().expect("the slice has N bytes")
    }

    /// Value of an exported constant of 32 bits.
    fn exported_constant(&mut self, name: &str) -> Option<u32> {
        let (instance, store) = self.parts_mut();
        let global = instance.get_global(&mut *store, name)?;
        let is_constant = global.ty(&*store).mutability() == Mutability::Const;
        match global.get(store) {
            Val::I32(place) if is_constant => Some(place as u32),
            _ => None,
        }
    }
}

fn refused(what: String) -> Diagnostic {
    Diagnostic::new(what)
}

/// Checks that a module imports helpers only.
fn check_imports(module: &Module) -> Result<(), Diagnostic> {
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        if from != HELPER_MODULE || !HELPERS.contains(&name) {
            let helpers = HELPERS.map(|name| format!("mb_{name}")).join(", ");
            return Err(Diagnostic::new(format!(
                "the program calls `{}` (from `{}`), which does not exist",
                shown_name(name),
                shown_name(from)
            ))
            .with_help(format!("a policy has no library; the helpers are {helpers}")));
        }
    }
    Ok(())
}

/// Checks that a module has the required operations, that all have the right type, and that its
/// memory is exported and small enough.
fn check_operations(module: &Module) -> Result<(), Diagnostic> {
    for operation in OPERATIONS {
        let OperationType { name, parameters, results, is_required } = operation;
        match module.get_export(name) {
            None if is_required => {
                return Err(Diagnostic::new(format!("the program does not export `{name}`"))
                    .with_help("define it with MB_CHOOSE of mirrorball_policy.h"));
            }
            None => {}
            Some(ExternType::Func(function))
                if join(function.params()) == parameters && join(function.results()) == results => {
            }
            Some(_) => {
                let message = format!("the program exports `{name}` with another type");
                let help = format!("its type is ({parameters}) -> ({results}); use the macros of");
                return Err(
                    Diagnostic::new(message).with_help(help + " mirrorball_policy.h to define it")
                );
            }
        }
    }
    match module.get_export("memory") {
        Some(ExternType::Memory(memory)) => {
            let bytes = memory.minimum().saturating_mul(64 << 10);
            if bytes > MEMORY_BYTES_MAX as u64 {
                let (size, most) = (bytes >> 10, MEMORY_BYTES_MAX >> 10);
                return Err(Diagnostic::new(format!(
                    "the program wants {size} KiB of memory, but {most} KiB is the most"
                ))
                .with_help("make its variables smaller, or link with -z stack-size=8192"));
            }
            Ok(())
        }
        _ => Err(Diagnostic::new("the program does not export its memory")
            .with_help("link with wasm-ld, which exports it as `memory`")),
    }
}

fn join(types: impl Iterator<Item = wasmtime::ValType>) -> String {
    types.map(|it| it.to_string()).collect::<Vec<String>>().join(", ")
}
