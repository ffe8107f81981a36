//! State that a kernel keeps separately for each CPU.
//!
//! The first decision on a CPU allocates its state; after that nothing is allocated.

/// CPUs from this number on share the state of lower ones, so that memory is bounded whatever
/// number a caller passes.
const CPUS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct PerCpu<T> {
    list: Vec<T>,
}

impl<T: Default> PerCpu<T> {
    /// The value of a CPU; initially the default.
    #[inline]
    pub(crate) fn get(&mut self, cpu: u32) -> &mut T {
        let index = cpu as usize % CPUS_MAX;
        if index >= self.list.len() {
            self.list.resize_with(index + 1, T::default);
        }
        &mut self.list[index]
    }
}
