//! The data of a volume with a store: checksums of writes, checks of reads, bytes of metadata.

use crate::StoreGate;
use mirrorball_core::io::{IoError, IoId, MemberIo, Request, RequestKind};
use mirrorball_core::volume::Volume;

/// The calls that the executor of a volume with a store makes in addition to those of any volume.
pub trait StoreVolume {
    fn submit_write(&mut self, request: Request, data: &[u8]);

    /// The bytes that a member I/O of metadata writes. Panics if it is none, or writes nothing.
    fn metadata_bytes(&self, io: &MemberIo) -> Box<[u8]>;

    /// Handles the data of a member read that succeeded. To be called before
    /// [`Volume::complete`]; does nothing if the data are of no interest to the store.
    ///
    /// # Errors
    /// With what the read is to be completed instead.
    fn on_read(&mut self, id: IoId, data: &[u8]) -> Result<(), IoError>;
}

impl StoreVolume for Volume<StoreGate> {
    fn submit_write(&mut self, request: Request, data: &[u8]) {
        let checksummer = self.gate().and_then(StoreGate::checksummer);
        self.submit_with(request, |store, key| {
            if let Some(checksummer) = checksummer {
                store.begin_write(key, checksummer.of_blocks(request.offset, data).collect());
            }
        });
    }

    fn metadata_bytes(&self, io: &MemberIo) -> Box<[u8]> {
        let token = self.metadata_token(io.id).expect("the I/O is one of metadata");
        let store = self.gate().expect("metadata are of a volume with a store");
        store.metadata_bytes(token, io, self.states())
    }

    fn on_read(&mut self, id: IoId, data: &[u8]) -> Result<(), IoError> {
        if let Some(token) = self.metadata_token(id) {
            self.change_gate(|store, _| store.on_metadata_read(token, data));
            return Ok(());
        }
        let Some(checksummer) = self.gate().and_then(StoreGate::checksummer) else { return Ok(()) };
        let Some((piece, target, io)) = self.piece_of_read(id) else { return Ok(()) };
        let (io, offset) = (*io, io.volume_offset);
        let checked = self.change_gate(|store, _| match piece.kind {
            RequestKind::Scrub | RequestKind::Resync => {
                store.compare(piece.key, target, checksummer.digests(offset, data).collect());
                Ok(())
            }
            _ => store.check(&piece, &io, checksummer.of_blocks(offset, data)),
        });
        checked.unwrap_or(Ok(()))
    }
}
