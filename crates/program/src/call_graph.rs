//! Which functions of an object call which, to find recursion.
//!
//! A call by pointer may reach every function of its type that a table holds from the start; no
//! instruction that changes a table is accepted.

use std::collections::BTreeSet;
use wasmparser::{ElementItems, ElementSectionReader, FuncType, Operator};

/// Type of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FunctionType(pub(crate) FuncType);

/// The functions of an object, imported ones first, and their calls.
#[derive(Default, Debug)]
pub(crate) struct CallGraph {
    pub(crate) types: Vec<FunctionType>,
    /// Index of each function's type.
    functions: Vec<u32>,
    imports: usize,
    /// Functions that tables hold.
    in_tables: BTreeSet<u32>,
    /// Calls of each function with a body, in the order of their bodies.
    bodies: Vec<Calls>,
}

/// The calls of a function.
#[derive(Default, Debug)]
struct Calls {
    functions: Vec<u32>,
    /// Types of calls by pointer.
    types: Vec<u32>,
}

/// How far the search is with a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallSearch {
    Unseen,
    /// It is being called.
    Open,
    Done,
}

impl CallGraph {
    /// Adds an imported function, given the index of its type.
    pub(crate) fn add_import(&mut self, kind: u32) {
        self.imports += 1;
        self.functions.push(kind);
    }

    /// Adds a function of the object, given the index of its type.
    pub(crate) fn add_function(&mut self, kind: u32) {
        self.functions.push(kind);
    }

    /// Adds the functions that are put into tables.
    pub(crate) fn add_elements(
        &mut self,
        elements: ElementSectionReader<'_>,
    ) -> wasmparser::Result<()> {
        for element in elements {
            match element?.items {
                ElementItems::Functions(functions) => {
                    for function in functions {
                        self.in_tables.insert(function?);
                    }
                }
                ElementItems::Expressions(_, expressions) => {
                    for expression in expressions {
                        for operator in expression?.get_operators_reader() {
                            if let Operator::RefFunc { function_index } = operator? {
                                self.in_tables.insert(function_index);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins the body of the next function; returns the number of its arguments.
    pub(crate) fn begin_body(&mut self) -> usize {
        let function = self.imports + self.bodies.len();
        self.bodies.push(Calls::default());
        let kind = self.functions.get(function).and_then(|&kind| self.types.get(kind as usize));
        kind.map_or(0, |kind| kind.0.params().len())
    }

    /// Adds a call to the current body.
    pub(crate) fn add_call(&mut self, function: u32) {
        if let Some(body) = self.bodies.last_mut() {
            body.functions.push(function);
        }
    }

    /// Adds a call by pointer to the current body, given the index of its type.
    pub(crate) fn add_indirect_call(&mut self, kind: u32) {
        let Some(body) = self.bodies.last_mut() else { return };
        if !body.types.contains(&kind) {
            body.types.push(kind);
        }
    }

    /// Index of a function that may call itself, directly or by others.
    pub(crate) fn recursive_function(&self) -> Option<usize> {
        let mut searches = vec![CallSearch::Unseen; self.bodies.len()];
        (0..self.bodies.len()).find_map(|body| self.search(body, &mut searches))
    }

    /// Looks for a call back to a function that is being called. Its depth is at most the number of
    /// functions.
    fn search(&self, body: usize, searches: &mut [CallSearch]) -> Option<usize> {
        match searches[body] {
            CallSearch::Done => return None,
            CallSearch::Open => return Some(self.imports + body),
            CallSearch::Unseen => searches[body] = CallSearch::Open,
        }
        let calls = &self.bodies[body];
        let by_pointer = calls.types.iter().flat_map(|&kind| self.reachable(kind));
        for function in calls.functions.iter().copied().chain(by_pointer) {
            let callee = (function as usize).checked_sub(self.imports);
            let callee = callee.filter(|&callee| callee < self.bodies.len());
            if let Some(found) = callee.and_then(|callee| self.search(callee, searches)) {
                return Some(found);
            }
        }
        searches[body] = CallSearch::Done;
        None
    }

    /// Functions in tables that have the type of this index.
    fn reachable(&self, kind: u32) -> impl Iterator<Item = u32> + '_ {
        let wanted = self.types.get(kind as usize);
        self.in_tables.iter().copied().filter(move |&function| {
            let kind = self.functions.get(function as usize);
            let kind = kind.and_then(|&kind| self.types.get(kind as usize));
            wanted.is_some() && kind == wanted
        })
    }
}
