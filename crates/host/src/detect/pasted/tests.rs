//! Texts as people paste them, whole and mangled, with the arrays that they describe.

use super::super::command_tests::check_detected;
use super::super::{
    DetectedArray, DetectedMember, detect_pasted, detect_without_copies, pasted_machine,
    what_to_paste,
};
use mirrorball_disk::array_file::ArrayFile;

#[test]
fn a_text_without_an_array_has_none() {
    for text in [
        "",
        "hello",
        "md0 : ",
        "> > >",
        "NAME SIZE\n",
        "pool:",
        "uuid: ",
        "md0 : active raid1 a[99999999999]",
    ] {
        let found = detect_pasted(text);
        assert!(found.iter().all(Result::is_err), "{text}: {found:?}");
    }
}

#[test]
fn an_output_that_describes_no_array_is_named_with_the_next_step() {
    for (text, words) in [
        ("hello", "paste the output of `cat /proc/mdstat`, `zpool"),
        ("Device Model:     ACME 1\n", "paste the output of `cat /proc/mdstat`, `zpool"),
        ("# mdadm --detail --scan\nARRAY /dev/md/0 metadata=1.2 name=h:0\n", "--scan` does not"),
        ("  --- Logical volume ---\n  LV Path   /dev/vg/data\n", "`lvs -a -o +devices`"),
        ("Geom name: gm0\nState: COMPLETE\n", "`gmirror list` is not read"),
        ("---\nDG Arr Row EID:Slot DID Type  State BT\n", "a RAID controller chooses"),
        (
            "Device Model:     WDC WD60EFAX-68SHWN0\n",
            "`mirrorball advise --new '2*WDC WD60EFAX-68SHWN0'` compares",
        ),
    ] {
        let help = what_to_paste(&pasted_machine(text));
        assert!(help.contains(words), "{text}: {help}");
    }
}

/// `btrfs filesystem show` lists a seed device in each file system that stands on it.
#[test]
fn a_file_system_on_a_seed_device_is_taken_for_no_mirror() {
    let show = |sprout: &str| {
        format!(
            "Label: 'rescue'  uuid: 97bd44f5-c586-47cf-b760-c00f42676b23\n\
             \tTotal devices 1 FS bytes used 2.32GiB\n\
             \tdevid    1 size 3.27GiB used 2.67GiB path /dev/vda3\n\n\
             Label: 'sprout'  uuid: 1b300322-5b9e-4a0d-936c-227ffe9b635d\n\
             \tTotal devices 2 FS bytes used 1.32GiB\n\
             \tdevid    1 size 3.27GiB used 2.66GiB path {sprout}\n\
             \tdevid    2 size 28.13GiB used 1.28GiB path /dev/vda4\n"
        )
    };
    assert!(detect_pasted(&show("/dev/vda5")).iter().any(Result::is_ok));
    let found = detect_pasted(&show("/dev/vda3"));
    assert!(found.iter().all(Result::is_err), "{found:?}");
}

/// The longest row is as long as some terminals are wide, and what follows it is a row of its own.
#[test]
fn a_pool_of_unlike_mirrors_is_refused_whatever_the_states_of_its_disks() {
    let pool = |state: &str| {
        format!(
            "  pool: tank\n state: DEGRADED\nconfig:\n\n\
             \tNAME        STATE     READ WRITE CKSUM\n\
             \ttank        DEGRADED     0     0     0\n\
             \t  mirror-0  DEGRADED     0     0     0\n\
             \t    sda     ONLINE       0     0     0\n\
             \t    sdb     {state}\n\
             \t    sdc     ONLINE       0     0     0\n\
             \t  mirror-1  ONLINE       0     0     0\n\
             \t    sdd     ONLINE       0     0     0\n\
             \t    sde     ONLINE       0     0     0\n"
        )
    };
    for state in ["ONLINE       0     0     0", "FAULTED     34    12     0  too many errors"] {
        let found = detect_pasted(&pool(state));
        let [Err(error)] = &found[..] else { panic!("{state}: {found:?}") };
        let message = &error.clone().into_diagnostic().message;
        assert!(message.ends_with("its mirrors have different numbers of disks"), "{message}");
    }
}

