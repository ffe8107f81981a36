//! Whether write caches held all writes of a run, so that its write rate is that of the caches.

use mirrorball_disk::array_file::ArraySpec;
use mirrorball_disk::cache_tier::{CacheSpec, CacheTierCounts};
use mirrorball_disk::controller::ControllerCounts;

/// The writes of a run, and the caches that they went through.
pub(crate) struct RunWrites<'a> {
    pub(crate) array: &'a ArraySpec,
    pub(crate) array_cache: Option<CacheTierCounts>,
    pub(crate) controller: Option<ControllerCounts>,
    /// True if a section flushed.
    pub(crate) is_flushed: bool,
}

impl RunWrites<'_> {
    /// Returns true if the caches can hold all writes of the run: that in front of the array, which
    /// alone took them; that of a controller, in which no write waited; or those of the disks,
    /// which no flush emptied. `member_bytes` is what was written to each member.
    pub(crate) fn fit_caches(&self, member_bytes: impl Iterator<Item = u64>) -> bool {
        if let (Some(cache), Some(counts)) = (&self.array.cache, self.array_cache)
            && fit_array_cache(cache, counts)
        {
            return true;
        }
        if let Some(counts) = self.controller.filter(|counts| counts.writes > 0) {
            return counts.delayed_writes == 0;
        }
        let mut members = self.array.members.iter().zip(member_bytes);
        !self.is_flushed && members.all(|(member, bytes)| bytes <= member.write_cache_bytes())
    }
}

/// Flushes do not matter: dirty blocks stay in the cache, which keeps them.
fn fit_array_cache(cache: &CacheSpec, counts: CacheTierCounts) -> bool {
    let CacheTierCounts { written_bytes, written_to_cache_only_bytes, .. } = counts;
    written_bytes > 0
        && written_to_cache_only_bytes == written_bytes
        && written_bytes <= cache.write_cache_bytes()
}

#[cfg(test)]
mod tests {
    use crate::engine::{self, Checks, PolicyUnderTest, Simulation};
    use crate::job::{JobContext, JobFile};
    use mirrorball_disk::array_file::ArrayFile;

    /// Whether the writes of a run fit the caches: 2 s of `options` on a mirror of two disks.
    fn fits(model: &str, options: &str) -> bool {
        let text = format!("profile = \"raid1\"\n[[member]]\ncount = 2\nmodel = \"{model}\"\n");
        let array = ArrayFile::parse(&text, "pair.toml").unwrap().spec;
        let text =
            format!("[a]\nioengine=libaio\ndirect=1\nbs=4k\nruntime=2\ntime_based\n{options}");
        let job = JobFile::parse(&text, "a.fio", &JobContext::empty()).unwrap();
        let (policy, checks) = (PolicyUnderTest::Policy("first"), Checks::Off);
        let run = Simulation { array: &array, job: &job, policy, seed: 1, duration: None, checks };
        engine::run(&run).unwrap().sections[0].writes_fit_cache
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
