//! Colour and dash of every policy, the same on the whole page.
//!
//! Policies stand in the order of the first set's matrix, the oracle last. The best
//! policies and the baseline are shown initially; they take the first colours, so that their lines
//! differ by colour alone. From the ninth policy on, colours repeat with another dash.

use crate::experiment::record::ORACLE;
use crate::experiment::results::ResultSet;
use mirrorball_core::policies::short_policy_name;

/// Colours in the style sheet, `c0` and so on; the oracle has its own.
const COLOURS: usize = 8;
/// Dash patterns in the style sheet, `d0` (solid) and so on.
const DASHES: usize = 8;
/// Policies up to which all are shown from the start.
const SHOWN_ALL_MAX: usize = 5;
/// Of more policies, how many of the best are shown from the start.
const SHOWN_BEST: usize = 3;

pub(super) struct SeriesStyles {
    styles: Vec<SeriesStyle>,
}

pub(super) struct SeriesStyle {
    /// Policy string as in tables, or `oracle`.
    pub(super) name: String,
    /// Its classes in the style sheet: colour and dash.
    pub(super) classes: String,
    /// True if it is shown until the reader chooses other policies.
    pub(super) is_shown: bool,
}

impl SeriesStyles {
    /// The styles of the policies of `parts`, of which `named` are shown from the start.
    pub(super) fn new(parts: &[ResultSet], named: &[String]) -> SeriesStyles {
        let mut names: Vec<&str> = Vec::new();
        for row in parts.iter().flat_map(|part| &part.study.matrix.rows) {
            if !names.contains(&row.policy.as_str()) {
                names.push(&row.policy);
            }
        }
        // A stable sort: all other policies stay in order.
        names.sort_by_key(|name| *name == ORACLE);
        let baselines: Vec<&str> =
            parts.iter().filter_map(|part| part.study.criteria.baseline.as_deref()).collect();
        let mut is_shown = shown(&names, &baselines);
        if !named.is_empty() {
            let is_named = |name: &&str| named.iter().any(|other| other == name);
            is_shown = names.iter().map(is_named).collect();
        }
        let mut order: Vec<usize> = (0..names.len()).filter(|&place| is_shown[place]).collect();
        order.extend((0..names.len()).filter(|&place| !is_shown[place]));
        let classes = |place: usize| {
            let turn = order.iter().position(|&other| other == place).expect("all are in order");
            match names[place] {
                ORACLE => "c-oracle d1".to_owned(),
                _ => format!("c{} d{}", turn % COLOURS, turn / COLOURS % DASHES),
            }
        };
        let style = |(place, name): (usize, &&str)| SeriesStyle {
            name: short_policy_name(name),
            classes: classes(place),
            is_shown: is_shown[place],
        };
        SeriesStyles { styles: names.iter().enumerate().map(style).collect() }
    }

    /// Every policy with its number on this page.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &SeriesStyle)> {
        self.styles.iter().enumerate()
    }

    pub(super) fn get(&self, number: usize) -> &SeriesStyle {
        &self.styles[number]
    }

    /// The number of a policy. Panics if no set has it in its matrix.
    pub(super) fn number(&self, name: &str) -> usize {
        let name = short_policy_name(name);
        let found = self.styles.iter().position(|style| style.name == name);
        found.expect("every policy of a study is in its matrix")
    }
}

/// Which are shown initially: all of a few, else the best and the baseline.
fn shown(names: &[&str], baselines: &[&str]) -> Vec<bool> {
    let contenders = names.iter().filter(|name| **name != ORACLE).count();
    let is_shown = |(place, name): (usize, &&str)| {
        let is_among_few = contenders <= SHOWN_ALL_MAX || place < SHOWN_BEST;
        *name != ORACLE && is_among_few || contenders == 0 || baselines.contains(name)
    };
    names.iter().enumerate().map(is_shown).collect()
}
