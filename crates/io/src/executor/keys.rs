//! The keys of what an executor has under way.

mirrorball_core::slab_key! {
    /// Names a request of the executor.
    pub(super) struct IoRequestKey;
}

mirrorball_core::slab_key! {
    /// Names a member I/O that is not completed; its slot is in the tokens of its parts.
    pub(super) struct ActiveIoKey;
}
