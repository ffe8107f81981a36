//! Keys of the slabs of the server.

mirrorball_core::slab_key! {
    /// Names a connection; its slot is in the tokens of its driver operations.
    pub(super) struct ConnectionKey;
}

mirrorball_core::slab_key! {
    /// Names a client's request in flight; its slot is in the tokens of its I/O requests.
    pub(super) struct ClientRequestKey;
}
