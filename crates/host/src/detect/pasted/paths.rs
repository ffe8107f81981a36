//! Paths: `multipath -ll` of all ages, and `nvme list-subsys`.

use super::text::{is_disk_name, size_of};
use super::tree::Tree;
use serde_json::Value;
use std::collections::BTreeMap;

/// A group of paths: selector, state, and each path with its state.
#[derive(Default)]
struct PriorityGroup {
    selector: String,
    is_active: bool,
    /// As `multipath -ll` writes it, if it does.
    priority: Option<String>,
    paths: Vec<(String, bool)>,
}

pub(super) const SELECTORS: [&str; 5] =
    ["round-robin", "queue-length", "service-time", "historical-service-time", "io-affinity"];

/// `multipath -ll`: a map, its groups with their selector and state, and the paths of each.
pub(super) fn read_multipath(tree: &mut Tree, lines: &[&str]) {
    // The number of a map may be left out.
    let numbered = |(at, line): (usize, &&str)| {
        // `[size=127 GB]` in brackets may have gone as a tag of a forum.
        let next = lines.get(at + 1).map_or("", |it| it.trim_start_matches([' ', '[']));
        let is_followed = next.starts_with("size=") || next.starts_with("features=");
        let is_head = is_followed && !line.contains("dm-");
        // `multipath -v2` says first what it does: `create: mpatha`.
        let words = ["create", "reload", "reject", "rename", "unchanged", "resize", "switchpg"];
        let own = line.trim();
        let done =
            own.split_once(": ").filter(|(front, _)| front.is_empty() || words.contains(front));
        let own = done.map_or(own, |(_, rest)| rest);
        match own.split_once(' ').unwrap_or((own, "")) {
            (name, rest) if is_head && !name.is_empty() => format!("{name} dm-? {rest}"),
            _ => (*line).to_owned(),
        }
    };
    let lines: Vec<String> = lines.iter().enumerate().map(numbered).collect();
    let text = lines.join("\n").replace(" GB]", "GB]").replace(" TB]", "TB]");
    let text = text.replace(['[', ']', '\''], " ").replace("policy=", " ");
    let marks = ['|', '`', '+', '-', '\\', '_', '├', '└', '─', '│'];
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| if word.contains(':') { word } else { word.trim_start_matches(marks) })
        .filter(|word| !word.is_empty())
        .collect();
    let is_map = |word: &&str| {
        let number = word.strip_prefix("dm-").unwrap_or_default();
        number == "?" || number.parse::<u32>().is_ok() && number.len() < 6
    };
    let at: Vec<usize> = (1..words.len()).filter(|at| is_map(&words[*at])).collect();
    for (index, begin) in at.iter().enumerate() {
        let end = at.get(index + 1).copied().unwrap_or(words.len());
        let is_id = words[begin - 1].starts_with('(');
        let name = begin.checked_sub(if is_id { 2 } else { 1 }).map(|at| words[at]);
        let own = &words[begin + 1..end];
        let groups = groups(own);
        if let Some(name) = name.filter(|_| groups.is_empty() && own.contains(&"#:#:#:#")) {
            tree.note(format!("{name} has no path: all of its devices are gone"));
        }
        if let Some(name) = name.filter(|_| !groups.is_empty()) {
            let number = words[*begin].strip_prefix("dm-").and_then(|it| it.parse().ok());
            tree.set_mapping(name, number);
            add_multipath(tree, name, &groups, handler(own, &groups));
            add_volume(tree, own, &groups);
        }
    }
}

/// The name of a module of the kernel that tells the paths apart, or `priorities` if these differ;
/// none if they are alike. `alua`, which the kernel may have chosen itself, says nothing where all
/// priorities are equal.
fn handler<'a>(words: &[&'a str], groups: &[PriorityGroup]) -> Option<&'a str> {
    let at = words.iter().position(|word| word.starts_with("hwhandler="));
    // The count and the name, of which the first may follow a quote.
    let mut own = words[at.unwrap_or(words.len())..].iter().take(3);
    let own = own.by_ref().filter(|word| !["hwhandler=", "hwhandler=1", "1"].contains(word));
    let named = own.take(1).find(|word| !["hwhandler=0", "0"].contains(word));
    let is_equal = groups.windows(2).all(|two| two[0].priority == two[1].priority);
    match named {
        Some(&"alua") | None if is_equal && !words.contains(&"ghost") => None,
        Some(&"alua") | None => Some("priorities"),
        named => named.copied(),
    }
}

