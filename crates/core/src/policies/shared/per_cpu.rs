//! State that a kernel keeps for each CPU apart.
//!
//! A CPU that was not seen before makes room for itself at its first decision; from then on nothing
//! is allocated.

/// CPUs from here on share the state of those below: memory stays bounded whatever number a caller
/// gives.
const CPUS_MAX: usize = 4096;

/// One value for each CPU.
#[derive(Debug, Default)]
pub(crate) struct PerCpu<T> {
    list: Vec<T>,
}

impl<T: Default> PerCpu<T> {
    /// The value of a CPU; the default at first.
    #[inline]
    pub(crate) fn get(&mut self, cpu: u32) -> &mut T {
        let index = cpu as usize % CPUS_MAX;
        if index >= self.list.len() {
            self.list.resize_with(index + 1, T::default);
        }
        &mut self.list[index]
    }
}
