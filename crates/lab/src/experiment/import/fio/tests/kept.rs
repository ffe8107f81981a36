//! Results that lack latencies, and results that a folder already has.

use super::*;
use crate::experiment::import::check_jobs;
use crate::experiment::results::saved_cells;

#[test]
fn results_without_latencies_have_their_throughput() {
    let reads = "\"clat_ns\": {\"min\": 0, \"max\": 0, \"mean\": 0.0, \"N\": 0}";
    let record = imported(&document_of("fio-3.33", 1, 10_000, 284, reads));
    assert_eq!(read(&record.run.sections[0]).iops, 28.4);
    assert_eq!(record.imported.as_ref().unwrap().latency, LatencySource::Absent);
    let folder = TempDir::new().unwrap();
    add(folder.path(), vec![record]).unwrap();
    let mut set = load(&[folder.path().to_owned()], &Criteria::default()).sets.remove(0);
    let figures = &set.study.jobs.remove(0).rows.remove(0).sections.remove(0).figures.clone();
    assert!(figures.p99_us.value.is_nan() && figures.iops.value == 28.4, "{figures:?}");
}

/// fio 3.33 with `clat_percentiles=0`, and with `gtod_reduce=1`, of a job that sets a rate.
#[test]
fn latencies_that_fio_did_not_save_are_no_zeros() {
    let of_latency = |latency: &str| {
        let reads = format!("\"clat_ns\": {latency}, \"lat_ns\": {latency}");
        let text = document_of("fio-3.33", 1, 10_000, 284, &reads);
        let options = "\"jobname\": \"a\", \"job options\": {\"rate_iops\": \"30\"}";
        let text = text.replacen("\"jobname\": \"a\"", options, 1);
        let folder = TempDir::new().unwrap();
        add(folder.path(), vec![imported(&text)]).unwrap();
        let set = load(&[folder.path().to_owned()], &Criteria::default()).sets.remove(0);
        (set.study.verdict.sentence.clone(), set.study)
    };
    let (sentence, study) = of_latency("{\"min\": 0, \"max\": 0, \"mean\": 0.0, \"N\": 0}");
    assert!(sentence.starts_with("Results of a lack the latency"), "{sentence}");
    assert!(study.jobs[0].rows[0].sections[0].figures.mean_us.value.is_nan());
    let (sentence, study) = of_latency("{\"min\": 2, \"max\": 9000, \"mean\": 4000.0, \"N\": 284}");
    assert!(sentence.starts_with("Only `btrfs/pid` was run"), "{sentence}");
    let figures = &study.jobs[0].rows[0].sections[0].figures;
    assert_eq!((figures.mean_us.value, study.cells[0].score), (4.0, 250_000.0));
    assert!(figures.p50_us.value.is_nan());
}

/// Found by a trial: the last state of a run that was killed is no result of the run. fio gives an
/// unknown rest, `2147483647`, at the end of some runs too.
#[test]
fn states_of_runs_that_were_to_go_on_are_partial() {
    let is_partial = |eta: u64, runtime: &str, measured: u64| {
        let text = document_of("fio-3.33", 1, measured, 284, "\"iops\": 1.0");
        let job = format!(
            "\"jobname\": \"a\", \"eta\": {eta}, \"job options\": {{\"runtime\": \"{runtime}\"}}"
        );
        is_partial(text.replacen("\"jobname\": \"a\"", &job, 1).as_bytes())
    };
    assert!(is_partial(2, "3", 879) && is_partial(i32::MAX as u64, "3", 879));
    for (runtime, end) in [("3s", 3_000), ("1m", 60_000), ("1h", 3_600_000)] {
        assert!(is_partial(4_294_967_294, runtime, end / 2), "{runtime}");
        assert!(!is_partial(4_294_967_294, runtime, end), "{runtime}");
    }
    assert!(!is_partial(0, "3", 879) && !is_partial(i32::MAX as u64, "1", 1001));
    assert!(![GROUPS, CLONES, PLAIN, SINGLE].iter().any(|text| super::is_partial(text.as_bytes())));
    let stopped = format!("\nfio: terminating on signal 2\n{SINGLE}");
    assert!(super::is_partial(stopped.as_bytes()));
}

