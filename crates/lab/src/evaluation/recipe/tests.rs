//! Recipes are read completely or rejected with a reason, and the built-in ones are those of the
//! folder.

use super::*;
use crate::evaluation::recipe::read::TableColumn;

#[test]
fn every_recipe_in_the_folder_is_built_in_with_all_its_files() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes"));
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let files = BUILTINS.iter().find(|(known, _)| *known == name);
        let (_, files) = files.unwrap_or_else(|| panic!("{name} is not in BUILTINS"));
        for file in fs::read_dir(entry.path()).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            assert!(files.iter().any(|(known, _)| *known == file), "{name}/{file}");
        }
    }
}

#[test]
fn every_built_in_recipe_is_understood_and_uses_all_its_files() {
    for (name, files) in BUILTINS {
        let recipe = load(name).unwrap();
        let used = 1 + recipe.arrays.len() + recipe.jobs.len();
        assert_eq!(used, files.len(), "{name} has files that no row names");
        assert!(!recipe.mismatch.is_empty() && !recipe.sources.is_empty(), "{name}");
        for table in &recipe.tables {
            // A single row has no ratio to another: the tolerance of its figure holds it.
            let has_ratios = table.rows.len() > 1;
            let is_held = |column: &TableColumn| match has_ratios {
                true => table.ratio_error_at_most.is_some(),
                false => column.tolerance.is_some(),
            };
            let are_held = table.columns.iter().filter(|it| it.ranked).all(is_held);
            assert!(are_held, "{name}, {}: nothing holds its figures", table.title);
        }
    }
}

/// A valid recipe, into which the tests put errors.
const RECIPE: &str = r#"
title = "a"
sources = ["b"]
about = "c"
mismatch = "d"
[[table]]
title = "e"
job = "job.fio"
columns = ["read_iops", "share_1"]
ranked = ["read_iops"]
row = [{ policy = "pid", read_iops = 100, share_1 = [0, 50] }]
"#;

/// The job of `job.fio`, with more options.
fn files_job(more: &str) -> String {
    format!("[again]\nioengine=libaio\ndirect=1\nrw=randread\nnumber_ios=100\n{more}")
}

fn read(text: &str) -> Result<Recipe> {
    Recipe::read("made-up", "made-up", &|file| {
        Ok(match file {
            RECIPE_FILE => text.to_owned(),
            "array.toml" => "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\n\
                             size = \"16GiB\"\nset = { service = \"1ms\" }\ncount = 2\n"
                .to_owned(),
            "cached.toml" => "profile = \"raid1\"\n[host]\noverhead = \"10us\"\n[[member]]\n\
                              model = \"delay\"\nset = { service = \"10ms\" }\ncount = 2\n\
                              size = \"16GiB\"\n[member.cache]\nmodel = \"delay\"\n\
                              size = \"1GiB\"\nset = { service = \"1ms\" }\n"
                .to_owned(),
            "again.fio" => files_job(""),
            "fresh.fio" => files_job("randrepeat=0\n"),
            "job.fio" => "[job]\nioengine=libaio\ndirect=1\nrw=randread\nnumber_ios=100\n".into(),
            "two.fio" => "[global]\nrw=randread\nnumber_ios=9\n[small]\n[large]\nbs=1m\n".into(),
            other => anyhow::bail!("no file {other}"),
        })
    })
}

