//! The recipes: they run, their order and tolerances hold, and the table in the guide is theirs.

use crate::common::{Folder, check_generated, stdout};
use mirrorball_lab::evaluation::recipe::compare::Repetition;
use mirrorball_lab::evaluation::recipe::{builtin_names, load, run};

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trust.md");

/// The tables that a source has figures or claims for; the others change one thing at a time.
fn repeated(name: &str) -> Repetition {
    let mut recipe = load(name).expect("it is built in");
    recipe.tables.retain(|table| {
        let mut values = table.rows.iter().flat_map(|row| &row.published);
        !table.claims.is_empty() || values.any(Option::is_some)
    });
    let runs = run::run(&recipe, &|| ()).expect("it runs");
    Repetition::new(&recipe, &runs)
}

/// A row for each recipe that ranks something: the least agreement of its tables.
fn overview(repetitions: &[Repetition]) -> String {
    let mut text = "| recipe | experiment | tables | tau, least | ratio error, median | worst |\n\
                    | :-- | :-- | --: | --: | --: | --: |\n"
        .to_owned();
    for Repetition { recipe, title, tables, .. } in repetitions {
        let found: Vec<_> = tables.iter().filter_map(|table| table.agreement.as_ref()).collect();
        let taus = found.iter().filter_map(|agreement| agreement.tau);
        let tau = taus.reduce(f64::min).map_or("-".to_owned(), |tau| format!("{tau:.2}"));
        let medians = found.iter().map(|agreement| agreement.ratio_error_median);
        let worst = found.iter().map(|agreement| agreement.ratio_error_worst);
        let [median, worst] =
            [medians.fold(0.0, f64::max), worst.fold(0.0, f64::max)].map(|it| 100.0 * it);
        if !found.is_empty() {
            let count = found.len();
            text += &format!(
                "| `{recipe}` | {title} | {count} | {tau} | {median:.0} % | {worst:.0} % |\n"
            );
        }
    }
    text
}

/// The published order of each table that is held to it, each value that has a tolerance, and the
/// table of all recipes in the guide.
#[test]
fn published_results_are_still_repeated() {
    let repetitions: Vec<Repetition> = builtin_names().map(repeated).collect();
    let mut misses = Vec::new();
    for repetition in &repetitions {
        for table in &repetition.tables {
            let place = format!("{}, {}", repetition.recipe, table.title);
            let missed = table.misses().into_iter();
            misses.extend(missed.map(|miss| format!("{place}: {miss}")));
        }
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
    check_generated(CHAPTER, "recipes", &overview(&repetitions));
}

#[test]
fn recipes_are_listed_and_one_is_shown_in_every_form() {
    let folder = Folder::new();
    let listing = stdout(&folder.run(&["recipe"]));
    assert_eq!(stdout(&folder.run(&["recipe", "list"])), listing);
    assert!(builtin_names().all(|name| listing.contains(name)), "{listing}");

    let shown = stdout(&folder.run(&["recipe", "gmirror-2009-random"]));
    assert!(shown.contains("133.8 to 140.3") && shown.contains("chosen by us: "), "{shown}");

    let json = stdout(&folder.run(&["recipe", "gmirror-2009-random", "--format", "json"]));
    let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(read[0]["recipe"], "gmirror-2009-random");
}

#[test]
fn wrong_names_are_refused() {
    let folder = Folder::new();
    let near = "did you mean `gmirror-2009-random`?";
    folder.refuses(&["recipe", "gmirror-2009-randm"], &["there is no recipe", near]);
    folder.refuses(&["recipe", "zebra"], &["help: the built-in recipes are", "zfs-mixed-mirror"]);
    folder.refuses(&["recipe", "./zebra"], &["cannot read ./zebra/recipe.toml", "a folder with"]);
    folder.refuses(&["recipe", "-f", "json"], &["--format has no effect without a recipe"]);
    std::fs::write(folder.path("mine.md"), "mine").expect("a file");
    folder.refuses(&["recipe", "./mine.md"], &["./mine.md is a file, not a recipe"]);
    std::fs::create_dir(folder.path("bare")).expect("a folder");
    std::fs::write(folder.path("bare/recipe.toml"), "title = \"x\"\n").expect("a file");
    folder.refuses(&["recipe", "bare"], &["`sources` is missing", "add for example sources = [\""]);
    std::fs::create_dir(folder.path("empty")).expect("a folder");
    folder.refuses(&["recipe", "empty"], &["empty has no file recipe.toml"]);
}