/// At most one of them serves.
#[test]
fn paths_without_a_choice_are_named_with_their_states() {
    let map = |handler: &str, groups: &str| {
        let head = "mpatha (3600a) dm-1 DGC,RAID 5\nsize=10G features='0'";
        format!("{head} hwhandler='{handler}' wp=rw\n{groups}")
    };
    let group = |prio: u32, status: &str, path: &str, state: &str| {
        let head = format!("|-+- policy='service-time 0' prio={prio} status={status}");
        format!("{head}\n| `- 1:0:0:1 {path} 8:16 {state} running\n")
    };
    let two = |prio: u32, status: &str, state: &str| {
        group(prio, status, "sdc", state).replace("8:16", "8:32")
    };
    let (up, down) = ("active ready", "failed faulty");
    for (text, words) in [
        (
            map("0", &(group(50, "active", "sdb", up) + &two(10, "enabled", up))),
            "mpatha: 1 path serves, 1 stands by (another group): sdc; if these fail, the others",
        ),
        (
            map("1 rdac", &(group(1, "active", "sdb", up) + &two(1, "enabled", "active ghost"))),
            "mpatha: 1 path serves, 1 stands by (another group): sdc; if these fail, the others",
        ),
        (
            map("1 alua", &(group(50, "active", "sdb", up) + &two(50, "enabled", up))),
            "if the storage serves all paths alike",
        ),
        (
            map("0", &(group(0, "enabled", "sdb", down) + &two(0, "enabled", down))),
            "mpatha: no path is up, of sdb, sdc",
        ),
        (map("0", &group(1, "active", "sdb", up)), "mpatha: 1 path, sdb"),
        (
            "create: ".to_owned() + &map("0", &group(1, "undef", "sdb", up)).replace(" dm-1", ""),
            "mpatha: 1 path, sdb",
        ),
    ] {
        let found = detect_without_copies(&pasted_machine(&text));
        assert!(found.len() == 1 && found[0].contains(words), "{text}: {found:?}");
    }
}

/// The array in one line: system, name, layout, and members with their flags.
fn summary(array: &DetectedArray) -> String {
    let member = |member: &DetectedMember| {
        let name = member.name();
        let flags = [
            (member.write_mostly, "(W)"),
            (member.is_failed, "(F)"),
            (member.is_rebuilding, "(R)"),
        ];
        let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| *flag).collect();
        format!(" {name}{flags}")
    };
    let members: String = array.members.iter().map(member).collect();
    let layout = array.layout.map_or(array.profile.to_owned(), |layout| layout.to_string());
    format!("{} {} {layout}:{members}", array.system.name(), array.name)
}

/// A text with the lines of its arrays, the models of their members, and parts of their notes.
#[derive(Default)]
struct Case<'a> {
    arrays: Vec<&'a str>,
    models: Vec<&'a str>,
    notes: Vec<&'a str>,
    /// Words that nothing says of the arrays.
    absent: Vec<&'a str>,
    text: String,
}

/// Cases begin with `=== ` and an array for each line, `=== models`, and `=== note` with a part of
/// the notes, the state, the policy or the array file, or `=== not` with what is in none.
fn cases() -> Vec<Case<'static>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let mut is_text = true;
    for line in include_str!("cases.txt").lines() {
        let Some(summary) = line.strip_prefix("=== ") else {
            is_text = true;
            cases.last_mut().unwrap().text += &format!("{line}\n");
            continue;
        };
        if std::mem::take(&mut is_text) {
            cases.push(Case::default());
        }
        let case = cases.last_mut().unwrap();
        match summary.split_once(' ') {
            Some(("models", models)) => case.models = models.split(' ').collect(),
            Some(("note", note)) => case.notes.push(note),
            Some(("not", words)) => case.absent.push(words),
            _ => case.arrays.push(summary),
        }
    }
    cases
}

/// Lines broken at blanks, as mails break them.
fn broken(text: &str, width: usize) -> String {
    let mut all = String::new();
    for line in text.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > width {
            let Some(at) = (1..=width).rev().find(|at| rest[*at] == ' ') else { break };
            if rest[..at].iter().all(|it| *it == ' ') {
                break;
            }
            all.extend(&rest[..at]);
            all.push('\n');
            rest.drain(..at);
            let blanks = rest.iter().take_while(|it| **it == ' ').count();
            rest.drain(..blanks);
        }
        all.extend(&rest);
        all.push('\n');
    }
    all
}

/// Lines cut at a width, as terminals break them.
fn cut(text: &str, width: usize) -> String {
    let mut all = String::new();
    for line in text.lines() {
        for (at, character) in line.chars().enumerate() {
            if at > 0 && at % width == 0 {
                all.push('\n');
            }
            all.push(character);
        }
        all.push('\n');
    }
    all
}

fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

