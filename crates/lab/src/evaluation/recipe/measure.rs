//! The measures of a row: one table, which lists everything that a recipe may ask for.
//!
//! A measure sees all repeats of a row at once. Rates are means over the repeats; percentiles are
//! read off the merged histograms. A measure of a member takes its devid from the column
//! (`share_2`) or from the row.

use super::pool::Pool;
use mirrorball_core::units::KIB;

#[derive(Debug)]
pub struct Measure {
    /// Its name in `recipe.toml`.
    pub name: &'static str,
    /// What heads its column.
    pub title: &'static str,
    /// Whether it is one of a member, which needs a devid.
    pub of_member: bool,
    /// Takes it; the second argument is the devid.
    pub(super) take: fn(&Pool<'_>, u64) -> f64,
}

const fn of_jobs(
    name: &'static str,
    title: &'static str,
    take: fn(&Pool<'_>, u64) -> f64,
) -> Measure {
    Measure { name, title, of_member: false, take }
}

const fn of_member(
    name: &'static str,
    title: &'static str,
    take: fn(&Pool<'_>, u64) -> f64,
) -> Measure {
    Measure { name, title, of_member: true, take }
}

/// All of them. Those of members up to `busy` are the columns of `iostat -x`.
pub const MEASURES: &[Measure] = &[
    of_jobs("read_iops", "read IOPS", |pool, _| pool.job_rate(|job| job.read.latency.count())),
    of_jobs("write_iops", "write IOPS", |pool, _| pool.job_rate(|job| job.write.latency.count())),
    of_jobs("read_mib_s", "read MiB/s", |pool, _| pool.job_rate(|job| job.read.bytes) / MIB),
    of_jobs("write_mib_s", "write MiB/s", |pool, _| pool.job_rate(|job| job.write.bytes) / MIB),
    of_jobs("read_mb_s", "read MB/s", |pool, _| pool.job_rate(|job| job.read.bytes) / MB),
    of_jobs("write_mb_s", "write MB/s", |pool, _| pool.job_rate(|job| job.write.bytes) / MB),
    of_jobs("read_mean_ms", "read mean ms", |pool, _| {
        pool.read_latency().mean().0 as f64 / NANOS_PER_MS
    }),
    of_jobs("read_p50_ms", "read p50 ms", |pool, _| read_quantile_ms(pool, 0.5)),
    of_jobs("read_p90_ms", "read p90 ms", |pool, _| read_quantile_ms(pool, 0.9)),
    of_jobs("read_p99_ms", "read p99 ms", |pool, _| read_quantile_ms(pool, 0.99)),
    of_jobs("read_p99_9_ms", "read p99.9 ms", |pool, _| read_quantile_ms(pool, 0.999)),
    of_jobs("read_p99_99_ms", "read p99.99 ms", |pool, _| read_quantile_ms(pool, 0.9999)),
    of_jobs("seconds", "seconds", |pool, _| pool.job_seconds()),
    of_member("reads", "reads", |pool, devid| pool.member(devid, |it| it.foreground_reads)),
    of_member("share", "% of reads", |pool, devid| {
        let of = pool.member(devid, |it| it.foreground_reads);
        100.0 * of / pool.all_members(|it| it.foreground_reads).max(1.0)
    }),
    of_member("r_s", "r/s", |pool, devid| pool.member_rate(devid, |it| it.reads)),
    of_member("w_s", "w/s", |pool, devid| pool.member_rate(devid, |it| it.writes)),
    of_member("kr_s", "kr/s", |pool, devid| {
        pool.member_rate(devid, |it| it.read_bytes) / KIB as f64
    }),
    of_member("kw_s", "kw/s", |pool, devid| {
        pool.member_rate(devid, |it| it.written_bytes) / KIB as f64
    }),
    of_member("wait", "wait", |pool, devid| {
        pool.member_rate(devid, |it| it.wait.0) / NANOS_PER_SECOND
    }),
    of_member("svc_t", "svc_t", |pool, devid| {
        let ios = pool.member(devid, |it| it.reads + it.writes);
        pool.member(devid, |it| it.wait.0) / ios.max(1.0) / NANOS_PER_MS
    }),
    of_member("busy", "%b", |pool, devid| {
        100.0 * pool.member_rate(devid, |it| it.busy.0) / NANOS_PER_SECOND
    }),
    of_member("ignored", "ignored", |pool, devid| pool.counter(devid, "ignored")),
    of_member("age", "age", |pool, devid| pool.counter(devid, "age")),
    of_member("count", "count", |pool, devid| pool.counter(devid, "count")),
];

const MIB: f64 = (1024 * KIB) as f64;
const MB: f64 = 1e6;
const NANOS_PER_MS: f64 = 1e6;
const NANOS_PER_SECOND: f64 = 1e9;

fn read_quantile_ms(pool: &Pool<'_>, quantile: f64) -> f64 {
    pool.read_latency().quantile(quantile).0 as f64 / NANOS_PER_MS
}

/// The measure of a column, and the devid in its name.
pub(super) fn find(column: &str) -> Option<(&'static Measure, Option<u64>)> {
    let named = |name: &str| MEASURES.iter().find(|measure| measure.name == name);
    if let Some(measure) = named(column) {
        return Some((measure, None));
    }
    let (name, devid) = column.rsplit_once('_')?;
    let devid = devid.parse().ok()?;
    named(name).filter(|measure| measure.of_member).map(|measure| (measure, Some(devid)))
}
