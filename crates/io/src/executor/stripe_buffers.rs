//! The buffers of full stripes, and what the volume asks to be computed in them.
//!
//! The volume names a buffer and says in steps what happens to its bytes; the arithmetic is that of
//! `mirrorball_parity`. Steps are done as soon as the volume gives them, before the member I/O that
//! relies on them starts.
//!
//! Data for a request are not copied into its buffer at once, because other member I/O of the
//! request may still write to it: they wait in a buffer of their own until the request ends, as the
//! winners of races do.

use super::Executor;
use super::member_io::LateData;
use super::request::RequestName;
use crate::driver::buffers::{BufferKey, Slice};
use mirrorball_core::geometry::FullStripe;
use mirrorball_core::volume::{BufferRows, RequestRows, StripeBuffer, StripePlace, StripeStep};
use mirrorball_parity::StripeBytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// The buffers in use, by the numbers that the volume gave them.
#[derive(Default)]
pub(super) struct StripeBuffers {
    held: BTreeMap<StripeBuffer, HeldStripe>,
    /// New data of an update, while old ones are in the buffer.
    scratch: Vec<u8>,
}

/// A full stripe in memory.
struct HeldStripe {
    buffer: BufferKey,
    rows_bytes: u64,
    data: u8,
    parities: u8,
}

impl StripeBuffers {
    pub(super) fn buffer(&self, place: StripePlace) -> BufferKey {
        self.stripe(place.buffer).buffer
    }

    fn stripe(&self, number: StripeBuffer) -> &HeldStripe {
        self.held.get(&number).expect("the volume began with this stripe and has not ended")
    }
}

impl HeldStripe {
    fn length(&self) -> usize {
        usize::from(self.data + self.parities) * self.rows_bytes as usize
    }

    /// The bytes of some rows of a column.
    fn slice(&self, place: &BufferRows) -> Slice {
        let offset = u64::from(place.column) * self.rows_bytes + place.rows.start;
        let length = place.rows.end - place.rows.start;
        Slice::data(self.buffer, offset as usize, length as usize)
    }
}

impl Executor {
    pub(super) fn do_stripe_step(&mut self, number: StripeBuffer, step: StripeStep) {
        match step {
            StripeStep::Begin { stripe, rows_bytes } => self.begin(number, &stripe, rows_bytes),
            StripeStep::Load(data) => {
                let to = self.stripes.stripe(number).slice(&data.place);
                let from = slice_of_request(&data);
                self.driver.copy(from, to);
            }
            StripeStep::Update { data, parities } => {
                let from = slice_of_request(&data);
                let mut new = std::mem::take(&mut self.stripes.scratch);
                new.clear();
                new.extend_from_slice(self.driver.bytes(from));
                let (column, row) = (data.place.column.into(), data.place.rows.start as usize);
                self.with_stripe(number, |mut stripe| stripe.update(column, row, &new, parities));
                self.stripes.scratch = new;
            }
            StripeStep::Compute(rows) => {
                self.with_stripe(number, |mut stripe| stripe.compute(local(&rows)));
            }
            StripeStep::Recover { rows, missing, wanted } => {
                let columns = |bits: u64| (0..64).filter(move |column| bits & 1 << column != 0);
                let missing: Vec<usize> = columns(missing).collect();
                let wanted: Vec<usize> = columns(wanted).collect();
                self.with_stripe(number, |mut stripe| {
                    stripe.recover(local(&rows), &missing, &wanted);
                });
            }
            StripeStep::Deliver(data) => self.deliver_later(number, &data),
            StripeStep::End => {
                let stripe = self.stripes.held.remove(&number).expect("a stripe ends once");
                self.driver.release(stripe.buffer);
            }
        }
    }

    fn begin(&mut self, number: StripeBuffer, stripe: &FullStripe, rows_bytes: u64) {
        let buffer = self.driver.acquire((rows_bytes * u64::from(stripe.columns())) as usize);
        let held = HeldStripe { buffer, rows_bytes, data: stripe.data, parities: stripe.parities };
        let before = self.stripes.held.insert(number, held);
        assert!(before.is_none(), "{number:?} is in use");
    }

    /// Keeps data of a request until it ends.
    fn deliver_later(&mut self, number: StripeBuffer, data: &RequestRows) {
        let from = self.stripes.stripe(number).slice(&data.place);
        let buffer = self.driver.acquire(from.length);
        self.driver.copy(from, Slice::data(buffer, 0, from.length));
        let to = slice_of_request(data);
        self.late_data.push(LateData { buffer, request: data.request, to });
    }

    fn with_stripe(&mut self, number: StripeBuffer, work: impl FnOnce(StripeBytes<'_>)) {
        let stripe = self.stripes.stripe(number);
        let bytes = self.driver.bytes_mut(Slice::data(stripe.buffer, 0, stripe.length()));
        work(StripeBytes::new(bytes, stripe.data.into(), stripe.parities.into()));
    }
}

/// The data in the buffer of the request.
fn slice_of_request(data: &RequestRows) -> Slice {
    let buffer = RequestName::of(data.request).buffer;
    let (offset, rows) = (data.volume_offset - data.request_offset, &data.place.rows);
    let length = (rows.end - rows.start) as usize;
    Slice::data(buffer.expect("a request for data has a buffer"), offset as usize, length)
}

fn local(rows: &Range<u64>) -> Range<usize> {
    rows.start as usize..rows.end as usize
}