type Mangling = (&'static str, fn(&str) -> String);

const MANGLINGS: [Mangling; 8] = [
    ("as it is", str::to_owned),
    ("broken at 72 columns, then quoted", |text| {
        each_line(&broken(text, 72), |line| format!("> {line}"))
    }),
    ("indented, with blanks at the ends", |text| {
        each_line(text, |line| format!("    {line}   \r"))
    }),
    ("quoted, with CRLF", |text| each_line(text, |line| format!("> > {line}\r"))),
    ("broken at 76 columns", |text| broken(text, 76)),
    ("coloured, with blanks for tabs", |text| {
        each_line(&text.replace('\t', "        "), |line| {
            let front = line.len() - line.trim_start().len();
            let (blanks, rest) = line.split_at(front);
            let (word, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            format!("{blanks}\u{1b}[01;32m{word}\u{1b}[0m{rest}\u{1b}[K")
        })
    }),
    ("with one blank for many", |text| {
        each_line(text, |line| line.split_whitespace().collect::<Vec<_>>().join(" "))
    }),
    ("in a page", |text| {
        let text = each_line(text, |line| format!("    {line}")).replace(' ', "\u{a0}");
        format!(
            "Hi all, my array is slow since the last update. Any idea?\n\n```\n{text}```\n\n\
             Thanks, it is a raid of the best disks that I had: see above.\n"
        )
    }),
];

#[test]
fn texts_of_forums_give_their_arrays_however_they_are_mangled() {
    let cases = cases();
    let mut wrong = Vec::new();
    for (case, (name, mangle)) in cases.iter().flat_map(|it| MANGLINGS.map(|by| (it, by))) {
        let found = detect_pasted(&mangle(&case.text));
        let arrays: Vec<String> = found
            .iter()
            .map(|array| array.as_ref().map_or_else(|error| format!("{error:?}"), summary))
            .collect();
        if arrays != case.arrays {
            wrong.push(format!("{name}: {arrays:#?}, not {:#?}\n{}", case.arrays, case.text));
            continue;
        }
        let arrays: Vec<&DetectedArray> = found.iter().flatten().collect();
        arrays.iter().for_each(|array| check_detected(array, &case.text));
        let members = arrays.iter().flat_map(|array| &array.members);
        let models: Vec<&str> = members.map(|it| it.model.profile.as_str()).collect();
        if !case.models.is_empty() && models != case.models {
            wrong.push(format!("{name}: {models:?}, not {:?}\n{}", case.models, case.text));
        }
        let says = |it: &DetectedArray, note: &str| {
            let others = [it.condition_text(), it.in_force(), Some(it.array_file())];
            it.notes.iter().chain(others.iter().flatten()).any(|it| it.contains(note))
        };
        let has = |note: &&str| arrays.iter().any(|it| says(it, note));
        let contradiction = arrays.iter().flat_map(|it| &it.notes).find(|it| {
            it.contains("contradicts itself") && case.notes.iter().all(|note| !it.contains(note))
        });
        wrong.extend(contradiction.map(|note| format!("{name}: {note}\n{}", case.text)));
        let said = case.absent.iter().filter(|words| has(words));
        wrong.extend(said.map(|words| format!("{name}: {words}\n{}", case.text)));
        for note in case.notes.iter().filter(|note| !has(note)) {
            let notes: Vec<_> = arrays.iter().map(|array| &array.notes).collect();
            wrong.push(format!("{name}: no note {note:?} in {notes:#?}\n{}", case.text));
        }
    }
    let all = cases.len() * MANGLINGS.len();
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases.len() >= 40, "{} texts", cases.len());
}

#[test]
fn a_part_of_a_text_gives_an_array_with_a_sound_file_or_none() {
    let check = |text: &str| {
        for array in detect_pasted(text).into_iter().flatten() {
            let file = array.array_file();
            assert!(ArrayFile::parse(&file, "a.toml").is_ok(), "{text}\n{file}");
        }
    };
    let all = cases();
    for (case, other) in all.iter().zip(all.iter().rev()) {
        for at in (0..case.text.len()).step_by(397).filter(|at| case.text.is_char_boundary(*at)) {
            let (front, back) = case.text.split_at(at);
            check(front);
            check(&format!("{back}{}", other.text));
            check(&format!("{front}{}", &back.replacen(['0', '1', ' '], "9", 2)));
        }
    }
}

#[test]
fn lines_that_a_terminal_cut_are_joined() {
    let long = cases().into_iter().filter(|it| it.text.lines().any(|line| line.len() > 80));
    for case in long {
        let found = detect_pasted(&cut(&case.text, 80));
        let arrays: Vec<String> = found.iter().flatten().map(summary).collect();
        assert_eq!(arrays, case.arrays, "{}", cut(&case.text, 80));
    }
}
