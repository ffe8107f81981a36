//! Statements of an object before it is compiled: imports, exports, and constants in data.
//!
//! Compiling takes milliseconds, so everything that can be refused is refused here. The object was
//! validated; what the file reads again it does not trust, though.

use crate::abi::MEMORY_BYTES_MAX;
use mirrorball_core::diagnostic::Diagnostic;
use wasmparser::{
    ConstExpr, Data, DataKind, ExternalKind, FuncType, GlobalType, Operator, Parser, Payload,
    TypeRef, ValType,
};

/// Bytes of a page, of which a memory has a number.
const PAGE_BYTES: u64 = 64 << 10;

/// The sections of an object that are looked at.
#[derive(Default)]
pub(crate) struct ObjectFile<'a> {
    types: Vec<FuncType>,
    imports: Vec<wasmparser::Import<'a>>,
    /// Type of each function, imported ones first.
    functions: Vec<u32>,
    /// Value of each global variable that is a constant of 32 bits.
    constants: Vec<Option<u32>>,
    exports: Vec<wasmparser::Export<'a>>,
    memory_bytes: Option<u64>,
    /// True if a function runs at the start.
    pub(crate) has_start: bool,
    /// Contents of the memory at the start, with places.
    segments: Vec<(u32, &'a [u8])>,
}

impl<'a> ObjectFile<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> wasmparser::Result<ObjectFile<'a>> {
        let mut object = ObjectFile::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(types) => {
                    for function in types.into_iter_err_on_gc_types() {
                        object.types.push(function?);
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports {
                        let import = import?;
                        if let TypeRef::Func(kind) = import.ty {
                            object.functions.push(kind);
                        }
                        object.imports.push(import);
                    }
                }
                Payload::FunctionSection(functions) => {
                    for kind in functions {
                        object.functions.push(kind?);
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        let pages = memory?.initial;
                        object.memory_bytes = Some(pages.saturating_mul(PAGE_BYTES));
                    }
                }
                Payload::GlobalSection(globals) => {
                    for global in globals {
                        let global = global?;
                        object.constants.push(constant(global.ty, &global.init_expr)?);
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        object.exports.push(export?);
                    }
                }
                Payload::StartSection { .. } => object.has_start = true,
                Payload::DataSection(data) => {
                    for segment in data {
                        object.segments.extend(placed(&segment?)?);
                    }
                }
                _ => {}
            }
        }
        Ok(object)
    }

    /// Imports of the object: module, name, and whether it is a function.
    pub(crate) fn imports(&self) -> impl Iterator<Item = (&'a str, &'a str, bool)> + '_ {
        let is_function = |kind| matches!(kind, TypeRef::Func(_));
        self.imports.iter().map(move |it| (it.module, it.name, is_function(it.ty)))
    }

    pub(crate) fn exports(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.exports.iter().map(|export| export.name)
    }

    /// True if something is exported under a name.
    pub(crate) fn has_export(&self, name: &str) -> bool {
        self.exports().any(|it| it == name)
    }

    /// Type of an exported function; `None` if the name is no function's.
    pub(crate) fn function(&self, name: &str) -> Option<&FuncType> {
        let index = self.exported(name, ExternalKind::Func)?;
        let kind = self.functions.get(index)?;
        self.types.get(*kind as usize)
    }

    /// Size of the memory if it is exported under its usual name.
    pub(crate) fn exported_memory_bytes(&self) -> Option<u64> {
        self.exported("memory", ExternalKind::Memory)?;
        self.memory_bytes
    }

    /// Address and bytes of exported data, as they are at the start. Fails if nothing of this name
    /// is exported, or it lies outside of the memory.
    pub(crate) fn data<const N: usize>(&self, name: &str) -> Result<(u32, [u8; N]), Diagnostic> {
        let place = self.place(name, N)?;
        let mut bytes = [0; N];
        for (start, segment) in &self.segments {
            let (start, place) = (u64::from(*start), u64::from(place));
            let from = start.max(place);
            let until = (start + segment.len() as u64).min(place + N as u64);
            if from < until {
                let source = &segment[(from - start) as usize..(until - start) as usize];
                bytes[(from - place) as usize..(until - place) as usize].copy_from_slice(source);
            }
        }
        Ok((place, bytes))
    }

    /// Address of exported data of a size.
    pub(crate) fn place(&self, name: &str, size: usize) -> Result<u32, Diagnostic> {
        let global = self.exported(name, ExternalKind::Global);
        let place = global.and_then(|index| *self.constants.get(index)?).ok_or_else(|| {
            Diagnostic::new(format!("the program does not export `{name}`"))
                .with_help("use the macros of mirrorball_policy.h, and link with --export-dynamic")
        })?;
        let memory_bytes = self.memory_bytes.unwrap_or(0).min(MEMORY_BYTES_MAX as u64);
        if u64::from(place) + size as u64 > memory_bytes {
            let what = format!("`{name}` lies outside of the program's memory");
            return Err(Diagnostic::new(what));
        }
        Ok(place)
    }

    fn exported(&self, name: &str, kind: ExternalKind) -> Option<usize> {
        let export = self.exports.iter().find(|export| export.name == name)?;
        (export.kind == kind).then_some(export.index as usize)
    }
}

/// The value of a global variable, if it is a constant of 32 bits.
fn constant(kind: GlobalType, value: &ConstExpr<'_>) -> wasmparser::Result<Option<u32>> {
    match kind {
        GlobalType { content_type: ValType::I32, mutable: false, .. } => number(value),
        _ => Ok(None),
    }
}

/// A segment with its address; `None` if it is not put into the memory at the start.
fn placed<'a>(segment: &Data<'a>) -> wasmparser::Result<Option<(u32, &'a [u8])>> {
    match &segment.kind {
        DataKind::Active { offset_expr, .. } => {
            Ok(number(offset_expr)?.map(|start| (start, segment.data)))
        }
        DataKind::Passive => Ok(None),
    }
}

/// The value of an expression that is a number; another may only be that of an imported variable,
/// and programs import none.
fn number(expression: &ConstExpr<'_>) -> wasmparser::Result<Option<u32>> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(Some(value as u32)),
        _ => Ok(None),
    }
}
