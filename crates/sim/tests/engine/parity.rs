//! Arrays with parity against closed forms: on members of 2 ms with one server each, on a host that
//! costs nothing, a request takes 2 ms for its reads and 2 ms for its writes.

use super::{Checks, PolicyUnderTest, Simulation, assert_near, jobs, member_reads, run, simulate};
use mirrorball_core::member::MemberState;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::record::RunRecord;

fn array(head: &str, members: u32) -> ArraySpec {
    let text = format!(
        "{head}\n[host]\noverhead = \"0us\"\n[[member]]\nmodel = \"delay\"\ncount = {members}\n\
         size = \"16GiB\"\nset = {{ service = \"2ms\" }}\n"
    );
    ArrayFile::parse(&text, "parity.toml").expect("a valid array").spec
}

const RAID5: &str = "layout = \"md-raid5\"\nchunk = \"64K\"";
const RAID6: &str = "layout = \"md-raid6\"\nchunk = \"64K\"";

fn rate(record: &RunRecord) -> f64 {
    let counts =
        record.sections.iter().map(|job| job.read.latency.count() + job.write.latency.count());
    counts.sum::<u64>() as f64 / record.measured.as_secs_f64()
}

fn reads_per_request(record: &RunRecord) -> f64 {
    let reads: u64 = member_reads(record).iter().sum();
    reads as f64 / (rate(record) * record.measured.as_secs_f64())
}

#[test]
fn writes_take_the_reads_of_the_table() {
    for (head, members, block, reads) in [
        // k of n with m parities: the fewer of n - k and k + m.
        (RAID5, 4, "4k", 2.0),
        (RAID5, 8, "4k", 2.0),
        (RAID5, 8, "64k", 2.0),
        (RAID6, 5, "4k", 2.0),
        (RAID6, 9, "4k", 3.0),
        ("profile = \"raid5\"", 4, "64k", 2.0),
        ("profile = \"raid6\"", 9, "64k", 3.0),
    ] {
        let array = array(head, members);
        let job = jobs(&format!("rw=randwrite\nbs={block}\niodepth=1"));
        let record = simulate(&array, &job, "first");
        assert_near(reads_per_request(&record), reads, 0.001);
        assert_near(rate(&record), 250.0, 0.01);
    }
}

#[test]
fn full_stripes_are_written_without_reads() {
    let record = simulate(&array(RAID5, 4), &jobs("rw=write\nbs=192k\niodepth=1"), "first");
    assert_near(rate(&record), 500.0, 0.01);
    assert_eq!(member_reads(&record), [0; 4]);
    // The same bytes a strip at a time: gathered, because they are in flight together.
    let strips = simulate(&array(RAID6, 5), &jobs("rw=write\nbs=64k\niodepth=3"), "first");
    assert_eq!(member_reads(&strips), [0; 5]);
    assert_near(rate(&strips), 1500.0, 0.01);
}

/// A read of a missing strip takes n reads: of N members, (N - 1 + n) / N for each request.
#[test]
fn reads_of_a_missing_member_take_n_others() {
    for (head, members, data) in [(RAID5, 4, 3.0), (RAID6, 5, 3.0), (RAID6, 8, 6.0)] {
        let mut array = array(head, members);
        array.members[1].state = MemberState::Failed;
        let record = simulate(&array, &jobs("rw=randread\nbs=4k\niodepth=1"), "first");
        assert_near(rate(&record), 500.0, 0.01);
        let members = f64::from(members);
        assert_near(reads_per_request(&record), (members - 1.0 + data) / members, 0.03);
    }
}

