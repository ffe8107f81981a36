//! Reading goals, and checking them against jobs.

use super::*;

fn term(section: &str, kind: Option<IoKind>, figure: Figure, weight: f64) -> Term {
    let section = (!section.is_empty()).then(|| section.to_owned());
    Term { section, kind, figure, weight }
}

fn section(name: &str, kinds: &[IoKind]) -> RankedSection {
    RankedSection { name: name.to_owned(), kinds: kinds.to_vec(), is_background: false }
}

#[test]
fn terms_have_a_section_a_kind_a_figure_and_a_weight() {
    let goal = Goal::parse("small.p99:2, large.mib,log.fsync.p99.9,v1.2.iops:0.5,p50").unwrap();
    let expected = [
        term("small", None, Figure::P99, 2.0),
        term("large", None, Figure::Mib, 1.0),
        term("log", Some(IoKind::Fsync), Figure::P999, 1.0),
        term("v1.2", None, Figure::Iops, 0.5),
        term("", None, Figure::P50, 1.0),
    ];
    assert_eq!(goal.terms, expected);
    let shown = "small.p99:2,large.mib,log.fsync.p99.9,v1.2.iops:0.5,p50";
    assert_eq!(goal.to_string(), shown);
    assert_eq!(Goal::parse(shown).unwrap(), goal);
    assert_eq!(
        Goal::parse("write.p99").unwrap().terms,
        [term("", Some(IoKind::Write), Figure::P99, 1.0)]
    );
}

#[test]
fn what_is_mistyped_is_answered_with_the_nearest() {
    let message = |text: &str| Goal::parse(text).unwrap_err().to_string();
    assert!(
        message("small.men").contains("is not the name of a figure\n  help: did you mean `mean`?"),
        "{}",
        message("small.men")
    );
    for text in ["p97", "rand.p98", "small.p9"] {
        let message = message(text);
        let help = "the percentiles are p50, p90, p95, p99, p99.9, p99.99";
        assert!(message.ends_with(help), "{message}");
    }
    assert_eq!(message("iops:2:3"), "`iops:2:3` has two weights\n  help: write iops:2");
    assert!(message(":2").starts_with("the figure before `:2` is missing\n  help: "));
    assert!(message("p99,,iops").starts_with("the list of figures has an empty item"));
    assert!(message("small").contains("the figures are iops, mib"), "{}", message("small"));
    for weight in ["x", "0", "-1", "1e308", "1e-7", "inf", "nan"] {
        let message = message(&format!("small.p99:{weight}"));
        assert!(message.contains("not a number from 0.000001 to 1000000"), "{message}");
    }
    assert!(Goal::parse("small.p99:1e6,large.mib:1e-6").is_ok());
    for text in [".p99", ".read.p99"] {
        let (message, rest) = (message(text), &text[1..]);
        assert!(message.contains(&format!("write SECTION{text}, or {rest}")), "{message}");
    }
}

#[test]
fn section_with_the_name_of_a_kind_of_requests_is_ambiguous() {
    let kinds = [IoKind::Read, IoKind::Write];
    let names = ["read", "log", "log.write"];
    let jobs = [("two".to_owned(), names.map(|name| section(name, &kinds)).to_vec())];
    let checked = |text: &str| Goal::parse(text).unwrap().check(&jobs);
    let error = checked("read.p99").unwrap_err().to_string();
    assert!(error.contains("but a section has the name `read`"), "{error}");
    assert!(error.contains("write read.read.p99 for"), "{error}");
    let error = checked("log.write.mib").unwrap_err().to_string();
    assert!(error.contains("the write requests of section `log`"), "{error}");
    for text in ["read.read.p99", "log.write.write.mib", "log.read.p99", "write.p99", "p99"] {
        checked(text).expect(text);
    }
}

#[test]
fn sections_are_checked_against_the_jobs() {
    let names = |names: &[&str]| names.iter().map(|name| section(name, &[IoKind::Read])).collect();
    let jobs = [("two".to_owned(), names(&["small", "large"]))];
    let checked = |text: &str| Goal::parse(text).unwrap().check(&jobs);
    assert!(checked("small.p99,large.mib").is_ok() && checked("p99").is_ok());
    let error = checked("smal.p99").unwrap_err().to_string();
    assert!(error.contains("did you mean `small`?"), "{error}");
    let more = [jobs[0].clone(), ("one".to_owned(), names(&["reader"]))];
    let error = Goal::parse("small.p99").unwrap().check(&more).unwrap_err().to_string();
    assert!(error.contains("job `one`") && error.contains("reader"), "{error}");
    assert!(Goal::default().check(&more).is_ok());
}

#[test]
fn kinds_are_checked_against_the_requests_of_the_sections() {
    let reads = ("reads".to_owned(), vec![section("reader", &[IoKind::Read])]);
    let both = [section("reader", &[IoKind::Read]), section("log", &[IoKind::Write])];
    let mixed = ("mixed".to_owned(), both.to_vec());
    let checked = |text: &str, jobs: &[(String, Vec<RankedSection>)]| {
        Goal::parse(text).unwrap().check(jobs).map_err(|error| error.to_string())
    };
    let error = checked("write.p99", std::slice::from_ref(&reads)).unwrap_err();
    assert_eq!(
        error,
        "`write.p99` has no value, because every section is without write requests\n  help: \
         the sections of `reads` are reader (read)"
    );
    assert!(checked("write.p99", std::slice::from_ref(&mixed)).is_ok());
    let error = checked("reader.write.p99", std::slice::from_ref(&mixed)).unwrap_err();
    assert!(error.contains("because section `reader` is without write requests"), "{error}");
    let error = checked("write.p99", &[mixed, reads]).unwrap_err();
    assert!(error.contains("no figure in the list is of job `reads`"), "{error}");
    let background = RankedSection { is_background: true, ..section("log", &[IoKind::Write]) };
    let jobs = [("job".to_owned(), vec![section("reader", &[IoKind::Read]), background])];
    assert!(checked("write.p99", &jobs).is_err(), "background load does not count");
    assert!(checked("log.write.p99", &jobs).is_ok(), "unless it is named");
}
