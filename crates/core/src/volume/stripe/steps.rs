//! Steps of the executor on the bytes of full stripes.
//!
//! The volume owns no buffer. While it works on a full stripe it asks the executor for one, tells
//! it in [`StripeStep`]s what to compute there, and names the place in it of each member I/O
//! ([`Volume::stripe_place`](crate::volume::Volume::stripe_place)). Rows `r` of column `c` are at
//! `c * rows_bytes + r` of the buffer.

use crate::geometry::FullStripe;
use crate::io::RequestId;
use std::ops::Range;

/// Names a buffer, from its [`StripeStep::Begin`] to its [`StripeStep::End`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StripeBuffer(pub u32);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferRows {
    pub column: u8,
    pub rows: Range<u64>,
}

/// A part of the data of a request, and where it is in the buffer of a stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestRows {
    pub request: RequestId,
    /// First byte of the request, on the volume.
    pub request_offset: u64,
    /// First byte on the volume, which gives the part of the request's buffer.
    pub volume_offset: u64,
    /// The place in the buffer of the stripe, of the same length.
    pub place: BufferRows,
}

/// A step on the buffer of a full stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StripeStep {
    /// Make a buffer of `rows_bytes` bytes for each column of the stripe.
    Begin {
        stripe: Box<FullStripe>,
        rows_bytes: u64,
    },
    /// Copy data of a request into the buffer.
    Load(RequestRows),
    /// Copy data of a request into the buffer and update the parities by the difference to what is
    /// there.
    Update {
        data: RequestRows,
        /// Which of P and Q to update.
        parities: [bool; 2],
    },
    /// Compute the parities of these rows from the data.
    Compute(Range<u64>),
    /// Recover columns of these rows from others.
    Recover {
        rows: Range<u64>,
        /// The columns that are not in the buffer, one bit for each.
        missing: u64,
        /// Those of them that are needed.
        wanted: u64,
    },
    /// Copy from the buffer into the data of a request.
    Deliver(RequestRows),
    End,
}

/// The place of a member I/O in the buffer of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripePlace {
    pub buffer: StripeBuffer,
    pub offset: u64,
}
