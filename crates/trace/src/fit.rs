//! A synthetic job that resembles a trace: an ordinary job file of fio.
//!
//! It keeps the read share, the request sizes, the sequential share, the mean rate, and how busy
//! each tenth of the addresses is. It does not keep bursts, the order of the requests, or the
//! repetition of single addresses: replay the trace for those.

use crate::record::TraceOp;
use crate::summary::{SizeCount, TraceSummary};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{MIB, SECTOR_BYTES};

/// Sizes of a job; fio allows 64.
const SIZES_MAX: usize = 16;
/// Zones that the addresses are divided into.
const ZONES: usize = 10;

impl TraceSummary {
    /// The text of a job file that resembles the trace. `origin` names the trace in a comment.
    ///
    /// # Errors
    /// If the trace neither reads nor writes, or all of it arrives at once.
    pub fn fit(&self, origin: &str) -> Result<String, Diagnostic> {
        let [reads, writes] = [TraceOp::Read, TraceOp::Write].map(|op| op as usize);
        let (read_count, write_count) = (self.requests[reads], self.requests[writes]);
        if read_count + write_count == 0 {
            let error = Diagnostic::new("the trace neither reads nor writes, so no job fits it");
            return Err(error.with_help("replay it with read_iolog="));
        }
        if self.mean_iops() == 0.0 {
            let error = Diagnostic::new("all requests arrive at once, so the trace has no rate");
            return Err(error.with_help("replay it with read_iolog= and replay_no_stall=1"));
        }
        let read_percent = (100.0 * read_count as f64 / (read_count + write_count) as f64).round();
        let rw = match (read_count, write_count) {
            (_, 0) => "randread",
            (0, _) => "randwrite",
            _ => "randrw",
        };
        let rate = |count: u64| (self.mean_iops() * count as f64 / self.total() as f64).ceil();
        let random = [reads, writes].map(|index| {
            let share = self.sequential[index] as f64 / self.requests[index].max(1) as f64;
            100 - (100.0 * share).round() as u64
        });
        let sizes = [&self.read_sizes, &self.write_sizes].map(|sizes| split(sizes));
        let origin: String = origin.chars().filter(|letter| !letter.is_control()).collect();
        let mut text = format!("; Fitted to the trace {origin}\n[fitted]\nioengine=io_uring\n");
        text += &format!("direct=1\niodepth=256\nrw={rw}\n");
        if rw == "randrw" {
            text += &format!("rwmixread={read_percent}\n");
        }
        text += &format!("bssplit={},{}\n", sizes[0], sizes[1]);
        text += &format!("percentage_random={},{}\n", random[0], random[1]);
        text += &format!("rate_iops={},{}\n", rate(read_count), rate(write_count));
        text += "rate_process=poisson\nnorandommap\n";
        text += &format!("size={}m\n", self.end_bytes.div_ceil(MIB));
        text += &format!("random_distribution=zoned:{}\n", self.zones());
        let seconds = self.duration.as_secs_f64().ceil() as u64;
        text += &format!("time_based\nruntime={}\n", seconds.clamp(1, 3600));
        Ok(text)
    }

    /// The share of the requests in each tenth of the addresses, as `access/size:access/size:…`.
    fn zones(&self) -> String {
        let mut counts = [0; ZONES];
        for (index, bin) in self.space.counts.iter().enumerate() {
            let zone = index as u64 * self.space.width * ZONES as u64 / self.end_bytes.max(1);
            counts[(zone as usize).min(ZONES - 1)] += bin[0];
        }
        let shares = whole_percents(&counts);
        let size = 100 / ZONES as u64;
        let zones = shares.iter().map(|share| format!("{share}/{size}"));
        zones.collect::<Vec<String>>().join(":")
    }
}

/// The sizes as `bytes/percent:bytes/percent:…`, in whole sectors.
fn split(sizes: &[SizeCount]) -> String {
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
    if sectors.is_empty() {
        return "4096/100".to_owned();
    }
    let counts: Vec<u64> = sectors.iter().map(|size| size.requests).collect();
    let shares = whole_percents(&counts).into_iter().zip(&sectors);
    let shares = shares.filter(|(share, _)| *share > 0);
    let parts = shares.map(|(share, size)| format!("{}/{share}", size.bytes));
    parts.collect::<Vec<String>>().join(":")
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
        assert_eq!(split(&[size(512, 1), size(4096, 2), size(5000, 1)]), "4096/75:8192/25");
        assert_eq!(split(&[]), "4096/100");
    }
}
