//! Results that lack latencies, and results that a folder already has.

use super::*;
use crate::experiment::import::check_jobs;

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

#[test]
fn a_result_is_known_whatever_logs_come_with_it() {
    let without = imported(SINGLE);
    let with = cell_with(SINGLE, &[("single_lat.1.log", SINGLE_LOG)]).unwrap();
    let folder = TempDir::new().unwrap();
    let added = add(folder.path(), vec![with, without]).unwrap();
    assert_eq!((added.written.len(), added.known), (1, vec![1]));
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
