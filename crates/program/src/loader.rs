//! Checks and compiles objects.

use crate::abi::{
    CONTEXT_BYTES, HELPER_MODULE, HELPERS, MEMORY_BYTES_MAX, PARAMETER_BYTES, PARAMETER_PREFIX,
    PARAMETERS_MAX, PROGRAM_BYTES,
};
use crate::engine::engine;
use crate::foreign_text::{shown_message, shown_name};
use crate::helpers::{HostState, linker};
use crate::instance::InstanceSource;
use crate::metadata::{Metadata, read_parameter};
use crate::object::ObjectFile;
use crate::program::{ParameterPlace, Program};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{
    OBJECT_BYTES_MAX, PROGRAM_FAMILY, PolicyProgram, ProgramLoader, ProgramParameter,
};
use ring::digest::{SHA256, digest};
use std::fmt;
use std::sync::Arc;
use wasmtime::{Engine, Linker, Module};

/// Digits of the hash in a program's name. They are 128 bits, which no one can match on purpose.
const HASH_DIGITS: usize = 32;
/// Bytes at the start of every WebAssembly object.
const MAGIC: &[u8] = b"\0asm";

/// Makes programs of WebAssembly objects.
pub struct Loader {
    engine: Engine,
    linker: Linker<HostState>,
}

/// Statements of an object about itself.
struct Description {
    metadata: Metadata,
    context: u32,
    /// The parameters, and where each is.
    parameters: Vec<(ParameterPlace, ProgramParameter)>,
    /// True if it calls `mb_member`.
    asks_members: bool,
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
    /// A loader with an engine of its own. Fails if this machine cannot run compiled programs.
    pub fn new() -> Result<Loader, Diagnostic> {
        let made = engine().and_then(|engine| Ok((linker(&engine)?, engine)));
        let (linker, engine) = made.map_err(|error| {
            Diagnostic::new(format!("cannot run programs on this machine: {error:#}"))
        })?;
        Ok(Loader { engine, linker })
    }

    /// Loads a program, as [`ProgramLoader::load`] does.
    pub fn load_program(&self, object: &[u8]) -> Result<Program, Diagnostic> {
        let Description { metadata, context, parameters, asks_members } = self.describe(object)?;
        let module = Module::from_binary(&self.engine, object).map_err(invalid)?;
        let unlinked = |error: wasmtime::Error| Diagnostic::new(format!("a helper: {error:#}"));
        let module = self.linker.instantiate_pre(&module).map_err(unlinked)?;
        let source = InstanceSource { engine: self.engine.clone(), module, context };
        // Whether it starts, too, is known now and not in the middle of a run.
        source
            .start()
            .map_err(|fault| refused(format!("the program cannot start: {}", fault.summary())))?;
        let (places, parameters) = parameters.into_iter().unzip();
        let digest = digest(&SHA256, object);
        let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let hash = &hash[..HASH_DIGITS];
        Ok(Program {
            name: format!("{PROGRAM_FAMILY}{}@{hash}", metadata.name),
            object: object.to_vec(),
            metadata,
            parameters,
            places,
            source,
            asks_members,
        })
    }

    /// Checks an object as [`Loader::load_program`] does, up to where it would be compiled. Fails
    /// if it is refused before it is compiled.
    pub fn check_object(&self, object: &[u8]) -> Result<(), Diagnostic> {
        self.describe(object).map(|_| ())
    }

    /// Checks an object, and reads what it says of itself.
    fn describe(&self, object: &[u8]) -> Result<Description, Diagnostic> {
        if object.len() > OBJECT_BYTES_MAX {
            let (size, most) = (object.len(), OBJECT_BYTES_MAX >> 10);
            return Err(refused(format!("it has {size} bytes, but {most} KiB is the most")));
        }
        if !object.starts_with(MAGIC) {
            return Err(Diagnostic::new("it is not a WebAssembly object").with_help(
                "`mirrorball program build policy.c` compiles a policy to policy.wasm",
            ));
        }
        Module::validate(&self.engine, object).map_err(invalid)?;
        let object = ObjectFile::read(object).map_err(|error| invalid(error.into()))?;
        if object.has_start {
            let error = "the program has a start function, which would run before its parameters \
                         are set";
            return Err(Diagnostic::new(error).with_help("use MB_INIT of mirrorball_policy.h"));
        }
        check_imports(&object)?;
        check_operations(&object)?;
        let context = object.place("mb_context", CONTEXT_BYTES)?;
        let metadata = Metadata::read(&object.data::<PROGRAM_BYTES>("mb_program")?.1)?;
        let parameters = read_parameters(&object)?;
        let asks_members = object.imports().any(|(_, name, _)| name == "member");
        Ok(Description { metadata, context, parameters, asks_members })
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

fn refused(what: String) -> Diagnostic {
    Diagnostic::new(what)
}

fn invalid(error: wasmtime::Error) -> Diagnostic {
    refused(format!("it is not a valid program: {}", shown_message(&format!("{error:#}"))))
}

/// Checks that an object imports helpers only.
fn check_imports(object: &ObjectFile<'_>) -> Result<(), Diagnostic> {
    for (from, name, is_function) in object.imports() {
        if from != HELPER_MODULE || !HELPERS.contains(&name) || !is_function {
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

/// Checks that an object has the required operations, that all have the right type, and that its
/// memory is exported and small enough.
fn check_operations(object: &ObjectFile<'_>) -> Result<(), Diagnostic> {
    for operation in OPERATIONS {
        let OperationType { name, parameters, results, is_required } = operation;
        match object.function(name) {
            None if is_required && !object.has_export(name) => {
                return Err(Diagnostic::new(format!("the program does not export `{name}`"))
                    .with_help("define it with MB_CHOOSE of mirrorball_policy.h"));
            }
            None if !object.has_export(name) => {}
            Some(function)
                if join(function.params()) == parameters && join(function.results()) == results => {
            }
            _ => {
                let message = format!("the program exports `{name}` with another type");
                let help = format!("its type is ({parameters}) -> ({results}); use the macros of");
                return Err(
                    Diagnostic::new(message).with_help(help + " mirrorball_policy.h to define it")
                );
            }
        }
    }
    let Some(bytes) = object.exported_memory_bytes() else {
        return Err(Diagnostic::new("the program does not export its memory")
            .with_help("link with wasm-ld, which exports it as `memory`"));
    };
    if bytes > MEMORY_BYTES_MAX as u64 {
        let (size, most) = (bytes >> 10, MEMORY_BYTES_MAX >> 10);
        return Err(Diagnostic::new(format!(
            "the program wants {size} KiB of memory, but {most} KiB is the most"
        ))
        .with_help("make its variables smaller, or link with -z stack-size=8192"));
    }
    Ok(())
}

/// The parameters in the order of their exports, and where each is.
fn read_parameters(
    object: &ObjectFile<'_>,
) -> Result<Vec<(ParameterPlace, ProgramParameter)>, Diagnostic> {
    let mut parameters = Vec::new();
    for export in object.exports() {
        let Some(name) = export.strip_prefix(PARAMETER_PREFIX) else { continue };
        let (place, bytes) = object.data::<PARAMETER_BYTES>(export)?;
        parameters.push((ParameterPlace(place), read_parameter(name, &bytes)?));
    }
    if parameters.len() > PARAMETERS_MAX {
        let count = parameters.len();
        return Err(refused(format!(
            "the program has {count} parameters, but {PARAMETERS_MAX} is the most"
        )));
    }
    Ok(parameters)
}

fn join(types: &[wasmparser::ValType]) -> String {
    types.iter().map(|it| it.to_string()).collect::<Vec<String>>().join(", ")
}
