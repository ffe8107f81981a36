//! The comparison of a disk with what its I/O takes as long as it is healthy.

use super::history::DEVIATION_ASSUMED;
use super::judged_disk::JudgedDisk;
use super::steady::SIZE_RATIO_MAX;
use super::{Change, Evaluated, STREAM_BYTES};
use crate::evidence::RATIO_TOLERATED;
use crate::service::{DiskKind, DiskService, IoDirection};

/// Peers say what a load takes if they were sent as much, and absolve a disk if they were sent
/// about as much: a policy that prefers one disk sends the others what comes at bad times.
const SAME_RATE: f64 = 1.25;
const LIKE_RATE: f64 = 2.0;
/// How many times longer random reads of flash take than those of a stream at most: what a drive
/// reads ahead of a stream comes from its memory.
const STREAM_GAIN: f64 = 4.0;
/// How long flash programs a page: so much longer, and twice as long at most, does a read take that
/// meets it. Which do depends on where others go, and on how full the flash is.
const PROGRAM_NS: f64 = 1e6;
/// How many times longer random I/O over a whole hard disk takes than over a part of it.
const SPAN_GAIN: f64 = 2.0;
/// How well is known what random reads take: the deviation of its logarithm.
const RANDOM_DOUBT: f64 = 0.2;
/// How well the growth of a hard disk's waits with the depth is known: its power.
const DEPTH_DOUBT: f64 = 0.1;
/// Share of the longest service of random I/O from which a load is of random I/O.
const RANDOM_SHARE: f64 = 0.3;

/// How much slower than expected a disk is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slowness {
    /// The best estimate.
    pub(super) estimate: Option<Change>,
    /// The part that the sequential test counts.
    pub(super) evidence: Option<Change>,
    /// True if it is slower than it was, however slow others are.
    pub(super) is_changed: bool,
}

/// One direction of a disk, and what it is compared with.
pub(super) struct DiskComparison<'a> {
    disk: &'a JudgedDisk,
    class: DiskKind,
    own: &'a Evaluated,
    is_read: bool,
    is_small: bool,
    /// The same direction of the other disks.
    peers: Vec<(&'a JudgedDisk, &'a Evaluated)>,
    /// The longest that random reads of this size took before.
    known_ns: Option<f64>,
}

