//! The end of a driver: its operations are ended, because the kernel uses their memory.

use super::{Backend, Driver, Handle, OperationKey};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Time that a dropped driver waits for operations in flight.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

impl Driver {
    /// Ends the operations that wait on a descriptor that is being closed.
    pub(super) fn end_waits(&mut self, handle: Handle) {
        let descriptor = self.descriptors.get(handle);
        match &descriptor.waker {
            Some(waker) => waker.wake(),
            // To shut a socket down would end it for the other processes, too.
            None if descriptor.is_shared => self.cancel_operations(handle),
            None => descriptor.resource.shut_down(),
        }
    }

    fn cancel_operations(&mut self, handle: Handle) {
        let operations = self.operations.iter().filter(|(_, it)| it.handle == handle);
        for key in operations.map(|(key, _)| key).collect::<Vec<OperationKey>>() {
            match &mut self.backend {
                Backend::Ring(ring) => ring.cancel(key),
                Backend::Threads(pool) => {
                    if pool.cancel(key) {
                        self.ended.push((key, Err(Errno::CANCELED)));
                    }
                }
                Backend::Simulated(_) => {}
            }
        }
    }

    /// Ends all operations. Returns false if some had not ended after `DROP_TIMEOUT`.
    pub(super) fn end_operations(&mut self) -> bool {
        for descriptor in self.descriptors.iter_mut() {
            // The operation of a waker starts again unless its descriptor is being closed.
            descriptor.closing = true;
        }
        let handles: Vec<Handle> = self.descriptors.iter().map(|(handle, _)| handle).collect();
        handles.into_iter().for_each(|handle| self.end_waits(handle));
        if self.simulation().is_some() {
            // Nothing but the driver uses the memory.
            return true;
        }
        let deadline = Instant::now() + DROP_TIMEOUT;
        let mut done = Vec::new();
        while !self.operations.is_empty() {
            let waited = self.wait(Some(Duration::from_millis(100)), &mut done);
            if waited.is_err() || Instant::now() > deadline {
                return false;
            }
        }
        true
    }
}

impl Drop for Driver {
    /// Ends operations on sockets and waits for those on files, because the kernel uses their
    /// memory. Then files are closed here: the kernel ends a ring, with the files in its table, a
    /// while after the process, and another server could not open them until then.
    fn drop(&mut self) {
        if self.end_operations() {
            if let Backend::Ring(ring) = &mut self.backend {
                ring.release_table();
            }
        } else {
            // The device does not respond: leak the memory that it may still use.
            std::mem::forget(std::mem::take(&mut self.buffers));
            if let Backend::Ring(ring) = &mut self.backend {
                ring.leak_messages();
            }
        }
        if let Backend::Simulated(simulation) = &self.backend {
            simulation.leave_driver(self.buffers.take_memory());
        }
    }
}
