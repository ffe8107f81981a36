//! From what the simulator hands out to what is saved.

use super::declared::Declared;
use crate::experiment::record::{
    ArrayCacheRecord, CoarseLatency, ControllerRecord, CounterRecord, CounterSeries,
    DirectionRecord, IntervalsRecord, Measurement, MemberRecord, MemberSeries, SamplesRecord,
    SectionRecord,
};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::Counter;
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_disk::cache_tier::{CacheSpec, CacheTierCounts};
use mirrorball_disk::controller::ControllerCounts;
use mirrorball_sim::job::{JobFile, Section};
use mirrorball_sim::record as simulated;

/// Samples that are kept of each cell: enough for a picture, a quarter of the file.
const SAMPLES_KEPT: usize = 384;

/// What a simulated run of `jobs` on `array` measured.
pub fn measurement(array: &ArraySpec, jobs: &JobFile, run: &simulated::RunRecord) -> Measurement {
    let fit_cache = writes_fit_cache(array, run);
    let section = |(declared, measured)| section(declared, measured, fit_cache);
    let devids: Vec<u64> = run.members.iter().map(|member| member.devid).collect();
    Measurement {
        measured_ns: run.measured.0,
        sections: jobs.sections.iter().zip(&run.sections).map(section).collect(),
        members: members(&run.members),
        intervals: intervals(&run.intervals, &devids),
        samples: samples(&run.samples, &devids),
        counters: run.counters.iter().map(|counter| counter_record(counter, &devids)).collect(),
        background_bytes: run.background_bytes,
        member_ios: run.member_ios,
        choices: Some(run.choices),
        array_cache: run.array_cache.map(array_cache_record),
        controller: run.controller.map(controller_record),
    }
}

fn array_cache_record(counts: CacheTierCounts) -> ArrayCacheRecord {
    let CacheTierCounts {
        read_bytes,
        read_hit_bytes,
        bypassed_bytes,
        written_bytes,
        written_to_cache_only_bytes,
        inserted_bytes,
        written_back_bytes,
        failed_write_backs,
    } = counts;
    ArrayCacheRecord {
        read_bytes,
        read_hit_bytes,
        bypassed_bytes,
        written_bytes,
        written_to_cache_only_bytes,
        inserted_bytes,
        written_back_bytes,
        failed_write_backs,
    }
}

fn controller_record(counts: ControllerCounts) -> ControllerRecord {
    let ControllerCounts {
        writes,
        delayed_writes,
        read_hits,
        whole_units,
        partial_units,
        failed_write_backs,
    } = counts;
    ControllerRecord {
        writes,
        delayed_writes,
        read_hits,
        whole_units,
        partial_units,
        failed_write_backs,
    }
}

/// Returns true if the caches can hold all writes of the run: that in front of the array, which
/// alone took them; that of a controller, in which no write waited; or those of the disks, which no
/// flush emptied.
fn writes_fit_cache(array: &ArraySpec, run: &simulated::RunRecord) -> bool {
    if let (Some(cache), Some(counts)) = (&array.cache, run.array_cache)
        && writes_fit_array_cache(cache, counts)
    {
        return true;
    }
    if let Some(counts) = run.controller.filter(|counts| counts.writes > 0) {
        return counts.delayed_writes == 0;
    }
    let is_flushed = run.sections.iter().any(|section| section.flush.latency.count() > 0);
    let mut members = array.members.iter().zip(&run.members);
    !is_flushed
        && members.all(|(member, result)| result.run_written_bytes <= member.write_cache_bytes())
}

/// Flushes do not matter: dirty blocks stay in the cache, which keeps them.
fn writes_fit_array_cache(cache: &CacheSpec, counts: CacheTierCounts) -> bool {
    let CacheTierCounts { written_bytes, written_to_cache_only_bytes, .. } = counts;
    written_bytes > 0
        && written_to_cache_only_bytes == written_bytes
        && written_bytes <= cache.write_cache_bytes()
}

