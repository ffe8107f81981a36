//! Host overhead, measured windows, and the bounds of a run.

use super::*;

#[test]
fn jitter_breaks_lockstep_and_is_the_same_under_every_policy() {
    // Four reads that complete at one instant are submitted again at different instants.
    let mut array = delays("raid1", &["1ms", "1ms"]);
    array.host.overhead = HostOverhead { mean: Nanos::from_micros(100), jitter: 0.2 };
    let waits = |policy: &str| {
        let record = simulate(&array, &jobs("rw=randread\nnumjobs=2\nnumber_ios=200"), policy);
        record.sections[0].read.latency.clone()
    };
    let read = waits("pid");
    // Each mirror serves one clone, so a read takes 1 ms and its own overhead.
    assert!(read.min().unwrap() >= Nanos::from_micros(1080), "{:?}", read.min());
    assert!(read.max().unwrap() <= Nanos::from_micros(1120), "{:?}", read.max());
    assert!(read.bins().count() > 1, "every read took the same time");
    assert_near(read.mean().as_secs_f64(), 0.0011, 0.002);
    // A policy that also keeps the clones apart gives every request the same overhead.
    assert_eq!(read.sum_ns(), waits("kakra/queue").sum_ns());
}

#[test]
fn cache_hits_of_a_buffered_reader_cost_less_than_a_request_to_the_disk() {
    let text = "name = \"fast\"\nprofile = \"single\"\n[[member]]\nmodel = \"nvme-tlc-ent\"\n";
    let array = ArrayFile::parse(text, "fast.toml").expect("a valid array").spec;
    let text = "[a]\nioengine=psync\ndirect=0\nrw=read\nbs=4k\nsize=4g\nruntime=1\ntime_based\n";
    let jobs = JobFile::parse(text, "buffered.fio", &JobContext::empty()).expect("a valid job");
    let record = simulate(&array, &jobs, "first");
    let mib_per_s = (record.sections[0].read.bytes >> 20) as f64 / record.measured.as_secs_f64();
    assert!(mib_per_s > 1000.0, "{mib_per_s:.0} MiB/s: each hit pays the full host overhead");
}

#[test]
fn rates_are_over_the_run_and_not_up_to_the_last_completion() {
    let array = delays("single", &["2ms"]);
    let job = |options: &str| {
        let text = format!("[a]\nioengine=psync\nrw=randread\nsize=1g\nruntime=3\n{options}");
        JobFile::parse(&text, "think.fio", &JobContext::empty()).expect("a valid job")
    };
    // One request, then a pause beyond the end: 1 request in 3 s and not 500 a second.
    for options in ["thinktime=1h\ntime_based", "thinktime=1h"] {
        let record = simulate(&array, &job(options), "first");
        assert_eq!(record.sections[0].read.latency.count(), 1, "{options}");
        assert_eq!(record.sections[0].measured, Nanos::from_secs(3), "{options}");
        assert_eq!(record.measured, Nanos::from_secs(3), "{options}");
    }
    let record = simulate(&array, &job("number_ios=10"), "first");
    assert_near(record.measured.as_secs_f64(), 0.02, 0.001);
}

#[test]
fn trims_and_flushes_are_counted_with_their_latencies() {
    let array = delays("raid1", &["1ms", "1ms"]);
    for rw in ["trim", "randtrim"] {
        let record = simulate(&array, &jobs(&format!("rw={rw}\niodepth=4")), "first");
        let trim = &record.sections[0].trim;
        assert!(trim.latency.count() > 1000, "{rw}: {} trims", trim.latency.count());
        assert_eq!(trim.bytes, trim.latency.count() * 4096);
    }
    let record = simulate(&array, &jobs("rw=write\nfsync=1"), "first");
    let SectionRecord { write, flush, .. } = &record.sections[0];
    assert!(flush.latency.count().abs_diff(write.latency.count()) <= 1);
    assert!(flush.latency.count() > 1000 && flush.latency.mean() > Nanos::ZERO);
}

#[test]
fn duration_bounds_the_ramp_and_the_start() {
    let array = delays("single", &["1ms"]);
    let play = |options: &str| {
        let job = jobs(&format!("rw=randread\n{options}"));
        let policy = PolicyUnderTest::Policy("first");
        let (duration, checks) = (Some(Nanos::from_secs(1)), Checks::On);
        let simulation = Simulation { array: &array, job: &job, policy, seed: 1, duration, checks };
        run(&simulation)
    };
    let record = play("ramp_time=1h").expect("the ramp is bounded");
    assert_eq!(record.sections[0].from, Nanos::from_secs(1), "a ramp as long as the duration");
    assert_near(record.sections[0].measured.as_secs_f64(), 1.0, 0.01);
    let from = |options: &str| play(options).expect("delays shrink").sections[0].from;
    assert_eq!(from("startdelay=1h"), Nanos::from_millis(500), "half of the duration");
    assert_eq!(from("startdelay=10\nruntime=50"), Nanos::from_millis(200), "as the runtime");
    assert_eq!(
        from("startdelay=900ms\nruntime=50"),
        Nanos::from_millis(900),
        "within the duration"
    );
}

