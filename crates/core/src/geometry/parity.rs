//! Parity: full stripes, the unit of writing.
//!
//! A *full stripe* is a row of strips, one on each member of its chunk: n of data, then P, and Q
//! with two parities. Its *columns* are numbered in this order, whatever the members on which they
//! lie: columns 0 to n-1 are the data in the order of the volume, column n is P, column n+1 is Q.

use super::allocate::Stripe;
use super::map::{ChunkMap, ChunkRecord, MappedRange, VolumeRange};
use super::rotation::{ParityRules, RotationRow, StripRole};
use crate::member::MemberIndex;
use crate::policy::Mirror;
use smallvec::smallvec;

/// A row of strips with its parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullStripe {
    /// First byte of its data, on the volume.
    pub volume_offset: u64,
    pub strip_bytes: u64,
    pub data: u8,
    pub parities: u8,
    row: RotationRow,
    row_number: u64,
    first_stripe: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeColumn {
    pub number: u8,
    pub offset: u64,
}

impl FullStripe {
    pub fn columns(&self) -> u8 {
        self.data + self.parities
    }

    /// Bytes of the volume that it holds.
    pub fn length(&self) -> u64 {
        u64::from(self.data) * self.strip_bytes
    }
}

impl ChunkMap {
    /// Number of strips of parity in each row of strips; zero for mirrors.
    pub fn parities(&self) -> usize {
        self.parity.map_or(0, |parity| parity.parities as usize)
    }

    /// Number of members that may fail without loss of data, whichever they are.
    pub fn tolerated_failures(&self) -> usize {
        self.copies() - 1 + self.parities()
    }

    /// The full stripe that holds a byte of the volume; `None` without parity. Panics if the byte
    /// is not within the volume.
    pub fn full_stripe(&self, offset: u64) -> Option<FullStripe> {
        let parity = self.parity?;
        assert!(offset < self.capacity_bytes(), "byte {offset} is outside the volume");
        let chunk = self.chunk_holding(offset);
        let data = u64::from(chunk.groups - parity.parities);
        let row = ((offset - chunk.volume_offset) >> self.strip_shift) / data;
        Some(self.stripe_of(parity, chunk, row))
    }

    /// The member that holds a column of a full stripe, and the first byte there. Panics if there
    /// is no such column.
    pub fn column(&self, stripe: &FullStripe, column: u8) -> (MemberIndex, u64) {
        let row = &stripe.row;
        let position = match column.checked_sub(stripe.data) {
            None => row.data(column.into()),
            Some(0) => row.p(),
            Some(_) => row.q().expect("a column within the stripe"),
        };
        let Stripe { member, offset, .. } = self.stripes[(stripe.first_stripe + position) as usize];
        (member, offset + (stripe.row_number << self.strip_shift))
    }

    /// The full stripe and the column to which a byte of a member belongs; `None` if nothing is
    /// allocated there, or without parity. Panics if there is no such member.
    pub fn column_at(
        &self,
        member: MemberIndex,
        offset: u64,
    ) -> Option<(FullStripe, StripeColumn)> {
        let parity = self.parity?;
        let zone = self.zone_at(member, offset)?;
        let chunk = &self.chunks[zone.chunk as usize];
        let within = offset - zone.offset;
        let row = within >> self.strip_shift;
        let data = chunk.groups - parity.parities;
        if row >= (chunk.length >> self.strip_shift) / u64::from(data) {
            return None;
        }
        let stripe = self.stripe_of(parity, chunk, row);
        let position = self.zone_groups[zone.first_group as usize];
        let number = match stripe.row.role(position) {
            StripRole::Data(index) => index,
            StripRole::P => data,
            StripRole::Q => data + 1,
        };
        let offset = within & ((1 << self.strip_shift) - 1);
        Some((stripe, StripeColumn { number: number as u8, offset }))
    }

    /// Returns true if every byte of the volume can be had from members for which `holds` returns
    /// true; it is given a member and the end of what lies on it.
    pub fn is_held(&self, holds: impl Fn(MemberIndex, u64) -> bool) -> bool {
        let tolerated = self.parities();
        self.mirror_sets().all(|set| {
            let (mut held, mut missing) = (0, 0);
            for (member, end) in set {
                match holds(member, end) {
                    true => held += 1,
                    false => missing += 1,
                }
            }
            if tolerated == 0 { held > 0 } else { missing <= tolerated }
        })
    }

    /// The longest beginning of a range that one strip holds.
    pub(super) fn map_with_parity(
        &self,
        parity: ParityRules,
        offset: u64,
        length: u64,
    ) -> MappedRange {
        let chunk = self.chunk_holding(offset);
        let within = offset - chunk.volume_offset;
        let data = u64::from(chunk.groups - parity.parities);
        let strip = within >> self.strip_shift;
        let strip_bytes = 1 << self.strip_shift;
        let rest = within & (strip_bytes - 1);
        let row = parity.rotation.row(chunk.groups, parity.parities, strip / data);
        let position = row.data((strip % data) as u32);
        let stripe = self.stripes[(chunk.first_stripe + position) as usize];
        let offset = stripe.offset + ((strip / data) << self.strip_shift) + rest;
        let mirror = Mirror { member: stripe.member, offset, copy: 0 };
        let length = length.min(strip_bytes - rest);
        MappedRange { length, mirrors: smallvec![mirror] }
    }

    /// The strip of data that a member holds from `offset` on.
    pub(super) fn locate_with_parity(
        &self,
        member: MemberIndex,
        offset: u64,
    ) -> Option<VolumeRange> {
        let (stripe, column) = self.column_at(member, offset)?;
        let is_data = column.number < stripe.data;
        is_data.then(|| VolumeRange {
            volume_offset: stripe.volume_offset
                + u64::from(column.number) * stripe.strip_bytes
                + column.offset,
            length: stripe.strip_bytes - column.offset,
        })
    }

    fn stripe_of(&self, parity: ParityRules, chunk: &ChunkRecord, row: u64) -> FullStripe {
        let data = chunk.groups - parity.parities;
        let strip_bytes = 1 << self.strip_shift;
        FullStripe {
            volume_offset: chunk.volume_offset + row * u64::from(data) * strip_bytes,
            strip_bytes,
            data: data as u8,
            parities: parity.parities as u8,
            row: parity.rotation.row(chunk.groups, parity.parities, row),
            row_number: row,
            first_stripe: chunk.first_stripe,
        }
    }
}
