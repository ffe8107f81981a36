//! A synthetic job that resembles a trace: an ordinary job file of fio.
//!
//! Each kind of load becomes a section: sequential and random reads, sequential and random writes.
//! A section keeps sizes, addresses, the number of streams or processes, and the pace. It does not
//! keep bursts, or the repetition of single addresses: replay the trace for those.

use crate::bins::SizeCount;
use crate::load_kinds::LoadClass;
use crate::record::TraceOp;
use crate::summary::TraceSummary;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, MIB, SECTOR_BYTES, format_bytes};

/// Sizes of a section that fio allows.
const SIZES_MAX: usize = 64;
/// Zones that the addresses are divided into.
const ZONES: usize = 10;
/// A kind with a smaller share of its operation's requests is left out: one in so many.
const RARE: u64 = 50;
/// So is an operation with a smaller share of all requests, and of all bytes.
const RARE_OPERATION: u64 = 100;
/// So are flushes of so many writes: one takes as long as some hundred.
const RARE_FLUSH: u64 = 1000;
/// Requests in flight of sections that keep a rate, of all clones together: as many as the trace
/// had, and at most so many.
const RATE_DEPTH: u64 = 256;
/// Most clones of a section.
const CLONES_MAX: u64 = 64;
/// A remark says which share of a section's requests have other sizes than in the trace, and by how
/// much the number of flushes is off, from these percentages on.
const OTHER_SIZES: u64 = 1;
const OTHER_FLUSHES: u64 = 5;
/// Most by which a rate is off because that of a clone is a whole number.
const RATE_ERROR: f64 = 0.01;

/// Kinds in the order of [`TraceSummary::kinds`]: name of the section, and `rw`.
const KINDS: [(&str, &str); 4] = [
    ("sequential-reads", "read"),
    ("random-reads", "randread"),
    ("sequential-writes", "write"),
    ("random-writes", "randwrite"),
];

/// The addresses of a section, in whole sectors.
#[derive(Clone, Copy)]
struct FittedPlace {
    from: u64,
    bytes: u64,
    /// Bytes of the largest request, and so of the least part of a clone.
    least_bytes: u64,
}

/// When the requests of a section are sent.
enum Pace {
    /// As soon as one of so many has ended.
    Closed(u64),
    /// One by each clone, microseconds after the one before.
    Think(u64),
    /// At a rate in requests per second.
    Rate(f64),
}

impl TraceSummary {
    /// The text of a job file that resembles the trace, within the first `limit_bytes` of a volume.
    /// `origin` names the trace in a comment. Fails if the trace neither reads nor writes, or all
    /// of it arrives at once.
    pub fn fit(&self, origin: &str, limit_bytes: u64) -> Result<String, Diagnostic> {
        if self.kinds.iter().all(|kind| kind.requests == 0) {
            let error = Diagnostic::new("the trace neither reads nor writes, so no job fits it");
            return Err(error.with_help("replay it with read_iolog="));
        }
        if self.mean_iops() == 0.0 {
            let error = Diagnostic::new("all requests arrive at once, so the trace has no rate");
            return Err(error.with_help("replay it with read_iolog= and replay_no_stall=1"));
        }
        let moved = [TraceOp::Read as usize, TraceOp::Write as usize];
        let sum = |of: &[u64; 4]| moved.iter().map(|&op| of[op]).sum::<u64>();
        let (all, bytes) = (sum(&self.requests), sum(&self.bytes));
        let is_rare = |index: usize| {
            let (requests, of_all) = (self.requests[index / 2], RARE_OPERATION);
            self.kinds[index].requests * RARE < requests.max(1)
                || requests * of_all < all && self.bytes[index / 2] * of_all < bytes
        };
        let kept: Vec<usize> = (0..4).filter(|&index| !is_rare(index)).collect();
        let origin: String = origin.chars().filter(|letter| !letter.is_control()).collect();
        let seconds = self.duration.as_secs_f64().ceil() as u64;
        // With io_uring, threads of the kernel submit what would wait: btrfs sees many readers.
        let mut text = format!(
            "; Fitted to {origin}: {} requests\n{}\n[global]\nioengine=libaio\ndirect=1\n\
             filename=load\nnorandommap\ntime_based\nruntime={}\n",
            self.total(),
            self.remark_for_fio(limit_bytes),
            seconds.clamp(1, 3600)
        );
        let has_writes = kept.iter().any(|&it| it >= 2);
        let flushes = self.flush_every().filter(|_| has_writes);
        // A section has at most one for each write.
        let writes: u64 =
            kept.iter().filter(|&&it| it >= 2).map(|&it| self.kinds[it].requests).sum();
        let flushes = flushes.map_or(0, |_| self.requests[TraceOp::Flush as usize].min(writes));
        let kept_requests: u64 = kept.iter().map(|&it| self.kinds[it].requests).sum();
        let left_out = self.total() - kept_requests - flushes;
        if left_out > 0 {
            text += &format!("; left out: {left_out} requests of rare kinds, or without data\n");
        }
        let made = self.flush_every().map_or(0, |every| writes / every);
        if flushes.abs_diff(made) * 100 > flushes * OTHER_FLUSHES {
            text += &format!("; fsync is a whole number: about {made} flushes, not {flushes}\n");
        }
        for index in kept {
            text += &self.section(index, limit_bytes);
        }
        Ok(text)
    }

