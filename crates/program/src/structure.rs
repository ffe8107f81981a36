//! Bounds of an object's structure, checked before it is compiled.
//!
//! The compiler's time grows faster than the object: 6 KiB of nested loops took 12 s in a debug
//! build. Its cost is in branches, and in the values that have to be joined where branches meet: a
//! local that is set within a block has, at the end of the block or at the head of a loop, one
//! value for each branch that leads there. So these are counted first. Many values at once on the
//! stack of operands cost registers: 5400 took 3 s in a release build, 256 take 30 ms. The largest
//! example, `mirrorball-auto.c`, is at about half of the bounds. An object at any of them took a
//! debug build at most 0.9 s on a busy machine of 2 cores.
//!
//! Recursion is refused as well (`CallGraph`): without it the depth of the stack is known, so
//! that no result depends on the size of the machine's stack frames.
//!
//! The file trusts nothing. The height of the stack of operands is known of valid objects only, so
//! they are validated here as well as by the engine.

use crate::call_graph::{CallGraph, FunctionType};
use mirrorball_core::diagnostic::Diagnostic;
use wasmparser::{
    BinaryReaderError, FuncValidatorAllocations, FunctionBody, Operator, Parser, Payload,
    ValidPayload, Validator,
};

/// Most functions of an object.
pub const FUNCTIONS_MAX: usize = 64;
/// Most instructions of an object.
pub const INSTRUCTIONS_MAX: usize = 16_384;
/// Most branches and calls of a function. A `switch` has one for each of its cases.
pub const FUNCTION_BRANCHES_MAX: usize = 512;
/// Most branches and calls of an object.
pub const BRANCHES_MAX: usize = 1_024;
/// Most loops of an object.
pub const LOOPS_MAX: usize = 128;
/// Most values that branches of an object join.
pub const JOINED_VALUES_MAX: usize = 6_144;
/// Most blocks that a block is in.
pub const NESTING_MAX: usize = 32;
/// Most arguments and local variables of a function.
pub const LOCALS_MAX: usize = 256;
/// Most values on the stack of operands.
pub const OPERANDS_MAX: u32 = 256;
/// Most arguments of a function.
const ARGUMENTS_MAX: usize = 16;
/// Most entries of each other section: types, imports, globals, exports, data.
const ENTRIES_MAX: usize = 256;

/// Why a structure is refused: the engine's words, or ours.
pub(crate) enum Refusal {
    /// The object is no valid WebAssembly.
    Invalid(BinaryReaderError),
    /// It is outside of the bounds.
    Outside(Diagnostic),
}

impl From<BinaryReaderError> for Refusal {
    fn from(error: BinaryReaderError) -> Refusal {
        Refusal::Invalid(error)
    }
}

/// Counts of an object so far.
#[derive(Default)]
struct Totals {
    instructions: usize,
    branches: usize,
    loops: usize,
    joined_values: usize,
}

/// A block that is not closed yet.
struct CodeBlock {
    is_loop: bool,
    /// Branches that lead to its end, or to its head if it is a loop.
    arrivals: usize,
    /// The locals that are set in it, a bit each.
    set: [u64; LOCALS_MAX / 64],
}

/// Checks an object.
///
/// # Errors
/// If it is malformed, or is outside of the bounds.
pub(crate) fn check(object: &[u8]) -> Result<(), Refusal> {
    let mut graph = CallGraph::default();
    let mut totals = Totals::default();
    for payload in Parser::new(0).parse_all(object) {
        match payload? {
            Payload::TypeSection(types) => {
                at_most("types", types.count() as usize, ENTRIES_MAX)?;
                for function in types.into_iter_err_on_gc_types() {
                    let function = function?;
                    at_most("arguments of a function", function.params().len(), ARGUMENTS_MAX)?;
                    graph.types.push(FunctionType(function));
                }
            }
            Payload::ImportSection(imports) => {
                at_most("imports", imports.count() as usize, ENTRIES_MAX)?;
                for import in imports {
                    if let wasmparser::TypeRef::Func(kind) = import?.ty {
                        graph.add_import(kind);
                    }
                }
            }
            Payload::FunctionSection(functions) => {
                at_most("functions", functions.count() as usize, FUNCTIONS_MAX)?;
                for kind in functions {
                    graph.add_function(kind?);
                }
            }
            Payload::TableSection(tables) => {
                at_most("tables", tables.count() as usize, ENTRIES_MAX)?;
            }
            Payload::GlobalSection(globals) => {
                at_most("global variables", globals.count() as usize, ENTRIES_MAX)?;
            }
            Payload::ExportSection(exports) => {
                at_most("exports", exports.count() as usize, ENTRIES_MAX)?;
            }
            Payload::DataSection(data) => {
                at_most("segments of data", data.count() as usize, ENTRIES_MAX)?;
            }
            Payload::ElementSection(elements) => graph.add_elements(elements)?,
            Payload::StartSection { .. } => return Err(start_function()),
            Payload::CodeSectionEntry(body) => check_function(&body, &mut graph, &mut totals)?,
            _ => {}
        }
    }
    match graph.recursive_function() {
        Some(function) => Err(recursion(function)),
        None => check_operands(object),
    }
}