#[test]
fn a_result_is_known_whatever_logs_come_with_it() {
    let without = imported(SINGLE);
    let with = cell_with(SINGLE, &[("single_lat.1.log", SINGLE_LOG)]).unwrap();
    let folder = TempDir::new().unwrap();
    let added = add(folder.path(), vec![with.clone(), without.clone()]).unwrap();
    assert_eq!((added.written.len(), added.known), (1, vec![1]));
    // Logs may come later.
    let folder = TempDir::new().unwrap();
    add(folder.path(), vec![imported(GROUPS), without]).unwrap();
    let added = add(folder.path(), vec![with.clone(), with]).unwrap();
    assert_eq!((added.written.len(), added.known), (1, vec![1]));
    let cells = saved_cells(folder.path());
    assert_eq!(cells.len(), 2);
    assert!(cells.iter().all(|it| it.cell.repeat == 0));
    let has_bytes = |it: &CellRecord| it.run.intervals.read_bytes.iter().sum::<u64>() == 409_600;
    assert_eq!(cells.iter().filter(|it| has_bytes(it)).count(), 1);
}

#[test]
fn different_jobs_of_one_name_are_refused() {
    let folder = TempDir::new().unwrap();
    let of_job = |text: &str| {
        cell(text.as_bytes(), &[], &ImportLabels { job: Some("x".to_owned()), ..about() }).unwrap()
    };
    let error = check_jobs(folder.path(), &[of_job(SINGLE), of_job(GROUPS)]).unwrap_err();
    assert!(error.to_string().contains("different jobs that are all named `x`"), "{error}");
    add(folder.path(), vec![of_job(SINGLE)]).unwrap();
    assert!(check_jobs(folder.path(), &[of_job(SINGLE)]).is_ok());
    assert!(check_jobs(folder.path(), &[of_job(GROUPS)]).is_err());
}