fn section(
    declared: &Section,
    measured: &simulated::SectionResult,
    fit_cache: bool,
) -> SectionRecord {
    let Declared { is_background, has_rate, asked_iops } = Declared::of(declared);
    let asked_iops = offered_iops(declared, measured).or(asked_iops);
    let direction = |record: &simulated::DirectionResult| {
        DirectionRecord::new(&record.latency, record.bytes, record.errors, measured.measured.0)
    };
    SectionRecord {
        name: measured.name.clone(),
        from_ns: measured.from.0,
        measured_ns: measured.measured.0,
        is_background,
        has_rate,
        asked_iops,
        write_rate_change: measured.write_rate_change(),
        writes_fit_cache: fit_cache && measured.write.bytes > 0,
        read: direction(&measured.read),
        write: direction(&measured.write),
        trim: direction(&measured.trim),
        flush: direction(&measured.flush),
    }
}

/// Requests per second that the trace of a section offers while it is measured: reads if it reads,
/// else writes.
fn offered_iops(declared: &Section, measured: &simulated::SectionResult) -> Option<f64> {
    let replay = declared.replay.as_ref()?;
    let until = declared.ramp.saturating_add(measured.measured);
    let offered = replay.offered_iops(declared.ramp, until)?;
    Some(offered * f64::from(declared.clones))
}

fn members(members: &[simulated::MemberResult]) -> Vec<MemberRecord> {
    let all: u64 = members.iter().map(|member| member.foreground_reads).sum();
    members
        .iter()
        .map(|member| MemberRecord {
            devid: member.devid,
            foreground_reads: member.foreground_reads,
            share: member.foreground_reads as f64 / all.max(1) as f64,
            reads: member.reads,
            writes: member.writes,
            read_bytes: member.read_bytes,
            written_bytes: member.written_bytes,
            errors: member.errors,
            extra_reads: member.extra_reads,
            cancelled_reads: member.cancelled_reads,
            read_wait_mean_ns: member.read_wait.mean().0,
            read_wait: CoarseLatency::from(&member.read_wait),
        })
        .collect()
}

fn intervals(intervals: &[simulated::Interval], devids: &[u64]) -> IntervalsRecord {
    let members = devids.iter().enumerate().map(|(index, &devid)| {
        let mut series = MemberSeries { devid, ..MemberSeries::default() };
        for member in intervals.iter().map(|interval| &interval.members[index]) {
            series.reads.push(member.reads);
            series.writes.push(member.writes);
            series.bytes.push(member.bytes);
            series.seeks.push(member.seeks);
            series.wait_us.push(micros(member.wait));
        }
        series
    });
    IntervalsRecord {
        from_us: intervals.iter().map(|interval| micros(interval.from)).collect(),
        width_us: intervals.iter().map(|interval| micros(interval.width)).collect(),
        read_bytes: intervals.iter().map(|interval| interval.read_bytes).collect(),
        read_latency: intervals
            .iter()
            .map(|interval| CoarseLatency::from(&interval.read_latency))
            .collect(),
        members: members.collect(),
        counters: counter_series(intervals, devids),
    }
}

/// The counters that the last interval shows, followed back through the run.
fn counter_series(intervals: &[simulated::Interval], devids: &[u64]) -> Vec<CounterSeries> {
    let Some(last) = intervals.last() else { return Vec::new() };
    let value_in = |interval: &simulated::Interval, wanted: &Counter| {
        let same = |c: &&Counter| c.member == wanted.member && c.name == wanted.name;
        interval.counters.iter().find(same).map(|counter| counter.value)
    };
    last.counters
        .iter()
        .map(|counter| CounterSeries {
            devid: counter.member.map(|member| devid_of(member, devids)),
            name: counter.name.to_owned(),
            values: intervals.iter().map(|interval| value_in(interval, counter)).collect(),
        })
        .collect()
}

fn counter_record(counter: &Counter, devids: &[u64]) -> CounterRecord {
    CounterRecord {
        devid: counter.member.map(|member| devid_of(member, devids)),
        name: counter.name.to_owned(),
        value: counter.value,
    }
}

