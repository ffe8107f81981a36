//! dm-multipath: the paths of the priority group that serves.
//!
//! A selector chooses within a group, and the paths of other groups are idle until it fails. The
//! groups are in `dmsetup status` and `dmsetup table`, which need root.

use super::super::array::{DetectError, DetectedArray, DetectedMember};
use super::super::block::BlockDevice;
use super::super::lun::guess_if_lun;
use super::super::members::{no_mirror, read_member};
use super::super::paths::{PATHS_NOTE, standby};
use super::super::tools::{DMSETUP_STATUS, DMSETUP_TABLE};
use super::Mapped;

/// Setting that makes all paths of a device serve, where the storage does not tell them apart: the
/// first path of another controller may move the volume there.
const GROUPING: &str = "if the storage serves all paths alike, `path_grouping_policy multibus` in \
                        multipath.conf makes all of them serve";
const UNLIKE: &str = "if these fail, the others serve: the storage tells its paths apart";

impl Mapped<'_> {
    /// Paths of one device: those of the group that serves.
    pub(super) fn multipath(&self) -> Result<DetectedArray, DetectError> {
        let mut notes = vec![PATHS_NOTE.to_owned()];
        let mut not_known = Vec::new();
        let status = self.line_of(&DMSETUP_STATUS).unwrap_or_else(|reason| {
            notes.push(format!("the states of the paths are not known: {reason}"));
            not_known.push("which paths are up");
            String::new()
        });
        let table = self.line_of(&DMSETUP_TABLE);
        let from_table = table.as_deref().ok().and_then(|line| path_groups(line, 0));
        let groups = path_groups(&status, 2).or(from_table.clone()).unwrap_or_default();
        let slaves = self.device.slaves(self.sysroot);
        let number = |path: &BlockDevice| self.sysroot.text(&path.file("dev")).unwrap_or_default();
        let state = |path: &BlockDevice| {
            let all = groups.iter().flat_map(|group| &group.paths);
            let found = all.clone().find(|(dev, _)| *dev == number(path))?;
            found.1.as_deref().map(str::to_owned)
        };
        let is_down = |path: &&BlockDevice| state(path).as_deref() == Some("F");
        self.has_choice(&slaves, slaves.iter().any(|path| !is_down(&path)))?;
        let serving = serving_group(&groups);
        let serves = |path: &&BlockDevice| {
            serving.is_none_or(|group| group.paths.iter().any(|(dev, _)| *dev == number(path)))
        };
        let (paths, others): (Vec<&BlockDevice>, Vec<&BlockDevice>) =
            slaves.iter().partition(serves);
        let (down, standing): (Vec<&BlockDevice>, Vec<&BlockDevice>) =
            others.into_iter().partition(is_down);
        let [down, standing] = [down, standing]
            .map(|paths| paths.iter().map(|path| path.name.as_str()).collect::<Vec<&str>>());
        let failed =
            (!down.is_empty()).then(|| format!("failed in another group: {}", down.join(", ")));
        let standby = standby(paths.len(), &standing, "another group");
        if paths.len() == 1 {
            let one = "1 path serves".to_owned();
            let parts: Vec<String> = [standby.unwrap_or(one)].into_iter().chain(failed).collect();
            let help = match (standing.is_empty(), table.as_deref().is_ok_and(is_unlike)) {
                (true, _) => "when the paths are up, more than one may serve",
                (false, true) => UNLIKE,
                (false, false) => GROUPING,
            };
            return Err(no_mirror(format!("{}: {}", self.name, parts.join("; ")), help));
        }
        notes.extend(standby.into_iter().chain(failed));
        let member = |(devid, path): (u64, &&BlockDevice)| {
            let mut member = read_member(self.sysroot, devid, Some(path));
            (member.is_failed, member.state) = match state(path).as_deref() {
                Some("F") => (true, "failed".to_owned()),
                Some("A") => (false, "active".to_owned()),
                _ => (false, "not known".to_owned()),
            };
            guess_if_lun(&mut member);
            member
        };
        let members: Vec<DetectedMember> = (1..).zip(&paths).map(member).collect();
        let group = from_table.as_deref().and_then(serving_group_in(&groups));
        let selector = match table {
            Ok(_) => group.map(|group| group.head.clone()),
            Err(reason) => {
                notes.push(format!("the path selector is not known: {reason}"));
                None
            }
        };
        let mut array = self.of_copies(members, notes)?;
        array.policy.spec = selector.as_ref().map(|name| format!("dm/{name}"));
        array.policy.text = selector;
        array.not_known = not_known;
        array.condition.missing += down.len();
        Ok(array)
    }
}

impl Mapped<'_> {
    /// Fails if there is one path, or none that is up.
    fn has_choice(&self, slaves: &[BlockDevice], is_up: bool) -> Result<(), DetectError> {
        let names: Vec<&str> = slaves.iter().map(|path| path.name.as_str()).collect();
        let (what, help) = match is_up {
            true if names.len() > 1 => return Ok(()),
            true => ("1 path,", "with another path there is something to choose"),
            false => ("no path is up, of", "`multipath -ll` shows the states of the paths"),
        };
        Err(no_mirror(format!("{}: {what} {}", self.name, names.join(", ")), help))
    }
}