/// As fio, which forgets what it counted when a ramp ends.
#[test]
fn a_section_that_ends_within_its_ramp_is_measured_in_full() {
    let array = delays("single", &["1ms"]);
    let short = "[a]\nioengine=psync\ndirect=1\nrw=randread\nsize=1g\nnumber_ios=50\nramp_time=5\n";
    let job = |text: &str| JobFile::parse(text, "ramp.fio", &JobContext::empty()).expect("a job");
    let record = simulate(&array, &job(short), "first");
    let section = &record.sections[0];
    assert_eq!((section.from, section.read.latency.count()), (Nanos::ZERO, 50));
    assert_near(section.measured.as_secs_f64(), 0.05, 0.001);
    assert_near(record.measured.as_secs_f64(), 0.05, 0.001);
    assert_eq!((record.members[0].reads, record.members[0].busy), (50, Nanos::from_millis(50)));
    let long = "[b]\ndirect=1\nrw=randread\nsize=1g\nruntime=1\ntime_based\nramp_time=2\nstonewall";
    let both = simulate(&array, &job(&format!("{short}{long}")), "first");
    let [a, b] = &both.sections[..] else { panic!("two sections") };
    assert_eq!(a.read.latency.count(), 50);
    assert!(b.read.latency.count().abs_diff(1000) <= 1, "{}", b.read.latency.count());
}

#[test]
fn stop_is_read_before_clones_start() {
    let array = delays("single", &["1ms"]);
    let job = jobs("rw=randread\nruntime=1");
    let (policy, checks) = (PolicyUnderTest::Policy("first"), Checks::Off);
    let simulation =
        Simulation { array: &array, job: &job, policy, seed: 1, duration: None, checks };
    let stopped = run_until(&simulation, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(SimError::Stopped)));
    run_until(&simulation, &AtomicBool::new(false)).unwrap();
}

#[test]
fn write_rate_that_falls_within_the_run_is_not_steady() {
    let array = |model: &str| {
        let text = format!("name = \"cached\"\nprofile = \"single\"\n[[member]]\n{model}");
        ArrayFile::parse(&text, "cached.toml").expect("a valid array").spec
    };
    let job = jobs("rw=randwrite\nbs=16k\niodepth=8");
    let steady = simulate(&delays("single", &["1ms"]), &job, "first");
    let change = steady.sections[0].write_rate_change.expect("it wrote enough");
    assert!(change.abs() < 0.01, "{change}");
    // The disk becomes four times as slow when half of the run is over.
    let slow = "model = \"delay\"\nsize = \"64GiB\"\nset = { service = \"1ms\" }\n\
                fault = [{ slow = 4.0, from = \"5s\" }]\n";
    let falling = simulate(&array(slow), &job, "first");
    let change = falling.sections[0].write_rate_change.expect("it wrote enough");
    assert!((-0.8..-0.7).contains(&change), "{change}");
    let reads = simulate(&array(slow), &jobs("rw=randread"), "first");
    assert_eq!(reads.sections[0].write_rate_change, None, "there are no writes");
}

#[test]
fn a_rate_in_steady_state_does_not_depend_on_the_length_of_the_run() {
    // Half of the requests wait for the slow disk at the end.
    let array = delays("raid1", &["100us", "500ms"]);
    let rate = |seconds: u64, is_steady: bool| {
        let job = jobs("rw=randread\niodepth=8");
        let (runtime, warm_up) = (Nanos::from_secs(seconds), Nanos::from_millis(100));
        let job = if is_steady { job.in_steady_state(warm_up) } else { job };
        let policy = PolicyUnderTest::Policy("md/raid1");
        let (duration, checks) = (Some(runtime), Checks::On);
        let record =
            run(&Simulation { array: &array, job: &job, policy, seed: 1, duration, checks });
        let record = record.unwrap();
        if is_steady {
            let section = &record.sections[0];
            assert_eq!((section.from, section.measured), (warm_up, runtime));
            assert_eq!(record.measured, runtime);
            assert!(record.members.iter().all(|member| member.busy == runtime), "always busy");
        }
        record.sections[0].read.iops
    };
    assert_near(rate(1, true), rate(8, true), 0.01);
    assert!(rate(1, false) < rate(8, false) * 0.8, "as fio: the time of the last counts");
}
