//! The ingredients, each of which can be left out to see what it is worth.

/// The words of the policy's parameter; an [`Ingredient`] stands at its number.
pub(crate) const INGREDIENTS: &[&str] =
    &["nothing", "foresight", "territory", "tenancy", "writes", "split", "probes"];

/// What the policy is made of, beside knowing what each member costs.
#[derive(Clone, Copy)]
pub(super) enum Ingredient {
    /// Counting what a read adds to the waits of those behind it.
    Foresight = 1,
    /// Giving each disk the addresses around those that it reads.
    Territory,
    /// Leaving a disk to a sequential reader.
    Tenancy,
    /// Sparing a member that is behind with its writes.
    Writes,
    /// Cutting large reads into parts.
    Split,
    /// Reading from members that were not read for long.
    Probes,
}
