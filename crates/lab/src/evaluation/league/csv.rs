//! Standings by line, for spreadsheets and plots: one line for each policy in each pairing.

use super::standings::Standings;

/// One line for each policy in each pairing. Classes are quoted, because they hold commas.
pub fn render(standings: &Standings) -> String {
    let mut text = "pairing,disks,members,copies,layout,irregular,sections,contains,background,\
                    best,policy,score,ratio,least_section,p99_ratio,p99_9_ratio\n"
        .to_owned();
    let optional = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.4}"));
    for pairing in &standings.pairings {
        let array = ["disks", "members", "copies", "layout", "irregular"];
        let job = ["sections", "contains", "background"];
        let classes: Vec<String> = array
            .iter()
            .map(|name| pairing.array.joined(name))
            .chain(job.iter().map(|name| pairing.job.joined(name)))
            .map(|value| format!("\"{value}\""))
            .collect();
        for entry in &pairing.entries {
            text += &format!(
                "{},{},{},{},{:.3},{:.4},{:.4},{},{}\n",
                pairing.number,
                classes.join(","),
                pairing.best,
                entry.policy,
                entry.score,
                entry.ratio,
                entry.least_section,
                optional(entry.p99_ratio),
                optional(entry.p99_9_ratio),
            );
        }
    }
    text
}
