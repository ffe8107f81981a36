//! Components of the policy that can be left out, to measure what each is worth.

/// Words of the parameter `without`; a [`Component`] is the index of its word.
pub(crate) const COMPONENTS: &[&str] = &[
    "nothing", "marginal-cost", "locality", "affinity", "writes", "split", "probes", "fairness",
    "workloads", "redundancy", "reconstruction",
];

/// A part of the rule that goes beyond the cost of the read itself.
#[derive(Clone, Copy)]
pub(super) enum Component {
    /// Adding the time by which a read delays those behind it.
    MarginalCost = 1,
    /// Preferring the disk that lately read near the address.
    Locality,
    /// Dedicating a disk to a sequential stream.
    Affinity,
    /// Avoiding a disk that is behind with its writes.
    Writes,
    /// Splitting large reads over the mirrors.
    Split,
    /// Reading from members that were not read for a long time.
    Probes,
    /// Sparing the reads of streams that have less in flight.
    Fairness,
    /// Counting streams that read alike as one.
    Workloads,
    /// Reading a second copy where that delays nothing.
    Redundancy,
    /// With parity, recovering what a slow member holds from others.
    Reconstruction,
}

/// The components in use: all, or all but one.
#[derive(Clone, Copy)]
pub(super) struct Components {
    without: u64,
}

impl Components {
    /// Applies the value of the parameter `without`.
    pub(super) fn without(index: u64) -> Components {
        Components { without: index }
    }

    #[inline]
    pub(super) fn has(self, component: Component) -> bool {
        self.without != component as u64
    }
}