/// A group of paths, of which one group serves at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathGroup {
    /// State in `dmsetup status`, selector in `dmsetup table`.
    head: String,
    /// Number of the device of each path, and its state in `dmsetup status`.
    paths: Vec<(String, Option<String>)>,
}

/// The groups of `START LEN multipath NFEATURES … NHANDLER … NGROUPS NEXT GROUP…`, where a group is
/// `HEAD NARGUMENTS … NPATHS NPATHARGUMENTS`, and a path its number, this many words of its own and
/// its arguments.
fn path_groups(line: &str, own_words: usize) -> Option<Vec<PathGroup>> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "multipath").skip(1);
    let counted = |words: &mut dyn Iterator<Item = &str>| {
        let count: usize = words.next()?.parse().ok()?;
        (0..count).try_for_each(|_| words.next().map(|_| ()))
    };
    counted(&mut words)?;
    counted(&mut words)?;
    let groups: usize = words.next()?.parse().ok()?;
    words.next()?;
    let mut all = Vec::new();
    for _ in 0..groups {
        let head = words.next()?.to_owned();
        counted(&mut words)?;
        let count: usize = words.next()?.parse().ok()?;
        let arguments: usize = words.next()?.parse().ok()?;
        let mut paths = Vec::new();
        for _ in 0..count {
            let device = words.next()?.to_owned();
            let rest: Vec<&str> = words.by_ref().take(own_words.checked_add(arguments)?).collect();
            let state = rest.first().filter(|_| own_words > 0).map(|it| (*it).to_owned());
            paths.push((device, state));
        }
        all.push(PathGroup { head, paths });
    }
    Some(all)
}

/// True if a line of `dmsetup table` says that the storage tells its paths apart: by a module of
/// the kernel, or by groups of several paths with `alua`, which the kernel chooses for paths that
/// are alike, too.
fn is_unlike(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| *word != "multipath").skip(1);
    let features = words.next().and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    match (words.nth(features), words.next()) {
        (None | Some("0"), _) => false,
        (_, Some("alua")) => {
            let groups = path_groups(line, 0).unwrap_or_default();
            groups.iter().any(|group| group.paths.len() > 1)
        }
        _ => true,
    }
}

/// The group that serves: the active one, else the first that is enabled, else the first; of those
/// with a path that has not failed.
fn serving_group(groups: &[PathGroup]) -> Option<&PathGroup> {
    let is_up = |group: &&PathGroup| group.paths.iter().any(|it| it.1.as_deref() != Some("F"));
    let with = |state: &str| groups.iter().filter(is_up).find(|group| group.head == state);
    with("A").or_else(|| with("E")).or_else(|| groups.iter().find(is_up)).or(groups.first())
}

/// The group of a table that has the paths of the one that serves.
fn serving_group_in(groups: &[PathGroup]) -> impl Fn(&[PathGroup]) -> Option<&PathGroup> {
    let first = serving_group(groups).and_then(|group| group.paths.first()).cloned();
    move |table| {
        let has = |group: &&PathGroup| {
            let first = first.as_ref().map(|(device, _)| device);
            group.paths.iter().any(|(device, _)| Some(device) == first)
        };
        table.iter().find(has).or(table.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_paths_are_found_behind_features_and_handler() {
        let alua = "0 8 multipath 2 queue_if_no_path retain 1 alua 2 1 queue-length 0";
        assert!(is_unlike(&format!("{alua} 2 1 8:0 1 8:16 1 queue-length 0 1 1 8:32 1")));
        assert!(!is_unlike(&format!("{alua} 1 1 8:0 1 queue-length 0 1 1 8:32 1")));
        assert!(is_unlike("0 8 multipath 0 1 rdac 2 1") && !is_unlike("0 8 multipath 0 0 2 1"));
        let heads = |line: &str, own: usize| -> Option<Vec<(String, usize)>> {
            let groups = path_groups(line, own)?;
            Some(groups.into_iter().map(|it| (it.head, it.paths.len())).collect())
        };
        let group = |head: &str, paths| (head.to_owned(), paths);
        let line = "0 8 multipath 2 queue_if_no_path retain 1 alua 2 1 service-time 0 2 1 8:0 1 \
                    8:16 1 queue-length 0 1 1 8:32 1";
        let two = vec![group("service-time", 2), group("queue-length", 1)];
        assert_eq!(heads(line, 0), Some(two));
        let line = "0 8 multipath 2 0 1 0 2 1 E 0 1 2 8:0 F 9 0 1 A 0 1 2 8:16 A 0 0 1";
        assert_eq!(heads(line, 2), Some(vec![group("E", 1), group("A", 1)]));
        let groups = path_groups(line, 2).unwrap();
        let serving = serving_group(&groups).unwrap();
        assert_eq!(serving.paths, [("8:16".to_owned(), Some("A".to_owned()))]);
        assert_eq!(heads("0 8 multipath 18446744073709551615 0", 0), None);
        assert_eq!(heads("", 0), None);
    }
}