    /// A comment for those who run the job by fio, which creates the file that it names.
    fn remark_for_fio(&self, limit_bytes: u64) -> String {
        const WRITES: &str = "; fio writes a file `load`";
        match (self.end_bytes - self.base_bytes(limit_bytes)).min(limit_bytes) {
            // Counters show no addresses.
            0 => format!("{WRITES}: name an idle device or a file to overwrite"),
            end => {
                let end = format_bytes(end);
                format!("{WRITES} of {end}: name an idle device or a file of that size")
            }
        }
    }

    fn section(&self, index: usize, limit_bytes: u64) -> String {
        let ((name, rw), kind) = (KINDS[index], &self.kinds[index]);
        let is_sequential = index.is_multiple_of(2);
        // The other kind of its operation may be left out.
        let share = self.requests[index / 2] as f64 / self.duration.as_secs_f64();
        let pair = &self.kinds[index / 2 * 2..][..2];
        let share_kept = pair.iter().filter(|it| it.requests * RARE >= self.requests[index / 2]);
        let iops =
            share * kind.requests as f64 / share_kept.map(|kind| kind.requests).sum::<u64>() as f64;
        let base = self.base_bytes(limit_bytes);
        let place = kind.place_within([base, self.end_bytes], limit_bytes);
        let parts = if is_sequential { place.bytes / place.least_bytes } else { CLONES_MAX };
        let (clones, pace) = kind.pace(is_sequential, iops, parts.min(CLONES_MAX));
        let flushes = if index >= 2 { self.flush_every() } else { None };
        let mut text = format!("[{name}]\nrw={rw}\nbssplit={}\n", split(&kind.sizes));
        let others = other_sizes(&kind.sizes);
        if others * 100 >= kind.requests.max(1) * OTHER_SIZES {
            let all = kind.requests;
            text += &format!("; {others} of {all} requests had sizes too rare for bssplit\n");
        }
        text += &kind.place_options(is_sequential, clones, place);
        if clones > 1 {
            text += &format!("numjobs={clones}\n");
        }
        text += &match pace {
            Pace::Closed(depth) => format!("iodepth={depth}\n"),
            Pace::Think(micros) => format!("iodepth=1\nthinktime={micros}\n"),
            Pace::Rate(rate) => {
                // Few requests a second are no whole number.
                let is_coarse = (rate.round() / rate - 1.0).abs() > RATE_ERROR;
                // fio before 3.42 divides by zero at a flush between Poisson arrivals.
                let is_linear = kind.gap_variation < 0.8 || flushes.is_some() || is_coarse;
                let most = kind.depth.map_or(RATE_DEPTH, |depth| depth.most.min(RATE_DEPTH));
                let depth = most.div_ceil(clones);
                let process = if is_linear { "linear" } else { "poisson" };
                // fio counts evenly spaced requests in the smallest of several sizes.
                let is_in_bytes = is_linear && (is_coarse || shares(&kind.sizes).len() > 1);
                let (option, rate) = match is_in_bytes {
                    true => ("rate", rate * mean_bytes(&kind.sizes)),
                    false => ("rate_iops", rate),
                };
                let rate = rate.round().max(1.0) as u64;
                format!("iodepth={depth}\n{option}={rate}\nrate_process={process}\n")
            }
        };
        if let Some(writes) = flushes {
            text += &format!("fsync={writes}\n");
        }
        text
    }

    /// The address that becomes the first of a volume: zero, unless the trace ends behind it.
    fn base_bytes(&self, limit_bytes: u64) -> u64 {
        let least = self.kinds.iter().map(|kind| kind.range[0]).min().unwrap_or(0);
        if self.end_bytes > limit_bytes { least.min(self.end_bytes) / MIB * MIB } else { 0 }
    }

    /// Writes from one flush to the next, unless flushes are rare.
    fn flush_every(&self) -> Option<u64> {
        let [writes, flushes] =
            [TraceOp::Write, TraceOp::Flush].map(|op| self.requests[op as usize]);
        let is_rare = flushes * RARE_FLUSH < writes.max(1);
        (!is_rare).then(|| (writes as f64 / flushes as f64).round().max(1.0) as u64)
    }
}