/// Validates an object, and checks how many values its functions have on the stack.
fn check_operands(object: &[u8]) -> Result<(), Refusal> {
    let mut validator = Validator::new();
    for payload in Parser::new(0).parse_all(object) {
        let ValidPayload::Func(function, body) = validator.payload(&payload?)? else { continue };
        let mut function = function.into_validator(FuncValidatorAllocations::default());
        function.read_locals(&mut body.get_binary_reader())?;
        for operator in body.get_operators_reader()?.into_iter_with_offsets() {
            let (operator, offset) = operator?;
            function.op(offset, &operator)?;
            let height = function.operand_stack_height();
            at_most("values on the stack of operands", height as usize, OPERANDS_MAX as usize)?;
        }
    }
    Ok(())
}

/// Checks the next function.
fn check_function(
    body: &FunctionBody<'_>,
    graph: &mut CallGraph,
    totals: &mut Totals,
) -> Result<(), Refusal> {
    let mut locals = graph.begin_body();
    for group in body.get_locals_reader()? {
        locals = locals.saturating_add(group?.0 as usize);
    }
    at_most("local variables in a function", locals, LOCALS_MAX)?;
    let mut blocks = vec![CodeBlock::new(false)];
    let mut branches = 0;
    for operator in body.get_operators_reader()? {
        let operator = operator?;
        totals.instructions += 1;
        at_most("instructions", totals.instructions, INSTRUCTIONS_MAX)?;
        match &operator {
            Operator::End => {
                let Some(block) = blocks.pop() else { continue };
                totals.joined_values += block.joined_values();
                at_most("values to join", totals.joined_values, JOINED_VALUES_MAX)?;
                if let Some(outer) = blocks.last_mut() {
                    outer.add(&block);
                }
            }
            Operator::Block { .. } => blocks.push(CodeBlock::new(false)),
            Operator::Loop { .. } => {
                totals.loops += 1;
                at_most("loops", totals.loops, LOOPS_MAX)?;
                blocks.push(CodeBlock::new(true));
            }
            Operator::If { .. } => blocks.push(CodeBlock { arrivals: 1, ..CodeBlock::new(false) }),
            Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => {
                arrive(&mut blocks, *relative_depth);
            }
            Operator::BrTable { targets } => {
                for depth in targets.targets() {
                    arrive(&mut blocks, depth?);
                }
                arrive(&mut blocks, targets.default());
                branches += targets.len() as usize;
            }
            Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                if let Some(block) = blocks.last_mut() {
                    block.set_local(*local_index as usize);
                }
            }
            Operator::Call { function_index } => graph.add_call(*function_index),
            Operator::CallIndirect { type_index, .. } => graph.add_indirect_call(*type_index),
            Operator::MemoryGrow { .. } => return Err(memory_growth()),
            Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. } => return Err(table_change()),
            _ => {}
        }
        branches += usize::from(is_branch(&operator));
        at_most("nested blocks", blocks.len() - usize::from(!blocks.is_empty()), NESTING_MAX)?;
        at_most("branches and calls in a function", branches, FUNCTION_BRANCHES_MAX)?;
    }
    totals.branches += branches;
    at_most("branches and calls", totals.branches, BRANCHES_MAX)
}

impl CodeBlock {
    fn new(is_loop: bool) -> CodeBlock {
        CodeBlock { is_loop, arrivals: 0, set: [0; LOCALS_MAX / 64] }
    }

    fn set_local(&mut self, local: usize) {
        if let Some(word) = self.set.get_mut(local / 64) {
            *word |= 1 << (local % 64);
        }
    }

    /// Merges the variables that were set in a block inside of this one.
    fn add(&mut self, inner: &CodeBlock) {
        for (word, more) in self.set.iter_mut().zip(inner.set) {
            *word |= more;
        }
    }

    /// Values that are joined where branches to this block arrive, besides the way without branch.
    fn joined_values(&self) -> usize {
        let set: u32 = self.set.iter().map(|word| word.count_ones()).sum();
        let ways = match (self.is_loop, self.arrivals) {
            // Nothing repeats a loop that no branch leads back to.
            (true, 0) => 0,
            (_, arrivals) => arrivals + 1,
        };
        ways * (1 + set as usize)
    }
}

/// Counts a branch to the block that is `depth` blocks outside of the innermost one.
fn arrive(blocks: &mut [CodeBlock], depth: u32) {
    let place = blocks.len().checked_sub(depth as usize + 1);
    if let Some(block) = place.and_then(|place| blocks.get_mut(place)) {
        block.arrivals += 1;
    }
}

/// True if an instruction costs the compiler as much as a branch does.
fn is_branch(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::Call { .. }
            | Operator::CallIndirect { .. }
    )
}

fn at_most(what: &str, count: usize, most: usize) -> Result<(), Refusal> {
    if count <= most {
        return Ok(());
    }
    let error = Diagnostic::new(format!("the program has more than {most} {what}"));
    Err(Refusal::Outside(error.with_help(
        "make it smaller: the limits of docs/policies.md bound the time that a program takes to \
         compile",
    )))
}

fn start_function() -> Refusal {
    let error = "the program has a start function, which would run before its parameters are set";
    Refusal::Outside(Diagnostic::new(error).with_help("use MB_INIT of mirrorball_policy.h instead"))
}

fn memory_growth() -> Refusal {
    let error = "the program makes its memory grow, but policies have no memory to allocate";
    Refusal::Outside(Diagnostic::new(error).with_help("use static variables"))
}

fn table_change() -> Refusal {
    Refusal::Outside(Diagnostic::new("the program changes its table of function pointers"))
}

fn recursion(function: usize) -> Refusal {
    let error = format!("the function {function} of the program calls itself, perhaps by others");
    Refusal::Outside(Diagnostic::new(error).with_help("use a loop: policies have no recursion"))
}
