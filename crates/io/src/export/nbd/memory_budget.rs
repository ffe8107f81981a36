//! Memory budget: bounds the memory of the requests and replies of all clients together.
//!
//! A request reserves the memory of its data before it is read from the client's socket, and gives
//! it back when its reply is sent. The budget has two pools. Requests of any size reserve from the
//! large one. A quarter is for small requests alone, and of this pool a client gets one request at
//! a time, or several that are tiny: a hundred clients that hold what they can do not stop another
//! one that does little.
//!
//! In the large pool a client that holds memory already gets more only if as much stays free as it
//! then holds. So one client alone may use half of it, and several that are busy share it equally:
//! the rule of dynamic thresholds of shared buffers.
//!
//! No deadlock: the large pool takes a request of the largest size when no other client holds any
//! of it, and while a client waits for the large pool, no other client reserves from it.
//!
//! Source: A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet
//! switches", IEEE/ACM Transactions on Networking 6(2), 1998.

/// Limit of a server's memory for requests and replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryMax(pub usize);

impl MemoryMax {
    /// The least limit: the large pool has room for the largest request, of 32 MiB.
    pub const LEAST: MemoryMax = MemoryMax(64_000_000);
}

impl Default for MemoryMax {
    fn default() -> MemoryMax {
        MemoryMax(256_000_000)
    }
}

/// Number of clients that may each hold as much of the small pool as they get.
const CLIENTS: usize = 128;

/// Memory that the request of a client has reserved. It is given back to the budget.
#[derive(PartialEq, Eq, Debug)]
#[must_use]
pub(super) struct Reservation {
    bytes: usize,
    pool: PoolKind,
}

/// Memory that all requests of a client have reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    large: usize,
    small: usize,
}

/// The place of a client that reserves from the large pool among those that wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// No client waits.
    NoneWaits,
    /// It is the first of those that wait.
    First,
    /// Others wait before it.
    Behind,
}

/// See the page of this module.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    large: Pool,
    small: Pool,
    /// Number of clients that may have a large input buffer at once.
    large_inputs_max: usize,
    large_inputs: usize,
    /// True if memory was given back since that was last asked.
    was_released: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PoolKind {
    Large,
    Small,
}

#[derive(Debug)]
struct Pool {
    bytes_max: usize,
    used: usize,
}

impl Reservation {
    pub(super) const NONE: Reservation = Reservation { bytes: 0, pool: PoolKind::Small };
}

impl MemoryBudget {
    /// A budget of at least [`MemoryMax::LEAST`]. `input_bytes` is the size of a large input
    /// buffer, of which a sixteenth of the budget is the limit.
    pub(super) fn new(memory_max: MemoryMax, input_bytes: usize) -> MemoryBudget {
        let bytes = memory_max.0.max(MemoryMax::LEAST.0);
        let (inputs, small) = (bytes / 16, bytes / 4);
        MemoryBudget {
            large: Pool { bytes_max: bytes - inputs - small, used: 0 },
            small: Pool { bytes_max: small, used: 0 },
            large_inputs_max: inputs / input_bytes,
            large_inputs: 0,
            was_released: false,
        }
    }

    /// The limit of a request that may use the small pool.
    pub(super) fn is_small(&self, bytes: usize) -> bool {
        bytes <= self.small.bytes_max / CLIENTS
    }

    /// Reserves memory for a request of a client that holds `held`, or returns `None` if the client
    /// has to wait.
    pub(super) fn reserve(
        &mut self,
        held: &mut Held,
        bytes: usize,
        turn: Turn,
    ) -> Option<Reservation> {
        let fits = match turn {
            Turn::NoneWaits => self.large.shares(held.large, bytes),
            Turn::First => self.large.fits(bytes),
            Turn::Behind => false,
        };
        if fits {
            self.large.used += bytes;
            held.large += bytes;
            return Some(Reservation { bytes, pool: PoolKind::Large });
        }
        let is_fair = match held.small {
            0 => self.is_small(bytes),
            held => held + bytes <= self.small.bytes_max / CLIENTS / 4,
        };
        if is_fair && self.small.fits(bytes) {
            self.small.used += bytes;
            held.small += bytes;
            return Some(Reservation { bytes, pool: PoolKind::Small });
        }
        None
    }

    /// Gives memory back.
    pub(super) fn release(&mut self, held: &mut Held, reservation: Reservation) {
        let Reservation { bytes, pool } = reservation;
        let (pool, held) = match pool {
            PoolKind::Large => (&mut self.large, &mut held.large),
            PoolKind::Small => (&mut self.small, &mut held.small),
        };
        pool.used -= bytes;
        *held -= bytes;
        self.was_released |= bytes > 0;
    }

