//! `mirrorball compare` as a user meets it: the program, files, exit codes and messages.

use crate::common::samples::{ARRAY, JOB};
use crate::common::{Folder, stderr, stdout};
use std::fs;
use std::ops::Deref;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A folder with an array and a job, and nothing else.
pub(crate) struct Place {
    folder: Folder,
}

impl Place {
    pub(crate) fn new() -> Place {
        let place = Place { folder: Folder::new() };
        place.write("pair.toml", ARRAY);
        place.write("job.fio", JOB);
        place
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// A short comparison of two policies with `more` arguments.
    fn compare(&self, more: &[&str]) -> Output {
        let usual = ["compare", "pair.toml", "job.fio", "--policy", "pid,queue"];
        self.run(&[&usual[..], &["--duration", "200ms", "--repeats", "2"], more].concat())
    }
}

impl Deref for Place {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}

/// Beyond what the disks accept at once it would take nearly all of the time.
#[test]
fn the_oracle_of_deep_queues_is_left_out() {
    let place = Place::new();
    place.write("deep.fio", "[a]\nioengine=libaio\ndirect=1\nrw=randread\niodepth=1024\n");
    let run = ["compare", "two-ssd-raid1", "deep.fio", "-p", "pid", "-d", "20ms", "-n", "1"];
    let done = place.run(&run);
    assert!(stderr(&done).contains("note: the oracle is left out"), "{}", stderr(&done));
    assert!(!stdout(&done).contains("oracle"), "{}", stdout(&done));
}

#[test]
fn the_table_has_every_policy_the_oracle_and_a_verdict() {
    let place = Place::new();
    let output = place.compare(&[]);
    let text = stdout(&output);
    for part in ["* ", "kakra/queue", "btrfs/pid", "oracle", "p99"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(text.starts_with("Use `"), "the decision comes first:\n{text}");
    assert!(!text.contains('\x1b'), "no colours into a pipe");
    assert!(stderr(&output).contains("results are in mirrorball-results"));
}

/// One hard disk and one SSD, and a job of small and of large reads.
const HDD_AND_SSD: &str = "\
profile = \"raid1\"
[[member]]
model = \"hdd-7k2-desktop\"
[[member]]
model = \"ssd-sata-consumer\"
";
const TWO_SECTIONS: &str = "\
[global]
ioengine=libaio
direct=1
size=20g
time_based
runtime=10
[small]
rw=randread
bs=4k
iodepth=4
[large]
rw=read
bs=1m
iodepth=2
";

fn two_sections() -> Place {
    let place = Place::new();
    place.write("pair.toml", HDD_AND_SSD);
    place.write("two.fio", TWO_SECTIONS);
    place
}

#[test]
fn another_goal_ranks_by_the_figure_that_it_names() {
    let place = two_sections();
    let policies = ["--policy", "pid,auto", "--duration", "500ms", "-n", "2", "-o", "out"];
    let usual = [&["compare", "pair.toml", "two.fio"], &policies[..]].concat();
    let default = place.run(&usual);
    assert!(stderr(&default).contains("6 cells: 0 reused from an earlier run, 6 simulated"));
    let ranked = place.run(&[&usual[..], &["--rank", "p99"]].concat());
    let text = stdout(&ranked).replace('\n', " ");
    assert!(text.contains("ranked by p99."), "{text}");
    let reused = "6 cells: 6 reused from an earlier run, 0 simulated";
    assert!(stderr(&ranked).contains(reused), "another goal runs nothing again");
    let other = [&usual[..], &["--rank", "p98"]].concat();
    place.refuses(&other, &["`p98` is not the name of a figure", "the figures are iops"]);
    place.refuses(&[&usual[..], &["--baseline", "pdi"]].concat(), &["--baseline", "pid"]);
}

/// Nothing could be read, so nothing can be recommended.
#[test]
fn a_job_without_a_request_that_succeeded_has_no_verdict() {
    let place = Place::new();
    place.write(
        "pair.toml",
        &ARRAY.replace("[[member]]", "[[member]]\nfault = [{ error_rate = 1.0 }]"),
    );
    let output = place.compare(&[]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("No request of job succeeded under any policy"), "{text}");
    assert!(!text.contains("Use `"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(!words.contains(&"0ns") && !text.contains("  ? "), "a latency of nothing: {text}");
}

#[test]
fn where_nothing_can_be_written_results_are_in_the_cache_of_the_user() {
    let folder = Folder::new();
    fs::write(folder.path("mirrorball-results"), "not a folder").unwrap();
    let cells = ["two-ssd-raid1", "rand-4k-qd1", "-p", "first", "-d", "10ms", "-n", "2"];
    let mut command = folder.command(&[&["compare"][..], &cells].concat());
    let output = command.env("XDG_CACHE_HOME", folder.path("cache")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("this folder cannot be written: results go to"));
    assert!(folder.path("cache/mirrorball-results").is_dir());
}

/// A run of a quarter of an hour is interrupted as soon as its first cell is saved.
#[test]
#[cfg(unix)]
fn ctrl_c_keeps_finished_cells_and_says_how_to_go_on() {
    let place = Place::new();
    let mut program = place
        .command(&["compare", "pair.toml", "job.fio", "--repeats", "1000", "--policy", "pid"])
        .args(["--duration", "100s", "-o", "out"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let cells = place.path("out/cells");
    let saved = || {
        let entries = fs::read_dir(&cells).into_iter().flatten();
        entries
            .filter(|entry| entry.as_ref().unwrap().path().extension().unwrap() == "json")
            .count()
    };
    while saved() == 0 {
        assert_eq!(program.try_wait().unwrap(), None, "it ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = program.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{message}");
    let done = saved();
    assert!(message.contains(&format!("{done} of 2000 cells are saved in out")), "{message}");
    assert!(message.contains("run the same command again to continue"), "{message}");
}

#[test]
fn a_long_job_of_the_user_is_cut_to_the_budget() {
    let place = Place::new();
    let job = "[a]\nrw=randread\nbs=4k\niodepth=8\ntime_based\nruntime=60\n";
    fs::write(place.path("long.fio"), job).unwrap();
    let run = ["compare", "two-ssd-raid1", "long.fio", "-p", "first,random", "--budget", "500ms"];
    let output = place.run(&run);
    let said = stderr(&output);
    assert!(said.contains("note: each job is simulated for "), "{said}");
    assert!(said.contains("all runs take about 500ms on two CPUs"), "{said}");
}

#[test]
fn built_in_arrays_and_jobs_are_found_from_an_empty_folder() {
    let place = Place { folder: Folder::new() };
    let arguments = ["--duration", "300ms", "--repeats", "1", "--policy", "first,pid"];
    let text = stdout(&place.run(&[&["compare"], &arguments[..]].concat()));
    assert!(text.contains("\nhetero-hdd-raid1: 2 policies, 6 jobs, 1 repeat"), "{text}");
    let again = ["compare", "two-delays-raid1", "rand-4k-qd32"];
    stdout(&place.run(&[&again[..], &arguments[..]].concat()));
}

#[test]
fn the_plan_says_how_to_repeat_it() {
    let place = Place::new();
    let first = stdout(&place.compare(&["--format", "csv", "-o", "out"]));
    let plan = fs::read_to_string(place.path("out/plan.json")).unwrap();
    let (_, command) = plan.split_once("\"command\": \"").unwrap();
    let (command, _) = command.split_once('"').unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let again = place.run(&[&words[..], &["--format", "csv", "-o", "again"]].concat());
    assert_eq!(stdout(&again), first, "{command}");
}

#[test]
fn another_plan_does_not_get_into_the_same_folder() {
    let place = Place::new();
    stdout(&place.compare(&["-o", "out"]));
    let other = ["compare", "pair.toml", "job.fio", "--policy", "pid", "-o", "out"];
    let parts = ["a different comparison", "policies: saved btrfs/pid, kakra/queue", "-o"];
    place.refuses(&other, &parts);
    place.write("notes.txt", "mine");
    place.refuses(&["compare", "pair.toml", "job.fio", "-o", "."], &["is not empty"]);
    // A place where not even root can make a folder.
    let nowhere = ["compare", "pair.toml", "job.fio", "-o", "/proc/mirrorball"];
    place.refuses(
        &nowhere,
        &["cannot create the results folder /proc/mirrorball: No such", "another folder with -o"],
    );
}

#[test]
fn who_edits_a_job_and_compares_again_is_not_refused() {
    let place = Place::new();
    let command = ["compare", "pair.toml", "job.fio", "-p", "pid", "-n", "1", "--format", "csv"];
    let folders = || fs::read_dir(place.path("mirrorball-results")).unwrap().count();
    let before = stdout(&place.run(&command));
    let job = fs::read_to_string(place.path("job.fio")).unwrap();
    place.write("job.fio", &job.replace("iodepth=", "iodepth=1"));
    let after = stdout(&place.run(&command));
    assert_ne!(after, before);
    assert_eq!(stdout(&place.run(&command)), after);
    assert_eq!(folders(), 2);
    place.write("job.fio", &job);
    assert_eq!(stdout(&place.run(&command)), before);
    assert_eq!(folders(), 2);
}

#[test]
fn what_is_mistyped_is_answered_with_the_nearest() {
    let place = Place::new();
    let files = ["compare", "pair.toml", "job.fio"];
    let with = |more: &[&'static str]| [&files[..], more].concat();
    place.refuses(&with(&["--policy", "latecny"]), &["unknown policy `latecny`", "`latency`"]);
    place.refuses(&with(&["--policy", "devid:9"]), &["9"]);
    place.refuses(&with(&["--policy", "round-robin:lots"]), &["lots", "such as"]);
    place.refuses(&with(&["--repeat", "3"]), &["--repeat", "--repeats"]);
    place.refuses(&with(&["--repeats", "0"]), &["--repeats", "a whole number from 1 to 1000"]);
    place.refuses(&with(&["--seed", "abc"]), &["--seed", "expected a seed: a whole number from 0"]);
    place.refuses(&with(&["--duration", "10"]), &["--duration", "has no unit"]);
    place.refuses(&with(&["--duration", "0s"]), &["--duration"]);
    place.refuses(&with(&["--format", "cvs"]), &["cvs", "csv"]);
    place.refuses(&with(&["--threads", "0"]), &["--threads", "a whole number from 1 to 1024"]);
    place.refuses(&["compare", "two-sssd-raid1"], &["two-ssd-raid1"]);
    place.refuses(&["compare", "pair.toml", "rand-4k-qd2"], &["rand-4k-qd1"]);
    place.refuses(&["compare", "rand-4k-qd1"], &["the array comes first"]);
    place.refuses(&["compare", "absent.toml"], &["absent.toml", "No such file"]);
    place.refuses(&["compare", "pair.toml", "absent.fio"], &["absent.fio", "No such file"]);
}

#[test]
fn a_missing_file_is_refused_with_the_name_of_a_similar_one() {
    let place = Place::new();
    let none = "there is no file and no built-in";
    let guess = "did you mean `pair.toml`?";
    place.refuses(&["compare", "pai.tml"], &[none, "array `pai.tml`", guess]);
    place.refuses(&["compare", "pair"], &[none, guess]);
    place.refuses(&["compare", "piar.toml"], &["piar.toml", "No such file", guess]);
    place.refuses(&["check", "./piar.toml"], &["did you mean `./pair.toml`?"]);
    place.refuses(&["compare", "zebra"], &[none, "the built-in arrays are hetero-hdd-raid1"]);
    place.refuses(&["compare", "pair.toml", "job.foi"], &[none, "did you mean `job.fio`?"]);
    place.refuses(&["explain", "pair.toml", "jbo.fio"], &["No such file", "`job.fio`"]);
}

#[test]
fn what_cannot_be_is_refused_with_file_and_line() {
    let place = Place::new();
    let refuses = |array: &str, job: &str, parts: &[&str]| {
        place.write("bad.toml", array);
        place.write("bad.fio", job);
        place.refuses(&["compare", "bad.toml", "bad.fio"], parts);
    };
    refuses(ARRAY, &JOB.replace("size=1g", "size=100t"), &["bad.fio:1", "ends at 100 TiB, but"]);
    refuses(ARRAY, &JOB.replace("bs=4k", "bs=4q"), &["bad.fio:5", "4q"]);
    refuses(ARRAY, &JOB.replace("iodepth", "io_depth"), &["bad.fio:7", "iodepth"]);
    refuses(ARRAY, "rw=read\n", &["bad.fio:1"]);
    refuses("profile = \"raid1c3\"\n[[member]]\nmodel = \"hdd-5k4\"\n", JOB, &["bad.toml:1", "3"]);
    refuses(&ARRAY.replace("raid1", "riad1"), JOB, &["bad.toml:1", "`raid1`"]);
    refuses(&ARRAY.replace("desktop", "dekstop"), JOB, &["bad.toml:5", "`hdd-7k2-desktop`"]);
    refuses("profile = [\n", JOB, &["bad.toml"]);
    let real = ARRAY.replacen("model = \"ssd-sata-consumer\"", "path = \"/dev/absent\"", 1);
    refuses(&real, JOB, &["bad.toml:2", "/dev/absent"]);
}

#[test]
fn compare_refuses_what_it_cannot_compare() {
    let place = Place::new();
    let usual = ["compare", "pair.toml", "job.fio"];
    let refuses =
        |more: &[&str], parts: &[&str]| place.refuses(&[&usual[..], more].concat(), parts);
    refuses(&["pair.toml"], &["`pair.toml` is an array, but a job is expected"]);
    refuses(&["--duration", "-5s"], &["-5s"]);
    refuses(
        &["--policy", "pid,zfs", "--baseline", "queue"],
        &["--baseline: `kakra/queue` is not one of the compared policies", "help: add it"],
    );
    place.write("file", "x");
    refuses(
        &["-o", "file"],
        &["cannot use file as results folder: file is a file", "help: choose another folder"],
    );
    std::fs::create_dir_all(place.path("imported/cells")).unwrap();
    refuses(&["-o", "imported"], &["imported holds imported results", "another folder with -o"]);
    refuses(&["--system", "md-raid10"], &["the array has profile raid1", "give --system md"]);
    refuses(&["--system", "md:6.12:3"], &["`6.12:3` is not a version such as 6.12"]);
    refuses(&["job.fio"], &["`job.fio` is given twice", "remove one of them"]);
    let joined = ["compare", "pair.toml", "rand-4k-qd1,seq-read"];
    place.refuses(&joined, &["`rand-4k-qd1,seq-read`", "separate jobs by spaces"]);
    place.refuses(&["compare", "file", "job.fio"], &["file:1:", "their names end in .toml"]);
}

#[test]
fn check_compares_jobs_with_arrays_and_lists_members() {
    let place = Place::new();
    let roomy = "profile = \"raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n";
    place.write("roomy.toml", roomy);
    place.write("large.fio", &JOB.replace("size=1g", "size=1500g"));
    let output = place.run(&["check", "roomy.toml", "pair.toml", "job.fio", "large.fio"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = stderr(&output);
    assert!(
        errors.contains("large.fio:1: job `reader` ends at 1.5 TiB, but the volume of `pair.toml`"),
        "{errors}"
    );
    assert_eq!(errors.matches("error:").count(), 1, "the others fit: {errors}");
    let fits = stdout(&place.run(&["check", "pair.toml", "job.fio"]));
    assert!(fits.ends_with("every job fits every array\n"), "{fits}");

    let image = std::fs::File::create(place.path("disk.img")).unwrap();
    image.set_len(24 << 20).unwrap();
    let member = "[[member]]\npath = \"disk.img\"\n";
    let states = "rebuilding = \"1GiB\"\n[[member]]\nmodel = \"hdd-5k4\"\nfailed = true\n\
                  [[member]]\nmodel = \"hdd-5k4\"\nwrite_mostly = true\n\
                  [[member]]\nmodel = \"hdd-5k4\"\nbegin = \"8GiB\"\nlength = \"100GiB\"\n";
    place.write("states.toml", &format!("{ARRAY}{states}"));
    place.write("real.toml", &format!("{ARRAY}{member}"));
    let text = stdout(&place.run(&["check", "states.toml", "real.toml", "job.fio"]));
    for part in [
        "devid 2: hdd-7k2-desktop, 1.8 TiB, being rebuilt, 1 GiB recovered",
        "devid 3: hdd-5k4, 298.0 GiB, failed",
        "devid 4: hdd-5k4, 298.0 GiB, write-mostly",
        "devid 5: hdd-5k4, 100 GiB from 8 GiB on of 298.0 GiB",
        "devid 3: disk.img, 24 MiB",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    place.write("absent.toml", &format!("{ARRAY}[[member]]\npath = \"absent.img\"\n"));
    place.refuses(&["check", "absent.toml"], &["absent.toml:6", "absent.img"]);
}

#[test]
fn models_completions_and_manual_pages_come_from_the_tables() {
    let place = Place::new();
    place.refuses(&["models", "hdd-7k2-destkop"], &["hdd-7k2-desktop"]);
    assert!(stdout(&place.run(&["completions", "bash"])).contains("mirrorball"));
    stdout(&place.run(&["man", "-o", "pages"]));
    assert!(place.path("pages/mirrorball-compare.1").exists());
}
