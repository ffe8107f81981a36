//! Power cuts and kills: how everything in a simulated machine ends at once.

use super::{Due, FileFault, Object, SimOperation, World};
use crate::driver::Driver;
use crate::driver::buffers::Buffers;
use crate::driver::operation::OperationKind;

impl Driver {
    /// Cuts the power of a simulated machine: what is in flight ends nowhere, and files lose what
    /// was not synced, sector by sector. The driver is of no more use. Panics if it is not
    /// simulated.
    pub fn cut_power(&self) {
        let simulation = self.simulation().expect("only a simulation loses power on request");
        let world = &mut *simulation.world();
        world.end_operations(&self.buffers);
        for object in &mut world.objects {
            if let Object::File(file) = object {
                file.lose_unsynced(&mut world.rng);
            }
        }
    }

    /// Kills the program of a simulated machine: each operation in flight happens or not, and files
    /// keep what completed, synced or not. The driver is of no more use. Panics if it is not
    /// simulated.
    pub fn kill(&self) {
        let simulation = self.simulation().expect("only a simulation is killed on request");
        simulation.world().end_operations(&self.buffers);
    }
}

impl World {
    /// Ends what is in flight. Half of the writes happen, without a reply.
    fn end_operations(&mut self, buffers: &Buffers) {
        let due = std::mem::take(&mut self.due).into_values();
        let due = due.filter_map(|due| match due {
            Due::Operation(operation) => Some(operation),
            Due::Wake(_) => None,
        });
        let operations: Vec<SimOperation> = due.chain(std::mem::take(&mut self.parked)).collect();
        self.wakers.clear();
        for SimOperation { object, kind, .. } in operations {
            let happens = self.rng.below(2) == 0;
            if let (Object::File(file), OperationKind::Write { offset, slice }) =
                (&mut self.objects[object.0 as usize], kind)
                && happens
                && !matches!(file.fault, FileFault::Fails(_))
            {
                file.write(offset, buffers.bytes(slice));
            }
        }
    }
}
