//! Pools of ZFS: `zpool status`, `zpool list -v` and `zpool iostat -v`.

use super::super::sysroot::base_name;
use super::disks::model_in;
use super::text::{command, disk_of, is_disk_name, size_of};
use super::tree::{Fact, Tree, mapping_name};
use serde_json::Value;

/// A row of the table of a pool: how deep it stands, its name, and what follows.
#[derive(Clone, Debug)]
struct PoolRow {
    depth: usize,
    name: String,
    rest: String,
}

/// Sections of a pool that hold no data of files.
const SECTIONS: [&str; 5] = ["logs", "cache", "spares", "special", "dedup"];

/// `zpool status`: its table gets the tabs back that pages make blanks of.
pub(super) fn read_status(tree: &mut Tree, lines: &[&str]) {
    const KEYS: [&str; 9] =
        ["pool:", "state:", "scan:", "scrub:", "status:", "action:", "see:", "config:", "errors:"];
    let mut text = String::new();
    let mut rows: Vec<PoolRow> = Vec::new();
    let (mut indent, mut is_config, mut pool) = (None, false, String::new());
    let mut is_bare = false;
    for (at, line) in lines.iter().copied().chain(["errors:"]).enumerate() {
        let trimmed = line.trim_start();
        let key = KEYS.iter().find(|key| trimmed.starts_with(**key));
        if let Some(key) = key.copied() {
            if !pool.is_empty() && !rows.is_empty() {
                text += &table(tree, &pool, &std::mem::take(&mut rows));
            }
            is_config = key == "config:";
            if key == "pool:" {
                (indent, is_bare) = (None, false);
                trimmed[key.len()..].trim().clone_into(&mut pool);
            }
            if !pool.is_empty() {
                text += &format!(" {trimmed}\n");
            }
            continue;
        }
        let words: Vec<&str> = trimmed.split_whitespace().collect();
        match words.as_slice() {
            // A table without what is before it in the output: its first row is the pool.
            ["NAME", "STATE", ..] if pool.is_empty() => {
                let head;
                (pool, head) = head_of(&lines[at + 1..]);
                text += &format!(" pool: {pool}\n{head}config:\n");
                (indent, is_config, is_bare) = (Some(line.len() - trimmed.len()), true, true);
            }
            _ if pool.is_empty() => {}
            [] if is_bare && !rows.is_empty() => {
                text += &table(tree, &pool, &std::mem::take(&mut rows));
                (is_config, is_bare, pool) = (false, false, String::new());
            }
            [] => {}
            _ if command(line).is_some() => (is_config, pool) = (false, String::new()),
            ["NAME", ..] => indent = Some(line.len() - trimmed.len()),
            // What a scan does goes on in lines of its own.
            _ if !is_config => text += &format!("\t{trimmed}\n"),
            [name, rest @ ..] => {
                let blanks = line.len() - trimmed.len();
                // A pool that is not imported has no heading.
                let depth = blanks.saturating_sub(*indent.get_or_insert(blanks)) / 2;
                let is_row = rows.is_empty() || is_section(name) || is_state(rest.first());
                let rest = rest.join(" ");
                match rows.last_mut().filter(|_| !is_row) {
                    // The end of a row that was broken.
                    Some(last) => last.rest += &format!(" {name} {rest}"),
                    None => rows.push(PoolRow { depth, name: (*name).to_owned(), rest }),
                }
            }
        }
    }
    if !text.contains('\t') {
        return;
    }
    tree.add("/sys/module/zfs/initstate", "live");
    tree.add("/tools/zpool-status", text);
}

/// Name of the pool with this table, and the lines before it, as far as its rows say them.
fn head_of(lines: &[&str]) -> (String, String) {
    let is_empty = |line: &&&str| line.trim().is_empty();
    let mut rows = lines.iter().skip_while(is_empty).take_while(|line| !is_empty(line)).peekable();
    let words: Vec<&str> =
        rows.peek().map_or_else(Vec::new, |row| row.split_whitespace().collect());
    let state = words.get(1).filter(|_| is_state(words.get(1)));
    let mut head = state.map_or_else(String::new, |state| format!(" state: {state}\n"));
    if rows.any(|row| row.contains("(resilvering)")) {
        head += " scan: resilver in progress\n";
    }
    (words.first().copied().unwrap_or_default().to_owned(), head)
}