/// Every n-th sample, so that at most [`SAMPLES_KEPT`] remain, spread over the run.
fn samples(samples: &[simulated::Sample], devids: &[u64]) -> SamplesRecord {
    let stride = samples.len().div_ceil(SAMPLES_KEPT).max(1);
    let mut columns = SamplesRecord::default();
    for sample in samples.iter().step_by(stride) {
        columns.at_us.push(micros(sample.at));
        columns.devid.push(devid_of(sample.member, devids));
        columns.offset_kib.push(sample.offset / KIB);
        columns.length_kib.push(sample.length / KIB);
        columns.wait_us.push(micros(sample.wait));
    }
    columns
}

fn devid_of(member: MemberIndex, devids: &[u64]) -> u64 {
    devids[member.get()]
}

fn micros(time: Nanos) -> u64 {
    (time.0 + 500) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_disk::array_file::ArrayFile;
    use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
    use mirrorball_sim::job::JobContext;

    /// Whether the writes of a run fit the caches: 2 s of `options` on a mirror of two disks.
    fn fits(model: &str, options: &str) -> bool {
        let text = format!("profile = \"raid1\"\n[[member]]\ncount = 2\nmodel = \"{model}\"\n");
        let array = ArrayFile::parse(&text, "pair.toml").unwrap().spec;
        let text =
            format!("[a]\nioengine=libaio\ndirect=1\nbs=4k\nruntime=2\ntime_based\n{options}");
        let job = JobFile::parse(&text, "a.fio", &JobContext::empty()).unwrap();
        let (policy, checks) = (PolicyUnderTest::Policy("first"), Checks::Off);
        let run = Simulation { array: &array, job: &job, policy, seed: 1, duration: None, checks };
        measurement(&array, &job, &engine::run(&run).unwrap()).sections[0].writes_fit_cache
    }

    #[test]
    fn few_writes_fit_the_caches_of_the_disks() {
        // Two seconds of 100 writes of 4 KiB are 800 KiB, and of 64 KiB at full speed more than the
        // 16 to 256 MiB of the caches.
        let few = "rw=randwrite\nrate_iops=100";
        assert!(fits("hdd-7k2-ent", few));
        assert!(!fits("nvme-tlc-ent", "rw=write\nbs=1m\niodepth=32"));
        assert!(!fits("hdd-7k2-ent", &format!("{few}\nfsync=10")), "flushes reach the media");
        assert!(!fits("delay", few), "there is no cache");
        assert!(!fits("hdd-7k2-ent", "rw=randread"), "there are no writes");
    }

    #[test]
    fn writes_fit_the_cache_of_a_controller_in_which_none_waited() {
        let controller = "delay\"\n[controller]\ncache = \"32MiB";
        let few = "rw=randwrite\nrate_iops=100\nfsync=10";
        assert!(fits(controller, few), "a battery keeps it, so flushes do not matter");
        assert!(!fits(controller, "rw=write\nbs=1m\niodepth=32"));
    }

    #[test]
    fn writes_fit_a_cache_in_front_of_the_array_that_alone_took_them() {
        let cache = |more: &str| format!("delay\"\n[cache]\nmodel = \"ssd-sata-plp\"\n{more}");
        let few = "rw=randwrite\nrate_iops=100\nfsync=10";
        let fits = |more: &str, options: &str| {
            // The closing quote of the model is that of the last value.
            fits(cache(more).trim_end_matches('"'), options)
        };
        let back = "size = \"20MiB\"\nmode = \"writeback\"";
        assert!(fits(back, few), "800 KiB; dirty blocks stay in the cache");
        assert!(!fits(back, "rw=write\nbs=1m\niodepth=32"), "they bypass it");
        let many = "rw=randwrite\nbs=64k\nrate_iops=150\niodepth=32";
        assert!(!fits(back, many), "19 MiB are more than 70 % of the cache");
        let through = "size = \"20MiB\"\nmode = \"writethrough\"";
        assert!(!fits(through, few), "the members have no cache");
    }

    #[test]
    fn writes_before_the_measured_window_fill_the_cache_too() {
        let burst = "[b]\nioengine=libaio\ndirect=1\nrw=write\nbs=1m\niodepth=32\nruntime=2\n\
                     time_based";
        assert!(!fits("hdd-7k2-ent", &format!("rw=randwrite\nrate_iops=100\n{burst}")));
        assert!(!fits("hdd-7k2-ent", "rw=write\nbs=1m\niodepth=32\nramp_time=2"));
    }
}