fn groups(words: &[&str]) -> Vec<PriorityGroup> {
    let mut groups: Vec<PriorityGroup> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if SELECTORS.contains(word) {
            let selector = (*word).to_owned();
            groups.push(PriorityGroup { selector, ..PriorityGroup::default() });
            continue;
        }
        let Some(group) = groups.last_mut() else { continue };
        if let Some(priority) = word.strip_prefix("prio=") {
            group.priority.get_or_insert_with(|| priority.to_owned());
        }
        // Before its first path a group says its own state.
        if group.paths.is_empty() && ["status=active", "active"].contains(word) {
            group.is_active = true;
        }
        // Host, channel, target and LUN before the name, the number of the device behind it.
        let has_parts = |at: usize, count: usize| {
            let is_part = |it: &str| it == "#" || it.parse::<u32>().is_ok();
            let word = words.get(at).filter(|it| it.split(':').all(is_part));
            word.is_some_and(|it| it.split(':').count() == count)
        };
        let is_path = at > 0 && is_disk_name(word) && has_parts(at - 1, 4) && has_parts(at + 1, 2);
        if is_path {
            let state = words[at + 2..].iter().take(3);
            let is_up = state.clone().all(|it| !["failed", "faulty", "offline"].contains(it));
            group.paths.push(((*word).to_owned(), is_up));
        }
    }
    groups.retain(|group| !group.paths.is_empty());
    groups
}

/// Adds the facts that a map has of its volume to each path: `PURE,FlashArray`, and its size.
fn add_volume(tree: &mut Tree, words: &[&str], groups: &[PriorityGroup]) {
    let size = words.iter().find_map(|word| word.strip_prefix("size=")).and_then(size_of);
    // Names may have blanks: `DGC,RAID 5`.
    let named: Vec<&str> = words.iter().copied().take_while(|it| !it.contains('=')).collect();
    let begin = named.iter().take(2).position(|word| word.contains(','));
    let product = begin.map_or_else(String::new, |begin| named[begin..].join(" "));
    let product = product.split_once(',').filter(|(_, model)| model.len() < 32);
    for (path, _) in groups.iter().flat_map(|group| &group.paths) {
        let folder = tree.device(path);
        size.into_iter()
            .for_each(|bytes| tree.add(format!("{folder}/size"), (bytes / 512).to_string()));
        if let Some((vendor, model)) = product {
            tree.add(format!("{folder}/device/vendor"), vendor);
            tree.add(format!("{folder}/device/model"), model);
        }
    }
}

fn add_multipath(tree: &mut Tree, name: &str, groups: &[PriorityGroup], handler: Option<&str>) {
    let all = groups.iter().flat_map(|group| &group.paths);
    let paths: Vec<String> = all.map(|(path, _)| path.clone()).collect();
    tree.mapped(name, "mpath-", &paths);
    let handler = handler.map_or_else(|| "0".to_owned(), |name| format!("1 {name}"));
    let mut lines = [handler.as_str(), "0"]
        .map(|handler| format!("{name}: 0 1 multipath 0 {handler} {} 1", groups.len()));
    for group in groups {
        let state = if group.is_active { "A" } else { "E" };
        lines[0] += &format!(" {} 0 {} 0", group.selector, group.paths.len());
        lines[1] += &format!(" {state} 0 {} 0", group.paths.len());
        for (path, is_up) in &group.paths {
            let state = if *is_up { "A" } else { "F" };
            lines[0] += &format!(" pasted:{path}");
            lines[1] += &format!(" pasted:{path} {state} 0");
        }
    }
    for (file, line) in ["table", "status"].iter().zip(lines) {
        tree.append(&format!("/tools/dmsetup-{file}"), &format!("{line}\n"));
    }
}

/// A map of which only the paths are known, as `lsblk` shows it.
pub(super) fn add_plain(tree: &mut Tree, name: &str, below: &[String]) {
    tree.mapped(name, "mpath-", below);
}

struct NvmePath {
    controller: String,
    transport: String,
    state: String,
    ana_state: Option<String>,
}

/// `nvme list-subsys` as text.
pub(super) fn read_subsystems(tree: &mut Tree, lines: &[&str]) {
    let text = lines.join("\n");
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| word.strip_prefix("nvme-subsys").and_then(|it| it.parse().ok());
    let at: Vec<usize> = (0..words.len()).filter(|at| number(words[*at]).is_some()).collect();
    // The command names the namespace, whose states the paths have.
    let name = words.iter().find_map(|word| word.strip_prefix("/dev/nvme")?.split_once('n'));
    let namespace = name.and_then(|(_, it)| it.parse().ok()).unwrap_or(1);
    for (index, begin) in at.iter().enumerate() {
        let end = at.get(index + 1).copied().unwrap_or(words.len());
        let own = &words[*begin..end];
        let Some(subsystem) = number(own[0]) else { continue };
        let value = |key: &str| own.iter().find_map(|word| word.strip_prefix(key));
        let mut paths: Vec<NvmePath> = Vec::new();
        for (at, _) in own.iter().enumerate().filter(|(_, word)| **word == "+-") {
            let [controller, transport, rest @ ..] = &own[at + 1..] else { continue };
            let rest: Vec<&str> = rest.iter().copied().take_while(|it| *it != "+-").collect();
            let known = |names: &[&str]| {
                rest.iter().find(|it| names.contains(it)).map(|it| (*it).to_owned())
            };
            let states =
                ["live", "connecting", "resetting", "new", "deleting", "dead", "deleting (no IO)"];
            paths.push(NvmePath {
                controller: (*controller).to_owned(),
                transport: (*transport).to_owned(),
                state: known(&states).unwrap_or_else(|| "live".to_owned()),
                ana_state: known(&ANA_STATES),
            });
        }
        add_subsystem(tree, subsystem, namespace, value("NQN="), value("iopolicy="), &paths);
    }
}