/// With the checkers on: mixed loads, also degraded, a scrub and a rebuild.
#[test]
fn parity_serves_reads_writes_scrubs_and_rebuilds() {
    let mixed = "rw=randrw\nbssplit=4k/50:1m/50\niodepth=16\n[seq]\nrw=write\nbs=1m\niodepth=4";
    let scrub = "rw=randrw\niodepth=4\n; mirrorball: background=scrub rate=20MB/s\n";
    let rebuild = "rw=randrw\niodepth=4\n; mirrorball: background=rebuild devid=2 rate=50MB/s";
    let half = MemberState::Rebuilding { recovered_bytes: 8 << 30 };
    for (head, members) in [(RAID5, 4), (RAID6, 6), ("profile = \"raid6\"", 5)] {
        for state in [MemberState::InSync, MemberState::Failed, half] {
            let mut array = array(head, members);
            array.members[1].state = state;
            for options in [mixed, scrub] {
                assert!(rate(&simulate(&array, &jobs(options), "mirrorball/auto")) > 20.0);
            }
            if state == half {
                assert!(rate(&simulate(&array, &jobs(rebuild), "first")) > 20.0);
            }
        }
    }
}

/// A trim would end at once and be counted: with a host that costs nothing, without an end.
#[test]
fn trims_are_refused() {
    let (array, job) = (array(RAID5, 4), jobs("rw=randtrim\niodepth=4"));
    let (policy, duration, checks) = (PolicyUnderTest::Policy("first"), None, Checks::On);
    let simulation = Simulation { array: &array, job: &job, policy, seed: 1, duration, checks };
    let error = run(&simulation).expect_err("trims do nothing").to_string();
    assert!(error.contains("trims, which does nothing on an array with parity"), "{error}");
}

/// Reads of one lost strip are recovered at the same time.
#[test]
fn degraded_reads_of_one_stripe_run_together() {
    let text = "layout = \"md-raid5\"\nchunk = \"16M\"\n[host]\noverhead = \"0us\"\n\
                [[member]]\nmodel = \"delay\"\nsize = \"17GiB\"\n\
                set = { service = \"2ms\", servers = 64 }\ncount = 4\n";
    let mut array = ArrayFile::parse(text, "parity.toml").expect("a valid array").spec;
    array.members[0].state = MemberState::Failed;
    let job = "rw=read\nbs=4k\niodepth=16\nsize=64M\ndirect=1";
    let record = simulate(&array, &jobs(job), "first");
    assert_near(rate(&record), 16.0 * 500.0, 0.05);
}

/// Three members of 2 ms and one of 10: a read waits 4 ms in the mean, and with many in flight the
/// slow member ends 100 a second, a quarter of all. Recovered from three others a read takes 2 ms.
#[test]
fn auto_recovers_what_a_slow_member_holds() {
    let text = "layout = \"md-raid5\"\nchunk = \"64K\"\n[host]\noverhead = \"0us\"\n\
                [[member]]\nmodel = \"delay\"\nset = { service = \"10ms\", servers = 1 }\n\
                [[member]]\nmodel = \"delay\"\nset = { service = \"2ms\", servers = 1 }\n\
                count = 3\n";
    let array = ArrayFile::parse(text, "parity.toml").expect("a valid array").spec;
    let rates = |depth: u32, policy| {
        rate(&simulate(&array, &jobs(&format!("rw=randread\nbs=4k\niodepth={depth}")), policy))
    };
    assert_near(rates(1, "first"), 250.0, 0.03);
    assert!(rates(1, "mirrorball/auto") > 450.0);
    assert_near(rates(16, "first"), 400.0, 0.05);
    assert!(rates(16, "mirrorball/auto") > 520.0);
    assert_near(rates(1, "mirrorball/auto:reconstruction"), 250.0, 0.03);
}

/// Idle or saturated, equal members are read as if nothing could be recovered, but for a few reads
/// on raid6: the first, because a member that was never read counts as fast, and some in deep
/// queues.
#[test]
fn auto_spares_no_member_among_equals() {
    for head in [RAID5, RAID6] {
        for depth in [1, 4, 64] {
            let sizes = "bssplit=4k/50:256k/50\nnorandommap";
            let job = jobs(&format!("rw=randread\n{sizes}\niodepth={depth}"));
            let reads = |policy| member_reads(&simulate(&array(head, 6), &job, policy));
            for (auto, first) in reads("mirrorball/auto").into_iter().zip(reads("first")) {
                assert_near(auto as f64, first as f64, 0.005);
            }
        }
    }
}
