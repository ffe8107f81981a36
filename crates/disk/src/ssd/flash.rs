//! Reads of flash: which dies hold a range, for how long each is held, and when all is read.
//!
//! Pages are dealt to the dies by address, so neighbouring pages lie on different dies and a large
//! read, or several in sequence, uses many at once. A page is held for tR, what its type adds, and
//! the transfer of the bytes wanted over its channel. The type belongs to the 4 KiB block, by a
//! fixed scattering of its address: ublk-disksim (docs/VALIDATION.md) saw on a Micron 7300 that
//! the same block always takes the same time and that neighbours differ at random. Several blocks
//! of one page take the time of the slowest.

use super::die::{Die, DieRead, DieTiming};
use super::parameters::SsdParameters;
use super::writes::ByteTime;
use crate::model::ByteRange;
use mirrorball_core::rng::Rng;

const BLOCK_SHIFT: u32 = 12;

/// The dies and what reads of them take.
#[derive(Clone, Debug)]
pub(super) struct FlashArray {
    pub(super) dies: Vec<Die>,
    pub(super) timing: DieTiming,
    page_shift: u32,
    /// ceil(2^64 / dies), for a remainder without a division (Lemire, Kaser and Kurz, "Faster
    /// remainder by direct computation", 2019).
    reciprocal: u64,
    channel: ByteTime,
    /// tR plus what each page type adds.
    read_ns: Vec<u64>,
    slowest_ns: u64,
    /// Scatters the page types differently for each seed.
    scatter: u64,
}

impl FlashArray {
    pub(super) fn new(parameters: &SsdParameters, rng: &mut Rng) -> FlashArray {
        let read_ns: Vec<u64> =
            parameters.page_types.iter().map(|extra| (parameters.read + *extra).0).collect();
        let slowest_ns = *read_ns.iter().max().expect("a disk has at least one page type");
        FlashArray {
            dies: (0..parameters.dies).map(|_| Die::new(rng.next_u64())).collect(),
            timing: DieTiming {
                program_ns: parameters.program.0,
                slc_program_ns: parameters.slc_program.unwrap_or(parameters.program).0,
                copy_read_ns: parameters.copy_read.0,
                erase_ns: parameters.erase.0,
                suspend_ns: parameters.suspend.map(|suspend| suspend.0),
                suspend_refused: (parameters.suspend_refused * f64::from(u32::MAX)).round() as u64,
            },
            page_shift: parameters.page.trailing_zeros(),
            reciprocal: (u64::MAX / u64::from(parameters.dies)).wrapping_add(1),
            channel: ByteTime::new(1e9, parameters.channel as f64),
            read_ns,
            slowest_ns,
            scatter: rng.next_u64(),
        }
    }

    /// Reads `range` from `at` on: when the last die is done, and how long all of them are held.
    #[inline]
    pub(super) fn read(&mut self, at: u64, range: ByteRange) -> DieRead {
        let end = range.offset + range.length;
        if range.length == 0 || (range.offset ^ (end - 1)) >> self.page_shift != 0 {
            return self.read_pages(at, range);
        }
        let (die, hold_ns, _) = self.page(range.offset, end);
        self.dies[die].read(at, hold_ns, &self.timing)
    }

    /// Reads a range of several pages, or of none.
    fn read_pages(&mut self, at: u64, range: ByteRange) -> DieRead {
        let mut total = DieRead { end: at, held_ns: 0 };
        let (mut offset, end) = (range.offset, range.offset + range.length);
        while offset < end {
            let (die, hold_ns, next) = self.page(offset, end);
            let read = self.dies[die].read(at, hold_ns, &self.timing);
            total.end = total.end.max(read.end);
            total.held_ns += read.held_ns;
            offset = next;
        }
        total
    }

    /// When a read of `range` from `at` on would end, or `None` if the range is so large that it
    /// meets itself on a die.
    #[inline]
    pub(super) fn read_end(&self, at: u64, range: ByteRange) -> Option<u64> {
        let (mut offset, end) = (range.offset, range.offset + range.length);
        let pages = ((end.max(1) - 1) >> self.page_shift) - (offset >> self.page_shift) + 1;
        if pages > self.dies.len() as u64 {
            return None;
        }
        let mut read_end = at;
        while offset < end {
            let (die, hold_ns, next) = self.page(offset, end);
            let mut copy = self.dies[die];
            read_end = read_end.max(copy.read(at, hold_ns, &self.timing).end);
            offset = next;
        }
        Some(read_end)
    }

    /// The share of the time of all dies that holding one for `held_ns` is.
    #[inline]
    pub(super) fn share(&self, held_ns: u64) -> u64 {
        if self.dies.len() == 1 {
            return held_ns;
        }
        ((u128::from(held_ns) * u128::from(self.reciprocal)) >> 64) as u64
    }

    /// The die that holds `offset`, how long reading from there to `end` or the end of the page
    /// holds it, and where the next page begins.
    #[inline(always)]
    fn page(&self, offset: u64, end: u64) -> (usize, u64, u64) {
        let page = offset >> self.page_shift;
        let next = (page + 1) << self.page_shift;
        let end = end.min(next);
        let hold_ns = self.page_read_ns(offset, end) + self.channel.of(end - offset);
        (self.die_of(page), hold_ns, next)
    }

    #[inline]
    fn die_of(&self, page: u64) -> usize {
        // Exact for page numbers below 2^52 and up to 4096 dies. One die has the reciprocal zero.
        let fraction = self.reciprocal.wrapping_mul(page);
        ((u128::from(fraction) * self.dies.len() as u128) >> 64) as usize
    }

    /// The time of the slowest block from `offset` to `end`, within one page.
    #[inline]
    fn page_read_ns(&self, offset: u64, end: u64) -> u64 {
        if self.read_ns.len() == 1 {
            return self.slowest_ns;
        }
        let (first, last) = (offset >> BLOCK_SHIFT, (end - 1) >> BLOCK_SHIFT);
        let mut slowest = self.read_ns[self.page_type(first)];
        for block in first + 1..=last {
            slowest = slowest.max(self.read_ns[self.page_type(block)]);
            if slowest == self.slowest_ns {
                break;
            }
        }
        slowest
    }

    #[inline]
    fn page_type(&self, block: u64) -> usize {
        let mixed = (block ^ self.scatter).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed) * self.read_ns.len() as u128) >> 64) as usize
    }
}