    /// Returns true if memory was given back since the last call.
    pub(super) fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.was_released)
    }

    /// Reserves a large input buffer.
    pub(super) fn reserve_input(&mut self) -> bool {
        let fits = self.large_inputs < self.large_inputs_max;
        self.large_inputs += usize::from(fits);
        fits
    }

    /// Gives a large input buffer back.
    pub(super) fn release_input(&mut self) {
        self.large_inputs -= 1;
    }
}

impl Held {
    pub(super) fn bytes(self) -> usize {
        self.large + self.small
    }
}

impl Pool {
    fn fits(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max - self.used
    }

    /// Returns true if the bytes fit and, of a client that holds some, leave a fair share.
    fn shares(&self, held: usize, bytes: usize) -> bool {
        self.fits(bytes) && (held == 0 || held + bytes <= self.bytes_max - self.used - bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_nbd::wire::DATA_BYTES_MAX;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    fn budget() -> MemoryBudget {
        MemoryBudget::new(MemoryMax(256 * MIB), MIB / 4)
    }

    /// Reserves as often as it is granted; returns how much that was.
    fn take_all(budget: &mut MemoryBudget, held: &mut Held, bytes: usize) -> usize {
        let mut taken = 0;
        while budget.reserve(held, bytes, Turn::NoneWaits).is_some() {
            taken += bytes;
        }
        taken
    }

    #[test]
    fn small_requests_pass_clients_that_hold_everything() {
        let mut budget = budget();
        let mut greedy = [Held::default(); 100];
        let taken: usize =
            greedy.iter_mut().map(|held| take_all(&mut budget, held, 32 * MIB)).sum();
        assert!((128 * MIB..=176 * MIB).contains(&taken), "{taken}");
        // Others hold what they can of the small pool, by requests of any size.
        for (held, bytes) in greedy.iter_mut().zip([4096, 65536, 512 << 10].into_iter().cycle()) {
            take_all(&mut budget, held, bytes);
        }
        let mut good = [Held::default(); 20];
        for held in &mut good {
            assert!(take_all(&mut budget, held, 4096) >= 16 * 4096);
        }
        assert!(budget.large.used + budget.small.used <= 240 * MIB);
    }

    #[test]
    fn largest_request_fits_the_least_budget_and_waits_its_turn() {
        let mut budget = MemoryBudget::new(MemoryMax(1), MIB / 4);
        let [mut first, mut second, mut third] = [Held::default(); 3];
        let largest = DATA_BYTES_MAX as usize;
        let one = budget.reserve(&mut first, largest, Turn::NoneWaits).unwrap();
        assert_eq!(budget.reserve(&mut second, largest, Turn::NoneWaits), None);
        let other = budget.reserve(&mut third, MIB, Turn::NoneWaits).unwrap();
        budget.release(&mut first, one);
        assert_eq!(budget.reserve(&mut third, MIB, Turn::Behind), None, "the second waits");
        let two = budget.reserve(&mut second, largest, Turn::First).unwrap();
        budget.release(&mut third, other);
        budget.release(&mut second, two);
        assert!(budget.take_released() && !budget.take_released());
        assert!(first.bytes() + second.bytes() + third.bytes() == 0);
    }

    proptest! {
        #[test]
        fn it_never_exceeds_the_limit_and_gets_all_back(
            steps in prop::collection::vec((0..8usize, 1..(32usize << 20), 0..3u8), 1..200),
        ) {
            let mut budget = budget();
            let mut clients: Vec<(Held, Vec<Reservation>)> = Vec::new();
            clients.resize_with(8, Default::default);
            for (client, bytes, action) in steps {
                let (held, reservations) = &mut clients[client];
                match action {
                    0 if !reservations.is_empty() => {
                        budget.release(held, reservations.swap_remove(0));
                    }
                    1 => reservations.extend(budget.reserve(held, bytes % 65536, Turn::Behind)),
                    _ => reservations.extend(budget.reserve(held, bytes, Turn::NoneWaits)),
                }
                let total: usize =
                    clients.iter().flat_map(|(_, all)| all).map(|one| one.bytes).sum();
                prop_assert!(total <= 240 * MIB);
                prop_assert_eq!(total, budget.large.used + budget.small.used);
            }
            for (held, reservations) in &mut clients {
                for reservation in reservations.drain(..) {
                    budget.release(held, reservation);
                }
                prop_assert_eq!(held.bytes(), 0);
            }
            prop_assert_eq!(budget.large.used + budget.small.used, 0);
        }
    }
}
