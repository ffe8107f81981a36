//! Readers of block traces: one record type for all formats, in memory of constant size.
//!
//! A [`TraceFile`] knows the path and the format of a trace; [`TraceFile::open`] returns a
//! [`TraceReader`], which yields one [`TraceRecord`] after the other. The table [`FORMATS`] has one
//! row per format. `formats/` has one file per format: a parser that turns a line, or a binary
//! record, into a request with the time on the trace's own clock. The reader does the rest, alike
//! for all formats: it counts time from the first request, sorts requests that are slightly out of
//! order, and spreads the requests of a clock that counts whole seconds.
//!
//! Memory does not depend on the size of the trace: a reader holds one buffer, a bounded number of
//! requests, and the names of the devices, of which there may be 65,536.
//!
//! **To add a format, add one file and one row.**
//!
//! Non-goals: compressed files; traces without addresses or operations, such as those of caches.

mod bins;
mod capture;
mod counted_load;
mod describe;
mod device_names;
mod fields;
mod fit;
mod formats;
mod input;
mod load_kinds;
mod reader;
mod record;
mod summary;
mod trace_file;

#[cfg(test)]
mod binary_tests;
#[cfg(test)]
mod capture_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod variant_tests;

pub use bins::{Bins, SizeCount};
pub use capture::{
    BtrfsChunk, CaptureCounts, CaptureWriter, CapturedDevice, ChunkTable, HEADER as CAPTURE_HEADER,
};
pub use counted_load::{CountedLoad, CountedOperations};
pub use formats::{FORMATS, TraceFormat, compression};
pub use load_kinds::LoadClass;
pub use reader::TraceReader;
pub use record::{TraceOp, TraceRecord};
pub use summary::{DeviceSummary, TraceSummary};
pub use trace_file::TraceFile;
