//! Golden decisions: plays the scripts in `golden/`, a text file for each family of policies.
//!
//! `test NAME` begins a test, and `policy SPEC…` a script on new members, which is played once for
//! each spec. `#` begins a comment; behind a read it is the reason for the decision, worked out by
//! hand from the policy's definition. Sizes are sums, such as `1M+4K`. The steps:
//!
//! ```text
//! members hdd ssd,io_opt=64K,depth=2,priority=1,size=4G    devids 1, 2, …; 1 GiB each
//! stripes 2 1                                 order of the stripes; else that of the devids
//! eligible 1 3                                from here on only these members can serve
//! read 8K length 64K stream 4 cpu 1 = 2       the read is served by devid 2; 0 is a split
//! write 2 0 4K                                a write to devid 2, with offset and length
//! complete 2 9                                its oldest I/O completes with a wait of 9 ms
//! cancel 2                                    its newest I/O is cancelled before it began
//! wait 1000                                   a second passes
//! submit 2                                    a read of devid 2 that the policy did not choose
//! measure 20 9                                fifty of them on each member, in these times in ms
//! fail 2                                      devid 2 fails
//! members-changed                             reports a change of members to the policy
//! counter weight 2 = 48                       a counter of devid 2, or of the `volume`
//! repeat 9 … end                              the lines between are played nine times
//! ```

use super::script::{Reader, Script, Step};
use crate::member::{MemberConfig, MemberState};
use crate::units::{GIB, KIB, MIB};

#[test]
fn the_choices_are_those_of_the_golden_scripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/policies/tests/golden");
    let mut tests = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for test in text.split("\ntest ").skip(1) {
            let mut parts = test.split("\npolicy ");
            let name = parts.next().unwrap();
            parts.for_each(|script| play_script(name, script));
            tests += 1;
        }
    }
    assert!(tests > 80, "{tests} tests");
}

/// Plays a script with each of its policies, and panics with all lines if a choice differs.
fn play_script(name: &str, text: &str) {
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.retain(|line| !line.is_empty() && !line.starts_with('#'));
    let configs = lines[1].strip_prefix("members ").expect("members come first");
    let configs: Vec<MemberConfig> = configs.split(' ').zip(1..).map(member).collect();
    for spec in lines[0].split(' ') {
        let mut script = Script::new(spec, configs.clone());
        let mut report = String::new();
        play_lines(&mut script, &lines[2..], &mut report);
        assert!(!report.contains("! "), "{name} of {spec}:\n{report}");
    }
}

/// A member such as `ssd,depth=2`.
fn member((text, devid): (&str, u64)) -> MemberConfig {
    let mut words = text.split(',');
    let mut config = MemberConfig::new(devid, GIB);
    config.rotational = words.next() == Some("hdd");
    for (key, value) in words.map(|word| word.split_once('=').unwrap()) {
        match key {
            "io_opt" => config.optimal_io_bytes = bytes(value),
            "depth" => config.queue_depth = number(value) as u32,
            "priority" => config.priority = number(value) as u32,
            "size" => config.size_bytes = bytes(value),
            "recovered" => {
                config.state = MemberState::Rebuilding { recovered_bytes: bytes(value) };
            }
            _ => panic!("unknown attribute {key}"),
        }
    }
    config
}

fn play_lines(script: &mut Script, lines: &[&str], report: &mut String) {
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        if let Some(times) = line.strip_prefix("repeat ") {
            let end = rest.iter().position(|line| *line == "end").expect("end");
            (0..number(times)).for_each(|_| play_lines(script, &rest[..end], report));
            rest = &rest[end + 1..];
            continue;
        }
        let step = line.split_once('#').map_or(*line, |(step, _)| step);
        let words: Vec<&str> = step.split_whitespace().collect();
        let (expected, actual) = match words[..] {
            ["read", offset, ref options @ .., "=", devid] => {
                (number(devid) as i64, play_read(script, offset, options) as i64)
            }
            ["counter", name, of, "=", value] => {
                let devid = (of != "volume").then(|| number(of));
                (value.parse().unwrap(), script.counter(name, devid))
            }
            _ => {
                play_other(script, &words);
                (0, 0)
            }
        };
        let mark = if actual == expected { ' ' } else { '!' };
        *report += &format!("{mark} {actual} for {line}\n");
    }
}

fn play_read(script: &mut Script, offset: &str, options: &[&str]) -> u64 {
    let (mut length, mut reader) = (4096, Reader::default());
    for option in options.chunks(2) {
        match *option {
            ["length", value] => length = bytes(value),
            ["stream", value] => reader.stream = number(value),
            ["cpu", value] => reader.cpu = number(value) as u32,
            _ => panic!("unknown option {option:?}"),
        }
    }
    script.read_as(reader, bytes(offset), length)
}

/// Plays a step that has no expectation.
fn play_other(script: &mut Script, words: &[&str]) {
    let numbers = |words: &[&str]| words.iter().map(|word| number(word)).collect::<Vec<u64>>();
    let step = match *words {
        ["complete", devid, ms] => Step::Complete { devid: number(devid), wait_ms: number(ms) },
        ["cancel", devid] => Step::Cancel { devid: number(devid) },
        ["wait", millis] => Step::Wait { millis: number(millis) },
        ["write", devid, offset, length] => {
            Step::Write { devid: number(devid), offset: bytes(offset), length: bytes(length) }
        }
        ["members-changed"] => return script.policy.on_members_change(&script.members),
        ["submit", devid] => return script.submit_read(number(devid)),
        ["measure", ref waits_ms @ ..] => return script.measure(&numbers(waits_ms)),
        ["fail", devid] => return script.fail(number(devid)),
        ["stripes", ref stripes @ ..] => return script.set_stripes(&numbers(stripes)),
        ["eligible", ref members @ ..] => return script.set_eligible(&numbers(members)),
        _ => panic!("unknown step {words:?}"),
    };
    script.play(&step);
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// A sum of sizes, such as `1M+4K`.
fn bytes(text: &str) -> u64 {
    let units = [('K', KIB), ('M', MIB), ('G', GIB)];
    let size = |part: &str| {
        let unit = units.iter().find(|(letter, _)| part.ends_with(*letter));
        unit.map_or_else(|| number(part), |(_, unit)| number(&part[..part.len() - 1]) * unit)
    };
    text.split('+').map(size).sum()
}