impl<'a> DiskComparison<'a> {
    pub(super) fn new(
        disks: &'a [JudgedDisk],
        place: usize,
        own: &'a Evaluated,
        all: &'a [[Option<Evaluated>; 2]],
    ) -> DiskComparison<'a> {
        let disk = &disks[place];
        let (class, direction) = (disk.facts.class, own.load.direction);
        let is_read = direction == IoDirection::Read;
        let others = disks.iter().zip(all).enumerate().filter(|(other, _)| *other != place);
        let peers =
            others.filter_map(|(_, (disk, all))| Some((disk, all[direction as usize].as_ref()?)));
        let random_ns = |it: &JudgedDisk| it.history.random_ns(direction, &own.service, class);
        let alike = disks.iter().filter(|it| it.is_like(disk)).filter_map(random_ns);
        let known_ns = random_ns(disk).or_else(|| alike.max_by(f64::total_cmp));
        DiskComparison {
            disk,
            class,
            own,
            is_read,
            is_small: own.service.bytes < STREAM_BYTES,
            peers: peers.collect(),
            known_ns: known_ns.filter(|_| is_read),
        }
    }

    /// How much slower than expected the disk is, by the rules of [`super`].
    pub(super) fn slowness(&self) -> Slowness {
        let changes = self.peers.iter().map(|(_, it)| Some(it.by_steady.or(it.by_history)?.0));
        let common = median(changes.flatten()).unwrap_or(0.0).max(0.0);
        let less_common = |(change, deviation): Change| (change - common, deviation);
        let by_steady = self.own.by_steady.map(less_common);
        let by_history = self.own.by_history.map(less_common);
        let by_random = self.by_random();
        let by_peers = self.by_same_load();
        let absolved = |change: Change| match self.by_peers(LIKE_RATE) {
            Some(peers) if peers.0 < change.0 => peers,
            _ => change,
        };
        let after_change = |it: Option<Change>| it.and_then(|it| self.after_change(it));
        let by_past = most(by_steady, after_change(by_history.or(by_random)));
        let evidence = by_peers.or_else(|| by_past.map(absolved));
        let is_cached = self.class == DiskKind::Hdd && !self.is_read && !self.disk.has_errors();
        let counted = |(change, deviation): Change| match is_cached {
            true => (change.min(self.beyond_random()), deviation),
            false => (change, deviation),
        };
        let changed = most(self.own.by_steady, after_change(self.own.by_history.or(by_random)));
        Slowness {
            estimate: by_peers.or(by_steady).or(by_history).or(by_random),
            evidence: evidence.map(counted),
            is_changed: most(changed, by_peers).is_some_and(|it| it.0 > RATIO_TOLERATED.ln()),
        }
    }

    /// The service over what random reads of this size used to take.
    fn by_random(&self) -> Option<Change> {
        let deviation = (RANDOM_DOUBT.powi(2) + self.own.service.variance()).sqrt();
        Some(((self.own.service.service_ns / self.known_ns?).ln(), deviation))
    }

    /// The service over the longest that random I/O of this size takes.
    fn beyond_random(&self) -> f64 {
        let service = &self.own.service;
        let longest_ns = match (self.class, self.known_ns) {
            (DiskKind::Hdd, None) => service.random_max_ns(self.class),
            (DiskKind::Hdd, Some(ns)) => {
                let transfer_ns = service.bytes * self.class.transfer_max_ns();
                let known_ns = ns.max(SPAN_GAIN * ns - transfer_ns);
                service.random_max_ns(self.class).min(known_ns)
            }
            (_, Some(ns)) => self.with_programs(ns),
            (_, None) => f64::INFINITY,
        };
        (service.service_ns / longest_ns).ln()
    }

    /// The time of a read of flash that meets as many programs as there may be.
    fn with_programs(&self, ns: f64) -> f64 {
        match self.class {
            DiskKind::Ssd | DiskKind::Nvme
                if self.is_read && self.own.service.other_share > 0.0 =>
            {
                ns + ns.min(PROGRAM_NS * self.own.traffic.programs(PROGRAM_NS))
            }
            _ => ns,
        }
    }

    /// The part of a change that is of the disk, if the load may have changed, too.
    fn after_change(&self, (change, deviation): Change) -> Option<Change> {
        if change <= RATIO_TOLERATED.ln() {
            return Some((change, deviation));
        }
        let before_ns = self.own.service.service_ns / change.exp();
        let gain = match (self.class, self.is_small) {
            (DiskKind::Hdd, _) => f64::INFINITY,
            (_, true) => 1.0,
            (_, false) => STREAM_GAIN,
        };
        let beyond_ns = gain * self.with_programs(before_ns);
        let beyond = (self.own.service.service_ns / beyond_ns).ln();
        let counted = beyond.max(self.beyond_random()).min(change);
        (counted > RATIO_TOLERATED.ln()).then_some((counted, deviation))
    }

    /// The service over that of peers that were sent as much.
    fn by_same_load(&self) -> Option<Change> {
        // Each write goes to all of them; one that is slow may be sent fewer.
        let rate_ratio = if self.is_read { SAME_RATE } else { LIKE_RATE };
        let (change, deviation) = self.by_peers(rate_ratio)?;
        let service = &self.own.service;
        let peers_ns = service.service_ns / change.exp();
        let random_ns = RANDOM_SHARE * service.random_max_ns(self.class);
        let is_comparable = self.is_small || self.class != DiskKind::Hdd || peers_ns >= random_ns;
        let beyond_programs = (service.service_ns / self.with_programs(peers_ns)).ln();
        is_comparable.then_some((change.min(beyond_programs.max(0.0)), deviation))
    }

    /// The service of the disk over that of peers of its model under such a load. None of these was
    /// sent more than this many times as much, or as little.
    fn by_peers(&self, rate_ratio: f64) -> Option<Change> {
        let own = self.own;
        let is_alike = |(disk, peer): &&(&JudgedDisk, &Evaluated)| {
            let rates = (own.traffic.rate / peer.traffic.rate).ln().abs();
            let is_rate = rates <= rate_ratio.ln();
            let is_same = match (self.is_small, self.class) {
                (true, _) => is_rate || own.traffic.is_same_loop(&peer.traffic),
                (false, DiskKind::Hdd) => is_rate,
                // Parts of one flow: those of two might be random and a stream.
                (false, _) => is_rate && is_same_flow(own, peer),
            };
            disk.is_like(self.disk) && peer.load == own.load && is_same
        };
        let alike = || self.peers.iter().filter(is_alike).map(|(_, peer)| &peer.service);
        let noise = alike().map(DiskService::variance).fold(0.0, f64::max);
        let deviation = (DEVIATION_ASSUMED.powi(2) + own.service.variance() + noise).sqrt();
        let growth = |peer: &DiskService| match self.class {
            DiskKind::Hdd => DEPTH_DOUBT * (own.service.depth / peer.depth).ln().max(0.0),
            DiskKind::Ssd | DiskKind::Nvme => 0.0,
        };
        let expected = median(alike().map(|peer| peer.service_ns.ln() + growth(peer)))?;
        Some((own.service.service_ns.ln() - expected, deviation))
    }
}

/// Returns true if two disks may have been sent the parts of one flow of I/O, by chance.
fn is_same_flow(own: &Evaluated, peer: &Evaluated) -> bool {
    let counts = [own.service.count, peer.service.count].map(|it| 1.0 / it as f64);
    let rates = (own.traffic.rate / peer.traffic.rate).ln().abs();
    let sizes = (own.service.bytes / peer.service.bytes).ln().abs();
    rates <= 2.0 * (counts[0] + counts[1]).sqrt() && sizes <= SIZE_RATIO_MAX.ln()
}

fn most(a: Option<Change>, b: Option<Change>) -> Option<Change> {
    [a, b].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The upper median.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