const ANA_STATES: [&str; 5] =
    ["optimized", "non-optimized", "inaccessible", "persistent-loss", "change"];

/// `nvme list-subsys -o json`: hosts with subsystems, or subsystems alone, in which the paths may
/// stand in an object of their own.
pub(super) fn read_json(tree: &mut Tree, value: &Value) {
    for host in value.as_array().into_iter().flatten() {
        read_json(tree, host);
    }
    let Some(all) = value.get("Subsystems").and_then(Value::as_array) else { return };
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let mut last: BTreeMap<&str, String> = BTreeMap::new();
    for subsystem in all {
        for key in ["Name", "NQN", "IOPolicy"] {
            if let Some(value) = text(subsystem, key) {
                last.insert(key, value);
            }
        }
        // Later versions have the paths in a namespace, and the controller in an object of each.
        let namespace = subsystem.get("Namespaces").and_then(|it| it.get(0));
        let paths = subsystem.get("Paths").or_else(|| namespace?.get("Paths"));
        let Some(paths) = paths.and_then(Value::as_array) else { continue };
        let namespace_number = namespace.and_then(|it| it.get("NSID")?.as_u64());
        let namespace_number = namespace_number.and_then(|it| it.try_into().ok()).unwrap_or(1);
        let path = |path: &Value| {
            let controller = path.get("Controller").and_then(|it| it.get(0)).unwrap_or(path);
            Some(NvmePath {
                controller: text(controller, "Name")?,
                transport: text(controller, "Transport").unwrap_or_default(),
                state: text(controller, "State").unwrap_or_else(|| "live".to_owned()),
                ana_state: text(path, "ANAState").filter(|it| ANA_STATES.contains(&it.as_str())),
            })
        };
        let paths: Vec<NvmePath> = paths.iter().filter_map(path).collect();
        let number = last.get("Name").and_then(|it| it.strip_prefix("nvme-subsys")?.parse().ok());
        let get = |key| last.get(key).map(String::as_str);
        if let Some(number) = number {
            add_subsystem(tree, number, namespace_number, get("NQN"), get("IOPolicy"), &paths);
        }
    }
}

fn add_subsystem(
    tree: &mut Tree,
    subsystem: u32,
    namespace: u32,
    nqn: Option<&str>,
    policy: Option<&str>,
    paths: &[NvmePath],
) {
    if paths.len() < 2 {
        return;
    }
    let folder = format!("/sys/class/nvme-subsystem/nvme-subsys{subsystem}");
    tree.add(format!("{folder}/subsysnqn"), nqn.unwrap_or("not known"));
    if let Some(policy) = policy {
        tree.add(format!("{folder}/iopolicy"), policy);
    }
    tree.device(&format!("nvme{subsystem}n{namespace}"));
    let has_states = paths.iter().any(|path| path.ana_state.is_some());
    for path in paths {
        let Some(number) = path.controller.strip_prefix("nvme") else { continue };
        let controller = format!("/sys/devices/pasted/nvme-fabrics/{}", path.controller);
        tree.add(format!("{controller}/state"), path.state.clone());
        tree.add(format!("{controller}/transport"), path.transport.clone());
        let name = format!("nvme{subsystem}c{number}n{namespace}");
        tree.add(format!("{controller}/{name}/dev"), format!("pasted:{name}"));
        let is_silent = has_states && path.ana_state.is_none() && path.state == "live";
        if is_silent {
            let controller = &path.controller;
            tree.note(format!(
                "{controller} has no ANA state: taken for a path that serves nothing"
            ));
        }
        let state = path.ana_state.clone().or(is_silent.then(|| "inaccessible".to_owned()));
        if let Some(state) = state {
            tree.add(format!("{controller}/{name}/ana_state"), state);
        }
        tree.link(format!("/sys/block/{name}"), format!("{controller}/{name}"));
    }
}