/// fio 3.33 of two jobs, `first` with `rw=randread:rate_iops=1000` and `second` with these options,
/// under `group_reporting`.
#[test]
fn options_of_one_job_are_not_those_of_a_group() {
    let of = |reads: u64, writes: u64, options: &str| {
        let requests = |ios: u64| {
            format!("{{\"io_bytes\": {}, \"runtime\": 1000, \"total_ios\": {ios}}}", ios * 4096)
        };
        let text = format!(
            "{{\"fio version\": \"fio-3.33\", \"global options\": {{\"bs\": \"4k\"}}, \"jobs\": \
             [{{\"jobname\": \"first\", \"job options\": {{{options}}}, \"read\": {}, \
             \"write\": {}}}]}}",
            requests(reads),
            requests(writes)
        );
        let record = imported(&text);
        let section = record.run.sections[0].clone();
        (record.imported.unwrap().of_several, section.has_rate, record.job_text)
    };
    for (reads, writes, options) in [
        (994, 40, r#""rw": "randwrite", "rate_iops": "20", "numjobs": "2""#),
        (1020, 0, r#""rw": "randread", "rate_iops": "20""#),
        (1020, 0, r#""rw": "randread", "bs": "64k""#),
        (1020, 0, r#""name": "second", "rw": "randread""#),
    ] {
        let (of_several, has_rate, text) = of(reads, writes, options);
        assert_eq!((&of_several[..], has_rate), (&["first".to_owned()][..], false), "{options}");
        assert!(text.ends_with("; several jobs, whose options differ\n[first]\n"), "{text}");
    }
    for (reads, writes, options) in [
        (40, 0, r#""rw": "randread", "rate_iops": "20", "numjobs": "2""#),
        (700, 300, r#""rw": "randrw", "name": "first""#),
        (700, 300, r#""readwrite": "rw:8", "bs": "4096""#),
        (700, 0, ""),
        (256, 256, r#""rw": "write", "verify": "crc32c""#),
    ] {
        let (of_several, has_rate, _) = of(reads, writes, options);
        assert_eq!((of_several.len(), has_rate), (0, options.contains("rate")), "{options}");
    }
}

/// As fio 3.33 names clones of `[b]` with `name=a`, and groups of one name behind `stonewall`.
#[test]
fn sections_are_known_by_group_and_clones_by_their_options() {
    let of = |jobs: &[(&str, u32, &str)]| {
        let job = |&(name, group, options): &(&str, u32, &str)| {
            format!(
                "{{\"jobname\": \"{name}\", \"groupid\": {group}, \"job options\": {{{options}}}, \
                 \"read\": {{\"io_bytes\": 40960, \"runtime\": 1000, \"total_ios\": 10}}}}"
            )
        };
        let jobs: Vec<String> = jobs.iter().map(job).collect();
        let jobs = jobs.join(", ");
        imported(&format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{jobs}]}}"))
    };
    let clones = r#""name": "a", "numjobs": "2""#;
    let record = of(&[("a", 0, clones), ("b", 0, clones)]);
    assert_eq!(record.imported.unwrap().of_several, Vec::<String>::new());
    let record = of(&[("a", 0, r#""rate_iops": "10""#), ("a", 1, "")]);
    assert_eq!(record.job_text.matches("[a]").count(), 2, "{}", record.job_text);
    let rates: Vec<bool> = record.run.sections.iter().map(|it| it.has_rate).collect();
    assert_eq!(rates, [true, false]);
}

#[test]
fn a_report_says_which_latencies_were_imported() {
    let notes = |records: Vec<CellRecord>| {
        let folder = TempDir::new().unwrap();
        add(folder.path(), records).unwrap();
        load(&[folder.path().to_owned()], &Criteria::default()).sets.remove(0).notes
    };
    let job = |text: &str, policy: &str| {
        let labels = ImportLabels { job: Some("x".into()), policy: policy.into(), ..about() };
        cell(text.as_bytes(), &[], &labels).unwrap()
    };
    let completion = "completion latencies (clat), without the wait before the submission";
    let of_completion = document_of("fio-3.33", 1, 1_000, 284, PERCENTILES);
    let of_total = of_completion.replace("clat_ns", "lat_ns");
    let one = notes(vec![job(&of_completion, "a")]);
    assert_eq!(one, [format!("the imported latencies are {completion}")]);
    let both = notes(vec![job(&of_completion, "a"), job(&of_total, "b")]);
    let total = "total latencies (lat), of b: do not compare one with the other";
    assert_eq!(both, [format!("the imported latencies are {completion}, of a; {total}")]);
}

/// fio 3.33, with a runtime of a second.
#[test]
fn a_run_right_after_another_is_no_state_of_it() {
    let timed = |time_ms: u64, elapsed, runtime, ios| {
        let elapsed = format!("\"jobname\": \"a\", \"elapsed\": {elapsed}");
        let at = format!("\"timestamp_ms\": {time_ms}, \"jobs\"");
        let state = document_of("fio-3.33", time_ms / 1000, runtime, ios, PERCENTILES);
        let state = state.replacen("\"jobs\"", &at, 1);
        state.replacen("\"jobname\": \"a\"", &elapsed, 1)
    };
    let twice = timed(518_079, 2, 1_001, 101) + &timed(519_180, 2, 1_024, 102);
    assert!(failure(&twice).starts_with("has the results of several runs of fio"));
    let states = timed(523_024, 2, 890, 91) + &timed(524_021, 3, 1_893, 191);
    assert_eq!(read(&imported(&states).run.sections[0]).ios, 191);
    let states = timed(523_024, 1, 400, 91) + &timed(523_521, 1, 893, 191);
    assert_eq!(read(&imported(&states).run.sections[0]).ios, 191);
}
