//! Programs that record what their calls take, for the simulations of `program check`.
//!
//! A loader makes them in the place of plain programs, so all else runs them as it runs any other.

use crate::Loader;
use crate::abi::{CHOOSE_FUEL, EVENT_FUEL};
use crate::check::OperationCost;
use crate::policy::ProgramPolicy;
use crate::program::Program;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::{MemberIo, Outcome};
use mirrorball_core::policies::{PolicyProgram, ProgramLoader, ProgramParameter};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use std::sync::{Arc, Mutex, PoisonError};

/// A loader whose programs record the fuel of their calls.
#[derive(Debug)]
pub struct MeasuringLoader {
    loader: Loader,
    costs: CallCosts,
}

/// The costs of all calls so far, by operation.
type CallCosts = Arc<Mutex<Vec<OperationCost>>>;

#[derive(Debug)]
struct MeasuredProgram {
    program: Program,
    costs: CallCosts,
}

struct MeasuredPolicy {
    policy: ProgramPolicy,
    costs: CallCosts,
}

impl MeasuringLoader {
    /// A loader whose programs add to `costs`, of which there is one for each operation to measure.
    /// Fails if this machine cannot run compiled programs.
    pub fn new(costs: Vec<OperationCost>) -> Result<MeasuringLoader, Diagnostic> {
        Ok(MeasuringLoader { loader: Loader::new()?, costs: Arc::new(Mutex::new(costs)) })
    }

    pub fn costs(&self) -> Vec<OperationCost> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ProgramLoader for MeasuringLoader {
    fn load(&self, object: &[u8]) -> Result<Arc<dyn PolicyProgram>, Diagnostic> {
        let program = self.loader.load_program(object)?;
        Ok(Arc::new(MeasuredProgram { program, costs: Arc::clone(&self.costs) }))
    }
}

impl PolicyProgram for MeasuredProgram {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn object(&self) -> &[u8] {
        self.program.object()
    }

    fn fallback(&self) -> &str {
        self.program.fallback()
    }

    fn parameters(&self) -> &[ProgramParameter] {
        self.program.parameters()
    }

    fn build(&self, values: &[u64], devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
        let policy = self.program.policy(values, devids)?;
        Ok(Box::new(MeasuredPolicy { policy, costs: Arc::clone(&self.costs) }))
    }
}

impl MeasuredPolicy {
    /// Records the last call, unless it ended with a fault or the program has no such operation.
    fn record(&self, operation: &str, limit: u64) {
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cost) = costs.iter_mut().find(|cost| cost.operation == operation) else { return };
        if let Some(fuel) = self.policy.fuel_used(limit) {
            cost.add(fuel);
        }
    }
}

impl ReadPolicy for MeasuredPolicy {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(&self.policy)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(&mut self.policy)
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let choice = self.policy.choose(read, mirrors, ctx);
        self.record("choose", CHOOSE_FUEL);
        choice
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.policy.on_submit(io, ctx);
        self.record("submit", EVENT_FUEL);
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.policy.on_complete(io, outcome, ctx);
        self.record("complete", EVENT_FUEL);
    }
}
