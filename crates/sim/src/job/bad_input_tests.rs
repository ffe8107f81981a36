//! Errors of the reader on bad input, word for word, and that no input makes it panic.

use super::tests::parse;
use super::{Diagnostic, JobContext, JobFile};
use proptest::prelude::{any, prop};
use proptest::{prop_assert, proptest};

/// The text and the expected answer of each case of `bad_input.txt`.
fn cases() -> Vec<(String, String)> {
    let mut cases = Vec::new();
    let (mut text, mut answer) = (String::new(), String::new());
    let (_head, lines) = include_str!("bad_input.txt").split_once("\n\n").unwrap();
    for line in lines.lines().chain([""]) {
        if let Some(part) = line.strip_prefix("! ") {
            let space = if answer.is_empty() { "" } else { " " };
            answer += &format!("{space}{part}");
        } else if line.is_empty() && !answer.is_empty() {
            cases.push((std::mem::take(&mut text), std::mem::take(&mut answer)));
        } else {
            text += &format!("{line}\n");
        }
    }
    cases
}

#[test]
fn prose_that_mentions_the_program_is_a_comment() {
    for comment in [
        "mirrorball reads the next line",
        "see mirrorball: it simulates",
        "Mirrorball and fio: both read this",
        "miracle: not a pragma",
        "mirror: two disks",
        "a job for mirrorball with background=none",
    ] {
        parse(&format!("; {comment}\n[a]\nbs=4k ; {comment}\n")).expect(comment);
    }
}

#[test]
fn bad_input_is_refused_with_line_and_help() {
    let escape = "the name of the section [a\u{1b}[31m] contains characters that do not print";
    let mut cases = cases();
    assert!(cases.len() > 75, "{} cases", cases.len());
    cases.push(("[a\u{1b}[31m]".into(), format!("1: {escape} (use printable characters)")));
    let escape = "2: the name a\\u{1b} has characters that do not print (use printable characters)";
    cases.push(("[a]\nname=a\u{1b}".into(), escape.to_owned()));
    for (text, expected) in cases {
        let Diagnostic { line, message, help, .. } = parse(text.trim_end()).expect_err(&text);
        let given = format!("{}: {message} ({})", line.unwrap(), help.unwrap());
        assert_eq!(given, expected, "{text}");
    }
    let other = JobFile::parse("hello\n", "x.txt", &JobContext::empty()).unwrap_err();
    assert!(
        other
            .help
            .unwrap()
            .contains("; is it a job file? those of arrays end in .toml, and a trace")
    );
}

#[test]
fn all_errors_of_a_file_are_named() {
    let shown = parse("[a]\nrate_iops=x\nbs= 4k\nio_depth=4\n[b]\nrw=red").unwrap_err();
    let lines = [
        "test.fio:2: rate_iops: `x` is not a size or number",
        "test.fio:3: a space after `bs=`",
        "test.fio:4: unknown option `io_depth`\n  help: did you mean `iodepth`?\ntest.fio:6: rw:",
    ];
    let shown = shown.to_string();
    assert!(lines.iter().all(|line| shown.contains(line)), "{shown}");
    let many = parse(&format!("[a]\n{}", "hello\n".repeat(100))).unwrap_err();
    assert_eq!(many.others.len(), 19, "a text that is no job");
}

const VALID: &str = "[global]\nioengine=libaio\ndirect=1\nbs=4k,8k\n[a]\nrw=randrw\nsize=50%\n\
    bssplit=4k/50:64k/\nrandom_distribution=zipf:1.2:0.5\nrate_iops=100,50\nruntime=10s\n\
    time_based\n; mirrorball: background=scrub rate=1MB/s\n[b]\nstonewall\noffset=${X}%\n\
    offset_increment=10%\nnumjobs=3\nthinktime=5ms\nfsync=4\n";

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    /// Accepted text is also resolved: the regions on a volume are computed or refused.
    #[test]
    fn no_mutation_panics(
        cuts in prop::collection::vec((0..VALID.len(), 0usize..6, "[ -~\n%:/,0-9]{0,4}"), 1..5),
        volume_bytes: u64,
    ) {
        let mut text = VALID.to_owned();
        for (at, length, with) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &with);
        }
        let variable = |_: &str| Some("7".to_owned());
        let include = |_: &str| Ok("bs=8k".to_owned());
        let environment =
            JobContext { variable: &variable, include: &include, ..JobContext::empty() };
        match JobFile::parse(&text, "test.fio", &environment) {
            Ok(file) => drop(file.validate_against(volume_bytes)),
            Err(error) => {
                prop_assert!(error.line.is_some_and(|line| line >= 1) && error.help.is_some());
            }
        }
    }
}
