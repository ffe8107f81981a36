//! A path that members share: a bus, an HBA, a network.
//!
//! Each direction carries one transfer at a time at its own rate, first ready first served, and is
//! independent of the other. A crossing then takes `latency` more, plus a jitter drawn evenly from
//! zero to `jitter`; transfers of one direction arrive in the order in which they were sent.
//! Commands and acknowledgements carry no data: they take the latency and slip between transfers.
//!
//! A read sends its command across, runs on the disk, and brings its data back. A write brings its
//! data to the disk before it starts there, and sends an acknowledgement back. So every I/O pays
//! the latency twice and the bandwidth once. The bank ([`crate::model_array`]) walks an I/O along
//! this path; here is the timing of one crossing. An I/O that is taken back on its way leaves what
//! the link has promised as it is: the transfer has been spent.
//!
//! The reason for it: the 3ware card of the btrfs wiki's "Multi-device Benchmarks" passes 200 MB/s
//! of reads and 190 MB/s of writes, whatever the four disks behind it could do.
//!
//! Non-goals: packets, loss, and links in series.

use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkParameters {
    /// By which members refer to it.
    pub name: String,
    /// Bytes per second towards the host, or `None` if it never limits.
    pub read_rate: Option<u64>,
    /// Bytes per second towards the disks, or `None` if it never limits.
    pub write_rate: Option<u64>,
    /// Time of one crossing, in either direction.
    pub latency: Nanos,
    /// The most that chance adds to one crossing.
    pub jitter: Nanos,
}

/// Which way something crosses a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkDirection {
    /// Data of reads, acknowledgements of writes.
    ToHost,
    /// Data of writes, commands of reads.
    ToDisk,
}

#[derive(Clone, Debug)]
pub struct Link {
    parameters: LinkParameters,
    to_host: LinkLane,
    to_disk: LinkLane,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct LinkLane {
    busy_until: Nanos,
    last_arrival: Nanos,
}

impl Link {
    /// An idle link. Equal seeds give equal jitter.
    pub fn new(parameters: LinkParameters, seed: u64) -> Link {
        let rng = Rng::stream(seed, &parameters.name);
        Link { parameters, to_host: LinkLane::default(), to_disk: LinkLane::default(), rng }
    }

    /// Sends `bytes` (zero for a command or an acknowledgement) that are ready at `ready`, and
    /// returns when they arrive. Calls for one direction must come in the order of `ready`.
    pub fn carry(&mut self, direction: LinkDirection, ready: Nanos, bytes: u64) -> Nanos {
        let jitter = match self.parameters.jitter {
            Nanos::ZERO => Nanos::ZERO,
            Nanos(most) => Nanos(self.rng.below(most + 1)),
        };
        let crossing = self.parameters.latency + jitter;
        if bytes == 0 {
            return ready.saturating_add(crossing);
        }
        let (lane, rate) = match direction {
            LinkDirection::ToHost => (&mut self.to_host, self.parameters.read_rate),
            LinkDirection::ToDisk => (&mut self.to_disk, self.parameters.write_rate),
        };
        let transfer = rate.map_or(Nanos::ZERO, |rate| Nanos::transfer(bytes, rate));
        lane.busy_until = ready.max(lane.busy_until).saturating_add(transfer);
        lane.last_arrival = lane.busy_until.saturating_add(crossing).max(lane.last_arrival);
        lane.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn link(latency: u64, jitter: u64) -> Link {
        let parameters = LinkParameters {
            name: "hba".to_owned(),
            read_rate: Some(200_000_000),
            write_rate: Some(100_000_000),
            latency: Nanos(latency),
            jitter: Nanos(jitter),
        };
        Link::new(parameters, 1)
    }

    #[test]
    fn each_direction_is_serial_and_has_its_own_rate() {
        let mut link = link(50, 0);
        // 200,000 bytes: 1 ms towards the host, 2 ms towards the disk.
        let read = |link: &mut Link, at| link.carry(LinkDirection::ToHost, Nanos(at), 200_000).0;
        assert_eq!(read(&mut link, 0), MILLI + 50);
        assert_eq!(read(&mut link, 0), 2 * MILLI + 50, "behind the first; latency once");
        assert_eq!(link.carry(LinkDirection::ToDisk, Nanos(0), 200_000).0, 2 * MILLI + 50);
        assert_eq!(read(&mut link, 7 * MILLI), 8 * MILLI + 50, "idle in between");
    }

    #[test]
    fn commands_slip_between_transfers() {
        let mut link = link(50, 0);
        link.carry(LinkDirection::ToDisk, Nanos(0), 1 << 20);
        assert_eq!(link.carry(LinkDirection::ToDisk, Nanos(10), 0), Nanos(60));
    }

    #[test]
    fn jitter_is_seeded_bounded_and_does_not_reorder() {
        let arrivals = |mut link: Link| -> Vec<u64> {
            (0..1000).map(|i| link.carry(LinkDirection::ToHost, Nanos(i * 100), 1).0).collect()
        };
        let jittered = arrivals(link(0, 1000));
        assert_eq!(jittered, arrivals(link(0, 1000)));
        assert!(jittered.is_sorted());
        // A byte takes 5 ns; what is held back by an earlier arrival stays within the jitter too.
        let added: Vec<u64> = jittered.iter().zip(0..).map(|(at, i)| at - i * 100 - 5).collect();
        assert!(added.iter().all(|&ns| ns <= 1000), "{added:?}");
        let most_common = added.iter().filter(|&&ns| ns == added[0]).count();
        assert!(most_common < 100, "a draw for each crossing");
    }
}
