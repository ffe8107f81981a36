//! Description of a trace, as text for people.

use crate::bins::{Bins, SizeCount};
use crate::record::TraceOp;
use crate::summary::TraceSummary;
use mirrorball_core::diagnostic::Escaped;
use mirrorball_core::units::{Nanos, format_bytes};
use std::cmp::Reverse;

const STEPS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const COLUMNS: usize = 64;
const LISTED: usize = 8;

impl TraceSummary {
    /// The whole description, with a line end behind each line.
    pub fn describe(&self) -> String {
        let mut lines = vec![self.requests_line()];
        lines.push(format!(
            "span      {:.3} s, {:.1} requests/s, at most {:.1} requests/s over {}",
            self.duration.as_secs_f64(),
            self.mean_iops(),
            self.peak_iops(),
            Nanos(self.timeline.width),
        ));
        lines.push(format!(
            "gaps      variation {:.2} (1 for random arrivals, more for bursts)",
            self.gap_variation
        ));
        if let Some(in_flight) = self.in_flight {
            lines.push(format!("in flight {in_flight:.2} on average where it was recorded"));
        }
        for (label, op, sizes) in [
            ("reads", TraceOp::Read, &self.read_sizes),
            ("writes", TraceOp::Write, &self.write_sizes),
        ] {
            let index = op as usize;
            if self.requests[index] > 0 {
                let sequential = percent(self.kinds[2 * index].requests, self.requests[index]);
                let sizes = listed_sizes(sizes, self.requests[index]);
                lines.push(format!("{label:<9} {sequential} sequential; {sizes}"));
            }
        }
        lines.push(format!(
            "addresses end at {}; {:.0} % of them are used, and the busiest tenth gets {:.0} % of \
             the requests",
            format_bytes(self.end_bytes),
            100.0 * self.touched(),
            100.0 * self.concentration(0.1),
        ));
        lines.push("requests over time:".to_owned());
        lines.push(format!("  |{}|", picture(&self.timeline)));
        lines.push("requests over the addresses:".to_owned());
        lines.push(format!("  |{}|", picture(&self.space)));
        lines.extend(self.device_lines());
        if self.unaligned > 0 {
            lines.push(format!(
                "note: {} are not whole sectors of 4096 bytes; a replay widens them",
                percent(self.unaligned, self.total())
            ));
        }
        if self.late > 0 {
            lines.push(format!(
                "note: {} requests are far out of order; they arrive with the request before them",
                self.late
            ));
        }
        lines.extend(self.doubts().iter().map(|doubt| format!("note: {doubt}")));
        lines.join("\n") + "\n"
    }

    /// Requests per second over the whole trace.
    pub fn mean_iops(&self) -> f64 {
        per_second(self.total(), self.duration)
    }

    fn peak_iops(&self) -> f64 {
        let most = self.timeline.counts.iter().map(|bin| bin[0]).max().unwrap_or(0);
        per_second(most, Nanos(self.timeline.width))
    }

    fn requests_line(&self) -> String {
        let names = ["reads", "writes", "discards", "flushes"];
        let parts = names.iter().zip(self.requests).zip(self.bytes).filter(|((_, n), _)| *n > 0);
        let parts = parts.map(|((name, count), bytes)| match bytes {
            0 => format!("{count} {name}"),
            bytes => format!("{count} {name} ({})", format_bytes(bytes)),
        });
        let reads = percent(self.requests[TraceOp::Read as usize], self.total());
        let parts: Vec<String> = parts.collect();
        format!("requests  {}; {reads} are reads", parts.join(", "))
    }

    /// The busiest devices, if there are several.
    fn device_lines(&self) -> Vec<String> {
        if self.devices.len() < 2 {
            return Vec::new();
        }
        let mut devices: Vec<_> = self.devices.iter().collect();
        devices.sort_by(|a, b| b.requests.cmp(&a.requests).then(a.name.cmp(&b.name)));
        let mut lines = vec![format!("devices   {}", devices.len())];
        for device in devices.iter().take(LISTED) {
            lines.push(format!(
                "  {}: {} requests, {} reads, {}, ends at {}",
                Escaped(&device.name),
                device.requests,
                percent(device.reads, device.requests),
                format_bytes(device.bytes),
                format_bytes(device.end_bytes),
            ));
        }
        if devices.len() > LISTED {
            lines.push(format!("  and {} more", devices.len() - LISTED));
        }
        lines.push(
            "note: the devices have addresses of their own; --device NAME reads one of them"
                .to_owned(),
        );
        lines
    }
}

fn per_second(count: u64, time: Nanos) -> f64 {
    if time == Nanos::ZERO { 0.0 } else { count as f64 / time.as_secs_f64() }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// The most frequent sizes with their shares; those that print alike are one.
fn listed_sizes(sizes: &[SizeCount], requests: u64) -> String {
    let mut named: Vec<(String, u64)> = Vec::new();
    for size in sizes {
        // 1 MiB and a sector more are one size to people.
        let name = format_bytes(size.bytes).replace(".0 ", " ");
        match named.last_mut().filter(|last| last.0 == name) {
            Some(last) => last.1 += size.requests,
            None => named.push((name, size.requests)),
        }
    }
    named.sort_by_key(|size| Reverse(size.1));
    let shown = named.iter().take(LISTED);
    let shown = shown.map(|(name, count)| format!("{name} {}", percent(*count, requests)));
    let mut text = shown.collect::<Vec<String>>().join(", ");
    if named.len() > LISTED {
        text += &format!(", and {} more sizes", named.len() - LISTED);
    }
    text
}

/// The bins as a line of bars, the highest of which is full. A bin with a request is never blank.
fn picture(bins: &Bins) -> String {
    let columns = bins.counts.len().min(COLUMNS);
    let sums: Vec<u64> = (0..columns)
        .map(|column| {
            let range = |column: usize| column * bins.counts.len() / columns;
            bins.counts[range(column)..range(column + 1)].iter().map(|bin| bin[0]).sum()
        })
        .collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let last = (STEPS.len() - 1) as u64;
    sums.iter().map(|&sum| STEPS[(sum * last).div_ceil(most) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_print_alike_are_one() {
        let sizes = [(4096, 1), (1 << 20, 4), ((1 << 20) + 4096, 3), (2 << 20, 2)];
        let sizes = sizes.map(|(bytes, requests)| SizeCount { bytes, requests });
        assert_eq!(listed_sizes(&sizes, 10), "1 MiB 70.0 %, 2 MiB 20.0 %, 4 KiB 10.0 %");
    }
}