impl LoadClass {
    fn pace(&self, is_sequential: bool, iops: f64, clones_max: u64) -> (u64, Pace) {
        let parts = if is_sequential { self.streams } else { self.processes };
        let clones = parts.clamp(1, clones_max);
        let error = |clones: &u64| {
            let clones = *clones as f64;
            ((iops / clones).round() * clones / iops - 1.0).abs()
        };
        let rated = (1..=clones).rev().find(|it| error(it) <= RATE_ERROR).unwrap_or(1);
        let rated = (rated, Pace::Rate(iops / rated as f64));
        let Some(depth) = self.depth else { return rated };
        if depth.mean >= 0.85 * depth.high as f64 {
            let clones = clones.min(depth.high);
            let each = (depth.high as f64 / clones as f64).round().max(1.0);
            return (clones, Pace::Closed(each as u64));
        }
        if depth.most <= clones {
            let turn_us = 1e6 * clones as f64 / iops;
            let think_us = turn_us - depth.response.0 as f64 / 1e3;
            return (clones, Pace::Think(think_us.round().max(1.0) as u64));
        }
        rated
    }

    /// The addresses that it has, in whole sectors and within the first `limit_bytes` of a volume,
    /// for which those of a trace from `base` to `end` are scaled if they do not fit.
    fn place_within(&self, [base, end]: [u64; 2], limit_bytes: u64) -> FittedPlace {
        let span = end - base;
        let largest = self.sizes.iter().map(|size| size.bytes).max().unwrap_or(0);
        let least_bytes = largest.next_multiple_of(SECTOR_BYTES).max(SECTOR_BYTES);
        let scaled = |bytes: u64| match (bytes.saturating_sub(base), span <= limit_bytes) {
            (bytes, true) => bytes,
            (bytes, false) => {
                (u128::from(bytes) * u128::from(limit_bytes) / u128::from(span)) as u64
            }
        };
        let limit = limit_bytes / SECTOR_BYTES * SECTOR_BYTES;
        let [from, to] = self.range.map(scaled);
        let from = if span <= limit_bytes { from } else { from / MIB * MIB };
        let to = to.div_ceil(SECTOR_BYTES).saturating_mul(SECTOR_BYTES).min(limit);
        let from = (from / SECTOR_BYTES * SECTOR_BYTES).min(to.saturating_sub(least_bytes));
        FittedPlace { from, bytes: (to - from).max(least_bytes), least_bytes }
    }

    /// The options that say where the requests go.
    fn place_options(&self, is_sequential: bool, clones: u64, place: FittedPlace) -> String {
        if self.space.counts.is_empty() {
            // Counters show no addresses.
            return "size=100%\n".to_owned();
        }
        let FittedPlace { from, bytes, least_bytes } = place;
        let start = if from > 0 { format!("offset={}\n", amount(from)) } else { String::new() };
        if !is_sequential {
            let zones = match bytes / ZONES as u64 >= least_bytes {
                true => format!("random_distribution=zoned:{}\n", self.zones()),
                false => String::new(),
            };
            return format!("{start}size={}\n{zones}", amount(bytes));
        }
        // Each clone starts at a whole request, as the streams of most programs do.
        let each = (bytes / clones / least_bytes * least_bytes).max(least_bytes);
        let step = match clones > 1 {
            true => format!("offset_increment={}\n", amount(each)),
            false => String::new(),
        };
        format!("{start}size={}\n{step}", amount(each))
    }

    /// The share of the requests in each tenth of the range, as `access/size:access/size:…`. Those
    /// of a bin are spread evenly over the part of it that is in the range.
    fn zones(&self) -> String {
        let [from, to] = self.range.map(|it| it as f64);
        let mut counts = [0.0; ZONES];
        for (index, bin) in self.space.counts.iter().enumerate() {
            let start = (index as u64 * self.space.width) as f64;
            let (start, end) = (start.max(from), (start + self.space.width as f64).min(to));
            for (zone, count) in counts.iter_mut().enumerate() {
                let edge = |zone: usize| from + (to - from) * zone as f64 / ZONES as f64;
                let common = end.min(edge(zone + 1)) - start.max(edge(zone));
                *count += bin[0] as f64 * common.max(0.0) / (end - start).max(1.0);
            }
        }
        let shares = whole_percents(&counts.map(|count| (count * 1e3).round() as u64));
        let size = 100 / ZONES as u64;
        let zones = shares.iter().map(|share| format!("{share}/{size}"));
        zones.collect::<Vec<String>>().join(":")
    }
}

