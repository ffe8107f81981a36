//! Names of operations, and the parts of the crate that their events belong to.

/// The part of the crate that starts an operation and handles its event.
///
/// [`crate::service`] dispatches events and replies by an exhaustive match on this.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventOwner {
    /// Executor: I/O on the file or device of a member.
    MemberFile,
    /// Executor: a write of the device that takes the place of a member.
    SuccessorFile,
    /// Remote member: bytes from its server.
    RemoteReceive,
    /// Remote member: requests sent to its server.
    RemoteSend,
    /// Remote member: a connection attempt ended.
    RemoteConnect,
    /// Rebuild: a step.
    Rebuild,
    /// Rebuild: a member was opened again.
    Reopen,
    /// Scrub: a step.
    Scrub,
    /// NBD server: a new connection.
    NbdAccept,
    /// NBD server: bytes from a client.
    NbdReceive,
    /// NBD server: replies sent to a client.
    NbdSend,
    /// NBD server: the end of a connection that is not received from.
    NbdHangup,
    /// NBD server: a request to the executor.
    NbdRequest,
    /// NBD server: a connection that was accepted outside of the server.
    NbdExternal,
    /// NBD server: a block status query.
    NbdBlockStatus,
    /// Control socket: a new connection.
    ControlAccept,
    /// Control socket: bytes from a client.
    ControlReceive,
    /// Control socket: a response sent to a client.
    ControlSend,
    /// Control socket: a program was loaded.
    ControlProgram,
    /// Control socket: the end of the connection of a client that follows events.
    ControlHangup,
    /// FUSE: calls in the mailbox, or the end of the teardown.
    FuseCall,
    /// FUSE: a request to the executor.
    FuseRequest,
    /// Service: a stop request.
    Stop,
}

/// Name of an operation, chosen by the caller and returned with its [`super::Event`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    owner: EventOwner,
    key: u32,
}

impl Token {
    /// A token of `owner`, for its own number `key`.
    #[inline]
    pub const fn new(owner: EventOwner, key: u32) -> Token {
        Token { owner, key }
    }

    /// The part of the crate that started the operation.
    #[inline]
    pub const fn owner(self) -> EventOwner {
        self.owner
    }

    /// The owner's number.
    #[inline]
    pub const fn key(self) -> u32 {
        self.key
    }
}
