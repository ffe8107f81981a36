//! Files of the kernel that were printed: `cat PATH`, `grep . PATH` and `head PATH`.

use super::text::command;
use super::tree::Tree;

/// Where the tree has the folders of block devices.
const BLOCK: [&str; 2] = ["/sys/block/", "/sys/class/block/"];

/// Adds the files of the text, which say more than what was made of other outputs. A path with `*`,
/// or with the UUID of a btrfs that nothing else names, stands for what the tree has there.
pub(super) fn add(tree: &mut Tree, lines: &[&str]) {
    for (path, text) in printed(lines) {
        let block = BLOCK.iter().find_map(|front| path.strip_prefix(front)?.split_once('/'));
        let path = match block {
            Some((name, file)) if !name.contains('*') => format!("{}/{file}", tree.device(name)),
            Some((name, file)) => format!("/sys/devices/pasted/{name}/{file}"),
            None => path.to_owned(),
        };
        let path = match path.strip_prefix("/sys/fs/btrfs/").and_then(|it| it.split_once('/')) {
            Some((fsid, file)) if tree.files.keys().all(|path| !path.contains(fsid)) => {
                format!("/sys/fs/btrfs/*/{file}")
            }
            _ => path,
        };
        tree.set_matching(&path, text);
    }
}

/// Path and first line of each file.
fn printed<'a>(lines: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut file = None::<&str>;
    for line in lines.iter().map(|line| line.trim()) {
        let is_of_kernel = |path: &str| path.starts_with("/sys/") || path.starts_with("/proc/sys/");
        let heading = line.strip_prefix("==> ").and_then(|it| it.strip_suffix(" <=="));
        let pair = line.split_once(':').filter(|(path, _)| is_of_kernel(path));
        if let Some(words) = command(line) {
            let printing = ["cat", "head", "more", "tail"].contains(&words[0]);
            let path = words.last().map(|path| path.trim_matches(['`', '\'', '"']));
            file = path.filter(|path| printing && is_of_kernel(path));
        } else if let Some(path) = heading.filter(|path| is_of_kernel(path)) {
            file = Some(path);
        } else if let Some((path, text)) = pair {
            found.push((path, text.trim()));
        } else if !line.is_empty()
            && let Some(path) = file.take()
        {
            found.push((path, line));
        }
    }
    found
}