/// Bytes as fio reads them.
fn amount(bytes: u64) -> String {
    match bytes.is_multiple_of(MIB) {
        true => format!("{}m", bytes / MIB),
        false => format!("{}k", bytes / KIB),
    }
}

/// Mean of the sizes that a section has.
fn mean_bytes(sizes: &[SizeCount]) -> f64 {
    let bytes = shares(sizes).into_iter().map(|(bytes, percent)| bytes as f64 * percent as f64);
    bytes.sum::<f64>() / 100.0
}

/// The sizes as `bytes/percent:bytes/percent:…`.
fn split(sizes: &[SizeCount]) -> String {
    let parts = shares(sizes).into_iter().map(|(bytes, percent)| format!("{bytes}/{percent}"));
    parts.collect::<Vec<String>>().join(":")
}

/// The sizes that a section has, with their shares in percent. fio knows whole ones only, so rare
/// sizes are left out.
fn shares(sizes: &[SizeCount]) -> Vec<(u64, u64)> {
    let sectors = in_sectors(sizes);
    if sectors.is_empty() {
        return vec![(SECTOR_BYTES, 100)];
    }
    let counts: Vec<u64> = sectors.iter().map(|size| size.requests).collect();
    let sizes = sectors.iter().map(|size| size.bytes).zip(whole_percents(&counts));
    sizes.filter(|(_, percent)| *percent > 0).collect()
}

/// Number of requests whose size is none that a section has.
fn other_sizes(sizes: &[SizeCount]) -> u64 {
    let kept = shares(sizes);
    let is_kept =
        |size: &&SizeCount| kept.iter().any(|it| it.0 == size.bytes.next_multiple_of(SECTOR_BYTES));
    let all: u64 = sizes.iter().map(|size| size.requests).sum();
    all - sizes.iter().filter(is_kept).map(|size| size.requests).sum::<u64>()
}

/// The most frequent sizes, in whole sectors.
fn in_sectors(sizes: &[SizeCount]) -> Vec<SizeCount> {
    let mut sectors: Vec<SizeCount> = Vec::new();
    for size in sizes {
        let bytes = size.bytes.div_ceil(SECTOR_BYTES) * SECTOR_BYTES;
        match sectors.iter_mut().find(|known| known.bytes == bytes) {
            Some(known) => known.requests += size.requests,
            None => sectors.push(SizeCount { bytes, requests: size.requests }),
        }
    }
    sectors.sort_by(|a, b| b.requests.cmp(&a.requests).then(a.bytes.cmp(&b.bytes)));
    sectors.truncate(SIZES_MAX);
    sectors
}

/// Whole percentages that add up to 100, each less than one away from its exact value.
fn whole_percents(counts: &[u64]) -> Vec<u64> {
    let total: u128 = counts.iter().map(|&count| u128::from(count)).sum::<u128>().max(1);
    let parts = counts.iter().map(|&count| u128::from(count) * 100);
    let mut shares: Vec<u64> = parts.clone().map(|part| (part / total) as u64).collect();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    let rests: Vec<u128> = parts.map(|part| part % total).collect();
    order.sort_by(|&a, &b| rests[b].cmp(&rests[a]).then(a.cmp(&b)));
    let missing = 100 - shares.iter().sum::<u64>() as usize;
    for &index in order.iter().take(missing) {
        shares[index] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_percentages_add_up() {
        assert_eq!(whole_percents(&[1, 1, 1]), [34, 33, 33]);
        assert_eq!(whole_percents(&[0, 7]), [0, 100]);
        assert_eq!(whole_percents(&[999, 1]), [100, 0]);
    }

    #[test]
    fn sizes_are_whole_sectors() {
        let size = |bytes, requests| SizeCount { bytes, requests };
        let sizes = [size(512, 1), size(4096, 2), size(5000, 1)];
        assert_eq!(split(&sizes), "4096/75:8192/25");
        assert_eq!((mean_bytes(&sizes), mean_bytes(&sizes[1..2])), (5120.0, 4096.0));
        assert_eq!(split(&[]), "4096/100");
        // fio knows whole percentages, and the rate in bytes is that of the sizes that it knows.
        let rare = [size(4096, 997), size(1 << 20, 3)];
        assert_eq!((split(&rare).as_str(), mean_bytes(&rare)), ("4096/100", 4096.0));
        assert_eq!((other_sizes(&rare), other_sizes(&sizes)), (3, 0));
        let many: Vec<SizeCount> = (1..=40).map(|sectors| size(sectors * 4096, 1)).collect();
        assert_eq!((shares(&many).len(), other_sizes(&many)), (40, 0));
    }
}
