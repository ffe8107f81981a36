//! The page on a small made-up set: the geometry of every chart, and what must not get into it.

use super::*;
use crate::experiment::plan::{Cell, Plan};
use crate::experiment::record::{CellRecord, IntervalsRecord, SamplesRecord};
use crate::experiment::study::CellSummary;
use crate::fixtures::{Achieved, criteria, measurement, plan, section};

fn result_set(label: &str, plan: Plan, achieve: impl Fn(&Cell<'_>) -> Achieved) -> ResultSet {
    let records = |cell: &Cell<'_>| cell.record(measurement(achieve(cell)));
    let cells: Vec<CellRecord> = plan.cells().iter().map(records).collect();
    let summaries = cells.iter().cloned().map(CellSummary::new).collect();
    let study = Study::new(plan, summaries, criteria());
    ResultSet { label: label.to_owned(), cells, study, skipped: vec![], notes: vec![] }
}

fn made_up(cell: &Cell<'_>) -> Achieved {
    let reads = if cell.policy == "btrfs/pid" { 40 + 4 * cell.seed } else { 100 };
    Achieved { first_percent: 75, ..Achieved::reads(reads) }
}

fn small() -> ResultSet {
    result_set("out", plan(&["rand-4k"], &["btrfs/pid", "kakra/queue"], 2), made_up)
}

/// The page without its style sheet and its script.
fn body(page: &str) -> &str {
    let (_, rest) = page.split_once("<body>").unwrap();
    rest.rsplit_once("<script>").unwrap().0
}

/// The shapes of each chart: its kind, then classes, paths, values and dots.
fn geometry(page: &str) -> String {
    let mut text = String::new();
    for figure in page.split("<figure class=\"chart\" ").skip(1) {
        let figure = figure.split("</figure>").next().unwrap();
        let names = [
            "data-kind", "data-policy", "data-steps", "class", " d", "data-name", "data-values",
            "data-reach", "data-dots", "style",
        ];
        for part in figure.split('<').filter(|part| !part.starts_with('/')) {
            let found = names.iter().filter_map(|name| {
                let (_, rest) = part.split_once(&format!("{name}=\""))?;
                Some(format!("{}={}", name.trim(), rest.split('"').next()?))
            });
            let line: Vec<String> = found.collect();
            if !line.is_empty() && !line[0].starts_with("class=ticks") {
                let mut line = line.join(" ");
                // Dots are many; their form shows in the first.
                line.truncate(line.char_indices().nth(160).map_or(line.len(), |(at, _)| at));
                text += &format!("{line}\n");
            }
        }
        text += "\n";
    }
    text
}

#[test]
fn geometry_of_every_chart() {
    insta::assert_snapshot!(geometry(&render(&[small()])));
}

#[test]
fn the_page_holds_everything_in_order() {
    let page = render(&[small()]);
    let mut rest = page.as_str();
    let landmarks = [
        "class=\"verdict\"",
        "data-kind=\"matrix\"",
        "data-kind=\"figures\"",
        "data-kind=\"distribution\"",
        "data-kind=\"iops\"",
        "data-kind=\"throughput\"",
        "data-kind=\"heat\"",
        "data-kind=\"share\"",
        "data-kind=\"queue\"",
        "data-kind=\"offsets\"",
        "data-kind=\"seeks\"",
        "mirrorball compare",
        "seeds",
        "text of pair",
        "text of rand-4k",
    ];
    for landmark in landmarks {
        let found = rest.find(landmark);
        rest = &rest[found.unwrap_or_else(|| panic!("no {landmark} after the one before it"))..];
    }
    assert_eq!(page, render(&[small()]), "the same results make the same page");
}

#[test]
fn nothing_is_fetched() {
    let page = render(&[small()]);
    for part in ["http:", "https:", "//cdn", "@import", "url(", " src="] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn what_files_say_is_text() {
    let evil = "</script><img src=x onerror=alert(1)>\"'&";
    let mut plan = plan(&[evil], &["btrfs/pid", evil], 2);
    plan.array.name = evil.to_owned();
    plan.array.text = evil.to_owned();
    plan.command = evil.to_owned();
    let mut set = result_set(evil, plan, made_up);
    set.notes = vec![evil.to_owned()];
    let page = render(&[set, small()]);
    assert!(!page.contains("<img"), "markup from a file");
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
}

#[test]
fn many_policies_are_packed_and_few_are_shown() {
    let names: Vec<String> = (0..12).map(|n| format!("made/up-{n}")).collect();
    let mut policies: Vec<&str> = names.iter().map(String::as_str).collect();
    policies.push("btrfs/pid");
    let page = render(&[result_set("out", plan(&["job"], &policies, 2), made_up)]);
    let page = body(&page);
    assert_eq!(page.matches("data-lazy=").count(), 14 - 4, "the best three and the baseline");
    assert_eq!(page.matches(" checked").count(), 4);
    assert_eq!(page.matches("<figure class=\"chart\" data-kind=\"heat\"").count(), 4);
    let colours: Vec<&str> = page
        .split("<button type=\"button\" data-hide=")
        .skip(1)
        .map(|button| button.split("swatch ").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    let mut distinct = colours.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((colours.len(), distinct.len()), (14, 14), "no two policies look alike");
}

#[test]
fn two_sets_stand_side_by_side_with_their_differences() {
    let plan = || plan(&["rand-4k"], &["btrfs/pid", "kakra/queue"], 3);
    let faster = |cell: &Cell<'_>| {
        let before = made_up(cell);
        Achieved { first_percent: 75, ..Achieved::reads(2 * before.reads + cell.seed) }
    };
    let page =
        render(&[result_set("before", plan(), made_up), result_set("after", plan(), faster)]);
    assert!(page.contains("after against before"), "a table of differences");
    assert!(page.contains("class=\"better\">faster"), "and their significance");
    for kind in ["distribution", "iops", "heat", "offsets"] {
        for part in 0..2 {
            let chart = format!("data-kind=\"{kind}\" data-job=\"0\" data-part=\"{part}\"");
            assert!(page.contains(&chart), "{chart}");
        }
    }
}

#[test]
fn what_was_not_recorded_is_left_out() {
    let mut set = small();
    for cell in &mut set.cells {
        cell.run.intervals = IntervalsRecord::default();
        cell.run.samples = SamplesRecord::default();
        cell.run.members.clear();
        cell.run.counters.clear();
    }
    let page = render(&[set]);
    let page = body(&page);
    assert!(page.contains("data-kind=\"distribution\""));
    for kind in ["iops", "throughput", "heat", "share", "queue", "offsets", "seeks"] {
        assert!(!page.contains(&format!("data-kind=\"{kind}\"")), "{kind}");
    }
}

/// The verdict may recommend a policy that ties with the first of the matrix.
#[test]
fn the_verdict_describes_the_policy_that_it_recommends() {
    let achieve = |cell: &Cell<'_>| match cell.policy {
        "made/first" => Achieved::reads(100),
        _ => Achieved::reads(80),
    };
    let mut set = result_set("out", plan(&["rand-4k"], &["made/first", "made/other"], 2), achieve);
    assert_eq!(set.study.matrix.rows[0].policy, "made/first");
    set.study.verdict.policy = Some("made/other".to_owned());
    let page = render(&[set]);
    let verdict = page.split("class=\"verdict\"").nth(1).unwrap().split("</p>").next().unwrap();
    assert!(!verdict.contains("the best under each job"), "{verdict}");
    assert!(verdict.contains("it reaches <strong>80 % of the best</strong>"), "{verdict}");
    for of_several in ["on average", "At worst", "over all jobs"] {
        assert!(!verdict.contains(of_several), "there is one job: {verdict}");
    }
}

#[test]
fn every_section_of_a_job_has_its_figures_and_its_distribution() {
    let plan = plan(&["two"], &["btrfs/pid", "kakra/queue"], 2);
    let record = |cell: &Cell<'_>| {
        let mut made = measurement(made_up(cell));
        let small = Achieved { writes: 50, ..Achieved::reads(4321) };
        made.sections = vec![section("small", small), section("large", Achieved::reads(77))];
        cell.record(made)
    };
    let cells: Vec<CellRecord> = plan.cells().iter().map(record).collect();
    let summaries = cells.iter().cloned().map(CellSummary::new).collect();
    let study = Study::new(plan, summaries, criteria());
    let set = ResultSet { label: "out".into(), cells, study, skipped: vec![], notes: vec![] };
    let page = render(&[set]);
    let page = body(&page);
    assert_eq!(page.matches("data-kind=\"figures\"").count(), 3, "scores and two sections");
    for text in ["Scores of all sections together", "Section small: reads", "Section large: reads"]
    {
        assert!(page.contains(text), "{text}");
    }
    let part =
        |caption: &str| page.split(caption).nth(2).unwrap().split("</table>").next().unwrap();
    assert!(part("Section small: reads").contains("432"), "its IOPS");
    assert!(part("Section small: reads").contains("writes p99"));
    assert!(part("Section large: reads").contains("7.70"), "its IOPS");
    for number in 0..2 {
        let chart = format!(
            "data-kind=\"distribution\" data-job=\"0\" data-part=\"0\" \
                             data-section=\"{number}\""
        );
        assert!(page.contains(&chart), "{chart}");
    }
}

#[test]
fn the_verdict_names_a_policy_about_which_the_repeats_do_not_decide() {
    let achieve = |cell: &Cell<'_>| match cell.policy {
        "btrfs/pid" if cell.seed.is_multiple_of(2) => Achieved::reads(20),
        "btrfs/pid" => Achieved::reads(150),
        _ => Achieved::reads(100),
    };
    let policies = ["btrfs/pid", "kakra/queue"];
    let page = render(&[result_set("out", plan(&["rand-4k"], &policies, 4), achieve)]);
    let verdict = page.split("class=\"verdict\"").nth(1).unwrap().split("</p>").next().unwrap();
    assert!(verdict.contains("do not decide about <em>btrfs/pid</em>"), "{verdict}");
    assert!(verdict.contains("which is not certain"), "{verdict}");
}
