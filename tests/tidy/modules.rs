//! The arrows between the modules of `lab` point one way: `experiment` <- `report` <- `evaluation`.

use crate::Canary;
use crate::source::{File, Offence, Token, Tree};

/// Each module of `lab` and those that it may not use.
const FORBIDDEN: [(&str, &[&str]); 2] =
    [("experiment", &["report", "evaluation"]), ("report", &["evaluation"])];

/// Uses of a module of `lab` by one that it is built on.
pub(crate) fn arrows(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust() {
        let Some(module) = module_of(file) else { continue };
        let Some((_, forbidden)) = FORBIDDEN.iter().find(|(name, _)| *name == module) else {
            continue;
        };
        for tokens in file.tokens.windows(4) {
            let Some(to) = path_from_crate(tokens).filter(|to| forbidden.contains(to)) else {
                continue;
            };
            let what = format!("{module} may not use {to}: move the code up, or pass it in");
            offences.push(file.offence(tokens[0].line, what));
        }
    }
    offences
}

/// The module right under the root of `lab` that a file belongs to.
fn module_of(file: &File) -> Option<&str> {
    let path = file.path.strip_prefix("crates/lab/src/")?;
    path.split('/').next()?.split('.').next()
}

/// The `name` of `crate::name`.
fn path_from_crate(tokens: &[Token]) -> Option<&str> {
    let [first, colon, second_colon, name] = tokens else { return None };
    let is_path =
        first.ident() == Some("crate") && colon.is_punct(':') && second_colon.is_punct(':');
    name.ident().filter(|_| is_path)
}

pub(crate) fn arrows_canary() -> Canary {
    let experiment = "use crate::experiment::plan;\nuse crate::report::Grid;\n\
                      fn a() { crate::evaluation::league::play(); report::b(); }";
    Canary {
        files: vec![
            ("crates/lab/src/experiment.rs", "mod report;".into()),
            ("crates/lab/src/experiment/run.rs", experiment.into()),
            ("crates/lab/src/report/html.rs", "use crate::evaluation::x;\nuse crate::a;".into()),
            ("crates/lab/src/evaluation/league.rs", "use crate::report::Grid;".into()),
            ("crates/sim/src/engine.rs", "use crate::report::Grid;".into()),
        ],
        caught_at: vec![
            "crates/lab/src/experiment/run.rs:2",
            "crates/lab/src/experiment/run.rs:3",
            "crates/lab/src/report/html.rs:1",
        ],
    }
}
