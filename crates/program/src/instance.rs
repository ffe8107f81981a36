//! A running program: memory, operations, and calls that end.

use crate::abi::{CHOOSE_FUEL, MEMBER_BYTES};
use crate::abi::{CONTEXT_BYTES, EVENT_FUEL, INIT_FUEL, MEMORY_BYTES_MAX};
use crate::contexts::write_member;
use crate::fault::CallFault;
use crate::helpers::{HelperOperation, HostState};
use mirrorball_core::member::Members;
use mirrorball_core::rng::Rng;
use wasmtime::{Engine, InstancePre, Memory, Store, StoreLimitsBuilder, TypedFunc};

/// Bytes of a page, of which a memory has a number.
const PAGE_BYTES: usize = 64 << 10;
/// Most entries of the table of function pointers.
const TABLE_ENTRIES_MAX: usize = 1024;

/// A program with memory of its own.
pub(crate) struct ProgramInstance {
    store: Store<HostState>,
    memory: Memory,
    context: u32,
    choose: TypedFunc<u32, i64>,
    submit: Option<TypedFunc<u32, ()>>,
    complete: Option<TypedFunc<u32, ()>>,
    init: Option<TypedFunc<(), ()>>,
    change: Option<TypedFunc<(), ()>>,
    /// True if the program calls `mb_random`, so that it needs the generator.
    draws: bool,
}

#[derive(Clone)]
pub(crate) struct InstanceSource {
    pub(crate) engine: Engine,
    pub(crate) module: InstancePre<HostState>,
    pub(crate) context: u32,
}

impl InstanceSource {
    /// Starts an instance, whose memory is as compiled.
    pub(crate) fn start(&self) -> Result<ProgramInstance, CallFault> {
        ProgramInstance::start(&self.engine, &self.module, self.context)
    }
}

impl ProgramInstance {
    pub(crate) fn start(
        engine: &Engine,
        module: &InstancePre<HostState>,
        context: u32,
    ) -> Result<ProgramInstance, CallFault> {
        let memories = module.module().exports().filter_map(|it| it.ty().memory().cloned());
        let pages = memories.map(|memory| memory.minimum()).max().unwrap_or(0);
        // It does not grow.
        let limits = StoreLimitsBuilder::new()
            .memory_size((pages as usize * PAGE_BYTES).min(MEMORY_BYTES_MAX))
            .table_elements(TABLE_ENTRIES_MAX)
            .instances(1)
            .memories(1)
            .tables(1)
            .build();
        let mut store = Store::new(engine, HostState::new(limits));
        store.limiter(|state| &mut state.limits);
        let start = || -> wasmtime::Result<ProgramInstance> {
            store.set_fuel(INIT_FUEL)?;
            let instance = module.instantiate(&mut store)?;
            let memory = instance.get_memory(&mut store, "memory");
            let memory = memory.ok_or_else(|| wasmtime::Error::msg("no memory is exported"))?;
            store.data_mut().memory = Some(memory);
            let choose = instance.get_typed_func(&mut store, "choose")?;
            let event =
                |store: &mut Store<HostState>, name| match instance.get_func(&mut *store, name) {
                    Some(function) => function.typed(&*store).map(Some),
                    None => Ok(None),
                };
            let (submit, complete) = (event(&mut store, "submit")?, event(&mut store, "complete")?);
            let plain =
                |store: &mut Store<HostState>, name| match instance.get_func(&mut *store, name) {
                    Some(function) => function.typed(&*store).map(Some),
                    None => Ok(None),
                };
            let (init, change) = (plain(&mut store, "init")?, plain(&mut store, "change")?);
            let draws = module.module().imports().any(|import| import.name() == "random");
            Ok(ProgramInstance {
                store,
                memory,
                context,
                choose,
                submit,
                complete,
                init,
                change,
                draws,
            })
        };
        start().map_err(|error| CallFault::of_call(HelperOperation::Start, &error))
    }

    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    /// The program's memory, to change.
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.data_mut(&mut self.store)
    }

    pub(crate) fn context_mut(&mut self) -> &mut [u8] {
        let start = self.context as usize;
        &mut self.memory.data_mut(&mut self.store)[start..start + CONTEXT_BYTES]
    }

    /// The state that the helpers change.
    pub(crate) fn state(&self) -> &HostState {
        self.store.data()
    }

    /// The state that the helpers change.
    pub(crate) fn state_mut(&mut self) -> &mut HostState {
        self.store.data_mut()
    }

    /// True if the program has the operation `submit`.
    pub(crate) fn has_submit(&self) -> bool {
        self.submit.is_some()
    }

    /// True if the program has the operation `complete`.
    pub(crate) fn has_complete(&self) -> bool {
        self.complete.is_some()
    }

    /// Fuel that the last call used, of a budget.
    pub(crate) fn fuel_used(&self, budget: u64) -> u64 {
        budget - self.store.get_fuel().expect("the engine counts fuel")
    }

    /// Makes the members visible to `mb_member`.
    pub(crate) fn show_members(&mut self, members: &Members) {
        let records = &mut self.store.data_mut().members;
        records.resize(members.len() * MEMBER_BYTES, 0);
        for ((index, member), bytes) in members.iter().zip(records.chunks_exact_mut(MEMBER_BYTES)) {
            write_member(bytes, index, member);
        }
    }

    /// Calls `choose` on the context that was written.
    #[inline]
    pub(crate) fn choose(&mut self, rng: &mut Rng) -> Result<i64, CallFault> {
        let context = self.context;
        self.prepare(HelperOperation::Choose, CHOOSE_FUEL);
        exchange(rng, &mut self.store, self.draws);
        let result = self.choose.call(&mut self.store, context);
        exchange(rng, &mut self.store, self.draws);
        result.map_err(|error| CallFault::of_call(HelperOperation::Choose, &error))
    }

    /// Calls `submit` or `complete` on the context that was written.
    #[inline]
    pub(crate) fn event(
        &mut self,
        operation: HelperOperation,
        rng: &mut Rng,
    ) -> Result<(), CallFault> {
        let context = self.context;
        self.prepare(operation, EVENT_FUEL);
        let function = match operation {
            HelperOperation::Submit => &self.submit,
            _ => &self.complete,
        };
        let Some(function) = function else { return Ok(()) };
        exchange(rng, &mut self.store, self.draws);
        let result = function.call(&mut self.store, context);
        exchange(rng, &mut self.store, self.draws);
        result.map_err(|error| CallFault::of_call(operation, &error))
    }

    /// Calls `init` or `change`, if the program has it.
    pub(crate) fn notify(&mut self, operation: HelperOperation) -> Result<(), CallFault> {
        self.prepare(operation, INIT_FUEL);
        let function = match operation {
            HelperOperation::Init => &self.init,
            _ => &self.change,
        };
        let Some(function) = function else { return Ok(()) };
        let result = function.call(&mut self.store, ());
        result.map_err(|error| CallFault::of_call(operation, &error))
    }

    #[inline]
    fn prepare(&mut self, operation: HelperOperation, fuel: u64) {
        self.store.data_mut().operation = operation;
        self.store.set_fuel(fuel).expect("the engine counts fuel");
    }
}

/// Gives the volume's generator to the helpers, and takes it back after the call; a program that
/// does not draw goes without.
#[inline]
fn exchange(rng: &mut Rng, store: &mut Store<HostState>, draws: bool) {
    if draws {
        std::mem::swap(rng, &mut store.data_mut().rng);
    }
}