#[test]
fn what_is_wrong_is_named() {
    read(RECIPE).unwrap();
    for (right, wrong, message) in [
        ("\"share_1\"]", "\"share\"]", "no `devid` for the column `share`"),
        ("\"share_1\"]", "\"shre_1\"]", "recipe.toml:6:1: table `e`: `shre_1` is not"),
        ("share_1 = [0, 50]", "share_2 = 3", "recipe.toml:11:8: row `btrfs/pid`: `share_2` is"),
        ("[0, 50]", "[50, 0]", "neither a number nor a range"),
        ("ranked = [\"read_iops\"]", "ranked = [\"x\"]", "`x` is not one of the table's columns"),
        ("policy = \"pid\"", "policy = \"pdi\"", "did you mean `pid`"),
        (
            "job = \"job.fio\"",
            "job = \"other.fio\"",
            "recipe.toml:11:8: row `btrfs/pid`: no file other.fio",
        ),
        (
            "job = \"job.fio\"",
            "job = \"two.fio\"",
            "recipe.toml:6:1: table `e`: `section` must name",
        ),
        ("job = \"job.fio\"", "job = \"two.fio\"\nsection = \"smal\"", "small, large"),
        ("title = \"e\"", "title = 7", "recipe.toml:7:9: "),
        ("[\"b\"]", "[\"b\"]\ncolour = 1", "recipe.toml:4:1: unknown key `colour`"),
        ("share_1 = [0, 50]", "process = \"both\"", "`process` must be \"even\" or \"odd\""),
        (
            "share_1 = [0, 50]",
            "instead_of = \"x\"",
            "recipe.toml:11:8: row `btrfs/pid`: `instead_of`",
        ),
        ("policy = \"pid\"", "policy = \"devid:7\"", "recipe.toml:11:8: row `btrfs/devid:7`: "),
        (
            "row = ",
            "claim = [{ says = \"\", column = \"y\", more = \"btrfs/pid\", less = \"btrfs/pid\" \
             }]\nrow = ",
            "recipe.toml:11:10: a claim names the column `y`",
        ),
    ] {
        let text = RECIPE.replace(right, wrong);
        assert_ne!(text, RECIPE, "{right}");
        let error = format!("{:#}", read(&text).unwrap_err());
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_run_is_compared_with_the_published_value() {
    let recipe = read(RECIPE).unwrap();
    let runs = run::run(&recipe, &|| ()).unwrap();
    let repetition = compare::Repetition::new(&recipe, &runs);
    let [iops, share] = &repetition.tables[0].rows[0].cells[..] else { panic!("two columns") };
    // A read takes 1 ms and 15 us of the host: 985 a second.
    assert!((iops.ours - 985.0).abs() < 1.0, "{}", iops.ours);
    assert!((iops.ratio.unwrap() - 9.85).abs() < 0.01);
    assert!([0.0, 100.0].contains(&share.ours), "a process reads from one: {}", share.ours);
    let text = text::render(&repetition, crate::report::Style::FILE);
    assert!(text.contains("9.85"), "{text}");
}

/// Two policies after each other, on an array with caches.
const SERIES: &str = r#"
title = "a"
sources = ["b"]
about = "c"
mismatch = "d"
[[series]]
name = "s"
order = ["devid:1", "devid:2"]
jobs = ["job.fio", "again.fio"]
[[table]]
title = "e"
job = "again.fio"
array = "cached.toml"
columns = ["read_mean_ms"]
row = [
    { policy = "devid:1", name = "alone" },
    { policy = "devid:1", name = "second", series = "s" },
    { policy = "devid:2", name = "third", series = "s", job = "job.fio" },
    { policy = "devid:2", name = "fourth", series = "s" },
]
"#;

#[test]
fn a_run_of_a_series_begins_with_the_caches_that_the_run_before_left() {
    let ours: Vec<f64> = repeat(SERIES).rows.iter().map(|row| row.cells[0].ours).collect();
    // A read takes 10 ms, or 1 ms from the cache, and 10 us of the host. Both jobs read the same.
    for (ours, expected) in ours.iter().zip([10.01, 1.01, 10.01, 1.01]) {
        assert!((ours - expected).abs() < 0.2, "{ours:?}, not {expected}");
    }
    let fresh = SERIES.replace("\"job.fio\", \"again.fio\"", "\"job.fio\", \"fresh.fio\"");
    let fresh = fresh.replace("job = \"again.fio\"", "job = \"fresh.fio\"");
    let second = &repeat(&fresh).rows[1].cells[0];
    assert!(second.ours > 9.0, "other offsets with randrepeat=0: {}", second.ours);
    assert_eq!(run::count(&read(SERIES).unwrap()), 5, "four in order, and one alone");
    let first =
        SERIES.replace("    { policy = \"devid:2\", name = \"fourth\", series = \"s\" },\n", "");
    assert_eq!(run::count(&read(&first).unwrap()), 4, "up to the last that a row shows");
}

#[test]
fn what_is_wrong_with_a_series_is_named() {
    for (right, wrong, message) in [
        ("\"devid:1\", \"devid:2\"]", "\"devd:1\"]", "recipe.toml:6:1: "),
        ("\"devid:1\", \"devid:2\"]", "]", "recipe.toml:6:1: `order` of the series `s` has no"),
        (
            "\"devid:1\", \"devid:2\"]",
            "\"devid:1\", \"devid:1\"]",
            "recipe.toml:6:1: the series `s` has `btrfs/devid:1` twice",
        ),
        (
            "\"devid:1\", \"devid:2\"]",
            "\"devid:1\"]",
            "row `third`: `btrfs/devid:2` is not in `order` of the series `s`",
        ),
        ("[\"job.fio\", ", "[", "row `third`: `job.fio` is not in `jobs` of the series `s`"),
        ("[\"job.fio\", ", "[\"no.fio\", \"job.fio\", ", "row `second`: no file no.fio"),
        ("series = \"s\"", "series = \"t\"", "there is no series `t`"),
        ("name = \"s\"\n", "name = \"s\"\nseeds = 3\n", "recipe.toml:8:1: unknown key `seeds`"),
    ] {
        let text = SERIES.replacen(right, wrong, 1);
        assert_ne!(text, SERIES, "{right}");
        let error = format!("{:#}", read(&text).unwrap_err());
        assert!(error.contains(message), "{error}");
    }
}

fn repeat(text: &str) -> compare::TableComparison {
    let recipe = read(text).unwrap();
    let runs = run::run(&recipe, &|| ()).unwrap();
    compare::Repetition::new(&recipe, &runs).tables.remove(0)
}

#[test]
fn a_process_is_even_or_odd_whatever_the_seed() {
    for (process, share) in [("even", 100.0), ("odd", 0.0)] {
        let text = RECIPE
            .replace("policy = \"pid\"", &format!("policy = \"pid\", process = \"{process}\""));
        assert_eq!(
            repeat(&format!("repeats = 3\n{text}")).rows[0].cells[1].ours,
            share,
            "{process}"
        );
    }
}

#[test]
fn what_a_table_is_held_to_is_missed_by_name() {
    // Both rows have the same figure, one of them on the other disk.
    let rows = "[{ policy = \"devid:1\", read_iops = 100 }, \
                { policy = \"devid:2\", read_iops = 200 }, \
                { policy = \"pid\", name = \"other\", instead_of = \"btrfs/devid:1\" }]";
    let start = RECIPE.find("row = ").unwrap();
    let text = format!("{}row = {rows}\n", &RECIPE[..start]);
    assert!(repeat(&text).misses().is_empty(), "nothing holds it");
    let held = "row = ".to_owned();
    let text = text.replace(&held, "tau_at_least = 0.8\nratio_error_at_most = 0.5\nrow = ");
    let table = repeat(&text);
    // A tie is no order, and 1 to 1 is twice as much as 1 to 2.
    assert_eq!(table.misses(), ["tau Some(0.0), not 0.8", "median ratio error Some(1.0), not 0.5"]);
    assert_eq!(table.alternatives[0].tau, Some(0.0));
}