fn is_section(name: &str) -> bool {
    SECTIONS.contains(&name)
}

fn is_state(word: Option<&&str>) -> bool {
    let states =
        ["ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "AVAIL", "INUSE"];
    word.is_some_and(|word| states.contains(word))
}

/// True for a vdev that groups others, such as `mirror-0`.
fn is_group(name: &str) -> bool {
    let kinds = ["mirror", "raidz", "draid", "replacing", "spare-", "indirect"];
    kinds.iter().any(|kind| name.starts_with(kind))
}

/// The table of a pool as `zpool status -LP` prints it.
fn table(tree: &mut Tree, pool: &str, rows: &[PoolRow]) -> String {
    let mut text = "\tNAME STATE READ WRITE CKSUM\n".to_owned();
    // If the blanks before the names are gone, the names say how deep they stand.
    let is_lost = |pair: &[PoolRow]| {
        let (row, next) = (&pair[0], &pair[1]);
        let is_top = |row: &PoolRow| row.depth == 0 && row.name != pool && !is_section(&row.name);
        is_top(next) || is_group(&row.name) && next.depth <= row.depth
    };
    let is_flat = rows.windows(2).any(is_lost);
    let mut group = None::<usize>;
    // Disks that a vdev within another still has: the one that is replaced, and the new one.
    let mut inner = 0_usize;
    let mut is_data = true;
    for row in rows {
        let name = row.name.as_str();
        let depth = match () {
            () if !is_flat => row.depth,
            () if name == pool || is_section(name) => 0,
            () if name.starts_with("replacing") || name.starts_with("spare-") => 2 + inner.min(1),
            () if is_group(name) => 1,
            () if inner > 0 => 3,
            () => group.map_or(1, |depth| depth + 1),
        };
        match depth {
            0 => (group, inner, is_data) = (None, 0, name == pool),
            1 if is_group(name) => (group, inner) = (Some(1), 0),
            // A group within one has a place of its own.
            _ if is_group(name) => inner = inner.saturating_sub(1) + 2,
            _ => inner = inner.saturating_sub(1),
        }
        let is_leaf = depth > 0 && is_data && !is_group(name);
        let path = if is_leaf { leaf(tree, name, &row.rest) } else { name.to_owned() };
        text += &format!("\t{:1$}{path} {2}\n", "", depth * 2, row.rest);
    }
    text
}

/// The path of a disk of a pool, which gets a folder, and the model that its name has.
fn leaf(tree: &mut Tree, name: &str, rest: &str) -> String {
    let is_number = name.bytes().all(|it| it.is_ascii_digit());
    if is_number || rest.starts_with("UNAVAIL") && !is_disk_name(base_name(name)) {
        return name.to_owned();
    }
    let path = path_of(tree, name);
    if tree.files.contains_key(&path) {
        return path;
    }
    if let Some(name) = path.strip_prefix("/dev/mapper/") {
        tree.device(&mapping_name(name));
        return path;
    }
    let name = base_name(name);
    let id = disk_of(name);
    if let Some((model, serial)) = model_in(id) {
        tree.say(id, Fact::Model, &model);
        tree.say(id, Fact::Serial, &serial);
        let is_ssd = id.starts_with("nvme-") || model.contains("SSD");
        if is_ssd {
            tree.say(id, Fact::Rotational, "0");
        }
    }
    tree.device(name);
    if path.starts_with('/') && path != format!("/dev/{name}") {
        tree.add(format!("/dev/{name}"), "node");
        tree.link(path.clone(), format!("/dev/{name}"));
    }
    path
}

/// The path of a disk that a pool has by its name, its identifier or that of its partition; an
/// alias as it is.
fn path_of(tree: &Tree, name: &str) -> String {
    let groups: Vec<usize> = name.split('-').map(str::len).collect();
    let is_hex = name.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    match () {
        () if name.starts_with('/') => name.to_owned(),
        () if is_hex && groups == [8, 4, 4, 4, 12] => format!("/dev/disk/by-partuuid/{name}"),
        () if name.starts_with("dm-") => format!("/dev/{name}"),
        () if tree.is_mapping(name) => format!("/dev/mapper/{name}"),
        () if is_disk_name(name) && name.contains('-') => format!("/dev/disk/by-id/{name}"),
        () if is_disk_name(name) || name.contains('/') => format!("/dev/{name}"),
        () => name.to_owned(),
    }
}

/// `zpool list -v` and `zpool iostat -v`: allocated space, sizes of disks, and the vdevs, if
/// `zpool status` does not say them.
pub(super) fn read_list(tree: &mut Tree, lines: &[&str]) {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<PoolRow> = Vec::new();
    let mut pools: Vec<(String, Vec<PoolRow>)> = Vec::new();
    let mut indent = 0;
    for line in lines.iter().copied().chain(["$ zpool list"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_heading =
            matches!(words.as_slice(), ["NAME", "SIZE", "ALLOC", ..] | ["pool", "alloc", ..]);
        let is_rule = words.first().is_some_and(|it| it.starts_with("---"));
        if is_heading || words.is_empty() || command(line).is_some() {
            for (pool, rows) in by_pool(std::mem::take(&mut rows)) {
                // `zpool iostat` prints a pool again and again.
                match pools.iter_mut().find(|(other, _)| *other == pool) {
                    Some((_, before)) if before.len() < rows.len() => *before = rows,
                    Some(_) => {}
                    None => pools.push((pool, rows)),
                }
            }
            columns = if is_heading { words } else { Vec::new() };
            continue;
        }
        if columns.is_empty() || is_rule {
            continue;
        }
        let blanks = line.len() - line.trim_start().len();
        if rows.is_empty() {
            indent = blanks;
        }
        let depth = blanks.saturating_sub(indent) / 2;
        let is_row = words.len() > 2 || is_section(words[0]);
        let rest = words[1..].join(" ");
        match rows.last_mut().filter(|_| !is_row) {
            Some(last) => last.rest += &format!(" {} {rest}", words[0]),
            None => rows.push(PoolRow { depth, name: words[0].to_owned(), rest }),
        }
    }
    let has_status = tree.files.contains_key("/tools/zpool-status");
    for (pool, rows) in pools {
        add_listed(tree, &pool, &rows, has_status);
    }
}

fn by_pool(rows: Vec<PoolRow>) -> Vec<(String, Vec<PoolRow>)> {
    let mut pools: Vec<(String, Vec<PoolRow>)> = Vec::new();
    let is_flat = rows.iter().all(|row| row.depth == 0);
    for (at, row) in rows.into_iter().enumerate() {
        let is_inside = is_group(&row.name) || is_disk_name(base_name(&row.name));
        let is_pool = match is_flat {
            true => at == 0 || !is_inside && !is_section(&row.name),
            false => row.depth == 0 && !is_section(&row.name),
        };
        match pools.last_mut().filter(|_| !is_pool) {
            Some((_, rows)) => rows.push(row),
            None => pools.push((row.name.clone(), vec![row])),
        }
    }
    pools
}

fn add_listed(tree: &mut Tree, pool: &str, rows: &[PoolRow], has_status: bool) {
    let sizes = |row: &PoolRow| {
        let mut words = row.rest.split_whitespace().map(size_of);
        (words.next().flatten(), words.next().flatten())
    };
    // `list` has size and allocated, `iostat` allocated and free; only the first has a health.
    let is_list = rows[0].rest.split_whitespace().any(|word| is_state(Some(&word)));
    let (size, allocated) = match sizes(&rows[0]) {
        (size, allocated) if is_list => (size, allocated),
        (allocated, _) => (None, allocated),
    };
    let vdevs = numbered(rows);
    if let Some(bytes) = allocated {
        let size = size.map_or("-".to_owned(), |bytes| bytes.to_string());
        tree.append("/tools/zpool-list", &format!("{pool}\t{size}\t{bytes}\n"));
        for vdev in vdevs.iter().filter(|row| is_group(&row.name)) {
            let bytes = if is_list { sizes(vdev).1 } else { sizes(vdev).0 };
            if let Some(bytes) = bytes {
                tree.append("/tools/zpool-list", &format!("\t{}\t-\t{bytes}\n", vdev.name));
            }
        }
    }
    for row in rows.iter().filter(|_| is_list) {
        let name = base_name(&row.name);
        // A vdev may be a partition of its disk.
        let is_whole = is_disk_name(name) && disk_of(name) == name;
        if let Some(bytes) = sizes(row).0.filter(|_| is_whole) {
            tree.say(name, Fact::Size, &bytes.to_string());
        }
    }
    if has_status || rows.len() < 2 {
        return;
    }
    let states = vdevs.into_iter().map(|row| {
        let mut words = row.rest.split_whitespace();
        let state = words.find(|word| is_state(Some(word))).unwrap_or("ONLINE");
        PoolRow { rest: format!("{state} 0 0 0"), ..row }
    });
    let states: Vec<PoolRow> = states.collect();
    let state = states[0].rest.split(' ').next().unwrap_or_default();
    add_status(tree, pool, state, &states);
}

/// The rows of a pool, with numbers for its vdevs, which had none in lists before 2.1.
fn numbered(rows: &[PoolRow]) -> Vec<PoolRow> {
    let mut count = 0;
    let number = |row: &PoolRow| {
        let mut name = row.name.clone();
        if ["mirror", "raidz1", "raidz2", "raidz3"].contains(&row.name.as_str()) {
            name += &format!("-{count}");
            count += 1;
        }
        PoolRow { name, ..row.clone() }
    };
    rows.iter().map(number).collect()
}

/// Adds a pool to what stands for the output of `zpool status`.
fn add_status(tree: &mut Tree, pool: &str, state: &str, rows: &[PoolRow]) {
    let text = table(tree, pool, rows);
    tree.add("/sys/module/zfs/initstate", "live");
    let head = format!("  pool: {pool}\n state: {state}\n  scan: not known\nconfig:\n");
    tree.append("/tools/zpool-status", &format!("{head}{text}\nerrors: not known\n"));
}

/// `zpool status -j`.
pub(super) fn read_json(tree: &mut Tree, value: &Value) {
    for (name, pool) in value.get("pools").and_then(Value::as_object).into_iter().flatten() {
        let Some(vdevs) = pool.get("vdevs").and_then(Value::as_object) else { continue };
        let mut rows = Vec::new();
        for (_, vdev) in vdevs {
            nest(vdev, 0, &mut rows);
        }
        for section in SECTIONS {
            let Some(vdevs) = pool.get(section).and_then(Value::as_object) else { continue };
            rows.push(PoolRow { depth: 0, name: section.to_owned(), rest: String::new() });
            vdevs.values().for_each(|vdev| nest(vdev, 1, &mut rows));
        }
        let state = pool.get("state").and_then(Value::as_str).unwrap_or_default();
        add_status(tree, name, state, &rows);
    }
}

fn nest(vdev: &Value, depth: usize, rows: &mut Vec<PoolRow>) {
    /// More than any pool has.
    const ROWS_MAX: usize = 4096;
    let text = |key: &str| vdev.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if rows.len() > ROWS_MAX {
        return;
    }
    let words = ["state", "read_errors", "write_errors", "checksum_errors"].map(text);
    rows.push(PoolRow { depth, name: text("name"), rest: words.join(" ") });
    for below in vdev.get("vdevs").and_then(Value::as_object).into_iter().flat_map(|it| it.values())
    {
        nest(below, depth + 1, rows);
    }
}
