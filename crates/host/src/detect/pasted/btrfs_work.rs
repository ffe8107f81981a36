//! Work of btrfs in the background: `btrfs scrub status` and `btrfs balance status`.

use super::text::command;
use super::tree::Tree;

/// The file of the tree with a line for each work: what runs, the UUID of its file system (`-` if
/// the text does not say it), how much is done in percent and how many hours are left, or `-`.
pub(in super::super) const WORK: &str = "/tools/btrfs-work";

/// Reads what runs, or is paused.
pub(super) fn read(tree: &mut Tree, lines: &[&str]) {
    let mut fsid = "-";
    for (at, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let below = || {
            let is_own = |line: &&&str| !line.trim().is_empty() && command(line).is_none();
            lines[at + 1..].iter().take_while(is_own).copied()
        };
        let value = |key: &str| below().find_map(|line| line.trim().strip_prefix(key));
        match words.as_slice() {
            [front, ..] if command(line).is_some() && !front.is_empty() => fsid = "-",
            ["UUID:", uuid] | ["scrub", "status", "for", uuid] => fsid = uuid,
            ["Status:", "running"] => {
                let left = value("Time left:").and_then(|it| hours(it.trim()));
                let done = value("Bytes scrubbed:").and_then(|it| percent(it.rsplit('(').next()?));
                add(tree, "scrub", fsid, done, left);
            }
            // Before btrfs-progs 5.2.
            ["scrub", "started", "at", .., "running", "for", _] => {
                add(tree, "scrub", fsid, None, None);
            }
            ["Balance", "on", .., "is", "running" | "running,"]
            | ["Balance", "on", .., "requested"] => {
                let left = below().next().and_then(|it| it.rsplit(", ").next());
                let left = left.and_then(|it| percent(it.strip_suffix(" left")?));
                add(tree, "balance", "-", left.map(|it| 100.0 - it), None);
            }
            ["Balance", "on", .., "is", "paused"] => add(tree, "balance paused", "-", None, None),
            _ => {}
        }
    }
}

fn add(tree: &mut Tree, work: &str, fsid: &str, percent: Option<f64>, hours: Option<f64>) {
    let shown = |it: Option<f64>| it.map_or("-".to_owned(), |it| it.to_string());
    tree.append(WORK, &format!("{work}|{fsid}|{}|{}\n", shown(percent), shown(hours)));
}

/// The number in `25.13%)`.
fn percent(text: &str) -> Option<f64> {
    text.split('%').next()?.trim().parse().ok()
}

/// The hours of `2:01:12`.
fn hours(text: &str) -> Option<f64> {
    text.split(':')
        .try_fold(0.0, |sum, it| Some(sum * 60.0 + it.parse::<f64>().ok()?))
        .map(|it| it / 3600.0)
}
